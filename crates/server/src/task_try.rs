//! `task.try`: a command over a task's files. Its output as it comes, then its exit code.

use crate::responder::NoteQueue;
use crate::rpc_error::rpc_error;
use kernel::{Exit, Kernel, OutputPiece, TryRun};
use tokio::sync::mpsc;
use wire::method::sandbox::{OUTPUT, OutputNote, OutputStream};
use wire::method::task::{TaskTryParams, TaskTryResult};
use wire::{RpcError, base64};

/// Pieces of output on their way to a slow reader.
const PIECES: usize = 16;

pub(crate) async fn run(kernel: &Kernel, params: TaskTryParams, notes: &NoteQueue) -> Result<TaskTryResult, RpcError> {
    let ports = params.ports.iter().map(|port| (port.here.get(), port.there.get())).collect();
    let trial = TryRun { task: params.task, command: params.command, ports };
    let (output, mut pieces) = mpsc::channel::<OutputPiece>(PIECES);
    let send_output = async {
        while let Some(piece) = pieces.recv().await {
            let stream = if piece.is_error { OutputStream::Err } else { OutputStream::Out };
            if !notes.send(OUTPUT, &OutputNote { stream, data: base64::encode(&piece.bytes) }).await {
                return;
            }
        }
    };
    let (exit, ()) = tokio::join!(kernel.try_out(trial, output), send_output);
    Ok(match exit.map_err(rpc_error)? {
        Exit::Code(code) => TaskTryResult { code: Some(code), signal: None },
        Exit::Signal(signal) => TaskTryResult { code: None, signal: Some(signal) },
    })
}
