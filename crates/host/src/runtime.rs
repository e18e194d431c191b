//! What rooms are made with: this host itself, or a container engine.
//!
//! Which of them, the policy in force says (`gate`). A template may name one of its own; then the task's room moves there for its jobs, with
//! all that was written in it. **Invariant.** A runtime that was asked for and cannot be had is a refusal with its remedy; no other takes
//! its place.

use crate::builds::ZoneBuilds;
use crate::services::HostServices;
use crate::settings::OperatorSettings;
use crate::toolchains::FoundToolchains;
use gate::RoomRuntime;
use parking_lot::RwLock;
use sandbox::oci::{Engine, EngineKind, Settings};
use sandbox::{Check, HostFix, Network, Template, Workspace, WorkspaceSpec};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, Notify};
use workspace::reader::Folder;
use workspace::{HostBinds, aside, room_fault};
use world::{Fault, Pid, Stop};

/// Containers that somebody stopped waiting for are looked for this often.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// For containers to go when the kernel stops. What stays is swept by the next.
const REST_MAX: Duration = Duration::from_secs(2);

/// What rooms are made with: the launcher and the engines, and what the operator gives to every room.
pub struct Rooms {
    pub launcher: Arc<sandbox::Launcher>,
    pub(crate) home: PathBuf,
    /// What the operator's settings give to every room.
    given: RwLock<Arc<RoomSettings>>,
    /// Container engines that have been needed so far.
    engines: Mutex<Vec<Engine>>,
    /// Rung when engines are let go of.
    quiet: Notify,
    /// Counts throw-away rooms, so that each has a folder of its own.
    scratch: AtomicU64,
    /// Layers that workers left and that a client of theirs still has mounted.
    pub(crate) held_layers: parking_lot::Mutex<BTreeSet<(Pid, PathBuf)>>,
    pub(crate) builds: ZoneBuilds,
}

/// What the operator's settings give to every room.
pub struct RoomSettings {
    /// The runtime that is fixed for every zone.
    pub fixed_runtime: Option<RoomRuntime>,
    /// What rooms see of the host beside its system folders.
    pub host_binds: HostBinds,
    /// What the operator puts into the environment of every room's programs.
    pub environment: Vec<(String, String)>,
    /// What the person has of toolchains.
    pub toolchains: FoundToolchains,
    /// Services of this machine and secrets that a job may use.
    pub host_services: HostServices,
}

impl RoomSettings {
    /// `variables` are those of whoever started the kernel.
    pub fn read(settings: &OperatorSettings, home: &Path, variables: &[(String, String)]) -> Result<RoomSettings, String> {
        let host_binds = HostBinds::read(&settings.sandbox.show, home)?;
        let choice = settings.sandbox.toolchains.clone().unwrap_or_default();
        Ok(RoomSettings {
            fixed_runtime: settings.runtime,
            toolchains: FoundToolchains::new(choice, variables, home, &host_binds),
            host_binds,
            environment: settings.room_environment().variables(variables),
            host_services: HostServices::read(settings, home, variables)?,
        })
    }
}

impl Rooms {
    pub fn new(launcher: Arc<sandbox::Launcher>, home: &Path, given: RoomSettings) -> Rooms {
        Rooms {
            launcher,
            home: home.to_owned(),
            given: RwLock::new(Arc::new(given)),
            engines: Mutex::default(),
            quiet: Notify::new(),
            scratch: AtomicU64::new(0),
            held_layers: parking_lot::Mutex::default(),
            builds: ZoneBuilds::default(),
        }
    }

    /// What the operator gives to rooms now.
    pub fn settings(&self) -> Arc<RoomSettings> {
        self.given.read().clone()
    }

    /// Takes other settings, from the next job on; what a room shows of the host stays until that room is closed.
    pub fn replace(&self, given: RoomSettings) {
        *self.given.write() = Arc::new(given);
    }

    /// A folder for the next throw-away room.
    pub fn scratch_folder(&self) -> PathBuf {
        let number = self.scratch.fetch_add(1, Ordering::Relaxed);
        self.home.join("work").join(format!("scratch-{number}"))
    }

    /// A room in which programs of the person run.
    pub async fn open_equipped(&self, runtime: RoomRuntime, mut spec: WorkspaceSpec) -> Result<Workspace, Stop> {
        // What lies in another comes after it, and the room's own shares lie in nothing of the toolchains.
        let shares = self.toolchain_shares(&spec.project).await;
        spec.shares.splice(0..0, shares);
        self.open_room(runtime, spec).await
    }

    /// What rooms over a project see of the person's toolchains.
    pub async fn toolchain_shares(&self, project: &Path) -> Vec<sandbox::HostShare> {
        let toolchains = self.settings().toolchains.get().await;
        aside(|| toolchains.shares(project))
    }

    /// Looks at the host anew; rooms that open from now on see what there is.
    pub async fn look_for_toolchains(&self) -> Arc<workspace::Toolchains> {
        self.settings().toolchains.look_again().await
    }

    /// The variables of a job of this template over a project, which `room` shows. What the operator set counts most.
    pub async fn environment(&self, project: &Path, room: Option<&Workspace>, cwd: &Path, template: &Template) -> Vec<(String, String)> {
        let given = self.settings();
        let toolchains = given.toolchains.get().await;
        let files = room.and_then(|room| Some(Folder::of(room.root().try_clone().ok()?, project)));
        let mut variables = aside(|| toolchains.environment(project, files.as_ref(), cwd, template.network == Network::None));
        variables.retain(|(name, _)| !given.environment.iter().any(|(own, _)| own == name));
        variables.extend(given.environment.iter().cloned());
        variables
    }

    pub async fn open_room(&self, runtime: RoomRuntime, mut spec: WorkspaceSpec) -> Result<Workspace, Stop> {
        spec.binds.extend(self.settings().host_binds.binds(&spec.project)?);
        let opened = match runtime.engine() {
            None => self.launcher.open(spec).await,
            Some(kind) => self.engine(kind).await?.open(spec).await,
        };
        Ok(opened.map_err(room_fault)?)
    }

    /// The engine, found or started on first use, and again when it has gone away.
    async fn engine(&self, kind: EngineKind) -> Result<Engine, Fault> {
        let mut engines = self.engines.lock().await;
        if let Some(place) = engines.iter().position(|engine| engine.kind() == kind) {
            if engines[place].answers().await {
                return Ok(engines[place].clone());
            }
            engines.remove(place);
        }
        let settings = Settings { kind, home: self.home.join("engine"), program: gate::program() };
        let engine = Engine::connect(&self.launcher, settings).await.map_err(room_fault)?;
        engine.sweep().await.map_err(room_fault)?;
        engines.push(engine.clone());
        Ok(engine)
    }

    /// Waits for the containers of closed rooms, and lets go of their engines.
    pub async fn close_engines(&self) {
        self.quiet.notify_one();
        // An engine that is just being started ends with the launcher.
        let Ok(mut engines) = tokio::time::timeout(REST_MAX, self.engines.lock()).await else { return };
        for engine in engines.drain(..) {
            if !engine.rest(REST_MAX).await {
                world::log!("skep: {} still has containers of this home; the next kernel removes them", engine.kind());
            }
        }
    }

    /// What this host has of container engines. One that nobody asked for may be missing.
    pub async fn check_engines(&self) -> Vec<Check> {
        let wanted = self.settings().fixed_runtime.and_then(RoomRuntime::engine);
        let found = sandbox::oci::found().await;
        found
            .into_iter()
            .map(|found| {
                let name = found.kind.name().to_owned();
                let (ok, detail) = match (&found.answers, &found.program) {
                    (Some((socket, version)), _) => (true, format!("{version} answers at {}", socket.display())),
                    (None, Some(program)) if found.kind == EngineKind::Podman => {
                        (true, format!("{}, started when it is needed", program.display()))
                    }
                    (None, Some(program)) if wanted == Some(found.kind) => {
                        (false, format!("{} is there and does not run", program.display()))
                    }
                    (None, Some(program)) => (true, format!("{} is there and does not run; sandboxes need none", program.display())),
                    (None, None) => (wanted != Some(found.kind), "not on this host; sandboxes need none".to_owned()),
                };
                Check { name, ok, detail, fix: (!ok).then(|| HostFix::Change(found.kind.install().to_owned())) }
            })
            .collect()
    }

    /// Removes containers that are nobody's any more, until the kernel stops.
    pub async fn sweep_containers(&self, is_stopping: impl Fn() -> bool) {
        while !is_stopping() {
            let fixed = self.settings().fixed_runtime.and_then(RoomRuntime::engine);
            if let Some(kind) = fixed
                && let Err(fault) = self.engine(kind).await
            {
                world::log!("skep: containers were not swept: {}: {}", fault.what, fault.why);
            }
            let engines = self.engines.lock().await.clone();
            for engine in engines {
                if let Err(fault) = engine.sweep().await.map_err(room_fault) {
                    world::log!("skep: containers were not swept: {}: {}", fault.what, fault.why);
                }
            }
            tokio::select! {
                () = tokio::time::sleep(SWEEP_EVERY) => {}
                () = self.quiet.notified() => return,
            }
        }
    }
}
