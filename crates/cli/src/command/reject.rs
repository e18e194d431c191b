//! `skep reject`: drops a task's changes.

use crate::command::work::changed;
use crate::console::{Console, OK, Outcome};
use wire::TaskId;
use wire::method::task::TaskRejectParams;
use wire::table::TaskReject;

/// Drop a task's changes
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep reject task-3 --reason \"wrong approach\"")]
pub struct Reject {
    /// Which: `task-3` of `skep status`
    task: TaskId,
    /// Why, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Reject {
    pub async fn run(self, console: &Console) -> Outcome {
        let params = TaskRejectParams { task: self.task, reason: self.reason };
        let view = console.kernel().await?.call::<TaskReject>(&params).await?;
        console.show(&view, changed);
        OK
    }
}
