//! The queue of each worker.

use crate::rpc_error::rpc_error;
use crate::view::{self, TaskExtras};
use kernel::Kernel;
use std::path::Path;
use wire::RpcError;
use wire::method::Nothing;
use wire::method::queue::{
    QueueChangeParams, QueueListParams, QueueListResult, QueueRemoveParams, QueueView, WorkerPinParams, WorkerPinResult,
};
use world::Pid;

/// Whom a change is for where nobody is named.
const OWN: &str = "hero";

pub(crate) async fn list(kernel: &Kernel, params: &QueueListParams) -> Result<QueueListResult, RpcError> {
    let path = Path::new(&params.path);
    let only = match params.who.as_deref() {
        Some(who) => Some(kernel.find_worker(path, who).await.map_err(rpc_error)?),
        None => None,
    };
    queues(kernel, path, only).await
}

pub(crate) async fn pause(kernel: &Kernel, params: &QueueChangeParams, is_paused: bool, by: &str) -> Result<QueueListResult, RpcError> {
    let path = Path::new(&params.path);
    let pid = kernel.find_worker(path, params.who.as_deref().unwrap_or(OWN)).await.map_err(rpc_error)?;
    kernel.pause_queue(pid, is_paused, by).await.map_err(rpc_error)?;
    queues(kernel, path, Some(pid)).await
}

pub(crate) async fn pin(kernel: &Kernel, params: WorkerPinParams, by: &str) -> Result<WorkerPinResult, RpcError> {
    let pid = kernel.find_worker(Path::new(&params.path), params.who.as_deref().unwrap_or(OWN)).await.map_err(rpc_error)?;
    let pins = kernel.pin(pid, params.add, params.remove, by).await.map_err(rpc_error)?;
    Ok(WorkerPinResult { pins })
}

pub(crate) async fn remove(kernel: &Kernel, params: &QueueRemoveParams, by: &str) -> Result<Nothing, RpcError> {
    kernel.unqueue(&params.tasks, by).await.map(|()| Nothing {}).map_err(rpc_error)
}

async fn queues(kernel: &Kernel, path: &Path, only: Option<Pid>) -> Result<QueueListResult, RpcError> {
    let top = kernel::locate(path).await.map_err(rpc_error)?;
    let zone = kernel.gate.policies.zone(&top).map_err(rpc_error)?;
    let known = TaskExtras::of(kernel);
    let queues = kernel.ledger.look(|world| {
        let workers = world.processes.values().filter(|process| kernel::is_worker(process, zone.id));
        let meant = workers.filter(|process| only.is_none_or(|only| only == process.pid));
        let queue = |process: &world::Process| QueueView {
            worker: process.name.clone(),
            pid: process.pid,
            paused: process.queue_paused,
            tasks: world
                .current_task(process.pid)
                .into_iter()
                .chain(world.queue(process.pid))
                .map(|task| view::task_view(&known, world, task))
                .collect(),
        };
        meant.map(queue).collect()
    });
    Ok(QueueListResult { branch: kernel.gate.policies.branch(zone.id).await, queues })
}
