//! Records the base of a task's workspace while the task works already.
//!
//! `workspace::base` says what a base is; this is when the look for it starts, and that its end is on record.

use crate::Kernel;
use report::CountedKind;
use room::{OpenWorkspace, RoomContent};
use std::path::Path;
use std::sync::Arc;
use tokio::task::JoinHandle;
use workspace::{Sight, base};
use world::event::WorkspaceBased;
use world::{Base, Code, Fault, FaultKind, Refusal, Stop, TaskId};

impl Kernel {
    /// Starts the look through the project, unless the base is on record. Where the times of files are another machine's, they prove nothing:
    /// there it is waited for.
    pub(crate) async fn begin_scan(&self, task: TaskId, opened: &Arc<OpenWorkspace>) -> Result<(), Stop> {
        if self.ledger.look_at_task(task, |task| task.workspace.as_ref().is_some_and(|workspace| workspace.base.is_none()))? {
            *opened.scan.running().await = Some(start(self, task, opened)?);
            if !base::stamps_are_local(&opened.project) {
                self.base(task, opened).await?;
            }
        }
        Ok(())
    }

    /// A task's base, once it is on record.
    pub(crate) async fn base(&self, task: TaskId, opened: &Arc<OpenWorkspace>) -> Result<Base, Stop> {
        let mut scan = opened.scan.running().await;
        let recorded = || self.ledger.look_at_task(task, |task| task.workspace.as_ref().and_then(|workspace| workspace.base.clone()));
        if let Some(base) = recorded()? {
            return Ok(base);
        }
        let running = match scan.take() {
            Some(running) => running,
            // The last one failed.
            None => start(self, task, opened)?,
        };
        running.await.map_err(|error| Fault::new(FaultKind::Bug, "the look through a project failed", error))??;
        Ok(recorded()?.ok_or_else(|| Refusal::new(Code::WrongState, format!("{task} has ended")))?)
    }
}

fn start(kernel: &Kernel, task: TaskId, opened: &Arc<OpenWorkspace>) -> Result<JoinHandle<Result<(), Stop>>, Stop> {
    let kernel = kernel.me.upgrade().ok_or_else(|| Fault::new(FaultKind::Bug, "the kernel is gone", task))?;
    // Not the workspace itself: a look through the project does not keep a room open.
    let (project, sight) = (opened.project.clone(), Arc::clone(&opened.sight));
    Ok(tokio::spawn(async move { record(&kernel, task, &project, &sight).await }))
}

/// Records HEAD and every file that differs from it.
async fn record(kernel: &Kernel, id: TaskId, project: &Path, sight: &Sight) -> Result<(), Stop> {
    let task = kernel.ledger.task(id)?;
    let _keeps = kernel.blobs.hold().await;
    let Some(since_us) = task.workspace.map(|workspace| workspace.since_us) else { return Ok(()) };
    kernel.instance.fault_at("base", 0);
    let counter = kernel.tasks.counted.begin(CountedKind::RecordingBase, Some(id), 0);
    let throwaway = kernel.throwaways.open(task.zone, project, RoomContent::Repository).await?;
    let hides = |path: &str| sight.hides(path).is_some();
    let keep = |bytes: &[u8]| {
        counter.step();
        kernel.ledger.keep(bytes)
    };
    let (head, dirty) = base::look(throwaway.room()?, project, since_us, hides, keep).await?;
    throwaway.close().await?;
    let blob = kernel.ledger.keep(&dirty.to_bytes()?)?;
    let until_us = base::latest_us();
    Ok(kernel.ledger.record(WorkspaceBased { pid: task.pid, task: Some(id), head, blob, until_us }).await?)
}
