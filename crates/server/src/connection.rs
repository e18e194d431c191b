//! One connection: frames in, answers out, in whatever order the work ends.
//!
//! The listener finds out who connected; the method table says what that principal may call, and what a hang-up does to it.

use crate::dispatch::{Caller, dispatch};
use crate::responder::Responder;
use crate::{peer, sandbox_run};
use kernel::Kernel;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use wire::table::{self, Effect, HangUp, MethodCall, MethodId};
use wire::{ErrorCode, Message, RpcError, RpcRequest, RpcResponse, frame};
use world::Refusal;

/// Requests of one connection that are being worked on; more wait in the socket.
const OPEN_MAX: usize = 64;
/// Notes of a client that its running request has not read yet.
const NOTES_MAX: usize = 64;
/// Connections at once. A command has one; more than this is a loop.
const CONNECTIONS_MAX: usize = 512;

/// Accepts until the process ends. A failing accept (no descriptors left, say) is waited out. Once `closing` is true, connections read no more
/// and end with their last answer.
pub(crate) async fn accept(listener: UnixListener, kernel: Arc<Kernel>, stop: Arc<Notify>, closing: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (kernel, stop, closing) = (kernel.clone(), stop.clone(), closing.clone());
                tokio::spawn(async move {
                    serve(stream, kernel, stop, closing).await;
                    drop(place);
                });
            }
            Err(error) => {
                world::log!("skep: a connection was not accepted: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn serve(stream: UnixStream, kernel: Arc<Kernel>, stop: Arc<Notify>, closing: watch::Receiver<bool>) {
    let principal = peer::operator(&stream);
    // Whoever comes finds the operator's files as they are now.
    if principal.is_ok() {
        kernel.refresh_settings().await;
    }
    let (reader, writer) = stream.into_split();
    match principal {
        Ok(principal) => read_requests(reader, writer, kernel, stop, closing, Arc::new(principal)).await,
        Err(refusal) => turn_away(reader, writer, refusal).await,
    }
}

/// Reads one request, because a peer that is still writing would not read the answer, and refuses it.
async fn turn_away(mut reader: OwnedReadHalf, mut writer: OwnedWriteHalf, refusal: Refusal) {
    let read = tokio::time::timeout(Duration::from_secs(1), frame::read(&mut reader)).await;
    let id = match read {
        Ok(Ok(Some(text))) => match Message::parse(&text) {
            Ok(Message::Request(request)) => request.id,
            _ => wire::RpcId::Null,
        },
        _ => wire::RpcId::Null,
    };
    // The peer may be gone; it was refused either way.
    drop(frame::write(&mut writer, &RpcResponse { id, outcome: Err(RpcError::from(refusal)) }.text()).await);
}

async fn read_requests(
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    kernel: Arc<Kernel>,
    stop: Arc<Notify>,
    closing: watch::Receiver<bool>,
    principal: Arc<wire::Principal>,
) {
    let (out, queue) = mpsc::channel(OPEN_MAX);
    // Notes of the client about a request that runs. Dropped with the connection, so that the request knows of the hang-up.
    let (notes, client_notes) = mpsc::channel(NOTES_MAX);
    let caller = Caller { kernel, principal, client_notes: Arc::new(parking_lot::Mutex::new(Some(client_notes))) };
    let writing = tokio::spawn(write_all(writer, queue));
    let mut dropped_on_hang_up = JoinSet::new();
    let open = Arc::new(Semaphore::new(OPEN_MAX));
    let mut closing = Some(closing);
    let mut frames = frame::Frames::new(reader);
    loop {
        let read = tokio::select! {
            read = frames.next() => read,
            () = closed(closing.as_mut()) => break,
        };
        let text = match read {
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
                // A client that sends more than it was asked for is none of ours.
                if sandbox_run::takes(&note) && notes.try_send(note).is_err() {
                    break;
                }
                continue;
            }
            // The kernel sends no requests, so there is nothing to answer.
            Ok(Message::Response(_)) => continue,
            Err(malformed) => {
                send(&out, malformed.answer().text()).await;
                continue;
            }
        };
        let Ok(place) = open.clone().acquire_owned().await else { break };
        let method = MethodId::from_name(&request.method);
        if method.is_some_and(|method| method.row().effect == Effect::EndsKernel) {
            // Whoever stops the kernel waits for its very end, which is the end of the stream.
            closing = None;
        }
        let (caller, out, stop) = (caller.clone(), out.clone(), stop.clone());
        let work = async move {
            answer(caller, method, request, out, &stop).await;
            drop(place);
        };
        match method.map(|method| method.row().hang_up) {
            Some(HangUp::Drops) => drop(dropped_on_hang_up.spawn(work)),
            Some(HangUp::Finishes) | None => drop(tokio::spawn(work)),
        }
        while dropped_on_hang_up.try_join_next().is_some() {}
    }
    dropped_on_hang_up.abort_all();
    drop((out, notes));
    // Ends when the last answer is written or the peer is gone.
    drop(writing.await);
}

/// Comes back when connections are to end; never where that is not waited for.
async fn closed(closing: Option<&mut watch::Receiver<bool>>) {
    match closing {
        // Without a sender the kernel is gone already.
        Some(closing) => drop(closing.wait_for(|closing| *closing).await),
        None => std::future::pending().await,
    }
}

/// Answers one request: the table says whether the caller may, then the method's handler does the work.
async fn answer(caller: Caller, method: Option<MethodId>, request: RpcRequest, out: mpsc::Sender<String>, stop: &Notify) {
    let responder = Responder::new(request.id, out);
    let Some(method) = method else {
        let error = RpcError::new(ErrorCode::UnknownMethod, format!("there is no method `{}`", request.method));
        return responder.refuse(error.fix("use a skep of the kernel's version")).await;
    };
    if let Err(refusal) = table::allows(&caller.principal, method) {
        return responder.refuse(refusal.into()).await;
    }
    match MethodCall::parse(method, request.params.as_deref()) {
        Ok(call) => dispatch(call, &caller, responder).await,
        Err(error) => return responder.refuse(error).await,
    }
    if method.row().effect == Effect::EndsKernel {
        stop.notify_one();
    }
}

/// A peer that hung up is no error: the journal has what happened.
async fn send(out: &mpsc::Sender<String>, text: String) {
    let _ = out.send(text).await;
}

async fn write_all(mut writer: OwnedWriteHalf, mut queue: mpsc::Receiver<String>) {
    while let Some(text) = queue.recv().await {
        let written = match frame::write(&mut writer, &text).await {
            Err(wire::FrameError::TooLong { bytes }) => {
                let error = RpcError::new(ErrorCode::TooLarge, format!("the answer has {bytes} bytes, more than a frame holds"))
                    .fix("ask for less at a time");
                frame::write(&mut writer, &RpcResponse { id: wire::RpcId::Null, outcome: Err(error) }.text()).await
            }
            other => other,
        };
        if written.is_err() {
            return;
        }
    }
}
