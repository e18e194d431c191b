//! `skep cancel`: ends a task where it stands.

use crate::command::work::changed;
use crate::console::{Console, OK, Outcome};
use wire::TaskId;
use wire::method::task::{Cancel as Method, TaskParams};

/// Stop a task, queued or running
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep cancel task-3")]
pub struct Cancel {
    /// Which: `task-3` of `skep status`
    task: TaskId,
}

impl Cancel {
    pub async fn run(self, console: &Console) -> Outcome {
        let view = console.kernel().await?.call::<Method>(&TaskParams { task: self.task }).await?;
        console.show(&view, changed);
        OK
    }
}
