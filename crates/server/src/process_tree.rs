//! The process tree, for the control socket: parameters become orders, and what the tree says becomes views.

use crate::dispatch::Caller;
use crate::responder::Responder;
use crate::rpc_error::rpc_error;
use crate::view;
use kernel::{Kernel, Stop};
use std::time::Duration;
use tree::{
    ArtifactOrder, ArtifactQuery, EscalationOrder, KillOrder, LogLine, MessageOrder, QueueFilter, ReceivedMessage, SpawnOrder, TaskOrder,
    Tree, contract,
};
use wire::method::Nothing;
use wire::method::artifact::{
    ArtifactListParams, ArtifactListResult, ArtifactReadParams, ArtifactReadResult, ArtifactStoreParams, ArtifactStoreResult,
};
use wire::method::cron::{CronAddParams, CronAddResult, CronListResult, CronNextParams, CronNextResult};
use wire::method::escalation::{
    EscalationRaiseParams, EscalationRaiseResult, LogWriteParams, ResourceRequestParams, ResourceRequestResult, ResourceUsageParams,
    ResourceUsageResult,
};
use wire::method::message::{
    DeadLetterView, EVENT, EventFollowParams, MessageDeadResult, MessageListParams, MessageListResult, MessageSendParams,
    MessageSendResult, MessageSubscribeParams, MessageView, RECEIVED, TreeEventNote,
};
use wire::method::process::{CapView, ProcListResult, ProcView};
use wire::method::program::{
    ProcChildrenParams, ProcExecuteParams, ProcExecuteResult, ProcKillParams, ProcKillResult, ProcSpawnParams, ProcSpawnResult,
    ProcWaitParams, ProcWaitResult, ProgramView,
};
use wire::table::{EventFollow, MessageSubscribe};
use wire::{ErrorCode, Principal, RpcError, base64};
use world::{DeadLetter, Pid, Process, Recipient, World};

/// The process on whose behalf a request is made.
pub(crate) fn speaker(principal: &Principal) -> Result<Pid, RpcError> {
    match principal {
        Principal::Operator { .. } => Ok(Pid::OPERATOR),
        Principal::Process { pid } => Ok(*pid),
        Principal::Token { .. } => Err(RpcError::new(ErrorCode::Denied, format!("{principal} is no process of the tree"))),
    }
}

fn bytes(text: &str, what: &str) -> Result<Vec<u8>, RpcError> {
    base64::decode(text).ok_or_else(|| RpcError::new(ErrorCode::BadInput, format!("the {what} is not in base64")))
}

pub(crate) async fn spawn(tree: &Tree, by: Pid, params: ProcSpawnParams) -> Result<ProcSpawnResult, RpcError> {
    let ProcSpawnParams { name, role, tier, parent, model, system_prompt, tools, env, metadata, limits, budget, runtime, image, .. } =
        params;
    // Whoever is at the terminal has children of the kernel, as HiveKernel's startup file has.
    let parent = parent.or((by == Pid::OPERATOR).then_some(Pid::KERNEL));
    let order = SpawnOrder {
        parent,
        name,
        role,
        tier,
        model,
        system_prompt,
        tools,
        env,
        metadata,
        limits,
        budget,
        runtime,
        image,
        initial_task: params.initial_task,
        schedule: params.schedule,
        user: params.user,
        confined: params.confined,
    };
    Ok(ProcSpawnResult { pid: tree.spawn(by, order).await.map_err(rpc_error)? })
}

pub(crate) async fn kill(tree: &Tree, by: Pid, params: ProcKillParams) -> Result<ProcKillResult, RpcError> {
    let ProcKillParams { pid, recursive, reason, grace_ms } = params;
    let order = KillOrder { target: pid, recursive, reason, grace: Duration::from_millis(grace_ms) };
    Ok(ProcKillResult { ended: tree.kill(by, order, false).await.map_err(rpc_error)? })
}

/// Whoever waits no longer has taken note of nothing: the end stays to be waited for.
pub(crate) async fn wait(tree: &Tree, by: Pid, params: ProcWaitParams) -> Result<ProcWaitResult, RpcError> {
    let ProcWaitParams { pid, timeout_ms } = params;
    let waiting = tree.wait(by, pid, None, false);
    let exit = match timeout_ms {
        None => waiting.await,
        Some(ms) => tokio::time::timeout(Duration::from_millis(ms), waiting)
            .await
            .map_err(|_| RpcError::new(ErrorCode::Timeout, format!("process {pid} has not ended within {ms} ms")))?,
    };
    Ok(ProcWaitResult { pid, exit: exit.map_err(rpc_error)? })
}

pub(crate) async fn execute(tree: &Tree, by: Pid, params: ProcExecuteParams) -> Result<ProcExecuteResult, RpcError> {
    let ProcExecuteParams { pid, description, params, timeout_ms } = params;
    let label = contract::task_label(pid, &description);
    let order = TaskOrder { description, params, timeout: timeout_ms.map(Duration::from_millis), label, ..TaskOrder::default() };
    Ok(ProcExecuteResult { pid, result: tree.execute(by, pid, order, false).await.map_err(rpc_error)? })
}

pub(crate) fn info(kernel: &Kernel, by: Pid, of: Pid) -> Result<ProcView, RpcError> {
    kernel.tree.info(by, of).map_err(rpc_error)?;
    let all = view::processes(kernel);
    let found = all.into_iter().find(|process| process.pid == of);
    found.ok_or_else(|| RpcError::new(ErrorCode::NotFound, format!("process {of} not found")))
}

pub(crate) fn children(kernel: &Kernel, by: Pid, params: ProcChildrenParams) -> Result<ProcListResult, RpcError> {
    let of = params.pid.filter(|_| by == Pid::OPERATOR).unwrap_or(by);
    let children = kernel.tree.children(of, params.recursive, params.state).map_err(rpc_error)?;
    let pids: Vec<Pid> = children.into_iter().map(|child| child.pid).collect();
    Ok(listed(kernel, &pids))
}

pub(crate) fn siblings(kernel: &Kernel, by: Pid, of: Pid) -> Result<ProcListResult, RpcError> {
    let of = if by == Pid::OPERATOR { of } else { by };
    let siblings = kernel.tree.siblings(of).map_err(rpc_error)?;
    let pids: Vec<Pid> = siblings.into_iter().map(|sibling| sibling.pid).collect();
    Ok(listed(kernel, &pids))
}

fn listed(kernel: &Kernel, pids: &[Pid]) -> ProcListResult {
    ProcListResult { processes: view::processes(kernel).into_iter().filter(|process| pids.contains(&process.pid)).collect() }
}

pub(crate) async fn send(tree: &Tree, by: Pid, params: MessageSendParams) -> Result<MessageSendResult, RpcError> {
    let to = match (params.to, params.queue) {
        (Some(pid), None) => Recipient::Process(pid),
        (None, Some(queue)) => Recipient::Queue(queue),
        _ => {
            return Err(RpcError::new(ErrorCode::BadInput, "a message is for a process or for a queue").fix("name one of `to` and `queue`"));
        }
    };
    let order = MessageOrder {
        to,
        kind: params.kind,
        priority: params.priority,
        body: bytes(&params.body, "body")?,
        requires_ack: params.requires_ack,
        ttl: params.ttl_ms.map(Duration::from_millis),
        reply_to: params.reply_to,
    };
    Ok(MessageSendResult { message: tree.send(by, order).await.map_err(rpc_error)? })
}

/// Sends messages as they come, until the client hangs up or the kernel ends.
pub(crate) async fn subscribe(caller: &Caller, params: MessageSubscribeParams, to: Responder) {
    let MessageSubscribeParams { queue, kind, priority } = params;
    let opened = match speaker(&caller.principal) {
        Ok(by) => caller.kernel.tree.subscribe(by, QueueFilter { queue, kind, min_priority: priority }).await.map_err(rpc_error),
        Err(error) => Err(error),
    };
    let mut subscription = match opened {
        Ok(subscription) => subscription,
        Err(error) => return to.refuse(error).await,
    };
    let notes = to.notes();
    to.answer::<MessageSubscribe>(Ok(Nothing {})).await;
    while let Some(received) = subscription.next().await {
        if !notes.send(RECEIVED, &message_view(received)).await {
            return;
        }
    }
}

fn message_view(received: ReceivedMessage) -> MessageView {
    let ReceivedMessage { message, body } = received;
    MessageView {
        message: message.id,
        from: message.from,
        from_name: message.from_name,
        relation: message.relation,
        kind: message.kind,
        priority: message.priority,
        sent_ms: message.sent_ms,
        deadline_ms: message.deadline_ms,
        requires_ack: message.requires_ack,
        reply_to: message.reply_to,
        bytes: message.bytes,
        body: base64::encode(&body),
    }
}

pub(crate) async fn inbox(tree: &Tree, by: Pid, params: MessageListParams) -> Result<MessageListResult, RpcError> {
    let received = tree.inbox(by, params.pid.unwrap_or(by)).await.map_err(rpc_error)?;
    Ok(MessageListResult { messages: received.into_iter().map(message_view).collect() })
}

pub(crate) async fn dead(tree: &Tree, by: Pid, params: MessageListParams) -> Result<MessageDeadResult, RpcError> {
    let letters = tree.dead_letters(by, params.pid).await.map_err(rpc_error)?;
    let shown = |DeadLetter { message, why, at_ms }| DeadLetterView {
        message: message.id,
        from: message.from,
        from_name: message.from_name,
        to: match message.to {
            Recipient::Process(pid) => format!("process {pid}"),
            Recipient::Queue(queue) => format!("queue {queue}"),
        },
        kind: message.kind,
        why,
        at_ms,
    };
    Ok(MessageDeadResult { letters: letters.into_iter().map(shown).collect() })
}

pub(crate) async fn store(tree: &Tree, by: Pid, params: ArtifactStoreParams) -> Result<ArtifactStoreResult, RpcError> {
    let ArtifactStoreParams { key, content, content_type, visibility } = params;
    let order = ArtifactOrder { key, content: bytes(&content, "content")?, content_type, visibility };
    Ok(ArtifactStoreResult { artifact: tree.store(by, order).await.map_err(rpc_error)? })
}

pub(crate) async fn artifact(tree: &Tree, by: Pid, params: ArtifactReadParams) -> Result<ArtifactReadResult, RpcError> {
    let (which, name) = match (params.artifact, params.key) {
        (Some(id), None) => (ArtifactQuery::Id(id), id.to_string()),
        (None, Some(key)) => (ArtifactQuery::Key(key.clone()), key),
        _ => return Err(RpcError::new(ErrorCode::BadInput, "an artifact is named by its id or by its key").fix("name one of them")),
    };
    let read = tree.artifact(by, which).await.map_err(rpc_error)?.ok_or_else(|| {
        RpcError::new(ErrorCode::NotFound, format!("there is no artifact `{name}`")).why("nothing that you can read has this name")
    })?;
    Ok(ArtifactReadResult { content: base64::encode(&read.content), artifact: read.artifact })
}

pub(crate) async fn artifacts(tree: &Tree, by: Pid, params: ArtifactListParams) -> Result<ArtifactListResult, RpcError> {
    Ok(ArtifactListResult { artifacts: tree.artifacts(by, &params.prefix, params.pid).await.map_err(rpc_error)? })
}

pub(crate) async fn escalate(tree: &Tree, by: Pid, params: EscalationRaiseParams) -> Result<EscalationRaiseResult, RpcError> {
    let EscalationRaiseParams { issue, severity, context, auto } = params;
    let reply = tree.escalate(by, EscalationOrder { issue, severity, context, auto }).await.map_err(rpc_error)?;
    Ok(EscalationRaiseResult { handled_by: reply.with, response: reply.response })
}

pub(crate) fn usage(tree: &Tree, by: Pid, params: ResourceUsageParams) -> Result<ResourceUsageResult, RpcError> {
    let usage = tree.usage(params.pid.filter(|_| by == Pid::OPERATOR).unwrap_or(by)).map_err(rpc_error)?;
    Ok(ResourceUsageResult {
        tokens_used: usage.tokens_used,
        tokens_left: usage.tokens_left,
        children: usage.children.into(),
        children_max: usage.children_max,
        context_permille: usage.context_permille,
        up_ms: usage.uptime_ms,
    })
}

pub(crate) async fn request(tree: &Tree, by: Pid, params: ResourceRequestParams) -> Result<ResourceRequestResult, RpcError> {
    let reply = tree.request(by, &params.what, params.amount, &params.why).await.map_err(rpc_error)?;
    Ok(ResourceRequestResult { granted: if reply.granted { reply.amount } else { 0 }, reason: reply.reason })
}

pub(crate) async fn log(tree: &Tree, by: Pid, params: LogWriteParams) -> Result<(), Stop> {
    let LogWriteParams { level, message, fields } = params;
    tree.log(by, LogLine { level, message, fields }).await
}

/// Sends what happens in the tree, until the client hangs up or the kernel ends.
pub(crate) async fn follow(caller: &Caller, by: Pid, params: EventFollowParams, to: Responder) {
    let mut events = caller.kernel.tree.events(by, params.after_seq);
    let notes = to.notes();
    to.answer::<EventFollow>(Ok(Nothing {})).await;
    while let Some(event) = events.next().await {
        let note = TreeEventNote {
            seq: event.seq,
            at_ms: event.at_ms,
            kind: event.kind,
            pid: event.pid,
            name: event.name,
            state: event.state,
            message: event.message,
            payload_preview: event.payload_preview,
            trace_id: event.trace_id,
        };
        if !notes.send(EVENT, &note).await {
            return;
        }
    }
}

pub(crate) async fn cron_add(tree: &Tree, by: Pid, params: CronAddParams) -> Result<CronAddResult, RpcError> {
    Ok(CronAddResult { cron: tree.cron_add(by, params.spec).await.map_err(rpc_error)? })
}

pub(crate) fn cron_list(tree: &Tree) -> CronListResult {
    CronListResult { entries: tree.cron_list() }
}

/// More times than anybody reads.
const TIMES_MAX: u32 = 1_000;

pub(crate) fn cron_next(params: &CronNextParams) -> Result<CronNextResult, RpcError> {
    let CronNextParams { expression, timezone, after_ms, count } = params;
    let now_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let after_ms = after_ms.unwrap_or(i64::try_from(now_ms).unwrap_or(i64::MAX));
    let count = usize::try_from((*count).min(TIMES_MAX)).unwrap_or(usize::MAX);
    Ok(CronNextResult { at_ms: Tree::cron_next(expression, timezone, after_ms, count)? })
}

/// Tokens that a process itself used, without those below it.
pub(crate) fn tokens_of(world: &World, pid: Pid) -> u64 {
    let own = world.books.usage.iter().filter(|(row, _)| row.pid == pid);
    own.map(|(_, figures)| figures.input.saturating_add(figures.output)).fold(0, u64::saturating_add)
}

/// What a process may use, and uses now.
pub(crate) fn caps_of(world: &World, pid: Pid) -> Vec<CapView> {
    let now_ms = world.now_ms.max(crate::brain_output::now_ms());
    let figures = world.cap_figures(pid, now_ms).into_iter();
    figures.map(|(what, used, cap)| CapView { what: what.to_string(), used, cap }).collect()
}

pub(crate) fn program_view(tree: &Tree, world: &World, process: &Process, program: &world::Program) -> ProgramView {
    let run = process.run.as_deref();
    let claimed = run.filter(|run| !run.uses_gateway).map_or(0, |run| run.claimed);
    ProgramView {
        role: program.role,
        tier: program.tier,
        model: program.model.clone(),
        node: program.node.clone(),
        runtime: program.runtime,
        image: program.image.clone(),
        confined: program.confined,
        incarnation: run.map_or(0, |run| run.incarnation),
        is_up: run.is_some_and(|run| run.is_up),
        os_pid: run.filter(|run| run.is_up).and_then(|run| run.process),
        address: run.filter(|run| run.is_up).and_then(|run| run.address.clone()),
        tokens: tokens_of(world, process.pid).max(claimed),
        tokens_claimed: claimed,
        context_permille: run.and_then(|run| run.report.as_ref()).and_then(|report| report.context_permille),
        limits: program.limits,
        memory_bytes: tree.branch_memory(process.pid),
        blocked_on: process.blocked_on,
        exit: process.exit.as_deref().cloned(),
        last_error: run.and_then(|run| run.last_error.clone()),
    }
}
