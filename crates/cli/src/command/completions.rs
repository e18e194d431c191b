//! `skep completions`: what a shell needs to complete our commands.

use crate::args;
use crate::command::complete;
use crate::console::{Console, ExitResult, OK};
use clap_complete::Shell;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep completions bash > ~/.local/share/bash-completion/completions/skep\n  \
skep completions zsh > ~/.zfunc/_skep\n  skep completions fish > ~/.config/fish/completions/skep.fish\n\n\
In bash, zsh and fish they also know the names of tasks, reviews, grants, brains and models; a kernel that runs is asked, none is started.")]
pub struct CompletionsArgs {
    /// For which shell
    shell: Shell,
}

impl CompletionsArgs {
    pub fn run(self, console: &Console) -> ExitResult {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut args::command(), "skep", &mut script);
        let script = complete::with_names(self.shell, String::from_utf8_lossy(&script).into_owned());
        console.print_text(&script);
        OK
    }
}
