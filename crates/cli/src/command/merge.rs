//! `skep merge`: takes a task's changes into the project.

use crate::console::{Console, OK, Outcome};
use crate::show::{Line, diff};
use crate::trouble::Trouble;
use wire::method::task::{Diff, Merge as Method, MergeParams, TaskParams};
use wire::{Code, TaskId};

/// Take a task's changes into the project
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep merge task-3\n  skep merge task-3 --yes\n\n\
Exactly what is shown is merged; if anything changed since, the merge is refused.")]
pub struct Merge {
    task: TaskId,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

impl Merge {
    pub async fn run(self, console: &Console) -> Outcome {
        let mut kernel = console.kernel().await?;
        let shown = console.wait("comparing", kernel.call::<Diff>(&TaskParams { task: self.task })).await?;
        if shown.digest.is_none() {
            return Err(Trouble::new(Code::WrongState, format!("there is nothing to merge for `{}`", self.task))
                .why("it has not proposed its changes")
                .fix(format!("see where it stands with `skep status {}`", self.task)));
        }
        if !console.json {
            console.out.page(&diff::summary(&shown));
        }
        if !self.yes && !console.confirm(&format!("merge {} into the project?", self.task), "--yes")? {
            console.note(Line::new().faint("nothing merged"));
            return OK;
        }
        let params = MergeParams { task: self.task, digest: shown.digest };
        let result = console.wait("merging", kernel.call::<Method>(&params)).await?;
        console.show(&result, diff::merged);
        OK
    }
}
