//! What the operator does with tasks and their changes.

use crate::rpc_error::rpc_error;
use crate::view;
use kernel::{Kernel, NewTask, ReplayReport, TaskShape};
use std::time::Duration;
use wire::method::merge::{MergeUndoParams, MergeUndoResult};
use wire::method::task::{
    CommitView, DivergenceView, TaskAddParams, TaskAddResult, TaskAwaitParams, TaskContinueResult, TaskDiffResult, TaskFileParams,
    TaskFileResult, TaskMergeParams, TaskMergeResult, TaskPatchParams, TaskPatchResult, TaskRejectParams, TaskReplayParams,
    TaskReplayResult, TaskRetryParams, TaskSayParams, TaskView,
};
use wire::{ErrorCode, RpcError};
use world::{Mode, TaskId};

/// Bytes of a changed file in one answer.
const FILE_PIECE_BYTES: usize = 4 * 1024 * 1024;

pub(crate) async fn add(kernel: &Kernel, params: TaskAddParams) -> Result<TaskAddResult, RpcError> {
    if params.mode == Mode::Call {
        return Err(RpcError::new(ErrorCode::BadInput, "a task is `ask` or `act`").fix("use `call.run` for one call"));
    }
    let new = NewTask {
        path: params.path.into(),
        mode: params.mode,
        prompt: params.prompt,
        brain: params.brain,
        priority: params.priority.unwrap_or(0),
        calls_max: params.calls_max,
        record: params.record,
        tags: params.tags,
        budget: params.budget,
        new_worker: params.new_worker,
        shape: TaskShape {
            role: params.role,
            skill: params.skill,
            params: params.params,
            tools: params.tools,
            discipline: params.discipline,
        },
        placement: params.placement,
    };
    Ok(added(kernel.add(new).await.map_err(rpc_error)?))
}

pub(crate) fn added(added: kernel::Added) -> TaskAddResult {
    TaskAddResult {
        task: added.task,
        process: added.process,
        branch: added.branch,
        initialised: added.initialised,
        drifts: added.drifts,
        behind: added.behind,
        unlisted: added.unlisted,
        enrolled: added.is_enrolled,
        skill: added.skill,
        after: added.after,
        prioritized: added.is_prioritized,
        interrupted: added.interrupted,
        queue_paused: added.is_queue_paused,
    }
}

/// Answers when a task has ended or waits for a person.
pub(crate) async fn wait(kernel: &Kernel, params: TaskAwaitParams) -> Result<TaskView, RpcError> {
    let settled = kernel.tasks.settled(params.task);
    let task = match params.timeout_ms {
        None => settled.await,
        Some(ms) => tokio::time::timeout(Duration::from_millis(ms), settled).await.map_err(|_| {
            RpcError::new(ErrorCode::Timeout, format!("{} did not end in {ms} ms", params.task)).fix("wait longer, or `skep watch` it")
        })?,
    };
    view::task(kernel, task.map_err(rpc_error)?.id)
}

pub(crate) async fn cancel(kernel: &Kernel, id: TaskId, by: &str) -> Result<TaskView, RpcError> {
    kernel.cancel(id, by).await.map_err(rpc_error)?;
    view::task(kernel, id)
}

pub(crate) async fn retry(kernel: &Kernel, params: TaskRetryParams, by: &str) -> Result<TaskContinueResult, RpcError> {
    continued(kernel, kernel.retry(params.task, params.budget, by).await.map_err(rpc_error)?)
}

pub(crate) async fn say(kernel: &Kernel, params: TaskSayParams, by: &str) -> Result<TaskContinueResult, RpcError> {
    continued(kernel, kernel.say(params.task, params.prompt, by).await.map_err(rpc_error)?)
}

pub(crate) fn continued(kernel: &Kernel, continued: kernel::Continued) -> Result<TaskContinueResult, RpcError> {
    Ok(TaskContinueResult { task: view::task(kernel, continued.task)?, calls: continued.calls, taken_up: continued.is_taken_up })
}

pub(crate) async fn drop_work(kernel: &Kernel, id: TaskId, by: &str) -> Result<TaskView, RpcError> {
    kernel.drop_work(id, by).await.map_err(rpc_error)?;
    view::task(kernel, id)
}

pub(crate) async fn reject(kernel: &Kernel, params: TaskRejectParams, by: &str) -> Result<TaskView, RpcError> {
    kernel.reject(params.task, by, params.reason).await.map_err(rpc_error)?;
    view::task(kernel, params.task)
}

pub(crate) async fn diff(kernel: &Kernel, id: TaskId) -> Result<TaskDiffResult, RpcError> {
    let diff = kernel.diff(id).await.map_err(rpc_error)?;
    view::diff(kernel, id, diff)
}

/// A piece of a changed file.
pub(crate) async fn file(kernel: &Kernel, params: &TaskFileParams) -> Result<TaskFileResult, RpcError> {
    let version = if params.before { kernel::FileVersion::Before } else { kernel::FileVersion::After };
    let piece = kernel.changed_file(params.task, &params.path, version, params.offset, FILE_PIECE_BYTES).await.map_err(rpc_error)?;
    Ok(TaskFileResult { bytes: piece.total, data: wire::base64::encode(&piece.data) })
}

/// A piece of a task's changes as a patch for git.
pub(crate) async fn patch(kernel: &Kernel, params: &TaskPatchParams) -> Result<TaskPatchResult, RpcError> {
    let piece = kernel.git_patch(params.task, params.offset, FILE_PIECE_BYTES).await.map_err(rpc_error)?;
    Ok(TaskPatchResult { bytes: piece.total, digest: piece.digest, data: wire::base64::encode(&piece.data) })
}

pub(crate) async fn merge(kernel: &Kernel, params: TaskMergeParams, by: &str) -> Result<TaskMergeResult, RpcError> {
    let Some(digest) = params.digest else {
        let what = format!("this would merge whatever {} proposes, and nobody says what was looked at", params.task);
        return Err(RpcError::new(ErrorCode::BadInput, what).fix("read it with `task.diff`, and name the `digest` that comes with it"));
    };
    let wish = kernel::MergeWish { sides: params.sides, only: params.only, commit: params.commit };
    let merged = kernel.merge_as(params.task, Some(&digest), wish, by).await.map_err(rpc_error)?;
    let (applied, refused) = view::split(merged.paths);
    let commit = merged.commit.map(|made| CommitView { commit: made.commit, reference: made.reference });
    let kept = view::task(kernel, params.task)?.kept.map_or(0, |kept| kept.files);
    Ok(TaskMergeResult { applied, refused, commit, uncommitted: merged.uncommitted, kept })
}

/// Reverts a merge.
pub(crate) async fn undo(kernel: &Kernel, params: &MergeUndoParams, by: &str) -> Result<MergeUndoResult, RpcError> {
    Ok(match kernel.undo(params.task, by, params.phrase.as_deref()).await.map_err(rpc_error)? {
        kernel::UndoOutcome::Denied { reasons, phrase } => {
            MergeUndoResult { restored: Vec::new(), refused: Vec::new(), denied: reasons, phrase: Some(phrase), commit: None }
        }
        kernel::UndoOutcome::Paths { paths, commit } => {
            let (restored, refused) = view::split(paths);
            MergeUndoResult { restored, refused, denied: Vec::new(), phrase: None, commit }
        }
    })
}

pub(crate) async fn replay(kernel: &Kernel, params: &TaskReplayParams) -> Result<TaskReplayResult, RpcError> {
    if kernel.ledger.task(params.task).map_err(rpc_error)?.session.is_some() {
        let what = format!("{} is a session, and plans are not carried out on recorded answers", params.task);
        return Err(RpcError::new(ErrorCode::Unsupported, what).fix(format!("`skep session replay {}` checks its record", params.task)));
    }
    let ReplayReport { task, of, calls, requests, divergence } = kernel.replay(params.task, params.timing).await.map_err(rpc_error)?;
    let divergence = divergence.map(|found| DivergenceView { at: found.at, recorded: found.recorded, replayed: found.replayed });
    Ok(TaskReplayResult { task, of, calls, requests, divergence })
}
