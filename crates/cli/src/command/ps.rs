//! `skep ps`: the process tree.

use crate::console::{Console, ExitResult, OK};
use crate::show::{measure, process, program};
use wire::method::Nothing;
use wire::table::ProcList;

/// Show the process tree
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep ps\n  skep ps --tree\n  skep ps --json\n\n● active  ○ idle  ◍ paused or blocked  ◌ sleeping  ✓ ended  ✗ killed\n\n\
COG is the tier of its model, CTX how full its context is. A figure behind `~` is\nwhat the process says of itself; `unconfined` is a program outside the sandbox."
)]
pub struct PsArgs {
    /// As a tree, with calls and traffic
    #[arg(long)]
    tree: bool,
}

impl PsArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let result = console.kernel().await?.call::<ProcList>(&Nothing {}).await?;
        if self.tree {
            console.show_wrapped(&result, |result| process::list(&result.processes, measure::now_ms()));
        } else {
            console.show(&result, |result| program::list(&result.processes, console.out.columns()));
        }
        OK
    }
}
