//! `skep log`: a task's story so far.

use crate::command::journal::page::Pages;
use crate::command::status::here;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::record::ParsedRecord;
use crate::show::Page;
use crate::show::transcript::Transcript;
use wire::method::journal::RecordFilter;
use wire::method::task::TaskListParams;
use wire::table::TaskList;
use wire::{ErrorCode, KernelClient, TaskId};

/// Show what a task did
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep log             the newest task here\n  skep log task-3\n  skep log task-3 --json    its records"
)]
pub struct LogArgs {
    /// Which task [default: the newest here]
    task: Option<TaskId>,
}

impl LogArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
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
        for record in lines.iter().filter_map(|line| ParsedRecord::parse(line)) {
            page.append(transcript.add(&record));
        }
        console.out.wrapped(&page);
        OK
    }
}

/// Everything the journal says about a task; none at all means that there is no such task.
pub async fn records(kernel: &mut KernelClient, task: TaskId) -> Result<Vec<String>, CommandError> {
    let lines = Pages::new(RecordFilter { task: Some(task), ..RecordFilter::default() }).all(kernel).await?;
    if lines.is_empty() {
        return Err(
            CommandError::new(ErrorCode::TaskNotFound, format!("there is no `{task}`")).fix("see them with `skep list tasks --all`")
        );
    }
    Ok(lines)
}

async fn newest(kernel: &mut KernelClient) -> Result<TaskId, CommandError> {
    let tasks = kernel.call::<TaskList>(&TaskListParams { path: here(None, false)? }).await?.tasks;
    tasks.iter().map(|task| task.task).max().ok_or_else(|| {
        CommandError::new(ErrorCode::TaskNotFound, "there is no task here yet")
            .fix("queue one with `skep act \"…\"`, or see all with `skep list tasks --all`")
    })
}
