//! `skep watch`: a story as it happens. Ctrl-c ends the watching, never the work.

pub mod watched;

use crate::command::act::{limit_code, stop_code, worker};
use crate::command::log::records;
use crate::command::review::ask::{self, AnswerOutcome, Asker};
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::interrupt::Interrupt;
use crate::place::{AbsentTree, PlaceArgs};
use crate::record::ParsedRecord;
use crate::show::measure::now_ms;
use crate::show::progress::Footer;
use crate::show::transcript::Transcript;
use crate::show::{Line, Page, task};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use watched::WatchStream;
use wire::code::EXIT_FAILED;
use wire::method::Nothing;
use wire::method::queue::QueueListParams;
use wire::method::task::{TaskListParams, TaskView};
use wire::method::watch::ProcWatchParams;
use wire::method::work::{WorkListParams, WorkListResult};
use wire::table::{ProcList, QueueList, TaskList, WorkList};
use wire::{ErrorCode, Event, KernelClient, Pid, ReviewId, TaskId};

/// How often the foot is drawn, and after how many of that the kernel is asked again.
const TICK_MS: u64 = 100;
const LOOK_TICKS: u32 = 4;
/// What is told of the time before: so many lines, from so many records.
const PAST_LINES: usize = 20;
const PAST_RECORDS: u64 = 300;

/// Follow a task, a worker, or everything, as it happens
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep watch                  everything, from the last lines on\n  \
skep watch task-3           one task, from its beginning to its end\n  skep watch --who worker.1   one worker, task after task\n\n\
On a terminal it shows the last lines of a running command, and takes the answer to a question where it is asked.\n\
Ctrl-c returns; the work goes on. A worker has at most ten watchers.")]
pub struct WatchArgs {
    /// Which task [default: all]
    task: Option<TaskId>,
    /// One worker: [role][.n][@brain]
    #[arg(long, value_name = "WHO", conflicts_with = "task")]
    who: Option<String>,
    /// The work tree of that worker: @branch, repo@branch, org/repo@branch, or a folder [default: where you are]
    #[arg(long, value_name = "ZONE", requires = "who")]
    zone: Option<String>,
}

impl WatchArgs {
    /// One task.
    pub fn task(task: TaskId) -> WatchArgs {
        WatchArgs { task: Some(task), who: None, zone: None }
    }

    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        let mut story = Follower::new(self.task, console);
        let mut asker = Asker::open(console).await?;
        let mut interrupt = Interrupt::open()?;
        let mut watched = match self.task {
            Some(task) => {
                let lines = records(&mut kernel, task).await?;
                let after_seq = lines.last().and_then(|line| ParsedRecord::parse(line)).map(|record| record.seq);
                // Of one that is over there is nothing to wait for.
                let watched = match exit_code_of(&lines) {
                    Some(_) => None,
                    None => {
                        Some(WatchStream::open(kernel, &ProcWatchParams { task: Some(task), after_seq, ..Default::default() }).await?.0)
                    }
                };
                lines.iter().for_each(|line| story.print(line));
                watched
            }
            None => Some(self.attach(kernel, &mut story).await?),
        };
        let (None, Some(watched)) = (story.end.exit_code, &mut watched) else { return Ok(story.end.exit_code.unwrap_or_default()) };
        let mut foot = Foot::open(console).await;
        let mut tick = tokio::time::interval(Duration::from_millis(TICK_MS));
        loop {
            // What came before the question is told before it is asked.
            if let (Some(review), Some(asker)) = (story.asks.pop_front(), &mut asker) {
                story.footer.clear();
                let asked = tokio::select! {
                    asked = asker.ask(review) => asked?,
                    () = interrupt.pressed() => {
                        ask::interrupted(review, console);
                        return OK;
                    }
                };
                if asked == AnswerOutcome::Later {
                    ask::stays_open(review, console);
                    // Nothing more happens to one task while it waits.
                    if self.task.is_some() && story.asks.is_empty() {
                        return OK;
                    }
                }
            }
            let line = tokio::select! {
                biased;
                line = watched.next_line() => line?,
                () = interrupt.pressed() => {
                    story.footer.clear();
                    return OK;
                }
                _ = tick.tick() => {
                    if let Some(foot) = &mut foot {
                        let work = foot.work(self.task).await;
                        story.draw_foot(&work);
                    }
                    continue;
                }
            };
            let Some(line) = line else {
                story.footer.clear();
                return Err(CommandError::new(ErrorCode::Unavailable, "the kernel has ended, so nothing more is shown")
                    .fix("the same command starts a kernel again; unfinished tasks go on then"));
            };
            story.print(&line);
            if let Some(exit) = story.end.exit_code {
                return Ok(exit);
            }
        }
    }
}

impl WatchArgs {
    /// Takes a place beside a worker, or all, and tells the recent past.
    async fn attach(&self, mut kernel: KernelClient, story: &mut Follower<'_>) -> Result<WatchStream, CommandError> {
        story.names = names(&mut kernel).await?;
        let mut params = ProcWatchParams { past: PAST_RECORDS, ..ProcWatchParams::default() };
        if let Some(who) = &self.who {
            let path = PlaceArgs { zone: self.zone.clone(), site: None }.folder(story.console, AbsentTree::Refuse).await?;
            let wanted = QueueListParams { path: path.clone(), who: Some(worker(who.clone())?) };
            let found = kernel.call::<QueueList>(&wanted).await?.queues;
            (params.worker, params.path) = (found.into_iter().next().map(|queue| queue.worker), Some(path));
        }
        let tasks = kernel.call::<TaskList>(&TaskListParams { path: params.path.clone() }).await?.tasks;
        // Whoever finds no place is told nothing else.
        let (watched, past) = WatchStream::open(kernel, &params).await?;
        story.open(&tasks, params.worker.as_deref());
        story.tell_past(&past);
        if self.who.is_none() {
            // The inbox is for what was asked before.
            story.asks.clear();
        }
        Ok(watched)
    }
}

/// How a task has ended, by its records.
fn exit_code_of(lines: &[String]) -> Option<u8> {
    let mut end = WatchedEnd::default();
    lines.iter().filter_map(|line| ParsedRecord::parse(line)).for_each(|record| end.add(&record));
    end.exit_code
}

/// How a task ended, as its records tell it one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct WatchedEnd {
    exit_code: Option<u8>,
    /// What a failure would be, where a limit of its own is on record as reached.
    at_limit: Option<u8>,
}

impl WatchedEnd {
    fn add(&mut self, record: &ParsedRecord) {
        match &record.event {
            Some(Event::LimitExceeded(e)) => self.at_limit = Some(limit_code(&e.limit)),
            Some(Event::TaskFinished(_)) => self.exit_code = Some(0),
            Some(Event::TaskStopped(e)) => self.exit_code = Some(stop_code(Some(e.cause))),
            Some(Event::TaskFailed(_)) => self.exit_code = Some(self.at_limit.unwrap_or(EXIT_FAILED)),
            Some(Event::TaskCancelled(_)) => self.exit_code = Some(EXIT_FAILED),
            Some(Event::TaskContinued(_)) => *self = WatchedEnd::default(),
            _ => {}
        }
    }
}

async fn names(kernel: &mut KernelClient) -> Result<BTreeMap<Pid, String>, CommandError> {
    let processes = kernel.call::<ProcList>(&Nothing {}).await?.processes;
    Ok(processes.into_iter().map(|process| (process.pid, process.name)).collect())
}

/// What the foot of a story is made from, asked for on a connection of its own.
struct Foot {
    kernel: KernelClient,
    last: WorkListResult,
    /// Ticks since it was asked for.
    age: u32,
}

impl Foot {
    /// Only where something may move.
    async fn open(console: &Console) -> Option<Foot> {
        let is_wanted = console.err.is_lively() && console.out.tty && !console.json;
        let kernel = if is_wanted { console.kernel().await.ok() } else { None };
        kernel.map(|kernel| Foot { kernel, last: WorkListResult::default(), age: LOOK_TICKS })
    }

    /// What is under way. A kernel that does not say leaves the last word.
    async fn work(&mut self, task: Option<TaskId>) -> WorkListResult {
        self.age += 1;
        if self.age >= LOOK_TICKS
            && let Ok(now) = self.kernel.call::<WorkList>(&WorkListParams { task }).await
        {
            (self.last, self.age) = (now, 0);
        }
        self.last.clone()
    }
}

struct Follower<'a> {
    console: &'a Console,
    /// Of one task, or of all with the process's name before each line.
    task: Option<TaskId>,
    names: BTreeMap<Pid, String>,
    transcript: Transcript,
    /// Questions that may still be open.
    asks: VecDeque<ReviewId>,
    /// Of the one task.
    end: WatchedEnd,
    footer: Footer,
}

impl<'a> Follower<'a> {
    fn new(task: Option<TaskId>, console: &'a Console) -> Follower<'a> {
        let footer = Footer::new(console.err);
        Follower {
            console,
            task,
            names: BTreeMap::new(),
            transcript: Transcript::default(),
            asks: VecDeque::new(),
            end: WatchedEnd::default(),
            footer,
        }
    }

    fn open(&self, tasks: &[TaskView], who: Option<&str>) {
        let mut page = task::watching(tasks, who, now_ms());
        page.push(Line::new().plain(" ".repeat(self.width() + 3)).faint("┬"));
        if !self.console.json {
            self.console.out.page(&page);
        }
    }

    fn width(&self) -> usize {
        self.names.values().map(|name| Line::new().plain(name).width()).max().unwrap_or(0)
    }

    /// Prints the last lines of what was before.
    fn tell_past(&mut self, lines: &[String]) {
        let mut page = Page::new();
        for record in lines.iter().filter_map(|line| ParsedRecord::parse(line)) {
            self.take_note(&record);
            let told = self.transcript.add(&record);
            page.append(self.with_process_name(&record, told));
        }
        if self.console.json {
            lines.iter().for_each(|line| self.console.out.json(&serde_json::value::RawValue::from_string(line.clone()).ok()));
            return;
        }
        let from = page.0.len().saturating_sub(PAST_LINES);
        self.console.out.wrapped(&page.0.into_iter().skip(from).collect());
    }

    /// Who there is, and what is asked.
    fn take_note(&mut self, record: &ParsedRecord) {
        match &record.event {
            Some(Event::ProcSpawned(e)) => drop(self.names.insert(e.pid, e.name.clone())),
            Some(Event::ReviewAsked(e)) => self.asks.push_back(e.review),
            Some(Event::ReviewAnswered(e)) => self.asks.retain(|review| *review != e.review),
            _ => {}
        }
    }

    /// Prints one record.
    fn print(&mut self, line: &str) {
        let Some(record) = ParsedRecord::parse(line) else { return };
        if self.task.is_some() {
            self.end.add(&record);
        }
        self.take_note(&record);
        if self.console.json {
            self.console.out.json(&serde_json::value::RawValue::from_string(line.to_owned()).ok());
            return;
        }
        let page = self.transcript.add(&record);
        if !page.is_empty() {
            self.footer.clear();
            self.console.out.wrapped(&if self.task.is_some() { page } else { self.with_process_name(&record, page) });
        }
    }

    /// `● worker.1 │ …`
    fn with_process_name(&self, record: &ParsedRecord, page: Page) -> Page {
        let name = record.pid().and_then(|pid| self.names.get(&pid)).map_or("?", String::as_str);
        let width = self.width();
        let margin = |line| Line::new().good("● ").join(Line::new().strong(name).pad(width)).faint(" │ ").join(line);
        page.0.into_iter().map(margin).collect()
    }

    /// What goes on right now.
    fn draw_foot(&mut self, work: &WorkListResult) {
        let lines = self.transcript.foot(work, now_ms());
        match lines.is_empty() {
            true => self.footer.clear(),
            false => self.footer.draw(&lines),
        }
    }
}
