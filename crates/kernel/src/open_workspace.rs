//! Open workspaces: one room for each task that is worked on.
//!
//! **Invariant.** A task has at most one open room, and what runs in it began after `workspace.opened` was on record.

use crate::client::RoomTerms;
use crate::scan::Scan;
use crate::{Kernel, replay};
use gate::{Request, RoomRuntime, Who};
use ledger::Ledger;
use parking_lot::Mutex;
use sandbox::{Bind, HostShare, Workspace, WorkspaceSpec};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use tool::PathLocks;
use workspace::{Hidden, MaskSet, Sight, aside, base, git_binds, is_behind, repository, room_fault};
use world::event::{WorkspaceBased, WorkspaceClosed, WorkspaceOpened};
use world::{Base, Code, Fault, Pid, Refusal, Stop, Task, TaskId};

/// A task's room with what the kernel knows of it.
pub(crate) struct OpenWorkspace {
    pub room: Workspace,
    /// Who made it.
    runtime: RoomRuntime,
    pub project: PathBuf,
    /// Where upper and work layers are.
    pub work: PathBuf,
    /// What the room's own process could see when it was opened.
    pub sight: Arc<Sight>,
    /// What is masked in it.
    found: Mutex<Arc<MaskSet>>,
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
    async fn remask(&self, found: Arc<MaskSet>) -> Result<bool, Stop> {
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
const MOVE_MAX: Duration = Duration::from_secs(2);

impl OpenWorkspaces {
    pub(crate) fn new(ledger: Arc<Ledger>) -> OpenWorkspaces {
        OpenWorkspaces { ledger, open: Mutex::default(), path_locks: Mutex::default(), closing: Mutex::default(), moving: Mutex::default() }
    }

    pub fn close_all(&self) {
        self.open.lock().clear();
        self.moving.lock().clear();
    }

    /// A task's workspace, if it is open.
    pub(crate) fn find(&self, task: TaskId) -> Option<Arc<OpenWorkspace>> {
        self.open.lock().get(&task).and_then(|cell| cell.get().cloned())
    }

    /// Takes a room that nobody works in off its place, so that the next who comes opens it anew. False where somebody does.
    fn move_to(&self, task: TaskId, runtime: RoomRuntime) -> bool {
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

    pub(crate) fn each(&self) -> Vec<(TaskId, Arc<OpenWorkspace>)> {
        self.open.lock().iter().filter_map(|(task, cell)| Some((*task, cell.get()?.clone()))).collect()
    }
}

impl OpenWorkspaces {
    /// The order of a task's calls.
    pub(crate) fn path_locks(&self, task: TaskId) -> Arc<PathLocks> {
        self.path_locks.lock().entry(task).or_default().clone()
    }

    /// Held by whoever closes a task's workspace or has the task go on.
    pub(crate) fn closing(&self, task: TaskId) -> Arc<tokio::sync::Mutex<()>> {
        let mut closing = self.closing.lock();
        closing.retain(|id, lock| *id == task || Arc::strong_count(lock) > 1);
        closing.entry(task).or_default().clone()
    }

    /// Lets go of a task's room; its files stay.
    pub(crate) fn forget(&self, task: TaskId) {
        self.open.lock().remove(&task);
        self.path_locks.lock().remove(&task);
        self.moving.lock().remove(&task);
    }

    /// Ends what runs in a task's room, and waits until it is gone.
    pub(crate) async fn end_room(&self, task: TaskId) -> Result<(), Fault> {
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

impl Kernel {
    /// The room of a task; opened, or mounted again after a restart, on first use.
    pub(crate) async fn workspace_of(&self, task: TaskId) -> Result<Arc<OpenWorkspace>, Stop> {
        let cell = self.workspaces.open.lock().entry(task).or_default().clone();
        let opened = cell.get_or_try_init(|| self.mount_workspace(task)).await?;
        self.workspaces.follow_pause(task, opened).await?;
        Ok(opened.clone())
    }

    /// The room of a task for a job of this process and template, masked as they may see it. It moves when another runtime than its own makes
    /// rooms of that template, and is opened anew when it can't be masked as it is.
    pub(crate) async fn workspace_for(&self, task: TaskId, request: &Request, template: &str) -> Result<Arc<OpenWorkspace>, Stop> {
        let wanted = self.gate.policies.runtime(request.zone, Some(template))?;
        let began = Instant::now();
        loop {
            let opened = self.workspace_of(task).await?;
            let held = opened.runtime;
            if held == wanted {
                let found = self.gate.masks.find(&self.sight_for(request)?).await?;
                if opened.remask(found).await? {
                    return Ok(opened);
                }
            }
            drop(opened);
            if !self.workspaces.move_to(task, wanted) && began.elapsed() > MOVE_MAX {
                let why = if held == wanted {
                    format!("other files of the project must be masked, and something of {task} still runs in the sandbox")
                } else {
                    format!("`{template}` has sandboxes of {}, and something of {task} still runs in one of {}", wanted.name(), held.name())
                };
                return Err(Refusal::new(Code::WrongState, why).hint("call it again when that is over").into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn mount_workspace(&self, task: TaskId) -> Result<Arc<OpenWorkspace>, Stop> {
        let found = self.ledger.look(|world| {
            // One that ended is opened only to be closed in order.
            let task = world.tasks.get(&task).filter(|task| !task.state.at_rest() || task.workspace.is_some())?;
            let zone = world.zones.get(&task.zone)?;
            Some((task.clone(), zone.id, PathBuf::from(&zone.path)))
        });
        let Some((taken_up, zone, project)) = found else {
            return Err(Refusal::new(Code::WrongState, format!("{task} has ended")).into());
        };
        let kept = self.kept_changes(&taken_up)?;
        let owner = taken_up.clone();
        let Task { pid, workspace: recorded, replays, .. } = taken_up;
        let moved = self.workspaces.moving.lock().remove(&task);
        let runtime = match moved {
            Some((left, runtime)) => {
                // It begins anew, and then what was touched in all that time has no base.
                left.scan.end().await;
                left.room.close().await.map_err(room_fault)?;
                runtime
            }
            None => self.gate.policies.runtime(zone, None)?,
        };
        let work = self.instance.home.work_of(task);
        aside(|| {
            if recorded.is_none() && work.exists() {
                sandbox::remove(&work).map_err(|error| Fault::io("remove", &work, error))?;
            }
            std::fs::create_dir_all(&work).map_err(|error| Fault::io("make", &work, error))
        })?;
        if let Some(kept) = kept.filter(|_| recorded.is_none()) {
            aside(|| workspace::keep::lay(&kept, &project, &work, &|blob| self.ledger.blob(blob)))?;
        }
        // Before anything is compared with the project: what is changed from here on has no base.
        let since_us = base::earliest_us();
        let sight = self.gate.sight(Who { pid, zone, task: Some(task) })?;
        let found = self.gate.masks.find(&sight).await?;
        let mut spec = WorkspaceSpec::new(&project, &work);
        spec.masked = found.masks.iter().cloned().collect();
        spec.binds = git_binds(&project, &work, &self.instance.home.path, &found).await?;
        let then = match replays {
            Some(of) if recorded.is_none() => Some(replay::base::rebuild(self, of, zone, &project, &work, &sight).await?),
            _ => None,
        };
        spec.beneath = workspace::replay::layer(&work);
        let toolchains = self.rooms.toolchain_shares(&project).await;
        let shown = self.rooms.given().host_binds.targets();
        spec.shares = aside(|| self.brains.shares(&owner, &toolchains, &shown, &project))?;
        let shares: Vec<HostShare> = toolchains.into_iter().chain(spec.shares.iter().cloned()).collect();
        let wanted = RoomTerms { found: &found, shares: &shares, binds: &spec.binds };
        let idle = match recorded {
            None if runtime == RoomRuntime::Native => self.take_idle_room(&owner, &work, wanted).await?,
            _ => None,
        };
        match recorded {
            None => self.rooms.take_layers(zone, pid, &work, || self.waiting_home(zone, pid)),
            Some(_) => self.rooms.find_brain_home(zone, pid, &work, || self.waiting_home(zone, pid)),
        }
        let (room, binds) = match idle {
            Some(OpenWorkspace { room, binds, .. }) => (room, binds),
            None => {
                let binds = spec.binds.clone();
                (self.rooms.open_equipped(runtime, spec).await?, binds)
            }
        };
        let (found, scan, pausing) = (Mutex::new(found), Scan::default(), tokio::sync::Mutex::default());
        let opened = Arc::new(OpenWorkspace { room, runtime, sight, found, project, work, scan, pausing, shares, binds });
        if recorded.is_none() {
            let (head, base) = match then {
                Some(then) => (then.opened, Some(then.base)),
                None => (repository::head(&opened.project, &self.instance.home.path).await?, None),
            };
            let mut events = vec![WorkspaceOpened { pid, task: Some(task), head, since_us }.into()];
            if let Some(Base { head, blob, .. }) = base {
                // It was true before: nothing that is touched from now on takes from it.
                events.push(WorkspaceBased { pid, task: Some(task), head, blob, until_us: since_us - 1 }.into());
            }
            self.ledger.commit(|_, _| (events, ()))?.durable().await?;
        }
        opened.scan.begin(self, task, &opened).await?;
        Ok(opened)
    }

    /// Ends a task's room and removes what was written in it: it is kept, or nobody wants it.
    pub(crate) async fn remove_workspace(&self, pid: Pid, task: TaskId) -> Result<(), Fault> {
        let opened = self.workspaces.open.lock().remove(&task).and_then(|cell| cell.get().cloned());
        self.workspaces.path_locks.lock().remove(&task);
        self.blobs.work_dropped();
        self.workspaces.moving.lock().remove(&task);
        let mut is_quiet = true;
        if let Some(opened) = opened {
            opened.scan.end().await;
            is_quiet = match Arc::try_unwrap(opened) {
                Ok(opened) => match self.keep_room(pid, task, opened).await {
                    Some(opened) => opened.room.close().await.is_ok(),
                    None => true,
                },
                // A call still holds it.
                Err(_) => false,
            };
        }
        self.forget_client(pid, task).await;
        self.models.close_cassettes(pid, task);
        let work = self.instance.home.work_of(task);
        if let Some(zone) = self.ledger.look(|world| world.tasks.get(&task).map(|task| task.zone)).filter(|_| is_quiet) {
            self.rooms.keep_layers(zone, pid, &work);
        }
        if self.ledger.look(|world| world.tasks.get(&task).is_some_and(|task| task.workspace.is_some())) {
            self.ledger.record(WorkspaceClosed { pid, task: Some(task) }).await?;
        }
        // A call that still holds the room keeps its mount; the path is free all the same.
        aside(|| {
            sandbox::release(&work);
            sandbox::remove(&work).map_err(|error| Fault::io("remove", &work, error))
        })
    }
}
