//! Processes: spawn, kill, wait, execute, and the process table.

use super::message::contract_name;
use super::speaker::GrpcSpeaker;
use super::status::{of_process, refused, status};
use hive::generated::agent::{
    AgentState, KillRequest, KillResponse, ListSiblingsResponse, SiblingInfo, SpawnRequest, SpawnResponse, WaitChildRequest,
    WaitChildResponse,
};
use hive::generated::core::{
    ExecuteTaskRequest, ExecuteTaskResponse, ListChildrenRequest, ListChildrenResponse, ProcessInfo, ProcessInfoRequest,
};
use hive::tonic::Status;
use std::time::Duration;
use tree::{ProcessView, TaskOrder, Tree, contract};
use world::{Pid, ProcessRole, ProcessState, Stop, Tier};

pub(super) async fn spawn(tree: &Tree, speaker: GrpcSpeaker, request: SpawnRequest) -> Result<SpawnResponse, Status> {
    let parent = speaker.me()?;
    let spawned = match contract::spawn_order(request) {
        Ok(mut order) => {
            // Whoever speaks for the kernel has children of the kernel.
            order.parent = speaker.is_operator().then_some(parent).filter(|parent| *parent != Pid::OPERATOR).or(order.parent);
            tree.spawn(speaker.by, order).await
        }
        Err(refusal) => Err(refusal.into()),
    };
    Ok(match spawned {
        Ok(pid) => SpawnResponse { success: true, child_pid: pid.0, error: String::new() },
        Err(stop) => SpawnResponse { success: false, child_pid: 0, error: contract::error_text(&stop) },
    })
}

pub(super) async fn kill(tree: &Tree, speaker: GrpcSpeaker, request: &KillRequest) -> Result<KillResponse, Status> {
    speaker.me()?;
    let killed = match contract::kill_order(request) {
        Ok(order) => tree.kill(speaker.by, order, false).await,
        Err(refusal) => Err(refusal.into()),
    };
    Ok(match killed {
        Ok(pids) => KillResponse { success: true, killed_pids: pids.into_iter().map(|pid| pid.0).collect(), error: String::new() },
        Err(stop) => KillResponse { success: false, killed_pids: Vec::new(), error: contract::error_text(&stop) },
    })
}

/// A negative or absent time is no limit.
fn patience(seconds: i32) -> Option<Duration> {
    u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

pub(super) async fn wait(tree: &Tree, speaker: GrpcSpeaker, request: &WaitChildRequest) -> Result<WaitChildResponse, Status> {
    let (me, target) = (speaker.me()?, Pid(request.target_pid));
    let waited = tree.wait(speaker.by, target, patience(request.timeout_seconds), !speaker.is_operator() && me == speaker.by).await;
    Ok(match waited {
        Ok(exit) => WaitChildResponse {
            success: true,
            pid: target.0,
            // Where nobody knows the code, it is none that a program has.
            exit_code: exit.code.unwrap_or(-1),
            output: exit.output,
            error: String::new(),
        },
        Err(stop) => {
            WaitChildResponse { success: false, pid: target.0, exit_code: -1, output: String::new(), error: contract::error_text(&stop) }
        }
    })
}

pub(super) async fn execute(tree: &Tree, speaker: GrpcSpeaker, request: ExecuteTaskRequest) -> ExecuteTaskResponse {
    let target = Pid(request.target_pid);
    let order = TaskOrder {
        is_first: false,
        label: contract::task_label(target, &request.description),
        description: request.description,
        params: request.params.into_iter().collect(),
        timeout: patience(request.timeout_seconds),
        ..TaskOrder::default()
    };
    match tree.execute(speaker.by, target, order, false).await {
        Ok(result) => ExecuteTaskResponse { success: true, result: Some(contract::task_result(result)), error: String::new() },
        Err(stop) => ExecuteTaskResponse { success: false, result: None, error: contract::error_text(&stop) },
    }
}

pub(super) fn info(tree: &Tree, speaker: GrpcSpeaker, request: ProcessInfoRequest) -> Result<ProcessInfo, Status> {
    let pid = speaker.or_me(request.pid)?;
    tree.info(speaker.by, pid).map(shown).map_err(of_process(pid))
}

pub(super) fn children(tree: &Tree, speaker: GrpcSpeaker, request: ListChildrenRequest) -> Result<ListChildrenResponse, Status> {
    // proto3 cannot tell the first state from none: it filters nothing.
    let state = match AgentState::try_from(request.filter_state) {
        Ok(AgentState::StateIdle) => None,
        Ok(state) => Some(contract::process_state(state)),
        Err(_) => {
            let why = format!("there is no state with the number {}", request.filter_state);
            return Err(refused(world::Refusal::new(world::Code::BadInput, why)));
        }
    };
    let children = tree.children(speaker.me()?, request.recursive, state).map_err(status)?;
    Ok(ListChildrenResponse { children: children.into_iter().map(shown).collect() })
}

pub(super) fn siblings(tree: &Tree, speaker: GrpcSpeaker) -> Result<ListSiblingsResponse, Status> {
    let siblings = tree.siblings(speaker.me()?).map_err(|stop: Stop| status(stop))?;
    let shown = siblings.into_iter().map(|view| SiblingInfo {
        pid: view.pid.0,
        role: view.role.map(ProcessRole::as_str).unwrap_or_default().to_owned(),
        state: state_name(view.state).to_owned(),
        name: contract_name(view.pid, view.name),
    });
    Ok(ListSiblingsResponse { siblings: shown.collect() })
}

/// The contract's word for a state, in lower case. It has none for one that a person paused.
fn state_name(state: ProcessState) -> &'static str {
    match state {
        ProcessState::Paused => ProcessState::Blocked.as_str(),
        state => state.as_str(),
    }
}

/// Whose child a process is there: the operator, whom the contract does not know, is no node of a client's tree, and the kernel is.
pub(super) fn contract_parent(parent: Pid) -> u64 {
    if parent == Pid::OPERATOR { Pid::KERNEL.0 } else { parent.0 }
}

fn shown(view: ProcessView) -> ProcessInfo {
    ProcessInfo {
        pid: view.pid.0,
        ppid: view.parent.map_or(0, contract_parent),
        // Who has no role in the tree is somebody's worker.
        role: contract::agent_role(view.role.unwrap_or(ProcessRole::Worker)) as i32,
        cognitive_tier: contract::cognitive_tier(view.tier.unwrap_or(Tier::Operational)) as i32,
        model: view.model,
        // The kernel works as long as it answers.
        state: if view.pid == Pid::KERNEL { AgentState::StateRunning } else { contract::agent_state(view.state) } as i32,
        vps: view.node,
        tokens_consumed: view.tokens,
        context_usage_percent: percent(view.context_permille),
        child_count: view.children,
        started_at: u64::try_from(view.started_ms / 1_000).unwrap_or(0),
        current_task_id: view.task_label,
        runtime_addr: view.address.unwrap_or_default(),
        name: contract_name(view.pid, view.name),
        user: view.user,
    }
}

pub(super) fn percent(permille: Option<u32>) -> f32 {
    // INVARIANT: a thousand and less has an exact float.
    permille.map_or(0.0, |permille| f32::from(u16::try_from(permille).unwrap_or(u16::MAX)) / 10.0)
}
