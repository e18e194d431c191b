//! `skep log`: what a task or a worker did so far, what of it has a text, and what it cost.

mod export;

use crate::command::act::worker;
use crate::command::journal::page::Pages;
use crate::command::status::here;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::place::{AbsentTree, PlaceArgs};
use crate::record::ParsedRecord;
use crate::show::log::{SHOWN_BYTES_MAX, newest};
use crate::show::measure::{self, clock_seconds, plural};
use crate::show::transcript::Transcript;
use crate::show::{Line, Page, log, task};
use jiff::tz::TimeZone;
use std::path::PathBuf;
use wire::method::journal::RecordFilter;
use wire::method::queue::QueueListParams;
use wire::method::task::{TaskIdParams, TaskListParams, TaskView};
use wire::method::transcript::{TranscriptListParams, TranscriptReadParams, TranscriptReadResult};
use wire::table::{QueueList, TaskList, TaskShow, TranscriptList, TranscriptRead};
use wire::{ErrorCode, KernelClient, Pid, TaskId};

/// Lines that a search shows.
const FOUND_MAX: usize = 500;

/// Show what a task or a worker did
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep log                       the newest task here\n  skep log task-3\n  \
skep log --who worker.1        all that a worker did\n  skep log --list                which transcripts there are\n  \
skep log --search 'TODO'       every line that has a text, in this repository\n  \
skep log task-3 --export t.txt   all of it as a file, without secrets\n  skep log --cost                what each task here cost\n  \
skep log task-3 --json         its records\n\n\
Transcripts are kept for 30 days after a task's end, the newest 100 of each repository and branch.")]
pub struct LogArgs {
    /// Which task [default: the newest here]
    task: Option<TaskId>,
    /// The same as an option
    #[arg(long = "task", value_name = "TASK", conflicts_with = "task")]
    of: Option<TaskId>,
    /// All tasks of a worker: [role][.n][@brain]
    #[arg(long, value_name = "WHO", conflicts_with_all = ["task", "of"])]
    who: Option<String>,
    /// The work tree: @branch, repo@branch, org/repo@branch, or a folder [default: where you are]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Which transcripts there are, newest first
    #[arg(long, conflicts_with_all = ["search", "export", "cost", "task", "of"])]
    list: bool,
    /// Lines that have this text, in letters of either size
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["export", "cost"])]
    search: Option<String>,
    /// Write all of it to a new file that only you can read, without secrets
    #[arg(long, value_name = "FILE", conflicts_with = "cost")]
    export: Option<PathBuf>,
    /// What it cost
    #[arg(long)]
    cost: bool,
}

impl LogArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        let kernel = &mut kernel;
        let path = match self.zone {
            Some(zone) => Some(PlaceArgs { zone: Some(zone), site: None }.folder(console, AbsentTree::Refuse).await?),
            None => here(false)?,
        };
        let who = match self.who {
            Some(who) => Some(named(kernel, path.as_deref(), who).await?),
            None => None,
        };
        let task = self.task.or(self.of);
        if self.list {
            let params = TranscriptListParams { path, worker: who };
            let result = kernel.call::<TranscriptList>(&params).await?;
            console.show(&result, |result| log::list(&result.transcripts, measure::now_ms()));
            return OK;
        }
        if let Some(text) = self.search {
            let path = if task.is_some() { None } else { path };
            let wanted = TranscriptReadParams { task, path, worker: who, search: Some(text.clone()), ..TranscriptReadParams::default() };
            let result = console.wait("searching", search(kernel, wanted)).await?;
            console.show_uncut(&result, |result| log::found(&result.lines, &text, measure::now_ms(), &TimeZone::system()));
            return OK;
        }
        if self.cost {
            return cost(kernel, task, path, who.as_deref(), console).await;
        }
        if let Some(file) = &self.export {
            let task = match (task, &who) {
                (None, None) => Some(newest_task(kernel, path.clone()).await?),
                (task, _) => task,
            };
            let wanted =
                TranscriptReadParams { task, path: path.filter(|_| task.is_none()), worker: who, ..TranscriptReadParams::default() };
            let count = console.wait("writing", export::export(kernel, wanted, file)).await?;
            let said = serde_json::json!({"file": file.display().to_string(), "lines": count});
            console.show(&said, |_| {
                Page(vec![Line::new().good("✓ ").plain(format!("{} written to ", plural(count, "line"))).name(file.display().to_string())])
            });
            return OK;
        }
        match (&who, task) {
            (Some(who), _) => {
                let pid = worker_tasks(kernel, path, who).await?[0].pid;
                let lines = Pages::new(RecordFilter { pid: Some(pid), ..RecordFilter::default() }).all(kernel).await?;
                story(&lines, None, console);
            }
            (None, task) => {
                let task = match task {
                    Some(task) => task,
                    None => newest_task(kernel, path).await?,
                };
                let lines = records(kernel, task).await?;
                // Of a task that is long over, the records are all there is.
                let view = kernel.call::<TaskShow>(&TaskIdParams { task }).await.ok();
                story(&lines, view.as_ref(), console);
            }
        }
        OK
    }
}

/// Tells records as a story, with the time of each.
fn story(lines: &[String], view: Option<&TaskView>, console: &Console) {
    if console.json {
        lines.iter().for_each(|line| console.out.json(&serde_json::value::RawValue::from_string(line.clone()).ok()));
        return;
    }
    let mut transcript = Transcript::default();
    let (mut page, now_ms, zone) = (Page::new(), measure::now_ms(), TimeZone::system());
    for record in lines.iter().filter_map(|line| ParsedRecord::parse(line)) {
        page.append(stamped(transcript.add(&record), &clock_seconds(record.at_ms, now_ms, &zone)));
    }
    let mut page = newest(page, SHOWN_BYTES_MAX);
    if let Some(cost) = view.and_then(task::cost) {
        page.because("cost", &cost);
    }
    console.out.wrapped(&page);
}

/// A record's lines with its time before the first.
fn stamped(page: Page, time: &str) -> Page {
    let margin = " ".repeat(time.len());
    let stamp = |(n, line)| Line::new().faint(if n == 0 { time } else { &margin }).plain("  ").join(line);
    page.0.into_iter().enumerate().map(stamp).collect()
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

/// Every line that has the text, and no more than anybody reads.
async fn search(kernel: &mut KernelClient, mut wanted: TranscriptReadParams) -> Result<TranscriptReadResult, CommandError> {
    let mut found = TranscriptReadResult { lines: Vec::new(), next_seq: None };
    loop {
        let page = kernel.call::<TranscriptRead>(&wanted).await?;
        found.lines.extend(page.lines);
        found.next_seq = page.next_seq;
        if found.next_seq.is_none() || found.lines.len() >= FOUND_MAX {
            return Ok(found);
        }
        wanted.after_seq = found.next_seq;
    }
}

async fn cost(kernel: &mut KernelClient, task: Option<TaskId>, path: Option<String>, who: Option<&str>, console: &Console) -> ExitResult {
    let tasks = match (task, who) {
        (Some(task), _) => vec![kernel.call::<TaskShow>(&TaskIdParams { task }).await?],
        (None, Some(who)) => worker_tasks(kernel, path, who).await?,
        (None, None) => kernel.call::<TaskList>(&TaskListParams { path }).await?.tasks,
    };
    let used: Vec<&TaskView> = tasks.iter().filter(|task| task.usage.is_some()).collect();
    let said: Vec<_> = used
        .iter()
        .map(|task| serde_json::json!({"task": task.task, "worker": task.process, "usage": task.usage, "outputs": task.outputs}))
        .collect();
    console.show(&said, |_| log::cost(&used));
    OK
}

/// The name of the worker that is meant: one that has had tasks here, whether it is still there or not, else who the kernel finds.
async fn named(kernel: &mut KernelClient, path: Option<&str>, who: String) -> Result<String, CommandError> {
    let Some(path) = path else { return Ok(who) };
    let tasks = kernel.call::<TaskList>(&TaskListParams { path: Some(path.to_owned()) }).await?.tasks;
    if tasks.iter().any(|task| task.process == who) {
        return Ok(who);
    }
    // Whoever the kernel does not find either has no tasks, and that is told with those who have.
    let params = QueueListParams { path: path.to_owned(), who: Some(worker(who.clone())?) };
    let found = kernel.call::<QueueList>(&params).await.ok();
    Ok(found.and_then(|found| found.queues.into_iter().next()).map_or(who, |queue| queue.worker))
}

/// The tasks of a worker; at least one.
pub async fn worker_tasks(kernel: &mut KernelClient, path: Option<String>, who: &str) -> Result<Vec<TaskView>, CommandError> {
    let tasks = kernel.call::<TaskList>(&TaskListParams { path }).await?.tasks;
    let mut names: Vec<&str> = tasks.iter().map(|task| task.process.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let pids: std::collections::BTreeSet<Pid> = tasks.iter().filter(|task| task.process == who).map(|task| task.pid).collect();
    match pids.len() {
        0 => Err(CommandError::new(ErrorCode::NotFound, format!("no worker `{who}` has had a task here")).fix(match names.is_empty() {
            true => "queue one with `skep act \"…\"`".to_owned(),
            false => format!("there are {}", names.join(", ")),
        })),
        1 => Ok(tasks.into_iter().filter(|task| task.process == who).collect()),
        _ => Err(CommandError::new(ErrorCode::BadInput, format!("several repositories have a worker `{who}`"))
            .fix("name the repository with `--zone DIR`")),
    }
}

async fn newest_task(kernel: &mut KernelClient, path: Option<String>) -> Result<TaskId, CommandError> {
    let tasks = kernel.call::<TaskList>(&TaskListParams { path }).await?.tasks;
    tasks.iter().map(|task| task.task).max().ok_or_else(|| {
        CommandError::new(ErrorCode::TaskNotFound, "there is no task here yet")
            .fix("queue one with `skep act \"…\"`, or see all with `skep list tasks --all`")
    })
}
