//! `skep reject`: refuses a task's changes.

use crate::command::act::changed;
use crate::console::{Console, ExitResult, OK};
use wire::TaskId;
use wire::method::task::TaskRejectParams;
use wire::table::TaskReject;

/// Refuse a task's changes
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep reject task-3 --reason \"wrong approach\"\n\n\
The changes are kept: `skep say` has the task go on with them, `skep drop`\ndestroys them.")]
pub struct RejectArgs {
    /// Task id, as `skep status` prints it
    task: TaskId,
    /// Why, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl RejectArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let params = TaskRejectParams { task: self.task, reason: self.reason };
        let view = console.kernel().await?.call::<TaskReject>(&params).await?;
        console.show_wrapped(&view, changed);
        OK
    }
}
