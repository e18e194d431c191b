//! `sandbox.run`: a command of the operator's, followed while it runs.
//!
//! **Invariant.** No more is held for a client than the queue of its connection and one piece for each stream: a client that is slow
//! makes the command slow. A client that hangs up ends the command.

use crate::dispatch::Caller;
use crate::responder::NoteQueue;
use crate::rpc_error::rpc_error;
use crate::view;
use kernel::{CallOptions, JobTerms};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::termios::Winsize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot, watch};
use wire::method::Nothing;
use wire::method::call::CallRunResult;
use wire::method::sandbox::{
    INPUT, InputNote, MORE, OUTPUT, OutputNote, OutputStream, PIECE_BYTES_MAX, RESIZE, SandboxRunParams, TerminalSize,
};
use wire::method::talk::LEAVE;
use wire::method::watch::BEAT;
use wire::{ErrorCode, Notification, RpcError, base64};

/// Is it a note for a request that runs?
pub(crate) fn takes(note: &Notification) -> bool {
    [INPUT, RESIZE, LEAVE, BEAT].contains(&note.method.as_str())
}

pub(crate) async fn run(caller: &Caller, params: SandboxRunParams, notes: NoteQueue) -> Result<CallRunResult, RpcError> {
    let Some(client_notes) = caller.client_notes.lock().take() else {
        return Err(RpcError::new(ErrorCode::WrongState, "this connection runs a command already").fix("open another connection"));
    };
    let broken = |error: io::Error| RpcError::new(ErrorCode::Internal, "the command's streams could not be made").why(error.to_string());
    let (gone, is_gone) = watch::channel(false);
    let (streams, ends) = open(&params).map_err(broken)?;
    let live = Arc::new(tool::JobFollower { streams, gone: is_gone });
    let (path, discard) = (params.path.clone(), params.discard);
    let job = JobTerms { name: params.name.clone(), budget: params.budget.clone() };
    let ask = CallOptions { live: Some(live), discard, job, ..CallOptions::default() };
    let call = caller.kernel.call(Path::new(&path), None, kernel::SANDBOX_RUN, input(params), ask);
    let (source, copying): (_, Copying) = match ends {
        Ends::Pipes { input, output, errors } => (InputEnd::Pipe(input), Box::pin(copy_pipes(output, errors, notes.clone()))),
        Ends::Terminal(terminal) => {
            let (to_input, input) = oneshot::channel();
            (InputEnd::Terminal(input), Box::pin(copy_terminal(terminal, to_input, notes.clone())))
        }
    };
    let reading = tokio::spawn(async move {
        read_client(client_notes, source, notes, |_| {}).await;
        gone.send_replace(true);
    });
    // When the call is over its ends of the streams are closed, and the copying comes to their end.
    let (ran, ()) = tokio::join!(call, copying);
    reading.abort();
    ran.map(view::call_result).map_err(rpc_error)
}

type Copying = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

fn input(params: SandboxRunParams) -> Value {
    let mut input = json!({"command": params.command});
    if let Some(cwd) = params.cwd {
        input["cwd"] = cwd.into();
    }
    if let Some(template) = params.template {
        input["template"] = template.into();
    }
    if let Some(ms) = params.timeout_ms {
        input["timeout_ms"] = ms.into();
    }
    if params.terminal.is_some() {
        input["terminal"] = true.into();
    }
    input
}

/// Our ends of the streams.
enum Ends {
    Pipes {
        input: Option<OwnedFd>,
        output: OwnedFd,
        errors: OwnedFd,
    },
    /// Comes when the job has started.
    Terminal(oneshot::Receiver<OwnedFd>),
}

fn open(params: &SandboxRunParams) -> io::Result<(tool::Streams, Ends)> {
    if let Some(TerminalSize { rows, columns }) = params.terminal {
        let (line, ours) = tool::TerminalLine::new(sandbox::Window { rows, columns });
        return Ok((tool::Streams::Terminal(line), Ends::Terminal(ours)));
    }
    let pipe = || pipe_with(PipeFlags::CLOEXEC);
    let ((output, to_output), (errors, to_errors)) = (pipe()?, pipe()?);
    let (from_input, input) = if params.input { pipe().map(|(read, write)| (Some(read), Some(write)))? } else { (None, None) };
    Ok((tool::Streams::Pipes { input: from_input, output: to_output, errors: to_errors }, Ends::Pipes { input, output, errors }))
}

/// A size that the terminal refuses leaves it as it is.
fn resize(terminal: &Option<OwnedFd>, size: Option<TerminalSize>) {
    if let (Some(terminal), Some(TerminalSize { rows, columns })) = (terminal, size) {
        let _ = rustix::termios::tcsetwinsize(terminal, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 });
    }
}

async fn copy_pipes(output: OwnedFd, errors: OwnedFd, notes: NoteQueue) {
    tokio::join!(copy(output, OutputStream::Out, &notes), copy(errors, OutputStream::Err, &notes));
}

/// Passes a stream on, piece by piece, until it ends or nobody reads it.
async fn copy(from: OwnedFd, stream: OutputStream, notes: &NoteQueue) {
    let Ok(mut from) = pipe::Receiver::from_owned_fd(from) else { return };
    let mut buffer = vec![0; PIECE_BYTES_MAX];
    while let Ok(got @ 1..) = from.read(&mut buffer).await {
        if !notes.send(OUTPUT, &piece(&buffer[..got], stream)).await {
            return;
        }
    }
}

pub(crate) fn piece(bytes: &[u8], stream: OutputStream) -> OutputNote {
    OutputNote { stream, data: base64::encode(bytes) }
}

/// The same for a terminal. It cannot be waited for together with others, so it has a thread of its own, which ends with the command.
async fn copy_terminal(terminal: oneshot::Receiver<OwnedFd>, to_input: oneshot::Sender<OwnedFd>, notes: NoteQueue) {
    // A call that never got so far as to start its job has none.
    let Ok(terminal) = terminal.await else { return };
    let Ok(copy) = terminal.try_clone() else { return };
    // Gone with the client.
    drop(to_input.send(copy));
    let read = move || {
        let (mut terminal, mut buffer) = (File::from(terminal), vec![0; PIECE_BYTES_MAX]);
        while let Ok(got @ 1..) = terminal.read(&mut buffer) {
            if !notes.blocking_send(OUTPUT, &piece(&buffer[..got], OutputStream::Out)) {
                return;
            }
        }
    };
    let (done, ended) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        read();
        drop(done);
    });
    let _ = ended.await;
}

/// Where the client's input goes.
pub(crate) enum InputEnd {
    Pipe(Option<OwnedFd>),
    /// Comes when the job has started.
    Terminal(oneshot::Receiver<OwnedFd>),
}

/// Reads the client's notes while the command runs. The client's hang-up ends them, and the command; true where it said that it leaves.
/// `resized` hears of every size, also before there is a terminal.
pub(crate) async fn read_client(
    mut client_notes: mpsc::Receiver<Notification>,
    end: InputEnd,
    notes: NoteQueue,
    resized: impl Fn(TerminalSize),
) -> bool {
    let (mut pieces, mut opening) = match end {
        InputEnd::Pipe(input) => (Some(pipe_writer(input, notes.clone())), None),
        InputEnd::Terminal(terminal) => (None, Some(terminal)),
    };
    let (mut terminal, mut last_size) = (None, None);
    loop {
        let opened = async {
            match &mut opening {
                Some(terminal) => terminal.await.ok(),
                None => std::future::pending().await,
            }
        };
        let note = tokio::select! {
            note = client_notes.recv() => note,
            opened = opened => {
                opening = None;
                pieces = opened.as_ref().map(|terminal: &OwnedFd| terminal_writer(terminal.try_clone().ok(), notes.clone()));
                terminal = opened;
                resize(&terminal, last_size);
                continue;
            }
        };
        let Some(note) = note else { break };
        let params = note.params.as_deref().map_or("{}", |params| params.get());
        if note.method == RESIZE {
            last_size = serde_json::from_str(params).ok();
            last_size.into_iter().for_each(&resized);
            resize(&terminal, last_size);
        } else if note.method == LEAVE {
            return true;
        } else if let Some(bytes) = serde_json::from_str::<InputNote>(params).ok().and_then(|input| base64::decode(&input.data)) {
            // A client has one piece under way at a time, and none before it was asked for one, so there is room for it.
            let _ = pieces.as_ref().map(|pieces| pieces.try_send(bytes));
        }
    }
    false
}

/// Writes pieces to a pipe, and asks for the next after each. An empty one is the end.
fn pipe_writer(input: Option<OwnedFd>, notes: NoteQueue) -> mpsc::Sender<Vec<u8>> {
    let (pieces, mut queue) = mpsc::channel::<Vec<u8>>(1);
    tokio::spawn(async move {
        let Some(mut pipe) = input.and_then(|fd| pipe::Sender::from_owned_fd(fd).ok()) else { return };
        notes.send(MORE, &Nothing {}).await;
        while let Some(bytes) = queue.recv().await.filter(|bytes| !bytes.is_empty()) {
            if pipe.write_all(&bytes).await.is_err() || !notes.send(MORE, &Nothing {}).await {
                return;
            }
        }
    });
    pieces
}

/// The same for a terminal, on a thread of its own.
fn terminal_writer(terminal: Option<OwnedFd>, notes: NoteQueue) -> mpsc::Sender<Vec<u8>> {
    let (pieces, mut queue) = mpsc::channel::<Vec<u8>>(1);
    std::thread::spawn(move || {
        let Some(mut terminal) = terminal.map(File::from) else { return };
        let ask = || notes.blocking_send(MORE, &Nothing {});
        let mut wanted = ask();
        while wanted && let Some(bytes) = queue.blocking_recv() {
            wanted = terminal.write_all(&bytes).is_ok() && ask();
        }
    });
    pieces
}
