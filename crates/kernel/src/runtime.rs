//! What rooms are made with: this host itself, or a container engine.
//!
//! Which of them, the policy in force says (`gate`). A template may name one of its own; then the task's room moves there for its jobs, with
//! all that was written in it. **Invariant.** A runtime that was asked for and cannot be had is a refusal with its remedy; no other takes
//! its place.

use crate::Kernel;
use crate::services::HostServices;
use gate::RoomRuntime;
use sandbox::oci::{Engine, Kind, Settings};
use sandbox::{Check, HostFix, Workspace, WorkspaceSpec};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, Notify};
use workspace::{HostBinds, room_fault};
use world::{Fault, Stop};

/// Containers that somebody stopped waiting for are looked for this often.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// For containers to go when the kernel stops. What stays is swept by the next.
const REST_MAX: Duration = Duration::from_secs(2);

/// What rooms are made with: the launcher and the engines, and what the operator gives to every room.
pub struct Rooms {
    pub launcher: Arc<sandbox::Launcher>,
    home: PathBuf,
    /// The runtime that the operator has fixed for every zone.
    fixed_runtime: Option<RoomRuntime>,
    /// Container engines that have been needed so far.
    engines: Mutex<Vec<Engine>>,
    /// Rung when engines are let go of.
    quiet: Notify,
    /// What rooms see of the host beside its system folders.
    pub(crate) host_binds: HostBinds,
    /// What every room's programs find in their environment.
    pub(crate) environment: Vec<(String, String)>,
    /// Services of this machine and secrets that a job may use.
    pub(crate) host_services: HostServices,
    /// Counts throw-away rooms, so that each has a folder of its own.
    scratch: AtomicU64,
}

impl Rooms {
    pub(crate) fn new(
        launcher: Arc<sandbox::Launcher>,
        home: &Path,
        fixed_runtime: Option<RoomRuntime>,
        host_binds: HostBinds,
        environment: Vec<(String, String)>,
        host_services: HostServices,
    ) -> Rooms {
        Rooms {
            launcher,
            home: home.to_owned(),
            fixed_runtime,
            engines: Mutex::default(),
            quiet: Notify::new(),
            host_binds,
            environment,
            host_services,
            scratch: AtomicU64::new(0),
        }
    }

    /// A folder for the next throw-away room.
    pub(crate) fn scratch_folder(&self) -> PathBuf {
        let number = self.scratch.fetch_add(1, Ordering::Relaxed);
        self.home.join("work").join(format!("scratch-{number}"))
    }

    pub(crate) async fn open_room(&self, runtime: RoomRuntime, mut spec: WorkspaceSpec) -> Result<Workspace, Stop> {
        spec.binds.extend(self.host_binds.binds(&spec.project)?);
        let opened = match runtime.engine() {
            None => self.launcher.open(spec).await,
            Some(kind) => self.engine(kind).await?.open(spec).await,
        };
        Ok(opened.map_err(room_fault)?)
    }

    /// The engine, found or started on first use, and again when it has gone away.
    async fn engine(&self, kind: Kind) -> Result<Engine, Fault> {
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
    pub(crate) async fn rest_engines(&self) {
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
        let wanted = self.fixed_runtime.and_then(RoomRuntime::engine);
        let found = sandbox::oci::found().await;
        found
            .into_iter()
            .map(|found| {
                let name = found.kind.name().to_owned();
                let (ok, detail) = match (&found.answers, &found.program) {
                    (Some((socket, version)), _) => (true, format!("{version} answers at {}", socket.display())),
                    (None, Some(program)) if found.kind == Kind::Podman => {
                        (true, format!("{}, started when it is needed", program.display()))
                    }
                    (None, Some(program)) if wanted == Some(found.kind) => {
                        (false, format!("{} is there and does not run", program.display()))
                    }
                    (None, Some(program)) => (true, format!("{} is there and does not run; rooms need none", program.display())),
                    (None, None) => (wanted != Some(found.kind), "not on this host; rooms need none".to_owned()),
                };
                Check { name, ok, detail, fix: (!ok).then(|| HostFix::Change(found.kind.install().to_owned())) }
            })
            .collect()
    }
}

impl Kernel {
    /// Containers that are nobody's any more go, while the kernel runs.
    pub(crate) async fn sweep_containers(self: Arc<Kernel>) {
        let fixed = self.rooms.fixed_runtime.and_then(RoomRuntime::engine);
        while !self.instance.stopping() {
            if let Some(kind) = fixed
                && let Err(fault) = self.rooms.engine(kind).await
            {
                world::log!("skep: containers were not swept: {}: {}", fault.what, fault.why);
            }
            let engines = self.rooms.engines.lock().await.clone();
            for engine in engines {
                if let Err(fault) = engine.sweep().await.map_err(room_fault) {
                    world::log!("skep: containers were not swept: {}: {}", fault.what, fault.why);
                }
            }
            tokio::select! {
                () = tokio::time::sleep(SWEEP_EVERY) => {}
                () = self.rooms.quiet.notified() => return,
            }
        }
    }
}
