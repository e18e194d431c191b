//! `skep ps`: the process tree.

use crate::console::{Console, ExitResult, OK};
use crate::show::{measure, process};
use wire::method::Nothing;
use wire::table::ProcList;

/// Show the process tree
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep ps\n  skep ps --json\n\n● active  ○ idle  ◍ paused  ✓ ended  ✗ killed")]
pub struct PsArgs {}

impl PsArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let result = console.kernel().await?.call::<ProcList>(&Nothing {}).await?;
        console.show_wrapped(&result, |result| process::list(&result.processes, measure::now_ms()));
        OK
    }
}
