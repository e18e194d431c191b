//! `skep sandbox run` and `skep sandbox shell`: a command in a room, its streams yours.

use super::shell_terminal::{RawMode, VisibleOutput, watch_size};
use crate::command::budget;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, folder};
use crate::escape_filter::EscapeFilter;
use crate::remedy;
use crate::show::Line;
use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use tokio::sync::mpsc;
use wire::code::EXIT_FAILED;
use wire::method::call::{CallDecision, CallRunResult};
use wire::method::sandbox::{
    INPUT, InputNote, MORE, OUTPUT, OutputNote, OutputStream, PIECE_BYTES_MAX, RESIZE, SandboxRunParams, TerminalSize,
};
use wire::table::SandboxRun;
use wire::{ClientError, ErrorCode, NoteSender, ResponseStream, StreamItem, base64};

// No doc comment: it would stand in for the help of the commands that have these flags.
// The process that stands for the command: `skep ps` shows it, `skep usage` what it spent, `skep cancel` ends it.
#[derive(Debug, clap::Args)]
struct ProcessFlags {
    /// What its process is called [default: the program's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Dollars that it may spend on models
    #[arg(long, value_name = "DOLLARS", value_parser = budget::micros)]
    money: Option<u64>,
    /// Tokens that it may use, by tier or in all
    #[arg(long, value_name = "TIER=N", value_parser = budget::tokens)]
    tokens: Vec<(String, u64)>,
}

impl ProcessFlags {
    fn budget(self) -> Result<Option<wire::Budget>, CommandError> {
        let caps = wire::Budget { tokens: budget::by_tier(self.tokens)?, micros: self.money, ..wire::Budget::default() };
        Ok(Some(caps).filter(|caps| caps.micros.is_some() || !caps.tokens.is_empty()))
    }
}

/// Run a command in a sandbox over this project
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep sandbox run -- cargo test\n  skep sandbox run --template code-executor -- sh build.sh\n  \
cat data | skep sandbox run -- wc -c\n  skep sandbox run --discard -- npm test\n  skep sandbox run --template agent --money 2 -- claude -p hello\n\n\
What it changes waits for its merge, as with any task; --discard drops it. The exit code is the command's.\nOn a terminal the command has one of its own, as in `skep sandbox shell`; in a pipe it has pipes.")]
pub struct SandboxRunArgs {
    /// Sandbox template; see `skep sandbox templates` [default: default]
    #[arg(long, short, value_name = "NAME")]
    template: Option<String>,
    /// The repository [default: where you are]
    #[arg(long, value_name = "DIR")]
    zone: Option<PathBuf>,
    /// A folder of the project to run in
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Longest time it may take, such as 90s or 10m
    #[arg(long, value_name = "TIME", value_parser = crate::units::duration_ms)]
    timeout: Option<u64>,
    /// Drop what it changes
    #[arg(long)]
    discard: bool,
    #[command(flatten)]
    process: ProcessFlags,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Open a shell in a sandbox over this project
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep sandbox shell\n  skep sandbox shell --template code-executor\n  skep sandbox shell -- python3\n\n\
What you change in it waits for its merge, as with any task; --discard drops it."
)]
pub struct ShellArgs {
    /// Sandbox template; see `skep sandbox templates` [default: default]
    #[arg(long, short, value_name = "NAME")]
    template: Option<String>,
    /// The repository [default: where you are]
    #[arg(long, value_name = "DIR")]
    zone: Option<PathBuf>,
    /// Drop what you change
    #[arg(long)]
    discard: bool,
    #[command(flatten)]
    process: ProcessFlags,
    /// Another program than the shell, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl SandboxRunArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal() && !console.json;
        let params = SandboxRunParams {
            path: folder(self.zone.as_deref())?,
            command: self.command,
            cwd: self.cwd,
            template: self.template,
            timeout_ms: self.timeout,
            discard: self.discard,
            input: true,
            terminal: has_terminal.then(super::shell_terminal::size),
            name: self.process.name.clone(),
            budget: self.process.budget()?,
        };
        if has_terminal {
            return run_on_terminal(console, &params).await;
        }
        let (mut responses, mut notes) = console.kernel().await?.begin::<SandboxRun>(&params).await?;
        let mut input = pieces();
        let (mut out, mut err) = (VisibleOutput::new(io::stdout().is_terminal()), VisibleOutput::new(io::stderr().is_terminal()));
        // The kernel takes one piece at a time, and says when.
        let mut wanted = false;
        let result = loop {
            tokio::select! {
                said = responses.next() => match said.map_err(|error| left_behind(error, params.discard))? {
                    StreamItem::Note(note) if note.method == MORE => wanted = true,
                    StreamItem::Note(note) => {
                        if let Some((stream, bytes)) = output(&note) {
                            match stream {
                                OutputStream::Out => print(&mut io::stdout(), &out.pass(&bytes))?,
                                OutputStream::Err => print(&mut io::stderr(), &err.pass(&bytes))?,
                            }
                        }
                    }
                    StreamItem::Answer(result) => break result,
                },
                piece = input.recv(), if wanted => {
                    wanted = false;
                    // The command may be over already; then its answer is on its way.
                    let _ = notes.note(INPUT, &InputNote { data: base64::encode(&piece.unwrap_or_default()) }).await;
                }
            }
        };
        end(console, &result)
    }
}

impl ShellArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Err(CommandError::new(ErrorCode::BadInput, "a shell needs a terminal")
                .why("standard input or output is not one")
                .fix("use `skep sandbox run -- COMMAND`"));
        }
        let shell = || vec!["sh".to_owned(), "-c".to_owned(), "command -v bash >/dev/null && exec bash -i || exec sh -i".to_owned()];
        let params = SandboxRunParams {
            path: folder(self.zone.as_deref())?,
            command: if self.command.is_empty() { shell() } else { self.command },
            cwd: None,
            template: self.template,
            timeout_ms: None,
            discard: self.discard,
            input: true,
            terminal: Some(super::shell_terminal::size()),
            name: self.process.name.clone(),
            budget: self.process.budget()?,
        };
        run_on_terminal(console, &params).await
    }
}

/// Runs a command that has a terminal of its own, shown in ours.
async fn run_on_terminal(console: &Console, params: &SandboxRunParams) -> ExitResult {
    let broken = |error: io::Error| CommandError::new(ErrorCode::Internal, "the terminal cannot be used").why(error);
    let (mut responses, mut notes) = console.kernel().await?.begin::<SandboxRun>(params).await?;
    let raw = RawMode::enter().map_err(broken)?;
    let result = run_session(&mut responses, &mut notes, params.discard).await;
    drop(raw);
    end(console, &result?)
}

/// Keys go in and what the command draws comes out, until it ends.
async fn run_session(
    responses: &mut ResponseStream<SandboxRun>,
    notes: &mut NoteSender,
    discard: bool,
) -> Result<CallRunResult, CommandError> {
    let (mut keys, mut sizes) = (pieces(), watch_size());
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .map_err(|error| CommandError::new(ErrorCode::Internal, "cannot listen for signals").why(error))?;
    let mut sieve = EscapeFilter::default();
    let mut wanted = false;
    loop {
        tokio::select! {
            said = responses.next() => match said.map_err(|error| left_behind(error, discard))? {
                StreamItem::Note(note) if note.method == MORE => wanted = true,
                StreamItem::Note(note) => if let Some((_, bytes)) = output(&note) {
                    print(&mut io::stdout(), &sieve.pass(&bytes))?;
                },
                StreamItem::Answer(result) => return Ok(result),
            },
            piece = keys.recv(), if wanted => {
                wanted = false;
                let _ = notes.note(INPUT, &InputNote { data: base64::encode(&piece.unwrap_or_default()) }).await;
            }
            Some(size) = sizes.recv() => {
                let _ = notes.note(RESIZE, &TerminalSize { rows: size.rows, columns: size.columns }).await;
            }
            _ = terminate.recv() => return Err(CommandError::new(ErrorCode::Unavailable, "the command was left").why("SIGTERM")),
        }
    }
}

/// A kernel that dies under a command leaves what that wrote: to run it again at once is not the first thing to do.
fn left_behind(error: ClientError, discard: bool) -> CommandError {
    let is_gone = matches!(error, ClientError::Broken { .. });
    let error = CommandError::from(error);
    match (is_gone, discard) {
        (false, _) => error,
        (true, true) => error.fix("run the command again; what it wrote is dropped, as asked"),
        (true, false) => {
            error.fix("the next kernel keeps what it wrote: `skep list tasks` shows it; `run/kernel.log` in $SKEP_HOME says more")
        }
    }
}

/// What is typed or piped in, on a thread that nobody waits for. One piece at a time.
pub(crate) fn pieces() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut buffer = vec![0; PIECE_BYTES_MAX];
        while let Ok(got @ 1..) = io::stdin().lock().read(&mut buffer) {
            if sender.blocking_send(buffer[..got].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

pub(crate) fn output(note: &wire::Notification) -> Option<(OutputStream, Vec<u8>)> {
    let params = note.params.as_ref().filter(|_| note.method == OUTPUT)?;
    let output: OutputNote = serde_json::from_str(params.get()).ok()?;
    Some((output.stream, base64::decode(&output.data)?))
}

pub(crate) fn print(to: &mut impl Write, bytes: &[u8]) -> Result<(), CommandError> {
    match to.write_all(bytes).and_then(|()| to.flush()) {
        // Whoever read our output has enough; so has the command.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(i32::from(EXIT_FAILED)),
        Err(error) => Err(CommandError::new(ErrorCode::Internal, "the output cannot be written").why(error)),
        Ok(()) => Ok(()),
    }
}

/// Names in one line of what is gone.
const DROPPED_SHOWN: usize = 10;

/// Says what became of it; the exit code is the command's own, or 128 and the signal as in a shell.
fn end(console: &Console, result: &CallRunResult) -> ExitResult {
    if let Some(refusal) = &result.refusal {
        let what = if result.decision == CallDecision::Pending { "the command waits for a review" } else { "the command is refused" };
        return Err(CommandError::refused(what.to_owned(), refusal));
    }
    // A tool that refused says why; a job that was ended says what was wrong.
    if let Some(error) = ["reason", "error"].iter().find_map(|field| result.output[*field].as_str()) {
        console.note(Line::new().bad("✗ ").plain(error));
        // The words for those without a command line are in `hint`, so a remedy that this face has words for comes in their place.
        let known = serde_json::from_value(result.output["remedy"].clone()).ok().and_then(|remedy| remedy::fix(None, Some(&remedy)));
        if let Some(fix) = known.or_else(|| result.output["hint"].as_str().map(str::to_owned)) {
            let mut lines = fix.lines();
            console.note(Line::new().faint("  ↳ fix  ").plain(lines.next().unwrap_or_default()));
            lines.for_each(|line| console.note(Line::new().plain("         ").plain(line)));
        }
    }
    if let Some(task) = result.task {
        console.note(Line::new().name(task.to_string()).faint(format!("  its changes wait: `skep diff {task}`, `skep merge {task}`")));
    }
    if let Some(dropped) = &result.dropped {
        let shown = &dropped.paths[..dropped.paths.len().min(DROPPED_SHOWN)];
        let rest = match dropped.count - shown.len() as u64 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        console.note(Line::new().faint("dropped  ").plain(format!("{}{rest}", shown.join(", "))));
    }
    if console.json {
        console.err.json(result);
    }
    let code = result.output["exit_code"].as_u64().or_else(|| result.output["signal"].as_u64().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(EXIT_FAILED))
}
