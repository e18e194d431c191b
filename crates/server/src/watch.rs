//! `proc.watch`: the recent past of a worker, then its records as they become durable.
//!
//! **Invariant.** Whoever watches has a place among the worker's watchers, and loses it with its connection or its silence.

use crate::dispatch::Caller;
use crate::records::filter;
use crate::responder::{NoteQueue, Responder};
use crate::rpc_error::{fault_error, rpc_error};
use kernel::Kernel;
use report::WatchSeat;
use std::path::Path;
use std::time::Instant;
use wire::method::Nothing;
use wire::method::journal::{RECORD, RecordFilter, RecordNote};
use wire::method::watch::{BEAT, LIVE, ProcWatchParams};
use wire::table::ProcWatch;
use wire::{ErrorCode, RpcError};
use world::Pid;

/// Records that are read at a time, and of the past at most.
const PAGE_RECORDS: u64 = 256;
const PAST_MAX: u64 = 1_000;

pub(crate) async fn run(caller: &Caller, params: ProcWatchParams, to: Responder) {
    let ended = watch(caller, params, &to).await;
    to.answer::<ProcWatch>(ended).await;
}

/// Whom to look at, by pid and by name; all without one.
async fn whom(kernel: &Kernel, params: &ProcWatchParams) -> Result<(Option<Pid>, String), RpcError> {
    if let Some(id) = params.task {
        let pid = kernel.ledger.task(id).map_err(rpc_error)?.pid;
        return Ok((Some(pid), kernel.ledger.look(|world| crate::view::name_of(world, pid))));
    }
    let Some(worker) = &params.worker else { return Ok((None, "everything".to_owned())) };
    let Some(path) = &params.path else {
        return Err(RpcError::new(ErrorCode::BadInput, "a worker is named together with a folder of its repository"));
    };
    let pid = kernel.find_worker(Path::new(path), worker).await.map_err(rpc_error)?;
    Ok((Some(pid), kernel.ledger.look(|world| crate::view::name_of(world, pid))))
}

async fn watch(caller: &Caller, params: ProcWatchParams, to: &Responder) -> Result<Nothing, RpcError> {
    let kernel = &caller.kernel;
    let (pid, name) = whom(kernel, &params).await?;
    let Some(mut client_notes) = caller.client_notes.lock().take() else {
        return Err(RpcError::new(ErrorCode::WrongState, "this connection runs a command already").fix("open another connection"));
    };
    let seat: WatchSeat = kernel.watchers.join(pid, &name, Instant::now()).map_err(RpcError::from)?;
    let beats = async {
        while let Some(note) = client_notes.recv().await {
            if note.method == BEAT {
                seat.keep_place(Instant::now());
            }
        }
    };
    let wanted = RecordFilter { pid: pid.filter(|_| params.task.is_none()), task: params.task, ..RecordFilter::default() };
    let notes = to.notes();
    // A client that reads nothing holds up what it is told, and is heard all the same.
    tokio::select! {
        told = tell(kernel, &wanted, &params, &notes) => told.map(|()| Nothing {}),
        () = beats => Ok(Nothing {}),
        () = seat.dropped() => {
            Err(RpcError::new(ErrorCode::Timeout, format!("watching {name} ended: nothing was heard from here for a minute")))
        }
    }
}

/// Sends the past and then what comes, until nobody reads it.
async fn tell(kernel: &Kernel, wanted: &RecordFilter, params: &ProcWatchParams, notes: &NoteQueue) -> Result<(), RpcError> {
    let journal = kernel.ledger.journal();
    let mut changed = journal.follow();
    let head = journal.head();
    // An empty chain has no record to begin behind.
    let mut after = params.after_seq.or((head.count > 0).then_some(head.seq));
    if params.after_seq.is_none() && params.past > 0 && head.count > 0 {
        let mut past = filter(wanted);
        (past.reverse, past.before_seq, past.limit) = (true, head.seq.checked_add(1), Some(params.past.min(PAST_MAX)));
        for record in kernel.ledger.read(&past).map_err(fault_error)?.into_iter().rev() {
            if !notes.send(RECORD, &RecordNote { line: record.line }).await {
                return Ok(());
            }
        }
    }
    if !notes.send(LIVE, &Nothing {}).await {
        return Ok(());
    }
    loop {
        let mut page = filter(wanted);
        (page.after_seq, page.limit) = (after, Some(PAGE_RECORDS));
        let records = kernel.ledger.read(&page).map_err(fault_error)?;
        let is_full = records.len() as u64 == PAGE_RECORDS;
        for record in records {
            after = Some(record.seq);
            if !notes.send(RECORD, &RecordNote { line: record.line }).await {
                return Ok(());
            }
        }
        if !is_full && changed.changed().await.is_err() {
            return Ok(());
        }
    }
}
