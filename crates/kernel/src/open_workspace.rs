//! When a task's workspace is opened and closed, and what it shows.
//!
//! **Invariant.** What runs in a room began after `workspace.opened` was on record.

use crate::{Kernel, KernelFuture, replay};
use agent::RoomTerms;
use gate::{Request, RoomRuntime, Who};
use host::HOME_LAYER;
use parking_lot::Mutex;
use room::{MOVE_MAX, OpenWorkspace, Scan};
use sandbox::{HostShare, WorkspaceSpec};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use workspace::{aside, base, git_binds, repository, room_fault};
use world::event::{WorkspaceBased, WorkspaceClosed, WorkspaceOpened};
use world::{Base, Code, Fault, Pid, Refusal, Stop, Task, TaskId, ZoneId};

impl Kernel {
    /// The room of a task; opened, or mounted again after a restart, on first use.
    pub(crate) fn workspace_of(&self, task: TaskId) -> KernelFuture<'_, Result<Arc<OpenWorkspace>, Stop>> {
        Box::pin(async move {
            let cell = self.workspaces.slot(task);
            let opened = cell.get_or_try_init(|| self.mount_workspace(task)).await?;
            self.workspaces.follow_pause(task, opened).await?;
            Ok(opened.clone())
        })
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
        let moved = self.workspaces.take_moving(task);
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
            aside(|| workspace::lay_out::lay(&kept, &project, &work, &|blob| self.ledger.blob(blob)))?;
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
        let shown = self.rooms.settings().host_binds.targets();
        spec.shares = aside(|| self.brains.shares(&owner, &toolchains, &shown, &project))?;
        let shares: Vec<HostShare> = toolchains.into_iter().chain(spec.shares.iter().cloned()).collect();
        let wanted = RoomTerms { found: &found, shares: &shares, binds: &spec.binds };
        let idle = match recorded {
            None if runtime == RoomRuntime::Native => self.clients.take_room(&owner, &work, wanted).await?,
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
        self.begin_scan(task, &opened).await?;
        Ok(opened)
    }

    /// The home that the worker's client has in the workspace of a task that nobody works on now.
    fn waiting_home(&self, zone: ZoneId, pid: Pid) -> Option<PathBuf> {
        let tasks: Vec<TaskId> = self.ledger.look(|world| {
            let own = world.tasks.values().filter(|task| (task.zone, task.pid) == (zone, pid) && task.workspace.is_some());
            own.map(|task| task.id).collect()
        });
        let busy = self.tasks.episodes.lock();
        let homes = tasks.into_iter().filter(|task| !busy.contains_key(task)).map(|task| self.instance.home.work_of(task));
        homes.map(|work| work.join("layers").join(HOME_LAYER)).find(|home| home.is_dir())
    }

    /// Ends a task's room and removes what was written in it: it is kept, or nobody wants it.
    pub(crate) async fn remove_workspace(&self, pid: Pid, task: TaskId) -> Result<(), Fault> {
        let opened = self.workspaces.take(task);
        self.increments.lock().remove(&task);
        self.blobs.work_dropped();
        let mut is_quiet = true;
        if let Some(opened) = opened {
            opened.scan.end().await;
            is_quiet = match Arc::try_unwrap(opened) {
                Ok(opened) => match self.clients.keep_room(pid, task, opened).await {
                    Some(opened) => opened.room.close().await.is_ok(),
                    None => true,
                },
                // A call still holds it.
                Err(_) => false,
            };
        }
        self.clients.forget(pid, task).await;
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
