//! `skep diff`: what a task changed.

use crate::console::{Console, OK, Outcome};
use crate::show::diff;
use wire::TaskId;
use wire::method::task::{Diff as Method, TaskParams};

/// Show what a task changed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep diff task-3\n  skep diff task-3 | less -R")]
pub struct Diff {
    task: TaskId,
}

impl Diff {
    pub async fn run(self, console: &Console) -> Outcome {
        let mut kernel = console.kernel().await?;
        let result = console.wait("comparing", kernel.call::<Method>(&TaskParams { task: self.task })).await?;
        console.show_whole(&result, diff::full);
        OK
    }
}
