//! Which handler answers which method.

use crate::responder::Responder;
use crate::rpc_error::rpc_error;
use crate::{
    answers, artifact, gateway_open, policy_view, queue, records, sandbox_run, session_dispatch, spending, talk, task, task_try,
    transcripts, view, watch, zone,
};
use kernel::{Kernel, Stop};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc;
use wire::method::brain::{BrainListParams, BrainListResult};
use wire::method::{Nothing, process, task as tasks};
use wire::table::{self, MethodCall};
use wire::{Notification, Principal, RpcError};

/// Who sends the requests of one connection, and the kernel that answers them.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) principal: Arc<Principal>,
    /// Where the process tree is served over gRPC.
    pub(crate) grpc: Arc<[String]>,
    /// What the client sends while a request runs. The one request of a connection that reads it takes it.
    pub(crate) client_notes: Arc<parking_lot::Mutex<Option<mpsc::Receiver<Notification>>>>,
}

/// Answers a request that the table lets through.
pub(crate) async fn dispatch(call: MethodCall, caller: &Caller, to: Responder) {
    match call {
        MethodCall::CallRun(params) => {
            to.answer::<table::CallRun>(answers::call(&caller.kernel, params, &caller.principal).await).await;
        }
        // Behind a pointer: a call is what is asked most, and needs no space for the largest of the others.
        call => Box::pin(dispatch_others(call, caller, to)).await,
    }
}

async fn dispatch_others(call: MethodCall, caller: &Caller, to: Responder) {
    let Caller { kernel, principal, .. } = caller;
    let by = &principal.to_string();
    match call {
        MethodCall::KernelStatus(Nothing {}) => to.answer::<table::KernelStatus>(Ok(view::status(kernel, &caller.grpc))).await,
        MethodCall::KernelNotices(Nothing {}) => to.answer::<table::KernelNotices>(Ok(records::notices(kernel))).await,
        // The kernel goes down after this answer: the table says so, and the connection acts on it.
        MethodCall::KernelStop(Nothing {}) => to.answer::<table::KernelStop>(Ok(Nothing {})).await,
        MethodCall::KernelDoctor(Nothing {}) => to.answer::<table::KernelDoctor>(view::doctor(kernel).await).await,
        MethodCall::ZoneInit(params) => to.answer::<table::ZoneInit>(zone::init(kernel, params).await).await,
        MethodCall::ZoneTrust(params) => to.answer::<table::ZoneTrust>(zone::trust(kernel, params).await).await,
        MethodCall::ZoneStatus(params) => to.answer::<table::ZoneStatus>(zone::status(kernel, params).await).await,
        MethodCall::ZoneResolve(params) => to.answer::<table::ZoneResolve>(zone::resolve(kernel, params).await).await,
        MethodCall::ZoneClose(params) => to.answer::<table::ZoneClose>(zone::close(kernel, params, by).await).await,
        MethodCall::ProcList(Nothing {}) => to.answer::<table::ProcList>(Ok(processes(kernel))).await,
        MethodCall::ProcCancel(params) => to.answer::<table::ProcCancel>(done(kernel.cancel_process(params.pid, by).await)).await,
        MethodCall::ProcWatch(params) => watch::run(caller, params, to).await,
        MethodCall::QueueList(params) => to.answer::<table::QueueList>(queue::list(kernel, &params).await).await,
        MethodCall::QueuePause(params) => to.answer::<table::QueuePause>(queue::pause(kernel, &params, true, by).await).await,
        MethodCall::QueueResume(params) => to.answer::<table::QueueResume>(queue::pause(kernel, &params, false, by).await).await,
        MethodCall::QueueRemove(params) => to.answer::<table::QueueRemove>(queue::remove(kernel, &params, by).await).await,
        MethodCall::TaskAdd(params) => to.answer::<table::TaskAdd>(task::add(kernel, params).await).await,
        MethodCall::TaskList(params) => to.answer::<table::TaskList>(list_tasks(kernel, &params).await).await,
        MethodCall::SkillList(params) => to.answer::<table::SkillList>(artifact::skills(kernel, &params.path).await).await,
        MethodCall::TaskShow(params) => to.answer::<table::TaskShow>(artifact::whole_task(kernel, params.task)).await,
        MethodCall::TaskAwait(params) => to.answer::<table::TaskAwait>(task::wait(kernel, params).await).await,
        MethodCall::TaskCancel(params) => to.answer::<table::TaskCancel>(task::cancel(kernel, params.task, by).await).await,
        MethodCall::TaskRetry(params) => to.answer::<table::TaskRetry>(task::retry(kernel, params, by).await).await,
        MethodCall::TaskSay(params) => to.answer::<table::TaskSay>(task::say(kernel, params, by).await).await,
        MethodCall::TaskDrop(params) => to.answer::<table::TaskDrop>(task::drop_work(kernel, params.task, by).await).await,
        MethodCall::TaskDiff(params) => to.answer::<table::TaskDiff>(task::diff(kernel, params.task).await).await,
        MethodCall::TaskFile(params) => to.answer::<table::TaskFile>(task::file(kernel, &params).await).await,
        MethodCall::TaskPatch(params) => to.answer::<table::TaskPatch>(task::patch(kernel, &params).await).await,
        MethodCall::TaskMerge(params) => to.answer::<table::TaskMerge>(task::merge(kernel, params, by).await).await,
        MethodCall::TaskReplay(params) => to.answer::<table::TaskReplay>(task::replay(kernel, &params).await).await,
        MethodCall::TaskTry(params) => {
            let tried = task_try::run(kernel, params, &to.notes()).await;
            to.answer::<table::TaskTry>(tried).await;
        }
        MethodCall::TaskReject(params) => to.answer::<table::TaskReject>(task::reject(kernel, params, by).await).await,
        MethodCall::TalkOpen(params) => talk::open(caller, params, to, by).await,
        MethodCall::TalkWatch(params) => talk::watch(caller, params, to).await,
        MethodCall::TranscriptList(params) => to.answer::<table::TranscriptList>(transcripts::list(kernel, &params).await).await,
        MethodCall::TranscriptRead(params) => to.answer::<table::TranscriptRead>(transcripts::read(kernel, params).await).await,
        MethodCall::MergeList(Nothing {}) => to.answer::<table::MergeList>(view::merges(kernel)).await,
        MethodCall::MergeUndo(params) => to.answer::<table::MergeUndo>(task::undo(kernel, &params, by).await).await,
        MethodCall::CommitVerify(facts) => to.answer::<table::CommitVerify>(records::verify_commit(kernel, facts).await).await,
        MethodCall::WorkList(params) => to.answer::<table::WorkList>(Ok(view::work(kernel, params.task))).await,
        MethodCall::ToolList(Nothing {}) => to.answer::<table::ToolList>(Ok(view::tools(kernel))).await,
        MethodCall::CallCancel(params) => to.answer::<table::CallCancel>(done(kernel.cancel_call(params.call, by).await)).await,
        MethodCall::ReviewList(params) => to.answer::<table::ReviewList>(Ok(view::reviews(kernel, params.all))).await,
        MethodCall::ReviewShow(params) => {
            to.answer::<table::ReviewShow>(view::review(kernel, params.review, params.full).await).await;
        }
        MethodCall::ReviewAnswer(params) => to.answer::<table::ReviewAnswer>(answers::answer(kernel, params, by).await).await,
        MethodCall::GrantList(Nothing {}) => to.answer::<table::GrantList>(Ok(answers::list(kernel))).await,
        MethodCall::GrantRevoke(params) => to.answer::<table::GrantRevoke>(answers::revoke(kernel, &params.id, by).await).await,
        MethodCall::TokenIssue(params) => to.answer::<table::TokenIssue>(answers::issue(kernel, params, principal).await).await,
        MethodCall::PolicyCheck(params) => to.answer::<table::PolicyCheck>(policy_view::check(kernel, params).await).await,
        MethodCall::PolicyExplain(params) => to.answer::<table::PolicyExplain>(policy_view::explain(kernel, params).await).await,
        MethodCall::PolicyTrial(params) => to.answer::<table::PolicyTrial>(policy_view::trial(kernel, &params).await).await,
        MethodCall::PolicyLog(params) => to.answer::<table::PolicyLog>(policy_view::log(kernel, &params).await).await,
        MethodCall::PolicyHome(params) => to.answer::<table::PolicyHome>(policy_view::home(kernel, params).await).await,
        MethodCall::PolicySuggest(params) => to.answer::<table::PolicySuggest>(policy_view::suggest(kernel, &params.path).await).await,
        MethodCall::GatewayOpen(params) => gateway_open::run(kernel, params, to).await,
        MethodCall::CassetteList(params) => to.answer::<table::CassetteList>(view::cassettes(kernel, params.name.as_deref())).await,
        MethodCall::ModelTry(params) => to.answer::<table::ModelTry>(spending::try_model(kernel, params.model.as_deref()).await).await,
        MethodCall::BrainList(params) => to.answer::<table::BrainList>(brains(kernel, &params).await).await,
        MethodCall::ModelUsage(params) => to.answer::<table::ModelUsage>(Ok(spending::usage(kernel, params.by))).await,
        MethodCall::BudgetList(Nothing {}) => to.answer::<table::BudgetList>(Ok(spending::budgets(kernel))).await,
        MethodCall::BudgetSet(params) => {
            to.answer::<table::BudgetSet>(done(kernel.ledger.set_budget(params.pid, params.budget, by).await)).await;
        }
        MethodCall::BudgetGrant(params) => to.answer::<table::BudgetGrant>(spending::grant(kernel, params, by).await).await,
        MethodCall::BudgetReconcile(params) => {
            let reconciled = kernel.ledger.reconcile(params.pid, params.tokens, params.micros, by).await;
            to.answer::<table::BudgetReconcile>(done(reconciled)).await;
        }
        MethodCall::SandboxTemplates(params) => {
            to.answer::<table::SandboxTemplates>(view::templates(kernel, params.path.as_deref()).await).await;
        }
        MethodCall::SandboxList(Nothing {}) => to.answer::<table::SandboxList>(Ok(view::rooms(kernel))).await,
        MethodCall::SandboxPause(params) => to.answer::<table::SandboxPause>(done(kernel.workspaces.pause(params.task, by).await)).await,
        MethodCall::SandboxResume(params) => to.answer::<table::SandboxResume>(done(kernel.workspaces.resume(params.task, by).await)).await,
        MethodCall::SandboxRun(params) => {
            let ran = sandbox_run::run(caller, params, to.notes()).await;
            to.answer::<table::SandboxRun>(ran).await;
        }
        MethodCall::JournalRead(filter) => to.answer::<table::JournalRead>(records::read(kernel, &filter)).await,
        MethodCall::JournalVerify(Nothing {}) => to.answer::<table::JournalVerify>(records::verify(kernel).await).await,
        MethodCall::JournalDoubts(Nothing {}) => to.answer::<table::JournalDoubts>(Ok(records::doubts(kernel))).await,
        MethodCall::JournalAcknowledge(params) => {
            to.answer::<table::JournalAcknowledge>(records::acknowledge(kernel, params.upto, by).await).await;
        }
        MethodCall::JournalForget(params) => to.answer::<table::JournalForget>(records::forget(kernel, params, by).await).await,
        MethodCall::JournalFollow(filter) => records::follow(kernel, filter, to).await,
        // INVARIANT: the rest is of sessions and of the process tree; a test holds all three files against the table.
        call => session_dispatch::dispatch(call, caller, to).await,
    }
}

fn processes(kernel: &Kernel) -> process::ProcListResult {
    process::ProcListResult { processes: view::processes(kernel) }
}

async fn list_tasks(kernel: &Kernel, params: &tasks::TaskListParams) -> Result<tasks::TaskListResult, RpcError> {
    Ok(tasks::TaskListResult { tasks: view::tasks(kernel, params.path.as_deref()).await? })
}

async fn brains(kernel: &Kernel, params: &BrainListParams) -> Result<BrainListResult, RpcError> {
    let brains = kernel.brains.reports(params.path.as_deref().map(Path::new), params.brain.as_deref()).await.map_err(rpc_error)?;
    Ok(BrainListResult { brains })
}

/// The answer of a method that has nothing to say.
pub(crate) fn done(outcome: Result<(), Stop>) -> Result<Nothing, RpcError> {
    outcome.map(|()| Nothing {}).map_err(rpc_error)
}
