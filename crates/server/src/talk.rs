//! `talk.open` and `talk.watch`: a brain's own terminal, relayed.
//!
//! Keys and sizes go the way of `sandbox.run`; what is drawn comes from the kernel's session, which others may read too. **Invariant.** A
//! talker that hangs up, by will or not, ends the talk, and its task is gone on with like any other.

use crate::dispatch::Caller;
use crate::responder::{NoteQueue, Responder};
use crate::rpc_error::rpc_error;
use crate::sandbox_run::{InputEnd, piece, read_client};
use kernel::{Kernel, NewTalk, TalkPosition, TalkRefused, TalkSession};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::method::Nothing;
use wire::method::sandbox::{OUTPUT, OutputStream, TerminalSize};
use wire::method::talk::{ENDED, QUEUED, STARTED, TalkOpenParams, TalkOpenResult, TalkQueuedNote, TalkWatchParams};
use wire::method::watch::BEAT_MS;
use wire::table::{TalkOpen, TalkWatch};
use wire::{ErrorCode, RpcError};
use world::Mode;

pub(crate) async fn open(caller: &Caller, params: TalkOpenParams, to: Responder, by: &str) {
    let ended = hold(caller, params, to.notes(), by).await;
    to.answer::<TalkOpen>(ended).await;
}

async fn hold(caller: &Caller, params: TalkOpenParams, notes: NoteQueue, by: &str) -> Result<TalkOpenResult, RpcError> {
    if params.mode == Mode::Call {
        return Err(RpcError::new(ErrorCode::BadInput, "a talk is `ask` or `act`"));
    }
    let Some(client_notes) = caller.client_notes.lock().take() else {
        return Err(RpcError::new(ErrorCode::WrongState, "this connection runs a command already").fix("open another connection"));
    };
    let kernel = &caller.kernel;
    let TalkOpenParams { path, mode, worker, brain, terminal } = params;
    let new = NewTalk { path: path.into(), worker, brain, mode, window: window(terminal) };
    let (seat, added) = kernel.talk(new).await.map_err(|refused| match refused {
        TalkRefused::Busy(refusal) => {
            let mut error = RpcError::new(ErrorCode::WorkerBusy, refusal.reason);
            error.data.hint = refusal.hint;
            error
        }
        TalkRefused::Stop(stop) => rpc_error(stop),
    })?;
    let session = seat.session.clone();
    notes.send(QUEUED, &TalkQueuedNote { task: added.task, worker: added.process, behind: added.behind }).await;
    let keyboard = session.keyboard().map_or(InputEnd::Pipe(None), InputEnd::Terminal);
    let sized = session.clone();
    let resized = move |size: TerminalSize| sized.resize(window(size));
    let (leaving, task_of_notes) = (session.clone(), notes.clone());
    let reading = tokio::spawn(async move {
        let is_wanted = read_client(client_notes, keyboard, task_of_notes, resized).await;
        leaving.leave(is_wanted);
    });
    show(&session, TalkPosition::talker(), &notes).await;
    if session.is_left() {
        kernel.drop_talk(&session, by).await;
    }
    notes.send(ENDED, &Nothing {}).await;
    reading.abort();
    let settled = kernel.tasks.settled(added.task).await;
    drop(seat);
    let task = settled.map_err(rpc_error)?;
    Ok(TalkOpenResult { task: task.id, state: task.state.into(), summary: task.summary })
}

/// Shows a talk that goes on, from its present screen to its end.
pub(crate) async fn watch(caller: &Caller, params: TalkWatchParams, to: Responder) {
    let notes = to.notes();
    let watched = match caller.kernel.talk_of(params.path.as_ref(), params.worker.as_deref()).await {
        Ok(session) => look_on(&caller.kernel, &session, &notes).await,
        Err(stop) => Err(rpc_error(stop)),
    };
    to.answer::<TalkWatch>(watched).await;
}

/// A watcher has a place among those of the worker, as long as it reads what it is shown.
async fn look_on(kernel: &Kernel, session: &Arc<TalkSession>, notes: &NoteQueue) -> Result<Nothing, RpcError> {
    let name = kernel.ledger.look(|world| crate::view::name_of(world, session.pid));
    let seat = kernel.watchers.join(Some(session.pid), &name, Instant::now()).map_err(RpcError::from)?;
    let beats = async {
        loop {
            tokio::time::sleep(Duration::from_millis(BEAT_MS)).await;
            if notes.has_room() {
                seat.keep_place(Instant::now());
            }
        }
    };
    tokio::select! {
        () = show(session, TalkPosition::watcher(), notes) => {}
        () = beats => {}
        () = seat.dropped() => return Err(RpcError::new(ErrorCode::Timeout, format!("watching {name} ended: nothing was read for a minute"))),
    }
    notes.send(ENDED, &Nothing {}).await;
    Ok(Nothing {})
}

/// Sends what is drawn until it is over or nobody reads it.
async fn show(session: &Arc<TalkSession>, mut position: TalkPosition, notes: &NoteQueue) {
    if !session.begun().await || !notes.send(STARTED, &Nothing {}).await {
        return;
    }
    while let Some(bytes) = session.next(&mut position).await {
        if !notes.send(OUTPUT, &piece(&bytes, OutputStream::Out)).await {
            return;
        }
    }
}

fn window(size: TerminalSize) -> sandbox::Window {
    sandbox::Window { rows: size.rows, columns: size.columns }
}
