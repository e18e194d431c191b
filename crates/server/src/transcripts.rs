//! Transcripts for clients: which there are, and their lines.

use crate::rpc_error::{fault_error, rpc_error};
use crate::view;
use kernel::Kernel;
use report::{TranscriptLine, TranscriptQuery, TranscriptSize, Transcripts};
use std::path::Path;
use wire::method::transcript::{
    TranscriptLineView, TranscriptListParams, TranscriptListResult, TranscriptReadParams, TranscriptReadResult, TranscriptView,
};
use wire::{ErrorCode, RpcError};
use world::{Pid, TaskId, ZoneId};

/// The zone and the worker that a client means.
async fn whose(kernel: &Kernel, path: Option<&str>, worker: Option<&str>) -> Result<(Option<ZoneId>, Option<Pid>), RpcError> {
    let Some(path) = path else {
        let alone = || RpcError::new(ErrorCode::BadInput, "a worker is named together with a folder of its repository");
        return if worker.is_some() {
            Err(alone().fix("run it in the repository, or name that with `--zone DIR`"))
        } else {
            Ok((None, None))
        };
    };
    if let Some(worker) = worker {
        return Ok((None, Some(kernel.find_worker(Path::new(path), worker).await.map_err(rpc_error)?)));
    }
    let top = view::zone_path(kernel, path).await?;
    Ok((kernel.ledger.look(|world| world.zone_at(&top).map(|zone| zone.id)), None))
}

pub(crate) async fn list(kernel: &Kernel, params: &TranscriptListParams) -> Result<TranscriptListResult, RpcError> {
    let (zone, pid) = whose(kernel, params.path.as_deref(), params.worker.as_deref()).await?;
    let mut tasks = view::tasks(kernel, None).await?;
    tasks.retain(|task| zone.is_none_or(|zone| task.zone == zone) && pid.is_none_or(|pid| task.pid == pid));
    tasks.sort_by_key(|task| std::cmp::Reverse(task.task));
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.task).collect();
    let sizes = Transcripts::of(&kernel.ledger).sizes(&ids).map_err(fault_error)?;
    let joined = tasks.into_iter().zip(sizes);
    let view = |(task, size): (wire::method::task::TaskView, TranscriptSize)| TranscriptView {
        task: task.task,
        worker: task.process,
        zone: task.zone,
        branch: task.branch,
        brain: task.brain,
        prompt: task.prompt,
        state: task.state,
        queued_ms: task.queued_ms,
        ended_ms: task.ended_ms,
        lines: size.lines,
        bytes: size.bytes,
        talks: size.talks,
        whole: size.is_whole,
    };
    Ok(TranscriptListResult { transcripts: joined.map(view).collect() })
}

pub(crate) async fn read(kernel: &Kernel, params: TranscriptReadParams) -> Result<TranscriptReadResult, RpcError> {
    let (zone, pid) = whose(kernel, params.path.as_deref(), params.worker.as_deref()).await?;
    let query = TranscriptQuery { task: params.task, pid, zone, after_seq: params.after_seq, search: params.search };
    let page = Transcripts::of(&kernel.ledger).read(&query).map_err(rpc_error)?;
    let view = |line: TranscriptLine| TranscriptLineView {
        seq: line.seq,
        at_ms: line.at_ms,
        task: line.task,
        pid: line.pid,
        worker: kernel.ledger.look(|world| view::name_of(world, line.pid)),
        speaker: line.speaker.to_owned(),
        text: line.text,
    };
    Ok(TranscriptReadResult { lines: page.lines.into_iter().map(view).collect(), next_seq: page.next_seq })
}
