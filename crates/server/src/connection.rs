//! One connection: frames in, answers out, in whatever order the work ends.
//!
//! The listener finds out who connected; the method table says what that principal may call, and what a hang-up does to it.

use crate::dispatch::{Caller, dispatch};
use crate::outbox::FrameOutbox;
use crate::responder::Responder;
use crate::{peer, sandbox_run};
use kernel::Kernel;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
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
pub(crate) async fn accept(
    listener: UnixListener,
    kernel: Arc<Kernel>,
    grpc: Arc<[String]>,
    stop: Arc<Notify>,
    closing: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (kernel, grpc, stop, closing) = (kernel.clone(), grpc.clone(), stop.clone(), closing.clone());
                tokio::spawn(async move {
                    serve(stream, kernel, grpc, stop, closing).await;
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

async fn serve(stream: UnixStream, kernel: Arc<Kernel>, grpc: Arc<[String]>, stop: Arc<Notify>, closing: watch::Receiver<bool>) {
    let principal = peer::operator(&stream);
    // Whoever comes finds the operator's files as they are now.
    if principal.is_ok() {
        kernel.refresh_settings().await;
    }
    let (reader, writer) = stream.into_split();
    match principal {
        Ok(principal) => {
            let caller = Caller { kernel, principal: Arc::new(principal), grpc, client_notes: Arc::default() };
            read_requests(reader, writer, caller, stop, closing).await;
        }
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

async fn read_requests(reader: OwnedReadHalf, writer: OwnedWriteHalf, caller: Caller, stop: Arc<Notify>, closing: watch::Receiver<bool>) {
    let (out, writing) = FrameOutbox::new(writer, OPEN_MAX);
    let writing = tokio::spawn(writing);
    // Notes of the client about a request that runs. Dropped with the connection, so that the request knows of the hang-up.
    let (notes, client_notes) = mpsc::channel(NOTES_MAX);
    *caller.client_notes.lock() = Some(client_notes);
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
                    out.send(&answer.text()).await;
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
                out.send(&malformed.answer().text()).await;
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
        let mut work = Box::pin(work);
        // Most requests wait for nothing. Those are over after one look, here, and wake no other thread.
        if poll_once(work.as_mut()).await.is_ready() {
            continue;
        }
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

/// Looks once whether the work is over. Whoever looks next is woken instead.
async fn poll_once<T>(mut work: Pin<&mut (impl Future<Output = T> + Send)>) -> Poll<T> {
    std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await
}

/// Answers one request: the table says whether the caller may, then the method's handler does the work.
async fn answer(caller: Caller, method: Option<MethodId>, request: RpcRequest, out: FrameOutbox, stop: &Notify) {
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
