//! `skep talk`: a brain's own terminal, shown in yours.

mod keys;

use crate::command::sandbox::run::{output, pieces, print};
use crate::command::sandbox::shell_terminal::{RawMode, size, watch_size};
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::escape_filter::EscapeFilter;
use crate::place::{AbsentTree, PlaceArgs};
use crate::show::Line;
use keys::{DetachKeys, Typed};
use std::io::{self, IsTerminal};
use tokio::signal::unix::{SignalKind, signal};
use wire::Method;
use wire::code::EXIT_FAILED;
use wire::method::Nothing;
use wire::method::sandbox::{INPUT, InputNote, MORE, RESIZE, TerminalSize};
use wire::method::talk::{ENDED, LEAVE, QUEUED, STARTED, TalkOpenParams, TalkOpenResult, TalkQueuedNote, TalkWatchParams};
use wire::method::task::TaskStatus;
use wire::table::{TalkOpen, TalkWatch};
use wire::{ErrorCode, Mode, NoteSender, Notification, ResponseStream, StreamItem, base64};

/// Talk with a worker's brain on the brain's own terminal
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep talk\n  skep talk worker.2\n  skep talk --brain claude --ask\n  skep talk --watch      look on while somebody talks\n\n\
Ctrl-] d leaves; so does the brain's own way out, such as /exit. Ctrl-c goes to the brain.\n\
The worker does nothing else meanwhile, and goes on afterwards in the same conversation. What the talk \
changed waits for its merge, as with any task. The brain's own tools ask the policy by its hooks; where it runs none, the record says `ungated`."
)]
pub struct TalkArgs {
    /// The worker: [role][.n][@brain], such as worker.2 [default: the project's first]
    worker: Option<String>,
    /// The same as an option
    #[arg(long, value_name = "WORKER", conflicts_with = "worker")]
    who: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
    /// Another brain than the worker's
    #[arg(long, value_name = "BRAIN", conflicts_with = "watch")]
    brain: Option<String>,
    /// Nothing that it changes is merged
    #[arg(long, conflicts_with = "watch")]
    ask: bool,
    /// Only look on
    #[arg(long)]
    watch: bool,
}

impl TalkArgs {
    /// With this worker of the repository at a path.
    pub fn with_worker(path: String, worker: String, mode: Mode) -> TalkArgs {
        let (place, who, ask) = (PlaceArgs::at(path), Some(worker), mode == Mode::Ask);
        TalkArgs { worker: None, who, place, brain: None, ask, watch: false }
    }

    pub async fn run(self, console: &Console) -> ExitResult {
        check_terminal()?;
        let (path, worker) = (self.place.folder(console, AbsentTree::Refuse).await?, self.worker.or(self.who));
        if self.watch {
            let (responses, notes) = console.kernel().await?.begin::<TalkWatch>(&TalkWatchParams { path, worker }).await?;
            let mut screen = TalkScreen::new(console, notes, true);
            let ended = screen.run(responses).await;
            screen.restore();
            ended?;
            return OK;
        }
        let mode = if self.ask { Mode::Ask } else { Mode::Act };
        let params = TalkOpenParams { path, mode, worker, brain: self.brain, terminal: size() };
        let (responses, notes) = console.kernel().await?.begin::<TalkOpen>(&params).await?;
        let mut screen = TalkScreen::new(console, notes, false);
        let ended = screen.run(responses).await;
        screen.restore();
        match ended? {
            Some(result) => Ok(end(console, &result)),
            None => OK,
        }
    }
}

/// Refuses a talk that nobody could read or type.
pub fn check_terminal() -> Result<(), CommandError> {
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        return Ok(());
    }
    Err(CommandError::new(ErrorCode::BadInput, "a talk needs a terminal")
        .why("standard input or output is not one")
        .fix("use `skep act` and `skep say`"))
}

/// Says what became of it.
fn end(console: &Console, result: &TalkOpenResult) -> u8 {
    if console.json {
        console.err.json(result);
    }
    let task = result.task;
    let said = result.summary.as_deref().unwrap_or_default();
    match result.state {
        TaskStatus::Parked => {
            console.note(Line::new().name(task.to_string()).faint(format!("  its changes wait: `skep diff {task}`, `skep merge {task}`")));
            0
        }
        TaskStatus::Failed | TaskStatus::Stopped => {
            console.note(Line::new().bad("✗ ").name(task.to_string()).plain("  ").plain(said));
            EXIT_FAILED
        }
        _ => {
            console.note(Line::new().name(task.to_string()).faint("  nothing waits for a merge"));
            0
        }
    }
}

/// Has the cursor go down to the last row.
const BOTTOM: &[u8] = b"\x1b[999B";

/// A person's terminal while a talk has it.
struct TalkScreen<'a> {
    console: &'a Console,
    notes: NoteSender,
    only_watches: bool,
    filter: EscapeFilter,
    /// While the brain has the terminal.
    raw: Option<RawMode>,
    /// The kernel takes another piece of input.
    wanted: bool,
    /// All that was drawn has been shown, and the cursor stands below it.
    is_over: bool,
}

impl<'a> TalkScreen<'a> {
    fn new(console: &'a Console, notes: NoteSender, only_watches: bool) -> TalkScreen<'a> {
        TalkScreen { console, notes, only_watches, filter: EscapeFilter::default(), raw: None, wanted: false, is_over: false }
    }

    /// Keys go in and what the brain draws comes out, until the answer; `None` where a watcher left.
    async fn run<M: Method>(&mut self, mut responses: ResponseStream<M>) -> Result<Option<M::Result>, CommandError> {
        let signals = |kind| signal(kind).map_err(|error| CommandError::new(ErrorCode::Internal, "cannot listen for signals").why(error));
        let (mut terminate, mut hang_up) = (signals(SignalKind::terminate())?, signals(SignalKind::hangup())?);
        let (mut typed, mut sizes) = (None, watch_size());
        let mut detach = DetachKeys::default();
        loop {
            let next_key = async {
                match &mut typed {
                    Some(typed) => tokio::sync::mpsc::Receiver::<Vec<u8>>::recv(typed).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                said = responses.next() => match said? {
                    StreamItem::Note(note) => {
                        self.take(&note)?;
                        // Before it begins, ctrl-c is the terminal's own.
                        if self.raw.is_some() && typed.is_none() {
                            typed = Some(pieces());
                        }
                    }
                    StreamItem::Answer(result) => return Ok(Some(result)),
                },
                piece = next_key, if self.raw.is_some() && (self.wanted || self.only_watches) => {
                    // A keyboard that is gone leaves too.
                    let Typed { bytes, leaves } = piece.map_or(Typed { bytes: Vec::new(), leaves: true }, |piece| detach.pass(&piece));
                    if self.only_watches {
                        if leaves || bytes.contains(&keys::INTERRUPT) {
                            return Ok(None);
                        }
                        continue;
                    }
                    if !bytes.is_empty() {
                        self.wanted = false;
                        let _ = self.notes.note(INPUT, &InputNote { data: base64::encode(&bytes) }).await;
                    }
                    if leaves {
                        self.wanted = false;
                        let _ = self.notes.note(LEAVE, &Nothing {}).await;
                    }
                }
                Some(TerminalSize { rows, columns }) = sizes.recv(), if !self.only_watches => {
                    let _ = self.notes.note(RESIZE, &TerminalSize { rows, columns }).await;
                }
                _ = terminate.recv() => return Err(ended_by_signal("SIGTERM")),
                _ = hang_up.recv() => return Err(ended_by_signal("SIGHUP")),
            }
        }
    }

    fn take(&mut self, note: &Notification) -> Result<(), CommandError> {
        match note.method.as_str() {
            MORE => self.wanted = true,
            QUEUED => {
                let Some(queued) = note.params.as_ref().and_then(|params| serde_json::from_str::<TalkQueuedNote>(params.get()).ok()) else {
                    return Ok(());
                };
                let line = Line::new().name("talk ").strong(&queued.worker).faint(format!("  {}  ctrl-] d leaves", queued.task));
                self.console.note(match queued.behind {
                    Some(first) => line.wait(format!("  it ends {first} first; ctrl-c gives up")),
                    None => line,
                });
            }
            STARTED if self.raw.is_none() => {
                let broken = |error: io::Error| CommandError::new(ErrorCode::Internal, "the terminal cannot be used").why(error);
                self.raw = Some(RawMode::enter().map_err(broken)?);
            }
            ENDED => {
                self.is_over = true;
                self.restore();
            }
            _ => {
                if let Some((_, bytes)) = output(note) {
                    print(&mut io::stdout(), &self.filter.pass(&bytes))?;
                }
            }
        }
        Ok(())
    }

    /// Gives the terminal back as it was. What it still answers to the brain is not for the shell.
    fn restore(&mut self) {
        let Some(raw) = self.raw.take() else { return };
        let modes = self.filter.modes();
        let mut codes = modes.restore();
        // Where the cursor was left, the brain may have drawn below it.
        if !self.is_over && !modes.is_on_other_screen() {
            codes.extend(BOTTOM);
        }
        codes.extend(b"\r\n");
        // A terminal that has gone needs nothing.
        let _ = print(&mut io::stdout(), &codes);
        let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
        drop(raw);
    }
}

impl Drop for TalkScreen<'_> {
    fn drop(&mut self) {
        self.restore();
    }
}

fn ended_by_signal(why: &str) -> CommandError {
    CommandError::new(ErrorCode::Unavailable, "the talk was left").why(why).fix("`skep talk` goes on in the same conversation")
}
