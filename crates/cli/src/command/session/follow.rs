//! A session as it goes on: on a terminal the graph of its plan, drawn over and over; in a pipe one line for each thing that happens.
//!
//! Ctrl-c ends the watching, never the work.

use crate::command::act::{limit_code, stop_code};
use crate::command::journal::next_line;
use crate::command::review::ask::{self, AnswerOutcome, Asker};
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult};
use crate::interrupt::Interrupt;
use crate::record::ParsedRecord;
use crate::show::measure::now_ms;
use crate::show::progress::Footer;
use crate::show::session::{self, SessionChange, SessionProgress};
use crate::show::task::next_step;
use crate::show::{Line, Page, Screen, Tone};
use std::collections::VecDeque;
use std::time::Duration;
use wire::code::{EXIT_FAILED, EXIT_INTERRUPTED};
use wire::method::session::{SessionShowParams, SessionView, SessionWatchParams};
use wire::table::{SessionShow, SessionWatch};
use wire::{ErrorCode, Event, KernelClient, MergeState, ReviewId, SessionStatus, TaskId};

/// How often the graph is drawn, and after how many of that the kernel is asked what it cost.
const TICK_MS: u64 = 100;
const LOOK_TICKS: u32 = 5;
/// Rows of a plan that stay on the screen when it is over: these at most, and fewer where the screen is small.
const LEFT_ROWS: usize = 40;
/// Rows of the screen that are for what is said below it.
const BELOW_ROWS: usize = 8;

/// What is told, and where.
#[derive(Clone, Copy, Debug)]
pub struct FollowOptions {
    /// Records behind this one are told; without it, those from now on.
    after: Option<u64>,
    /// Lines go to stderr, as stdout is for what came of it.
    is_run: bool,
}

impl FollowOptions {
    /// What `skep run` follows, from a record on; the answer goes to stdout.
    pub fn of_run(after: u64) -> FollowOptions {
        FollowOptions { after: Some(after), is_run: true }
    }

    pub fn of_watch(after: Option<u64>) -> FollowOptions {
        FollowOptions { after, is_run: false }
    }
}

/// How the following ended.
pub struct FollowEnd {
    pub view: SessionView,
    is_interrupted: bool,
}

impl FollowEnd {
    pub fn exit_code(&self) -> u8 {
        match self.view.status {
            _ if self.is_interrupted => EXIT_INTERRUPTED,
            SessionStatus::Completed => 0,
            _ if has_worked(&self.view) => 0,
            SessionStatus::AwaitingApproval => ErrorCode::Pending.exit(),
            SessionStatus::Paused => stop_code(self.view.task.stopped_by),
            // A limit that is reached is its end, and stands last; each is told as `max_tokens: 12 of 10`.
            SessionStatus::Failed => {
                let limit = self.view.limits_reached.last().and_then(|told| told.split(':').next());
                limit.map_or(EXIT_FAILED, limit_code)
            }
            _ => EXIT_FAILED,
        }
    }
}

/// Its steps are made, and only whether to take the changes is asked.
fn has_worked(view: &SessionView) -> bool {
    view.status == SessionStatus::Completed
        || (view.status == SessionStatus::AwaitingApproval && view.task.merge == Some(MergeState::Proposed))
}

async fn show(kernel: &mut KernelClient, task: TaskId, brief: bool) -> Result<SessionView, CommandError> {
    Ok(kernel.call::<SessionShow>(&SessionShowParams { task, brief, until_seq: None }).await?)
}

/// Follows a session until it ends, stands still, or the person has seen enough.
pub async fn follow(task: TaskId, options: FollowOptions, console: &Console) -> Result<FollowEnd, CommandError> {
    let mut interrupt = Interrupt::open()?;
    let mut look = console.kernel().await?;
    let view = show(&mut look, task, false).await?;
    let mut follower = Follower {
        task,
        console,
        screen: if options.is_run { console.err } else { console.out },
        is_drawn: console.err.is_lively() && console.out.tty && !console.json,
        is_silent: console.json && options.is_run,
        look,
        asker: Asker::open(console).await?,
        asks: VecDeque::new(),
        footer: Footer::new(console.err),
        opened_seq: view.seq,
        told_seq: options.after.unwrap_or(view.seq),
        stop_at: None,
        progress: SessionProgress::new(view),
        ticks: 0,
    };
    let mut records = console.kernel().await?;
    let after_seq = Some(options.after.unwrap_or(follower.progress.view.seq));
    records.call::<SessionWatch>(&SessionWatchParams { task, after_seq }).await?;
    if follower.stands_still().await? {
        return follower.end(false).await;
    }
    let mut tick = tokio::time::interval(Duration::from_millis(TICK_MS));
    loop {
        if let Some(end) = follower.ask(&mut interrupt).await? {
            return Ok(end);
        }
        let line = tokio::select! {
            biased;
            line = next_line(&mut records) => line?,
            () = interrupt.pressed() => return follower.end(true).await,
            _ = tick.tick(), if follower.is_drawn => {
                follower.draw().await;
                continue;
            }
        };
        let Some(line) = line else {
            follower.footer.clear();
            return Err(CommandError::new(ErrorCode::Unavailable, "the kernel has ended, so nothing more is shown")
                .fix("the same command starts a kernel again; unfinished sessions go on then"));
        };
        if follower.take(&line).await? {
            return follower.end(false).await;
        }
    }
}

struct Follower<'a> {
    task: TaskId,
    console: &'a Console,
    /// Where lines go.
    screen: Screen,
    is_drawn: bool,
    /// Only the end is told, as JSON.
    is_silent: bool,
    look: KernelClient,
    asker: Option<Asker<'a>>,
    asks: VecDeque<ReviewId>,
    footer: Footer,
    progress: SessionProgress,
    /// What was asked up to this record may have its answer; whether it has, the kernel says.
    opened_seq: u64,
    /// The newest record that was told.
    told_seq: u64,
    /// Once this record is told, all is told of a session that stood still.
    stop_at: Option<u64>,
    ticks: u32,
}

impl Follower<'_> {
    /// Takes one record. True when nothing more comes before somebody does something.
    async fn take(&mut self, line: &str) -> Result<bool, CommandError> {
        let Some(record) = ParsedRecord::parse(line) else { return Ok(false) };
        if self.console.json && !self.is_silent {
            self.screen.json(&serde_json::value::RawValue::from_string(line.to_owned()).ok());
        }
        self.told_seq = record.seq;
        let is_plan = matches!(record.event, Some(Event::PlanAccepted(_)));
        let before = (is_plan && self.is_drawn).then(|| self.progress.last_drawing(self.rows_left(), record.at_ms));
        let (page, change) = self.progress.add(&record);
        if !self.console.json && !self.is_drawn {
            self.screen.wrapped(&page);
        }
        match change {
            SessionChange::Shown => {}
            SessionChange::NewPlan | SessionChange::Frozen => {
                if let Some(before) = before {
                    self.print(&before);
                }
                let now = show(&mut self.look, self.task, false).await?;
                self.progress.renew(now);
            }
            SessionChange::Asks(review) if record.seq > self.opened_seq => self.asks.push_back(review),
            SessionChange::Answered(review) => self.asks.retain(|asked| *asked != review),
            SessionChange::Asks(_) | SessionChange::Over => {}
        }
        let may_stand = match self.stop_at {
            Some(stop_at) => record.seq >= stop_at,
            None => change == SessionChange::Over || record.kind == "task.parked",
        };
        Ok(may_stand && self.stands_still().await?)
    }

    /// Is it over, or does it wait for somebody who is not here, and is all of it told?
    async fn stands_still(&mut self) -> Result<bool, CommandError> {
        let now = show(&mut self.look, self.task, true).await?;
        let last_seq = now.last_seq;
        self.keep(now);
        let view = &self.progress.view;
        let is_still = match view.status {
            SessionStatus::Completed | SessionStatus::Failed | SessionStatus::Aborted | SessionStatus::AwaitingApproval => true,
            SessionStatus::Paused => view.task.state == wire::method::task::TaskStatus::Stopped,
            _ => false,
        };
        self.stop_at = (is_still && self.told_seq < last_seq).then_some(last_seq);
        if !is_still || self.stop_at.is_some() {
            return Ok(false);
        }
        if view.status != SessionStatus::AwaitingApproval || has_worked(view) {
            return Ok(true);
        }
        if let Some(review) = view.task.review.filter(|review| !self.asks.contains(review)) {
            self.asks.push_back(review);
        }
        Ok(self.asker.is_none())
    }

    /// Takes over what changes while it runs; the plan stays.
    fn keep(&mut self, now: SessionView) {
        let view = &mut self.progress.view;
        (view.task, view.status, view.steps, view.iteration) = (now.task, now.status, now.steps, now.iteration);
    }

    /// Asks what waits for an answer. An end where the person leaves it open.
    async fn ask(&mut self, interrupt: &mut Interrupt) -> Result<Option<FollowEnd>, CommandError> {
        let Some(asker) = &mut self.asker else { return Ok(None) };
        while let Some(review) = self.asks.pop_front() {
            self.footer.clear();
            let asked = tokio::select! {
                asked = asker.ask(review) => asked?,
                () = interrupt.pressed() => {
                    ask::interrupted(review, self.console);
                    return Ok(Some(FollowEnd { view: self.progress.view.clone(), is_interrupted: true }));
                }
            };
            if asked == AnswerOutcome::Later {
                ask::stays_open(review, self.console);
                let view = show(&mut self.look, self.task, false).await?;
                return Ok(Some(FollowEnd { view, is_interrupted: false }));
            }
        }
        Ok(None)
    }

    async fn draw(&mut self) {
        self.ticks += 1;
        if self.ticks.is_multiple_of(LOOK_TICKS)
            && let Ok(now) = show(&mut self.look, self.task, true).await
        {
            // What it cost; how far it is the records tell, in their order.
            self.progress.view.task = now.task;
        }
        let rows = self.console.err.height().saturating_sub(1);
        let lines = self.progress.drawing(rows, now_ms());
        self.footer.draw(&lines);
    }

    fn rows_left(&self) -> usize {
        self.console.err.height().saturating_sub(BELOW_ROWS).clamp(5, LEFT_ROWS)
    }

    fn print(&mut self, page: &Page) {
        self.footer.clear();
        self.screen.page(page);
    }

    /// The last look, with what stays on the screen.
    async fn end(mut self, is_interrupted: bool) -> Result<FollowEnd, CommandError> {
        self.footer.clear();
        let view = show(&mut self.look, self.task, false).await?;
        if self.is_drawn && !is_interrupted {
            let ended_ms = view.task.ended_ms.unwrap_or_else(now_ms);
            self.progress.renew(view.clone());
            let page = self.progress.last_drawing(self.rows_left(), ended_ms);
            // In the drawing they are cut at the edge of the screen.
            let failed = view.plan.as_ref().map(session::failed).unwrap_or_default();
            self.print(&page);
            self.screen.wrapped(&failed);
        }
        let end = FollowEnd { view, is_interrupted };
        if !self.console.json {
            self.screen.wrapped(&verdict(&end));
        }
        Ok(end)
    }
}

/// `✓ task-4 completed  $0.02, 1,234 tokens`, why where it did not end well, and what comes next.
fn verdict(end: &FollowEnd) -> Page {
    let view = &end.view;
    let cost = session::spent(view.task.usage.as_ref()).map(|cost| format!("  {cost}")).unwrap_or_default();
    let stand = match has_worked(view) {
        true if view.status != SessionStatus::Completed => Line::new().wait("done, its changes wait for merge"),
        _ => session::status(view.status),
    };
    let still = if end.is_interrupted { Line::new().faint(", and goes on") } else { Line::new() };
    let mut page = Page(vec![session::sign(view.status).name(view.task.task.to_string()).plain(" ").join(stand).join(still).faint(cost)]);
    let summary = view.task.summary.as_deref().unwrap_or_default();
    if !has_worked(view) && view.task.state.at_rest() && !summary.is_empty() {
        page.because("why", summary);
    }
    if let Some(next) = next_step(&view.task) {
        page.because("next", &next);
    }
    page
}

/// Prints what came of a run: its answer, and nothing else, on stdout.
pub fn tell_end(end: &FollowEnd, console: &Console) -> ExitResult {
    if console.json {
        console.out.json(&end.view);
    } else if has_worked(&end.view) && !end.is_interrupted {
        let mut answer = Page::new();
        answer.block("", Tone::Plain, end.view.task.summary.as_deref().unwrap_or_default());
        console.out.uncut(&answer);
    }
    Ok(end.exit_code())
}
