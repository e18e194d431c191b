//! `sandbox.run`: a command of the operator's, followed while it runs.
//!
//! **Invariant.** No more is held for a client than the queue of its connection and one piece for each stream: a client that is slow
//! makes the command slow. A client that hangs up ends the command.

use crate::connection::send;
use crate::method::{no, parse, raw};
use crate::view;
use kernel::{Ask, JobTerms, Kernel};
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
use wire::method::sandbox::{INPUT, Input, MORE, OUTPUT, Output, PIECE_BYTES_MAX, RESIZE, Run, RunParams, Size, Stream};
use wire::{Code, Method, Notification, Request, Response, RpcError, base64};

pub(crate) fn wanted(request: &Request) -> bool {
    request.method == Run::NAME
}

/// Is it a note for a command that runs?
pub(crate) fn heeds(note: &Notification) -> bool {
    [INPUT, RESIZE].contains(&note.method.as_str())
}

pub(crate) async fn run(kernel: &Arc<Kernel>, request: Request, out: &mpsc::Sender<String>, inbox: Option<mpsc::Receiver<Notification>>) {
    let outcome = match (parse::<Run>(request.params.as_deref()), inbox) {
        (Ok(params), Some(inbox)) => follow(kernel, params, out, inbox).await.and_then(|result| raw(&result)),
        (Err(error), _) => Err(error),
        (_, None) => Err(RpcError::new(Code::WrongState, "this connection follows a command already").fix("open another")),
    };
    send(out, Response { id: request.id, outcome }.text()).await;
}

async fn follow(
    kernel: &Arc<Kernel>,
    params: RunParams,
    out: &mpsc::Sender<String>,
    inbox: mpsc::Receiver<Notification>,
) -> Result<wire::method::call::RunResult, RpcError> {
    let broken = |error: io::Error| RpcError::new(Code::Internal, "the command's streams could not be made").why(error.to_string());
    let (gone, is_gone) = watch::channel(false);
    let (streams, ends) = open(&params).map_err(broken)?;
    let live = Arc::new(tool::Live { streams, gone: is_gone });
    let (path, discard) = (params.path.clone(), params.discard);
    let job = JobTerms { name: params.name.clone(), budget: params.budget.clone() };
    let ask = Ask { live: Some(live), discard, job, ..Ask::default() };
    let call = kernel.call(Path::new(&path), None, kernel::SANDBOX_RUN, input(params), ask);
    let (feed, pump): (_, futures::Pump) = match ends {
        Ends::Pipes { input, output, errors } => (Feed::Pipe(input), Box::pin(pump_pipes(output, errors, out.clone()))),
        Ends::Terminal(line) => {
            let (to_feed, feed) = oneshot::channel();
            (Feed::Terminal(feed), Box::pin(pump_line(line, to_feed, out.clone())))
        }
    };
    let hearing = tokio::spawn(hear(inbox, feed, out.clone(), gone));
    // When the call is over its ends of the streams are closed, and the pump comes to their end.
    let (ran, ()) = tokio::join!(call, pump);
    hearing.abort();
    ran.map(view::ran).map_err(no)
}

mod futures {
    pub(super) type Pump = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
}

fn input(params: RunParams) -> Value {
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

fn open(params: &RunParams) -> io::Result<(tool::Streams, Ends)> {
    if let Some(Size { rows, columns }) = params.terminal {
        let (line, ours) = tool::TerminalLine::new(sandbox::Window { rows, columns });
        return Ok((tool::Streams::Terminal(line), Ends::Terminal(ours)));
    }
    let pipe = || pipe_with(PipeFlags::CLOEXEC);
    let ((output, to_output), (errors, to_errors)) = (pipe()?, pipe()?);
    let (from_input, input) = if params.input { pipe().map(|(read, write)| (Some(read), Some(write)))? } else { (None, None) };
    Ok((tool::Streams::Pipes { input: from_input, output: to_output, errors: to_errors }, Ends::Pipes { input, output, errors }))
}

/// A size that the terminal refuses leaves it as it is.
fn set(line: &Option<OwnedFd>, size: Option<Size>) {
    if let (Some(line), Some(Size { rows, columns })) = (line, size) {
        let _ = rustix::termios::tcsetwinsize(line, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 });
    }
}

async fn pump_pipes(output: OwnedFd, errors: OwnedFd, out: mpsc::Sender<String>) {
    tokio::join!(pump(output, Stream::Out, &out), pump(errors, Stream::Err, &out));
}

/// Passes a stream on, piece by piece, until it ends or nobody listens.
async fn pump(from: OwnedFd, stream: Stream, out: &mpsc::Sender<String>) {
    let Ok(mut from) = pipe::Receiver::from_owned_fd(from) else { return };
    let mut buffer = vec![0; PIECE_BYTES_MAX];
    while let Ok(got @ 1..) = from.read(&mut buffer).await {
        if !send(out, piece(&buffer[..got], stream.clone())).await {
            return;
        }
    }
}

fn piece(bytes: &[u8], stream: Stream) -> String {
    note(OUTPUT, &Output { stream, data: base64::encode(bytes) })
}

fn note(method: &str, params: &impl serde::Serialize) -> String {
    Notification { method: method.to_owned(), params: raw(params).ok() }.text()
}

/// A terminal cannot be waited for together with others, so it has a thread of its own, which ends with the other side.
async fn pump_line(line: oneshot::Receiver<OwnedFd>, to_feed: oneshot::Sender<OwnedFd>, out: mpsc::Sender<String>) {
    // A call that never got so far as to start its job has none.
    let Ok(line) = line.await else { return };
    let Ok(copy) = line.try_clone() else { return };
    // Gone with the client.
    drop(to_feed.send(copy));
    let read = move || {
        let (mut line, mut buffer) = (File::from(line), vec![0; PIECE_BYTES_MAX]);
        while let Ok(got @ 1..) = line.read(&mut buffer) {
            if out.blocking_send(piece(&buffer[..got], Stream::Out)).is_err() {
                return;
            }
        }
    };
    let (done, ended) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        read();
        drop(done);
    });
    let _ = ended.await;
}

enum Feed {
    Pipe(Option<OwnedFd>),
    Terminal(oneshot::Receiver<OwnedFd>),
}

/// What the client says while the command runs, until it hangs up; that ends the command.
async fn hear(mut inbox: mpsc::Receiver<Notification>, feed: Feed, out: mpsc::Sender<String>, gone: watch::Sender<bool>) {
    let (mut pieces, mut opening) = match feed {
        Feed::Pipe(input) => (Some(writer(input, out.clone())), None),
        Feed::Terminal(line) => (None, Some(line)),
    };
    let (mut line, mut last_size) = (None, None);
    loop {
        let opened = async {
            match &mut opening {
                Some(line) => line.await.ok(),
                None => std::future::pending().await,
            }
        };
        let note = tokio::select! {
            note = inbox.recv() => note,
            opened = opened => {
                opening = None;
                pieces = opened.as_ref().map(|line: &OwnedFd| typist(line.try_clone().ok(), out.clone()));
                line = opened;
                set(&line, last_size);
                continue;
            }
        };
        let Some(note) = note else { break };
        let params = note.params.as_deref().map_or("{}", |params| params.get());
        if note.method == RESIZE {
            last_size = serde_json::from_str(params).ok();
            set(&line, last_size);
        } else if let Some(bytes) = serde_json::from_str::<Input>(params).ok().and_then(|input| base64::decode(&input.data)) {
            // A client has one piece under way at a time, and none before it was asked for one, so there is room for it.
            let _ = pieces.as_ref().map(|pieces| pieces.try_send(bytes));
        }
    }
    gone.send_replace(true);
}

/// Writes pieces to a pipe, and asks for the next after each. An empty one is the end.
fn writer(input: Option<OwnedFd>, out: mpsc::Sender<String>) -> mpsc::Sender<Vec<u8>> {
    let (pieces, mut queue) = mpsc::channel::<Vec<u8>>(1);
    tokio::spawn(async move {
        let Some(mut pipe) = input.and_then(|fd| pipe::Sender::from_owned_fd(fd).ok()) else { return };
        send(&out, note(MORE, &json!({}))).await;
        while let Some(bytes) = queue.recv().await.filter(|bytes| !bytes.is_empty()) {
            if pipe.write_all(&bytes).await.is_err() || !send(&out, note(MORE, &json!({}))).await {
                return;
            }
        }
    });
    pieces
}

/// The same for a terminal, on a thread of its own.
fn typist(line: Option<OwnedFd>, out: mpsc::Sender<String>) -> mpsc::Sender<Vec<u8>> {
    let (pieces, mut queue) = mpsc::channel::<Vec<u8>>(1);
    std::thread::spawn(move || {
        let Some(mut line) = line.map(File::from) else { return };
        let more = || out.blocking_send(note(MORE, &json!({}))).is_ok();
        let mut wanted = more();
        while wanted && let Some(bytes) = queue.blocking_recv() {
            wanted = line.write_all(&bytes).is_ok() && more();
        }
    });
    pieces
}
