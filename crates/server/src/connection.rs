//! One connection: frames in, answers out, in whatever order the work ends.

use crate::{follow, live, method, model, peer, trial};
use kernel::Kernel;
use policy::Peer;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;
use wire::{Message, Notification, Request, Response, RpcError, frame};
use world::Refusal;

/// Requests of one connection that are being worked on; more wait in the socket.
const OPEN_MAX: usize = 64;
/// Notes that wait to be heard: a piece of input, and a terminal that changes its size.
const NOTES_MAX: usize = 64;
/// Connections at once. A command has one; more than this is a loop.
const CONNECTIONS_MAX: usize = 512;

/// Accepts until the process ends. A failing accept (no descriptors left, say) is waited out.
pub(crate) async fn accept(listener: UnixListener, kernel: Arc<Kernel>, stop: Arc<Notify>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (kernel, stop) = (kernel.clone(), stop.clone());
                tokio::spawn(async move {
                    greet(stream, kernel, stop).await;
                    drop(place);
                });
            }
            Err(error) => {
                eprintln!("skep: a connection was not accepted: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn greet(stream: UnixStream, kernel: Arc<Kernel>, stop: Arc<Notify>) {
    let known = peer::check(&stream);
    let (reader, writer) = stream.into_split();
    match known {
        Ok(peer) => converse(reader, writer, Speaker { kernel, stop, peer: Arc::new(peer), inbox: Arc::default() }).await,
        Err(refusal) => turn_away(reader, writer, refusal).await,
    }
}

/// Hears one request out, because a peer that is still writing would not hear the answer, and refuses it.
async fn turn_away(mut reader: OwnedReadHalf, mut writer: OwnedWriteHalf, refusal: Refusal) {
    let heard = tokio::time::timeout(Duration::from_secs(1), frame::read(&mut reader)).await;
    let id = match heard {
        Ok(Ok(Some(text))) => match Message::parse(&text) {
            Ok(Message::Request(request)) => request.id,
            _ => wire::Id::Null,
        },
        _ => wire::Id::Null,
    };
    // The peer may be gone; it was refused either way.
    drop(frame::write(&mut writer, &Response { id, outcome: Err(RpcError::from(refusal)) }.text()).await);
}

/// Whom a connection speaks for, and to.
#[derive(Clone)]
struct Speaker {
    kernel: Arc<Kernel>,
    stop: Arc<Notify>,
    peer: Arc<Peer>,
    /// For the one request of a connection that listens while it runs.
    inbox: Arc<parking_lot::Mutex<Option<mpsc::Receiver<Notification>>>>,
}

async fn converse(mut reader: OwnedReadHalf, writer: OwnedWriteHalf, speaker: Speaker) {
    let (out, queue) = mpsc::channel(OPEN_MAX);
    // What a client says about a request that runs. Dropped with the connection, so that whoever hears it knows.
    let (notes, inbox) = mpsc::channel(NOTES_MAX);
    *speaker.inbox.lock() = Some(inbox);
    let pen = tokio::spawn(write_all(writer, queue));
    // What only looks ends with the connection; what acts goes on to its end, whoever still listens.
    let mut looking = JoinSet::new();
    let open = Arc::new(Semaphore::new(OPEN_MAX));
    loop {
        let text = match frame::read(&mut reader).await {
            Ok(Some(text)) => text,
            Ok(None) => break,
            Err(error) => {
                if let Some(answer) = error.answer() {
                    send(&out, answer.text()).await;
                }
                if error.ends_stream() {
                    break;
                }
                continue;
            }
        };
        let request = match Message::parse(&text) {
            Ok(Message::Request(request)) => request,
            Ok(Message::Notification(note)) => {
                // A client that does not wait to be asked for more is no client of ours.
                if live::heeds(&note) && notes.try_send(note).is_err() {
                    break;
                }
                continue;
            }
            // Nobody here asks questions, so an answer answers nothing.
            Ok(Message::Response(_)) => continue,
            Err(malformed) => {
                send(&out, malformed.answer().text()).await;
                continue;
            }
        };
        let Ok(place) = open.clone().acquire_owned().await else { break };
        let (speaker, out) = (speaker.clone(), out.clone());
        let looks = method::only_looks(&request.method);
        let work = async move {
            answer(&speaker, request, &out).await;
            drop(place);
        };
        if looks {
            looking.spawn(work);
        } else {
            tokio::spawn(work);
        }
        while looking.try_join_next().is_some() {}
    }
    looking.abort_all();
    drop((out, notes));
    // The pen ends when the last answer is written or the peer is gone.
    drop(pen.await);
}

async fn answer(speaker: &Speaker, request: Request, out: &mpsc::Sender<String>) {
    let Speaker { kernel, stop, peer, .. } = speaker;
    if live::wanted(&request) {
        let inbox = speaker.inbox.lock().take();
        return live::run(kernel, request, out, inbox).await;
    }
    if follow::wanted(&request) {
        return follow::run(kernel, request, out).await;
    }
    if model::opens(&request) {
        return model::open(kernel, request, out).await;
    }
    if trial::wanted(&request) {
        return trial::run(kernel, request, out).await;
    }
    let ends = method::ends_kernel(&request.method);
    let outcome = method::dispatch(kernel, peer, &request.method, request.params.as_deref()).await;
    let ends = ends && outcome.is_ok();
    send(out, Response { id: request.id, outcome }.text()).await;
    if ends {
        stop.notify_one();
    }
}

/// A peer that hung up is no error: the journal has what happened.
pub(crate) async fn send(out: &mpsc::Sender<String>, text: String) -> bool {
    out.send(text).await.is_ok()
}

async fn write_all(mut writer: OwnedWriteHalf, mut queue: mpsc::Receiver<String>) {
    while let Some(text) = queue.recv().await {
        let written = match frame::write(&mut writer, &text).await {
            Err(wire::FrameError::TooLong { bytes }) => {
                let error = RpcError::new(wire::Code::TooLarge, format!("the answer has {bytes} bytes, more than a frame holds"))
                    .fix("ask for less at a time");
                frame::write(&mut writer, &Response { id: wire::Id::Null, outcome: Err(error) }.text()).await
            }
            other => other,
        };
        if written.is_err() {
            return;
        }
    }
}
