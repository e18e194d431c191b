//! `skep top`: every process with what it takes, what the selected one does, and the questions that wait, on one screen.
//!
//! Only moves things between the terminal, the kernel and the machine in `state`. **Invariant.** The terminal is given back as it was
//! found on every way out, and before a talk takes it.

pub mod snapshot;
pub mod state;

use crate::command::journal::next_line;
use crate::command::journal::page::Pages;
use crate::command::review::inbox::state::Notice;
use crate::command::review::inbox::{answer, fetch, is_possible, news};
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::interrupt::Interrupt;
use crate::record::ParsedRecord;
use crate::show::measure::now_ms;
use crate::show::{Line, Tone, review, top as picture};
use crate::terminal::canvas::Canvas;
use crate::terminal::{Terminal, one_key};
use snapshot::{ContextSizes, TopSnapshot};
use state::{Top, TopAction, TopStory};
use std::process::ExitStatus;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use wire::method::Nothing;
use wire::method::journal::RecordFilter;
use wire::method::process::ProcCancelParams;
use wire::method::task::TaskIdParams;
use wire::method::zone::ZoneStatusParams;
use wire::table::{JournalFollow, ProcCancel, SandboxPause, SandboxResume, TaskCancel, ZoneStatus};
use wire::{ClientError, ErrorCode, KernelClient, Pid, TaskId};

/// How often the picture is drawn, and after how many of that the kernel is asked again: at once where something happened.
const TICK_MS: u64 = 100;
const LOOK_TICKS: u32 = 20;
const NEWS_TICKS: u32 = 3;
/// Records that a story begins with here; `skep log` has all of them.
const STORY_RECORDS: u64 = 500;

/// Show every worker on one screen, with keys to act
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep top\n  skep top --json     what it shows, once, for a program\n\n\
Keys: j and k select, x ends a task (it asks), p pauses its sandbox, t talks with the worker, r answers\nreviews, / filters, ? explains, q quits. The work goes on when you leave.")]
pub struct TopArgs {}

impl TopArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        if console.json {
            let mut kernel = console.kernel().await?;
            let taken = snapshot::take(&mut kernel, &mut ContextSizes::default(), &TopSnapshot::default()).await?;
            console.out.json(&taken);
            return OK;
        }
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        if !is_possible(console) || is_dumb {
            return Err(CommandError::new(ErrorCode::BadInput, "`skep top` needs a terminal")
                .why(if is_dumb { "this one can only print lines" } else { "standard input or output is not one" })
                .fix("use `skep status`, or `skep top --json` for one snapshot"));
        }
        let mut board = Board::open(console).await?;
        let ended = board.run().await;
        // The other screen is gone by now, and its last words with it.
        board.top.inbox.said.iter().for_each(|(view, reach)| console.out.page(&review::answered(view, *reach)));
        ended.map_err(|error| match error.code {
            ErrorCode::Unavailable => error.fix("run `skep top` again, which starts a kernel; what you answered is kept"),
            _ => error,
        })?;
        OK
    }
}

/// What became of one stay on the terminal.
enum StayEnd {
    Quit,
    /// Somebody else needs the terminal meanwhile.
    Talk {
        pid: Pid,
        name: String,
    },
}

struct Board<'a> {
    console: &'a Console,
    kernel: KernelClient,
    /// Records as they come.
    records: KernelClient,
    top: Top,
    sizes: ContextSizes,
    /// Wishes under way, each on a connection of its own.
    wishes: JoinSet<Notice>,
    ticks: u32,
    has_news: bool,
    signals: [Signal; 3],
}

impl<'a> Board<'a> {
    async fn open(console: &'a Console) -> Result<Board<'a>, CommandError> {
        let mut kernel = console.kernel().await?;
        let mut records = console.connect().await?;
        records.call::<JournalFollow>(&RecordFilter::default()).await?;
        let failed = |error| CommandError::new(ErrorCode::Internal, "signals cannot be listened for").why(error);
        let listen = |kind| signal(kind).map_err(failed);
        let signals = [listen(SignalKind::window_change())?, listen(SignalKind::terminate())?, listen(SignalKind::hangup())?];
        let mut top = Top::default();
        news(&mut kernel, &mut top.inbox).await?;
        Ok(Board {
            console,
            kernel,
            records,
            top,
            sizes: ContextSizes::default(),
            wishes: JoinSet::new(),
            ticks: 0,
            has_news: true,
            signals,
        })
    }

    async fn run(&mut self) -> Result<(), CommandError> {
        loop {
            match self.stay().await? {
                StayEnd::Quit => return Ok(()),
                StayEnd::Talk { pid, name } => self.talk(pid, &name).await?,
            }
        }
    }

    /// Has the terminal until somebody quits or talks.
    async fn stay(&mut self) -> Result<StayEnd, CommandError> {
        let failed = |error: std::io::Error| {
            CommandError::new(ErrorCode::Internal, "cannot use this terminal").why(error).fix("use `skep status`, or `skep top --json`")
        };
        self.look().await?;
        let mut interrupt = Interrupt::open()?;
        let mut terminal = Terminal::open(self.console.out).map_err(failed)?;
        let mut canvas = ratatui::Terminal::new(Canvas::new(self.console.out)).map_err(failed)?;
        let mut tick = tokio::time::interval(Duration::from_millis(TICK_MS));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let [resized, ended, hung_up] = &mut self.signals;
            tokio::select! {
                keys = terminal.keys() => {
                    let Some(keys) = keys else { return Ok(StayEnd::Quit) };
                    for key in keys {
                        match self.top.key(&key, now_ms()) {
                            None => {}
                            Some(TopAction::Quit) => return Ok(StayEnd::Quit),
                            Some(TopAction::Talk { pid, name }) => {
                                terminal.give_back();
                                return Ok(StayEnd::Talk { pid, name });
                            }
                            Some(TopAction::Answer(params)) => {
                                answer(&mut self.kernel, &mut self.top.inbox, &params).await?;
                                self.has_news = true;
                            }
                            Some(action) => self.begin(action),
                        }
                    }
                }
                line = next_line(&mut self.records) => match line? {
                    Some(line) => {
                        self.record(&line);
                        // Many may come at once; the next tick draws them.
                        continue;
                    }
                    None => return Err(CommandError::new(ErrorCode::Unavailable, "the kernel has stopped")),
                },
                Some(done) = self.wishes.join_next(), if !self.wishes.is_empty() => {
                    // One that panicked has said so.
                    self.top.notice = done.ok();
                    self.has_news = true;
                }
                _ = resized.recv() => {}
                _ = ended.recv() => return Ok(StayEnd::Quit),
                _ = hung_up.recv() => return Ok(StayEnd::Quit),
                () = interrupt.pressed() => return Ok(StayEnd::Quit),
                _ = tick.tick() => self.on_tick().await?,
            }
            self.follow_selection().await?;
            let colour = self.console.out.colour;
            let top = &mut self.top;
            canvas.draw(|frame| picture::draw(frame, top, colour, now_ms())).map_err(failed)?;
        }
    }

    async fn on_tick(&mut self) -> Result<(), CommandError> {
        self.ticks += 1;
        if self.ticks >= LOOK_TICKS || (self.has_news && self.ticks >= NEWS_TICKS) {
            self.look().await?;
        }
        Ok(())
    }

    /// Asks the kernel for everything that is shown.
    async fn look(&mut self) -> Result<(), CommandError> {
        if std::mem::take(&mut self.has_news) {
            news(&mut self.kernel, &mut self.top.inbox).await?;
        }
        let taken = snapshot::take(&mut self.kernel, &mut self.sizes, &self.top.snapshot).await?;
        self.top.refresh(taken);
        self.ticks = 0;
        self.follow_selection().await
    }

    /// Brings the question in sight and the story of whoever is selected.
    async fn follow_selection(&mut self) -> Result<(), CommandError> {
        fetch(&mut self.kernel, &mut self.top.inbox).await?;
        let Some(task) = self.top.story_to_load() else { return Ok(()) };
        let filter = RecordFilter { task: Some(task), limit: Some(STORY_RECORDS), reverse: true, ..RecordFilter::default() };
        let lines = Pages::new(filter).all(&mut self.kernel).await?;
        let records: Vec<ParsedRecord> = lines.iter().rev().filter_map(|line| ParsedRecord::parse(line)).collect();
        self.top.story = TopStory::of(task, &records);
        Ok(())
    }

    fn record(&mut self, line: &str) {
        self.has_news = true;
        let Some(record) = ParsedRecord::parse(line) else { return };
        let task = record.event.as_ref().and_then(wire::Event::task);
        if task.is_some() && task == self.top.story.task {
            self.top.story.add(&record);
        }
    }

    /// Carries a wish out beside the picture, so that one that takes long holds nothing up.
    fn begin(&mut self, action: TopAction) {
        let console = self.console.clone();
        self.wishes.spawn(async move {
            match carry_out(&console, action).await {
                Ok(done) => Notice { tone: Tone::Good, text: done },
                Err(error) => {
                    let parts = [Some(error.what), error.why, error.fix];
                    Notice { tone: Tone::Bad, text: parts.into_iter().flatten().collect::<Vec<_>>().join(": ") }
                }
            }
        });
    }

    /// Lets `skep talk` have the terminal, and comes back when it is over.
    async fn talk(&mut self, pid: Pid, name: &str) -> Result<(), CommandError> {
        let zones = self.kernel.call::<ZoneStatus>(&ZoneStatusParams::default()).await?.zones;
        let Some(zone) = zones.iter().find(|zone| zone.processes.iter().any(|process| process.pid == pid)) else {
            self.top.set_notice(Tone::Wait, format!("{name} belongs to no repository, so there is nobody to talk with"));
            return Ok(());
        };
        let failed = |error: std::io::Error| CommandError::new(ErrorCode::Internal, "`skep talk` cannot be started").why(error);
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = tokio::process::Command::new(program);
        let mut child = command.args(["talk", name, "--zone", &zone.path]).spawn().map_err(failed)?;
        let ended = self.wait_for(&mut child).await.map_err(failed)?;
        match ended.success() {
            true => self.top.set_notice(Tone::Good, format!("the talk with {name} is over")),
            false => {
                self.top.set_notice(Tone::Wait, format!("there was no talk with {name}"));
                // What it said stands on the screen that is covered next.
                self.console.note(Line::new().faint("any key goes back to `skep top`"));
                one_key().await.map_err(failed)?;
            }
        }
        self.has_news = true;
        Ok(())
    }

    /// A signal that ends this command ends the talk first, which gives the terminal back.
    async fn wait_for(&mut self, child: &mut tokio::process::Child) -> std::io::Result<ExitStatus> {
        let [_, ended, hung_up] = &mut self.signals;
        tokio::select! {
            status = child.wait() => return status,
            _ = ended.recv() => {}
            _ = hung_up.recv() => {}
        }
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // One that has just ended needs no signal.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        child.wait().await
    }
}

/// Does what was wished for, and says so.
async fn carry_out(console: &Console, action: TopAction) -> Result<String, CommandError> {
    let mut kernel = console.connect().await?;
    let told = |task: TaskId, word: &str| format!("{task} {word}");
    let done: Result<String, ClientError> = match action {
        TopAction::Kill { task: Some(task), .. } => {
            let view = kernel.call::<TaskCancel>(&TaskIdParams { task }).await;
            view.map(|view| {
                told(task, &format!("ended; {}", crate::show::task::kept(&view).unwrap_or_else(|| "it had changed nothing".into())))
            })
        }
        TopAction::Kill { pid, task: None } => {
            kernel.call::<ProcCancel>(&ProcCancelParams { pid }).await.map(|Nothing {}| format!("process {pid} ended"))
        }
        TopAction::Pause { task } => {
            kernel.call::<SandboxPause>(&TaskIdParams { task }).await.map(|Nothing {}| told(task, "stands still; p has it go on"))
        }
        TopAction::Resume { task } => kernel.call::<SandboxResume>(&TaskIdParams { task }).await.map(|Nothing {}| told(task, "goes on")),
        TopAction::Quit | TopAction::Answer(_) | TopAction::Talk { .. } => Ok(String::new()),
    };
    Ok(done?)
}
