//! Throw-away rooms: the project, perhaps with a task's changes over it, and nothing that outlives them.
//!
//! **Invariant.** What is written in one reaches neither the project nor a task, and its folder goes with it; a boot sweeps what a crash left.

use crate::{RunningWork, WorkKey};
use gate::{Gate, Who};
use host::{Rooms, UsedBuilds};
use sandbox::{Workspace, WorkspaceSpec};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Handle;
use workspace::lay_out::lay;
use workspace::{KeptChanges, aside, git_binds, room_fault};
use world::ZoneId;
use world::{Fault, FaultKind, Stop};

/// A room that goes when this is dropped.
pub struct ThrowawayRoom {
    room: Option<Workspace>,
    folder: PathBuf,
    works: Arc<RunningWork>,
    /// What lies beneath it must stay as long as it does.
    builds: Option<UsedBuilds>,
}

/// What a throw-away room shows.
pub enum RoomContent {
    /// The project for the kernel's own git, without pipes and devices and else as it is.
    Repository,
    /// The project as a job of this process may see it.
    Project(Who),
    /// That with a task's overlay between.
    Task(PathBuf, Who),
    /// The project with kept work written over it, as a job of this process may see it.
    Kept(Box<KeptChanges>, Who),
    /// The same over what the kernel's own earlier runs built.
    Tested(Box<KeptChanges>, Who, Option<UsedBuilds>),
}

/// Opens them.
pub struct ThrowawayRooms {
    pub(crate) gate: Arc<Gate>,
    pub(crate) rooms: Arc<Rooms>,
    /// The kernel's own folder, which no room shows.
    home: PathBuf,
    works: Arc<RunningWork>,
}

impl ThrowawayRooms {
    pub fn new(gate: Arc<Gate>, rooms: Arc<Rooms>, home: &Path, works: Arc<RunningWork>) -> ThrowawayRooms {
        ThrowawayRooms { gate, rooms, home: home.to_owned(), works }
    }

    pub async fn open(&self, zone: ZoneId, project: &Path, shows: RoomContent) -> Result<ThrowawayRoom, Stop> {
        self.open_for(zone, project, shows, None).await
    }

    /// For jobs of this template.
    pub async fn open_for(&self, zone: ZoneId, project: &Path, shows: RoomContent, template: Option<&str>) -> Result<ThrowawayRoom, Stop> {
        let runtime = self.gate.policies.runtime(zone, template)?;
        let folder = self.rooms.scratch_folder();
        aside(|| std::fs::create_dir_all(&folder)).map_err(|error| Fault::io("make", &folder, error))?;
        let mut throwaway = ThrowawayRoom { room: None, folder, works: Arc::clone(&self.works), builds: None };
        let mut spec = WorkspaceSpec::new(project, &throwaway.folder);
        let is_repository = matches!(shows, RoomContent::Repository);
        let found = match &shows {
            RoomContent::Repository => Arc::new(self.gate.masks.special_files(project).await?),
            RoomContent::Project(who) | RoomContent::Task(_, who) | RoomContent::Kept(_, who) | RoomContent::Tested(_, who, _) => {
                self.gate.masks.find(&self.gate.sight(*who)?).await?
            }
        };
        spec.masked = found.masks.iter().cloned().collect();
        match shows {
            RoomContent::Task(upper, _) => spec.beneath = Some(upper),
            RoomContent::Kept(kept, _) => self.lay(&kept, project, &throwaway.folder)?,
            RoomContent::Tested(kept, _, builds) => {
                self.lay(&kept, project, &throwaway.folder)?;
                spec.beneath = builds.as_ref().map(UsedBuilds::layer);
                throwaway.builds = builds;
            }
            RoomContent::Repository | RoomContent::Project(_) => {}
        }
        spec.binds = git_binds(project, &throwaway.folder, &self.home, &found).await?;
        let opened =
            if is_repository { self.rooms.open_room(runtime, spec).await? } else { self.rooms.open_equipped(runtime, spec).await? };
        throwaway.room = Some(opened);
        Ok(throwaway)
    }

    fn lay(&self, kept: &KeptChanges, project: &Path, folder: &Path) -> Result<(), Stop> {
        aside(|| lay(kept, project, folder, &|blob| self.gate.ledger.blob(blob)))
    }
}

impl ThrowawayRoom {
    pub fn room(&self) -> Result<&Workspace, Fault> {
        self.room.as_ref().ok_or_else(|| Fault::new(FaultKind::Bug, "a throwaway sandbox is closed", self.folder.display()))
    }

    /// Ends it in order; dropping it does the same without waiting.
    pub async fn close(self) -> Result<(), Fault> {
        self.close_and(|_, _| ()).await
    }

    /// Ends it in order, and hands out what was written in it, with the builds that lay beneath, before it goes. Blocks for that.
    pub async fn close_and(mut self, take: impl FnOnce(&Path, Option<&UsedBuilds>)) -> Result<(), Fault> {
        let Some(room) = self.room.take() else { return Ok(()) };
        room.close().await.map_err(room_fault)?;
        aside(|| take(&self.folder.join("upper"), self.builds.as_ref()));
        Ok(())
    }
}

impl Drop for ThrowawayRoom {
    fn drop(&mut self) {
        let (room, folder, builds) = (self.room.take(), std::mem::take(&mut self.folder), self.builds.take());
        match (room, Handle::try_current()) {
            // What still runs in there writes until it is dead.
            (Some(room), Ok(runtime)) => {
                let hold = self.works.begin(WorkKey::default());
                drop(runtime.spawn(async move {
                    drop(room.close().await);
                    remove(&folder);
                    drop((builds, hold));
                }));
            }
            (room, _) => {
                drop(room);
                remove(&folder);
            }
        }
    }
}

fn remove(folder: &Path) {
    if let Err(error) = aside(|| sandbox::remove(folder)) {
        world::log!("skep: left behind `{}`: {error}", folder.display());
    }
}
