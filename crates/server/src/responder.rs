//! What goes back to the client of one request: notes, and one answer.

use crate::outbox::FrameOutbox;
use crate::rpc_error::unwritable;
use serde::Serialize;
use serde_json::value::RawValue;
use wire::{Method, Notification, RpcError, RpcId, RpcResponse};

/// Sends notes of one connection. Each waits while the connection's queue is full, so a slow client makes its request slow.
#[derive(Clone)]
pub(crate) struct NoteQueue {
    out: FrameOutbox,
}

impl NoteQueue {
    /// False when the client has hung up.
    pub(crate) async fn send(&self, method: &str, params: &impl Serialize) -> bool {
        match note(method, params) {
            Ok(text) => self.out.send(&text).await,
            Err(_) => false,
        }
    }

    /// Does the client read what it is sent?
    pub(crate) fn has_room(&self) -> bool {
        self.out.has_room()
    }

    /// The stream of notes cannot go on: an error that answers no request.
    pub(crate) async fn fail(&self, error: RpcError) {
        self.out.send(&RpcResponse { id: RpcId::Null, outcome: Err(error) }.text()).await;
    }

    /// The same as [`NoteQueue::send`], on a thread that may block.
    pub(crate) fn blocking_send(&self, method: &str, params: &impl Serialize) -> bool {
        note(method, params).is_ok_and(|text| self.out.blocking_send(&text))
    }
}

fn note(method: &str, params: &impl Serialize) -> Result<String, RpcError> {
    Ok(Notification { method: method.to_owned(), params: Some(raw(params)?) }.text())
}

/// Answers one request. A client that hung up is no error: the journal has what happened.
pub(crate) struct Responder {
    id: RpcId,
    out: FrameOutbox,
}

impl Responder {
    pub(crate) fn new(id: RpcId, out: FrameOutbox) -> Responder {
        Responder { id, out }
    }

    pub(crate) fn notes(&self) -> NoteQueue {
        NoteQueue { out: self.out.clone() }
    }

    pub(crate) async fn answer<M: Method>(self, result: Result<M::Result, RpcError>) {
        self.send(result.and_then(|result| raw(&result))).await;
    }

    pub(crate) async fn refuse(self, error: RpcError) {
        self.send(Err(error)).await;
    }

    async fn send(self, outcome: Result<Box<RawValue>, RpcError>) {
        self.out.send(&RpcResponse { id: self.id, outcome }.text()).await;
    }
}

fn raw(value: &impl Serialize) -> Result<Box<RawValue>, RpcError> {
    serde_json::value::to_raw_value(value).map_err(unwritable)
}
