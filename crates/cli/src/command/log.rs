//! `skep log`: a task's story so far.

use crate::command::journal::page::Pages;
use crate::command::status::here;
use crate::console::{Console, OK, Outcome};
use crate::record::Record;
use crate::show::Page;
use crate::show::transcript::Transcript;
use crate::trouble::Trouble;
use wire::method::journal::RecordFilter;
use wire::method::task::TaskListParams;
use wire::table::TaskList;
use wire::{Client, Code, TaskId};

/// Tell what a task did
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep log             the newest task here\n  skep log task-3\n  skep log task-3 --json    its records"
)]
pub struct Log {
    /// Which task [default: the newest here]
    task: Option<TaskId>,
}

impl Log {
    pub async fn run(self, console: &Console) -> Outcome {
        let mut kernel = console.kernel().await?;
        let task = match self.task {
            Some(task) => task,
            None => newest(&mut kernel).await?,
        };
        let lines = records(&mut kernel, task).await?;
        if console.json {
            lines.iter().for_each(|line| console.out.json(&serde_json::value::RawValue::from_string(line.clone()).ok()));
            return OK;
        }
        let mut transcript = Transcript::default();
        let mut page = Page::new();
        for record in lines.iter().filter_map(|line| Record::parse(line)) {
            page.append(transcript.tell(&record));
        }
        console.out.story(&page);
        OK
    }
}

/// Everything the journal says about a task; none at all means that there is no such task.
pub async fn records(kernel: &mut Client, task: TaskId) -> Result<Vec<String>, Trouble> {
    let lines = Pages::new(RecordFilter { task: Some(task), ..RecordFilter::default() }).all(kernel).await?;
    if lines.is_empty() {
        return Err(Trouble::new(Code::TaskNotFound, format!("there is no `{task}`")).fix("see them with `skep list tasks --all`"));
    }
    Ok(lines)
}

async fn newest(kernel: &mut Client) -> Result<TaskId, Trouble> {
    let tasks = kernel.call::<TaskList>(&TaskListParams { path: here(None, false)? }).await?.tasks;
    tasks.iter().map(|task| task.task).max().ok_or_else(|| {
        Trouble::new(Code::TaskNotFound, "there is no task here yet")
            .fix("queue one with `skep act \"…\"`, or see all with `skep list tasks --all`")
    })
}
