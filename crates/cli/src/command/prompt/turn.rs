//! One turn at the prompt: a task is followed until it has ended or asks something.
//!
//! **Invariant.** While a turn runs nothing that is typed appears on the screen, and the terminal is given back on every way out.

use super::Prompt;
use crate::command::watch::watched::WatchStream;
use crate::command_error::CommandError;
use crate::console::Console;
use crate::record::ParsedRecord;
use crate::show::Line;
use crate::show::measure::now_ms;
use crate::show::progress::Footer;
use crate::show::prompt::TurnStory;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::time::Duration;
use wire::method::review::{ReviewShowParams, ReviewStatus};
use wire::method::task::TaskIdParams;
use wire::method::watch::ProcWatchParams;
use wire::method::work::{WorkListParams, WorkListResult};
use wire::table::{ReviewShow, TaskCancel, WorkList};
use wire::{Event, KernelClient, ReviewId, TaskId};

/// How often the foot is drawn, and after how many of that the kernel is asked again.
const TICK_MS: u64 = 100;
const LOOK_TICKS: u32 = 4;
/// How often a kernel that has gone is started again before the prompt gives up.
const RESTARTS_MAX: u32 = 3;
const FOOT: &str = "ctrl-c stops it, and keeps what it changed";

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    Ended,
    /// It asks this.
    Asks(ReviewId),
    /// Ctrl-c twice.
    Left,
    /// Ended from outside.
    Terminated,
}

/// How far a task was told.
#[derive(Debug)]
pub struct FollowedTask {
    pub task: TaskId,
    after_seq: u64,
    story: TurnStory,
}

impl FollowedTask {
    pub fn new(task: TaskId, colour: bool) -> FollowedTask {
        FollowedTask { task, after_seq: 0, story: TurnStory::new(colour) }
    }
}

impl Prompt {
    /// Tells what the current task does, until it has ended or asks something.
    pub async fn follow(&mut self) -> Result<TurnEnd, CommandError> {
        let Some(mut followed) = self.followed.take() else { return Ok(TurnEnd::Ended) };
        let quiet = Quiet::begin();
        let mut restarts = 0;
        let end = loop {
            match self.follow_once(&mut followed).await {
                Ok(Some(end)) => break Ok(end),
                // The kernel has gone. Every command starts one, and unfinished tasks go on then.
                Ok(None) if restarts < RESTARTS_MAX => {
                    restarts += 1;
                    self.console.note(Line::new().wait("◍ ").plain("the kernel has ended; it is started again, and the work goes on"));
                    tokio::time::sleep(Duration::from_millis(300)).await;
                }
                Ok(None) => break Err(super::gone()),
                Err(error) => break Err(error),
            }
        };
        drop(quiet);
        self.followed = Some(followed);
        end
    }

    /// The same up to the end of one kernel, which is `None`.
    async fn follow_once(&mut self, followed: &mut FollowedTask) -> Result<Option<TurnEnd>, CommandError> {
        let (task, console) = (followed.task, self.console.clone());
        let params = ProcWatchParams { task: Some(task), after_seq: Some(followed.after_seq), ..ProcWatchParams::default() };
        let (mut watched, _) = WatchStream::open(console.kernel().await?, &params).await?;
        let (mut foot, mut is_cancelled) = (Foot::open(&console).await, false);
        let mut tick = tokio::time::interval(Duration::from_millis(TICK_MS));
        loop {
            let line = tokio::select! {
                biased;
                line = watched.next_line() => line?,
                () = self.interrupt.pressed() => {
                    foot.footer.clear();
                    if is_cancelled {
                        return Ok(Some(TurnEnd::Left));
                    }
                    is_cancelled = true;
                    console.note(Line::new().faint(format!("stopping {task}; ctrl-c again leaves")));
                    cancel(&console, task);
                    continue;
                }
                _ = self.terminated.recv() => {
                    foot.footer.clear();
                    return Ok(Some(TurnEnd::Terminated));
                }
                _ = tick.tick() => {
                    foot.draw(&followed.story, task).await;
                    continue;
                }
            };
            let Some(line) = line else {
                foot.footer.clear();
                return Ok(None);
            };
            let Some(record) = ParsedRecord::parse(&line) else { continue };
            followed.after_seq = record.seq;
            let page = followed.story.add(&record);
            if !page.is_empty() {
                foot.footer.clear();
                console.out.measured().wrapped(&page);
            }
            match &record.event {
                Some(Event::TaskFinished(_) | Event::TaskFailed(_) | Event::TaskCancelled(_) | Event::TaskStopped(_)) => {
                    foot.footer.clear();
                    return Ok(Some(TurnEnd::Ended));
                }
                Some(Event::ReviewAsked(asked)) if is_open(&console, asked.review).await => {
                    foot.footer.clear();
                    return Ok(Some(TurnEnd::Asks(asked.review)));
                }
                _ => {}
            }
        }
    }
}

/// Ends the task beside everything else: what becomes of it is told by its records.
fn cancel(console: &Console, task: TaskId) {
    let console = console.clone();
    drop(tokio::spawn(async move {
        let cancelled = match console.connect().await {
            Ok(mut kernel) => kernel.call::<TaskCancel>(&TaskIdParams { task }).await.map(drop).map_err(CommandError::from),
            Err(error) => Err(error),
        };
        if let Err(error) = cancelled {
            console.report(&error);
        }
    }));
}

/// Has nobody answered it yet?
async fn is_open(console: &Console, review: ReviewId) -> bool {
    let Ok(mut kernel) = console.connect().await else { return true };
    let shown = kernel.call::<ReviewShow>(&ReviewShowParams { review, full: false }).await;
    shown.is_ok_and(|view| view.state == ReviewStatus::Open)
}

/// What moves below a turn.
struct Foot {
    footer: Footer,
    kernel: Option<KernelClient>,
    last: WorkListResult,
    age: u32,
}

impl Foot {
    async fn open(console: &Console) -> Foot {
        let kernel = if console.err.is_lively() { console.connect().await.ok() } else { None };
        Foot { footer: Footer::new(console.err), kernel, last: WorkListResult::default(), age: LOOK_TICKS }
    }

    async fn draw(&mut self, story: &TurnStory, task: TaskId) {
        let Some(kernel) = &mut self.kernel else { return };
        self.age += 1;
        if self.age >= LOOK_TICKS {
            match kernel.call::<WorkList>(&WorkListParams { task: Some(task) }).await {
                Ok(now) => (self.last, self.age) = (now, 0),
                // A kernel that has gone is noticed where its records are read.
                Err(_) => return,
            }
        }
        let lines = story.transcript.foot_saying(&self.last, now_ms(), FOOT);
        match lines.is_empty() {
            true => self.footer.clear(),
            false => self.footer.draw(&lines),
        }
    }
}

/// A terminal that shows nothing of what is typed; ctrl-c still counts. What was typed meanwhile is the beginning of the next line.
struct Quiet(Option<Termios>);

impl Quiet {
    fn begin() -> Quiet {
        let found = tcgetattr(std::io::stdin()).ok();
        if let Some(found) = &found {
            let mut quiet = found.clone();
            quiet.local_modes -= LocalModes::ECHO | LocalModes::ICANON;
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Drain, &quiet);
            let as_found = found.clone();
            crate::show::before_end(move || give_back(&as_found));
        }
        Quiet(found)
    }
}

/// A terminal that has gone wants nothing back.
fn give_back(found: &Termios) {
    let _ = tcsetattr(std::io::stdin(), OptionalActions::Drain, found);
}

impl Drop for Quiet {
    fn drop(&mut self) {
        self.0.iter().for_each(give_back);
    }
}
