//! Records the base of a task's workspace while the task works already.
//!
//! `workspace::base` says what a base is; this is when the look for it starts, and that its end is on record.

use crate::Kernel;
use crate::counted_work::CountedKind;
use crate::open_workspace::OpenWorkspace;
use crate::throwaway_room::RoomContent;
use std::path::Path;
use std::sync::Arc;
use tokio::task::JoinHandle;
use workspace::{Sight, base};
use world::event::WorkspaceBased;
use world::{Base, Code, Fault, FaultKind, Refusal, Stop, TaskId};

/// The look through a project that goes on while its task works already.
#[derive(Default)]
pub(crate) struct Scan(tokio::sync::Mutex<Option<JoinHandle<Result<(), Stop>>>>);

impl Scan {
    /// Starts it, unless the base is on record. Where the times of files are another machine's, they prove nothing: there it is waited for.
    pub async fn begin(&self, kernel: &Kernel, task: TaskId, opened: &Arc<OpenWorkspace>) -> Result<(), Stop> {
        if kernel.ledger.task(task)?.workspace.is_some_and(|workspace| workspace.base.is_none()) {
            *self.0.lock().await = Some(start(kernel, task, opened)?);
            if !base::stamps_are_local(&opened.project) {
                kernel.base(task, opened).await?;
            }
        }
        Ok(())
    }

    pub async fn end(&self) {
        if let Some(scan) = self.0.lock().await.take() {
            scan.abort();
            // It was told to stop: whatever it says now is of no use.
            drop(scan.await);
        }
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        if let Some(scan) = self.0.get_mut() {
            scan.abort();
        }
    }
}

impl Kernel {
    /// A task's base, once it is on record.
    pub(crate) async fn base(&self, task: TaskId, opened: &Arc<OpenWorkspace>) -> Result<Base, Stop> {
        let mut scan = opened.scan.0.lock().await;
        if let Some(base) = self.ledger.task(task)?.workspace.and_then(|workspace| workspace.base) {
            return Ok(base);
        }
        let running = match scan.take() {
            Some(running) => running,
            // The last one failed.
            None => start(self, task, opened)?,
        };
        running.await.map_err(|error| Fault::new(FaultKind::Bug, "the look through a project failed", error))??;
        let workspace = self.ledger.task(task)?.workspace;
        let base = workspace.and_then(|workspace| workspace.base);
        Ok(base.ok_or_else(|| Refusal::new(Code::WrongState, format!("{task} has ended")))?)
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
    let throwaway = kernel.throwaway_room(task.zone, project, RoomContent::Repository).await?;
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
