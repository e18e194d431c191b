//! Open workspaces: one room for each task that is worked on.
//!
//! When one is opened, and what it shows, is for the kernel to say. **Invariant.** A task has at most one open room.

use crate::Scan;
use gate::RoomRuntime;
use ledger::Ledger;
use parking_lot::Mutex;
use sandbox::{Bind, HostShare, Workspace};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use tool::PathLocks;
use workspace::{Hidden, MaskSet, Sight, is_behind, room_fault};
use world::{Fault, Stop, TaskId};

/// A task's room with what the kernel knows of it.
pub struct OpenWorkspace {
    pub room: Workspace,
    /// Who made it.
    pub runtime: RoomRuntime,
    pub project: PathBuf,
    /// Where upper and work layers are.
    pub work: PathBuf,
    /// What the room's own process could see when it was opened.
    pub sight: Arc<Sight>,
    /// What is masked in it.
    pub found: Mutex<Arc<MaskSet>>,
    pub scan: Scan,
    /// Held by whoever pauses the room or lets it go on.
    pub pausing: tokio::sync::Mutex<()>,
    /// What it shows of the machine beside what every room shows, and of the repository.
    pub shares: Vec<HostShare>,
    pub binds: Vec<Bind>,
}

impl OpenWorkspace {
    /// The same in a folder that was renamed. A copy that lies in it is found there.
    pub fn moved(mut self, work: PathBuf) -> OpenWorkspace {
        for bind in &mut self.binds {
            if let Ok(name) = bind.source.strip_prefix(&self.work) {
                bind.source = work.join(name);
            }
        }
        OpenWorkspace { room: self.room.at(work.clone()), work, ..self }
    }

    /// Whether this host itself made it.
    pub fn is_native(&self) -> bool {
        self.runtime == RoomRuntime::Native
    }

    /// Whether exactly this is masked in it.
    pub fn is_masked_as(&self, found: &MaskSet) -> bool {
        let own = self.found.lock();
        own.masks == found.masks && own.hides_git() == found.hides_git()
    }

    /// Why its room hides a path that has an innocent name: it is another name of a hidden file.
    pub fn other_name(&self, path: &str) -> Option<Hidden> {
        self.found.lock().same.get(Path::new(path)).map(|of| Hidden::Same(of.clone()))
    }

    /// Masks the room as the next job is to see it. False where its overlay still takes a file for missing that has come to the project: no
    /// mask holds on that, and the overlay may think of it at any time. False too where git's own folder is to be seen and was not, or the
    /// other way round: a repository outside the project was bound when the room was opened, or was not.
    pub async fn remask(&self, found: Arc<MaskSet>) -> Result<bool, Stop> {
        if self.found.lock().hides_git() != found.hides_git() {
            return Ok(false);
        }
        let absent = self.room.remask(&found.masks).await.map_err(room_fault)?;
        *self.found.lock() = found;
        let layers = [Some(self.work.join("upper")), workspace::replay::layer(&self.work)];
        let behind = |path: &PathBuf| layers.iter().flatten().any(|layer| is_behind(layer, path));
        Ok(absent.iter().all(|path| self.project.join(path).symlink_metadata().is_err() || behind(path)))
    }
}

/// The rooms of all tasks that are worked on.
pub struct OpenWorkspaces {
    pub(crate) ledger: Arc<Ledger>,
    open: Mutex<HashMap<TaskId, Arc<OnceCell<Arc<OpenWorkspace>>>>>,
    path_locks: Mutex<HashMap<TaskId, Arc<PathLocks>>>,
    /// One lock for each task whose workspace somebody closes, or takes up again.
    closing: Mutex<HashMap<TaskId, Arc<tokio::sync::Mutex<()>>>>,
    /// Rooms on their way to another runtime: what is still to be closed, and where to.
    moving: Mutex<HashMap<TaskId, (OpenWorkspace, RoomRuntime)>>,
}

/// What looks at a room is done in a moment; what runs in it may never be.
pub const MOVE_MAX: Duration = Duration::from_secs(2);

impl OpenWorkspaces {
    pub fn new(ledger: Arc<Ledger>) -> OpenWorkspaces {
        OpenWorkspaces { ledger, open: Mutex::default(), path_locks: Mutex::default(), closing: Mutex::default(), moving: Mutex::default() }
    }

    pub fn close_all(&self) {
        self.open.lock().clear();
        self.moving.lock().clear();
    }

    /// Where a task's workspace is, or will be as soon as somebody opened it.
    pub fn slot(&self, task: TaskId) -> Arc<OnceCell<Arc<OpenWorkspace>>> {
        self.open.lock().entry(task).or_default().clone()
    }

    /// A task's workspace, if it is open.
    pub fn find(&self, task: TaskId) -> Option<Arc<OpenWorkspace>> {
        self.open.lock().get(&task).and_then(|cell| cell.get().cloned())
    }

    /// Takes a room that nobody works in off its place, so that the next who comes opens it anew. False where somebody does.
    pub fn move_to(&self, task: TaskId, runtime: RoomRuntime) -> bool {
        let mut open = self.open.lock();
        let Some(cell) = open.remove(&task) else { return true };
        let kept = match Arc::try_unwrap(cell) {
            Ok(cell) => match cell.into_inner().map(Arc::try_unwrap) {
                Some(Ok(opened)) => {
                    self.moving.lock().insert(task, (opened, runtime));
                    return true;
                }
                Some(Err(opened)) => Arc::new(OnceCell::new_with(Some(opened))),
                None => return true,
            },
            Err(cell) => cell,
        };
        open.insert(task, kept);
        false
    }

    /// A room on its way to another runtime, for whoever opens it there.
    pub fn take_moving(&self, task: TaskId) -> Option<(OpenWorkspace, RoomRuntime)> {
        self.moving.lock().remove(&task)
    }

    /// Takes a task's workspace off its place, to close it.
    pub fn take(&self, task: TaskId) -> Option<Arc<OpenWorkspace>> {
        self.path_locks.lock().remove(&task);
        self.moving.lock().remove(&task);
        self.open.lock().remove(&task).and_then(|cell| cell.get().cloned())
    }

    pub fn each(&self) -> Vec<(TaskId, Arc<OpenWorkspace>)> {
        self.open.lock().iter().filter_map(|(task, cell)| Some((*task, cell.get()?.clone()))).collect()
    }

    /// The order of a task's calls.
    pub fn path_locks(&self, task: TaskId) -> Arc<PathLocks> {
        self.path_locks.lock().entry(task).or_default().clone()
    }

    /// Held by whoever closes a task's workspace or has the task go on.
    pub fn closing(&self, task: TaskId) -> Arc<tokio::sync::Mutex<()>> {
        let mut closing = self.closing.lock();
        closing.retain(|id, lock| *id == task || Arc::strong_count(lock) > 1);
        closing.entry(task).or_default().clone()
    }

    /// Lets go of a task's room; its files stay.
    pub fn forget(&self, task: TaskId) {
        self.open.lock().remove(&task);
        self.path_locks.lock().remove(&task);
        self.moving.lock().remove(&task);
    }

    /// Ends what runs in a task's room, and waits until it is gone.
    pub async fn end_room(&self, task: TaskId) -> Result<(), Fault> {
        let Some(mut opened) = self.open.lock().remove(&task).and_then(|cell| cell.get().cloned()) else { return Ok(()) };
        opened.scan.end().await;
        let began = Instant::now();
        let opened = loop {
            match Arc::try_unwrap(opened) {
                Ok(opened) => break opened,
                // Somebody looks at it, and is done in a moment.
                Err(shared) if began.elapsed() < MOVE_MAX => {
                    opened = shared;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(shared) => return shared.room.end_jobs().await.map_err(room_fault),
            }
        };
        opened.room.close().await.map_err(room_fault)
    }
}
