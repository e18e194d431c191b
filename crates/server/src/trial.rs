//! `task.try`: output as it comes, then the exit code. It ends with the connection.

use crate::connection::send;
use crate::method::{no, parse, raw};
use kernel::{Kernel, Trial};
use std::sync::Arc;
use tokio::sync::mpsc;
use wire::method::sandbox::{OUTPUT, Output, Stream};
use wire::method::task::{Try, TryResult};
use wire::{Method, Notification, Request, Response, RpcError, base64};

/// Pieces of output on their way to a slow reader.
const PIECES: usize = 16;

pub(crate) fn wanted(request: &Request) -> bool {
    request.method == Try::NAME
}

pub(crate) async fn run(kernel: &Arc<Kernel>, request: Request, out: &mpsc::Sender<String>) {
    let outcome = tried(kernel, &request, out).await.and_then(|result| raw(&result));
    send(out, Response { id: request.id, outcome }.text()).await;
}

async fn tried(kernel: &Kernel, request: &Request, out: &mpsc::Sender<String>) -> Result<TryResult, RpcError> {
    let params = parse::<Try>(request.params.as_deref())?;
    let ports = params.ports.iter().map(|port| (port.here.get(), port.there.get())).collect();
    let trial = Trial { task: params.task, command: params.command, ports };
    let (told, mut pieces) = mpsc::channel::<kernel::Piece>(PIECES);
    let show = async {
        while let Some(piece) = pieces.recv().await {
            let stream = if piece.is_error { Stream::Err } else { Stream::Out };
            let Ok(params) = raw(&Output { stream, data: base64::encode(&piece.bytes) }) else { return };
            if !send(out, Notification { method: OUTPUT.to_owned(), params: Some(params) }.text()).await {
                return;
            }
        }
    };
    let (exit, ()) = tokio::join!(kernel.try_out(trial, told), show);
    Ok(match exit.map_err(no)? {
        kernel::Exit::Code(code) => TryResult { code: Some(code), signal: None },
        kernel::Exit::Signal(signal) => TryResult { code: None, signal: Some(signal) },
    })
}
