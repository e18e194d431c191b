//! `skep drop`: destroys what is kept of a task. Only `skep zone del --force` does that too.

use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::show::measure::plural;
use crate::show::{Line, Page};
use wire::method::task::{TaskIdParams, TaskView};
use wire::table::{TaskDrop, TaskShow};
use wire::{ErrorCode, TaskId};

/// Destroy the changes that are kept of a task
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep drop task-3\n  skep drop task-3 --yes\n\n\
This destroys work, and so does `skep zone del --force`, of a whole work tree; no\nother command does. Kept changes that nobody drops go 30 days after the task's\nend, or sooner when more than 10 GiB are kept.")]
pub struct DropArgs {
    /// Task id, as `skep status` prints it
    task: TaskId,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

impl DropArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let (task, params) = (self.task, TaskIdParams { task: self.task });
        let mut kernel = console.kernel().await?;
        let view = kernel.call::<TaskShow>(&params).await?;
        if view.state.ended() && view.kept.is_none() {
            return Err(CommandError::new(ErrorCode::NotFound, format!("nothing of {task} is kept"))
                .fix(format!("there is nothing to drop; `skep status {task}` shows what became of it")));
        }
        let question = format!("destroy the changes of {task} ({}) for good?", files(&view));
        if view.state.at_rest() && !self.yes && !console.confirm(&question, "--yes")? {
            console.note(Line::new().faint("nothing dropped"));
            return OK;
        }
        let after = console.wait("dropping", kernel.call::<TaskDrop>(&params)).await?;
        console.show_wrapped(&after, |_| {
            Page(vec![Line::new().good("✓ ").name(task.to_string()).plain(format!(" dropped: {}", files(&view)))])
        });
        OK
    }
}

fn files(view: &TaskView) -> String {
    view.kept.as_ref().map_or_else(|| "no file".to_owned(), |kept| plural(kept.files, "file"))
}
