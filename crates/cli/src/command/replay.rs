//! `skep replay`: a task once more on its recorded traffic.

use crate::console::{Console, ExitResult};
use crate::show::cassette;
use wire::TaskId;
use wire::code::EXIT_FAILED;
use wire::method::task::TaskReplayParams;
use wire::table::TaskReplay;

/// Run a task again on its recorded traffic, and compare
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep replay task-3\n  skep replay task-3 --json\n  skep replay task-3 --timing\n\n\
The replay is a task of its own. It starts from what the project held when the task began, gets the recorded answers of the model, \
of reviewers and of tools, and is dropped at its end: nothing is merged and nobody is asked. Calls are compared in their order (tool, input, \
verdict, success, output without times, pids and temporary names), then the changes.\n\n\
Exit code 0 when both runs are equal, 1 when they differ. A task whose brain asks models must have been recorded: `skep act … --record`.")]
pub struct ReplayArgs {
    /// Task id, as `skep status` prints it
    task: TaskId,
    /// Answer at the recorded pace, not at once
    #[arg(long)]
    timing: bool,
}

impl ReplayArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        let params = TaskReplayParams { task: self.task, timing: self.timing };
        let result = console.wait_counting(&format!("{} is replayed", self.task), None, kernel.call::<TaskReplay>(&params)).await?;
        console.show_wrapped(&result, cassette::replayed);
        Ok(if result.divergence.is_none() { 0 } else { EXIT_FAILED })
    }
}
