//! The journal for clients: pages of it, records as they become durable, and how its checks went.

use crate::responder::Responder;
use crate::rpc_error::{fault_error, rpc_error};
use kernel::Kernel;
use std::sync::Arc;
use wire::method::Nothing;
use wire::method::journal::{
    DoubtView, FindingView, JournalDoubtsResult, JournalForgetParams, JournalForgetResult, JournalReadResult, JournalVerifyResult, RECORD,
    RecordFilter, RecordNote, VerificationStatus,
};
use wire::method::kernel::{CrashView, KernelNoticesResult, SettingsView};
use wire::table::JournalFollow;
use wire::{CommitFacts, CommitReport, ErrorCode, Method, RpcError};

/// Bytes of lines in one page of the journal: a frame holds sixteen times as much.
const PAGE_BYTES: usize = 1024 * 1024;
const PAGE_RECORDS: u64 = 1_000;
/// Records that `journal.follow` reads at a time.
const FOLLOW_RECORDS: u64 = 256;

pub(crate) fn read(kernel: &Kernel, wanted: &RecordFilter) -> Result<JournalReadResult, RpcError> {
    kernel.tasks.counted.read_up_to(wanted.after_seq.unwrap_or_default());
    let found = kernel.ledger.read(&filter(wanted)).map_err(fault_error)?;
    let mut bytes = 0;
    let lines = found.into_iter().map(|record| record.line).take_while(|line| {
        let first = bytes == 0;
        bytes += line.len();
        first || bytes <= PAGE_BYTES
    });
    Ok(JournalReadResult { records: lines.collect() })
}

pub(crate) fn filter(filter: &RecordFilter) -> journal::Filter {
    journal::Filter {
        after_seq: filter.after_seq,
        before_seq: filter.before_seq,
        limit: Some(filter.limit.unwrap_or(PAGE_RECORDS).min(PAGE_RECORDS)),
        pid: filter.pid.map(|pid| pid.0),
        task: filter.task.map(|task| task.to_string()),
        kinds: filter.kinds.clone(),
        session: filter.session.clone(),
        since_ms: filter.since_ms,
        until_ms: filter.until_ms,
        reverse: filter.reverse,
        scans: false,
    }
}

pub(crate) async fn follow(kernel: &Kernel, wanted: RecordFilter, responder: Responder) {
    stream::<JournalFollow>(kernel, wanted, responder).await;
}

/// Answers, then sends records as they become durable, until the client hangs up.
pub(crate) async fn stream<M: Method<Result = Nothing>>(kernel: &Kernel, mut wanted: RecordFilter, responder: Responder) {
    let notes = responder.notes();
    responder.answer::<M>(Ok(Nothing {})).await;
    let journal = kernel.ledger.journal();
    let mut changed = journal.follow();
    let mut after = wanted.after_seq.take();
    if after.is_none() {
        let head = journal.head();
        after = (head.count > 0).then_some(head.seq);
    }
    loop {
        let mut page = filter(&wanted);
        page.after_seq = after;
        page.limit = Some(FOLLOW_RECORDS);
        page.reverse = false;
        let records = match kernel.ledger.read(&page) {
            Ok(records) => records,
            Err(fault) => return notes.fail(fault_error(fault)).await,
        };
        let is_full = records.len() as u64 == FOLLOW_RECORDS;
        for record in records {
            after = Some(record.seq);
            if !notes.send(RECORD, &RecordNote { line: record.line }).await {
                return;
            }
        }
        if !is_full && changed.changed().await.is_err() {
            return;
        }
    }
}

/// Checks the whole journal, on a thread of its own.
pub(crate) async fn verify(kernel: &Arc<Kernel>) -> Result<JournalVerifyResult, RpcError> {
    let kernel = kernel.clone();
    let report = tokio::task::spawn_blocking(move || kernel.tasks.counted.verify_journal(&kernel.ledger)).await;
    let report = report.map_err(|error| RpcError::new(ErrorCode::Internal, "verification did not end").why(error.to_string()))?;
    report.map(report_view).map_err(|error| RpcError::new(ErrorCode::Internal, "the journal cannot be read").why(error.to_string()))
}

/// Holds a commit against the journal, which is checked as a whole first, on a thread of its own.
pub(crate) async fn verify_commit(kernel: &Arc<Kernel>, facts: CommitFacts) -> Result<CommitReport, RpcError> {
    let kernel = kernel.clone();
    let checked = tokio::task::spawn_blocking(move || kernel.verify_commit(&facts)).await;
    checked.map_err(|error| RpcError::new(ErrorCode::Internal, "verification did not end").why(error.to_string()))?.map_err(fault_error)
}

pub(crate) fn report_view(report: journal::Report) -> JournalVerifyResult {
    JournalVerifyResult {
        records: report.records,
        head_seq: report.head.seq,
        head_hash: report.head.hash.clone(),
        unsealed: report.unsealed,
        sealed: report.seal == journal::SealState::Good,
        findings: report.findings.iter().map(|f| FindingView { seq: f.seq, what: f.what.to_string(), why: f.why.clone() }).collect(),
    }
}

/// What checks of the journal found, seen or not.
pub(crate) fn doubts(kernel: &Kernel) -> JournalDoubtsResult {
    let view = |doubt: &world::Doubt| DoubtView {
        number: doubt.number,
        what: doubt.what.clone(),
        why: doubt.why.clone(),
        at_ms: doubt.at_ms,
        seen_by: doubt.seen_by.clone(),
    };
    let doubts = kernel.ledger.look(|world| world.doubts.all().iter().map(view).collect());
    JournalDoubtsResult { doubts, verification: verification(kernel) }
}

/// What every command tells beside its own result.
pub(crate) fn notices(kernel: &Kernel) -> KernelNoticesResult {
    let doubts = doubts(kernel).doubts.into_iter().filter(|doubt| doubt.seen_by.is_none()).collect();
    let crash = kernel.take_crash().map(|(crash, reviews)| CrashView { at_ms: crash.at_ms, calls: crash.calls.len() as u64, reviews });
    let kernel::SettingsState { rejected, taken } = kernel.settings_report();
    let (rejected, fix) = rejected.map(|fault| (fault.why, fault.fix)).unzip();
    let policy_drifts = kernel.gate.policies.home_drifts();
    let settings = (rejected.is_some() || taken.is_some() || policy_drifts).then_some(SettingsView { rejected, fix, policy_drifts, taken });
    KernelNoticesResult { doubts, crash, settings, disk_full: kernel.ledger.journal().is_low() }
}

pub(crate) fn verification(kernel: &Kernel) -> VerificationStatus {
    match kernel.verifier.state() {
        kernel::Verification::Running => VerificationStatus::Running,
        kernel::Verification::Whole => VerificationStatus::Whole,
        kernel::Verification::Doubted => VerificationStatus::Doubted,
        kernel::Verification::Failed => VerificationStatus::Failed,
    }
}

pub(crate) async fn acknowledge(kernel: &Kernel, upto: u64, by: &str) -> Result<JournalDoubtsResult, RpcError> {
    kernel.ledger.acknowledge(upto, by).await.map_err(rpc_error)?;
    Ok(doubts(kernel))
}

pub(crate) async fn forget(kernel: &Kernel, params: JournalForgetParams, by: &str) -> Result<JournalForgetResult, RpcError> {
    let JournalForgetParams { blobs, records, reason } = params;
    let reason = reason.unwrap_or_else(|| "asked for".to_owned());
    let forgotten = kernel.blobs.forget(&blobs, &records, &reason, by).await.map_err(rpc_error)?;
    Ok(JournalForgetResult { forgotten })
}
