//! `skep completions`: what a shell needs to complete our commands.

use crate::args;
use crate::console::{Console, ExitResult, OK};
use clap_complete::Shell;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep completions bash > ~/.local/share/bash-completion/completions/skep\n  \
skep completions zsh > ~/.zfunc/_skep\n  skep completions fish > ~/.config/fish/completions/skep.fish")]
pub struct CompletionsArgs {
    /// For which shell
    shell: Shell,
}

impl CompletionsArgs {
    pub fn run(self, console: &Console) -> ExitResult {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut args::command(), "skep", &mut script);
        console.out.write(&script);
        OK
    }
}
