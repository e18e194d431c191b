//! Rooms for people: what runs in them, and how they are paused.
//!
//! A paused room stays paused over a restart: its next job waits, and no limit of time counts.

use crate::{OpenWorkspace, OpenWorkspaces};
use sandbox::{DiskUse, JobFigures};
use workspace::room_fault;
use world::event::{WorkspacePaused, WorkspaceResumed};
use world::{Code, Fault, Pid, Refusal, Stop, TaskId, World};

/// An open workspace as it is now.
#[derive(Debug, Clone)]
pub struct RoomView {
    pub task: TaskId,
    pub pid: Pid,
    pub paused: bool,
    pub jobs: Vec<JobFigures>,
    pub project: std::path::PathBuf,
}

impl OpenWorkspaces {
    /// Every room that is open, and those that are paused while nothing runs in them.
    pub fn rooms(&self) -> Vec<RoomView> {
        let mut rooms: Vec<RoomView> = self
            .each()
            .into_iter()
            .filter_map(|(task, opened)| {
                let (pid, paused) = self.ledger.look(|world| {
                    let task = world.tasks.get(&task)?;
                    Some((task.pid, task.workspace.as_ref().is_some_and(|workspace| workspace.paused)))
                })?;
                Some(RoomView { task, pid, paused, jobs: opened.room.jobs(), project: opened.project.clone() })
            })
            .collect();
        self.ledger.look(|world| {
            let is_open = |id: &TaskId| rooms.iter().any(|room| room.task == *id);
            let paused = world.tasks.values().filter(|task| task.workspace.as_ref().is_some_and(|workspace| workspace.paused));
            let closed = paused.filter(|task| !is_open(&task.id)).map(|task| {
                let project = world.zones.get(&task.zone).map(|zone| zone.path.clone().into()).unwrap_or_default();
                RoomView { task: task.id, pid: task.pid, paused: true, jobs: Vec::new(), project }
            });
            let closed: Vec<RoomView> = closed.collect();
            rooms.extend(closed);
        });
        rooms.sort_by_key(|room| room.task);
        rooms
    }

    /// What a task has written so far; `None` while its room is not open.
    pub fn held(&self, task: TaskId) -> Option<DiskUse> {
        self.find(task).map(|opened| opened.room.held())
    }

    /// Stops everything that runs in a task's room, until it is told to go on.
    pub async fn pause(&self, task: TaskId, by: &str) -> Result<(), Stop> {
        let pid = self.with_room(task, false)?;
        // On record first: what was paused stays so, whatever happens to this kernel.
        self.ledger.record(WorkspacePaused { pid, task: Some(task), by: by.to_owned() }).await?;
        match self.find(task) {
            Some(opened) => Ok(self.follow_pause(task, &opened).await?),
            None => Ok(()),
        }
    }

    pub async fn resume(&self, task: TaskId, by: &str) -> Result<(), Stop> {
        let pid = self.with_room(task, true)?;
        self.ledger.record(WorkspaceResumed { pid, task: Some(task), by: by.to_owned() }).await?;
        match self.find(task) {
            Some(opened) => Ok(self.follow_pause(task, &opened).await?),
            None => Ok(()),
        }
    }

    /// Pauses an open room, or lets it go on, as the journal has it. Whoever opens a room asks once it can be found: a pause or its end that
    /// was recorded meanwhile did not find it.
    pub async fn follow_pause(&self, task: TaskId, opened: &OpenWorkspace) -> Result<(), Fault> {
        let is_wanted = || {
            let of_task = |world: &World| world.tasks.get(&task)?.workspace.as_ref().map(|workspace| workspace.paused);
            self.ledger.look(of_task).unwrap_or_default()
        };
        while is_wanted() != opened.room.is_paused() {
            let _alone = opened.pausing.lock().await;
            match is_wanted() {
                true => opened.room.pause().await.map_err(room_fault)?,
                false => opened.room.resume(),
            }
        }
        Ok(())
    }

    /// The process of a task whose room is, or is not, paused.
    fn with_room(&self, id: TaskId, paused: bool) -> Result<Pid, Refusal> {
        let task = self.ledger.look(|world| world.tasks.get(&id).cloned()).ok_or_else(|| ledger::unknown_task(id))?;
        match &task.workspace {
            None => Err(Refusal::new(Code::WrongState, format!("{id} has no open sandbox"))
                .remedy(world::Remedy::List { what: world::Listing::Rooms })),
            Some(workspace) if workspace.paused != paused => {
                let state = if paused { "not paused" } else { "paused already" };
                Err(Refusal::new(Code::WrongState, format!("the sandbox of {id} is {state}"))
                    .remedy(world::Remedy::List { what: world::Listing::Rooms }))
            }
            Some(_) => Ok(task.pid),
        }
    }
}
