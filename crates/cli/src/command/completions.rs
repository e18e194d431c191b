//! `skep completions`: what a shell needs to complete our commands.

use crate::args;
use crate::console::{Console, OK, Outcome};
use clap_complete::Shell;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep completions bash > ~/.local/share/bash-completion/completions/skep\n  \
skep completions zsh > ~/.zfunc/_skep\n  skep completions fish > ~/.config/fish/completions/skep.fish")]
pub struct Completions {
    /// For which shell
    shell: Shell,
}

impl Completions {
    pub fn run(self, console: &Console) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut args::command(), "skep", &mut script);
        console.out.write(&script);
        OK
    }
}
