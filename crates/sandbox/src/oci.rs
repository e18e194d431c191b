//! Rooms made by a container engine, Podman or Docker, through the API that both speak.
//!
//! The engine makes one container for each job and is asked for nothing else: pid 1 of the container is this very program
//! ([`guest()`]), which connects to a socket in the workspace, is given the same order and the same descriptors as a native job, and
//! does the same with them. So streams, exit, doors, limits and changes are alike in both, and a container ends with the kernel's
//! end of its socket, however the kernel ends.
//!
//! **Invariant.** Every container carries the labels of its home and its kernel, and [`Engine::sweep`] removes those whose kernel
//! is no more. **Invariant.** A container is closed on every side or its pid 1 refuses to go on.
//!
//! It does not know policy or templates, and pulls nothing: its image holds mount points, the rest is the host's own.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use crate::fault::SandboxError;
use crate::launcher::{Errand, Launcher};
use crate::mount;
use crate::namespace::User;
use crate::process::Identity;
use crate::spec::WorkspaceSpec;
use crate::workspace::{Places, Workspace};

mod api;
mod container;
mod find;
mod guest;
mod image;
mod link;
mod orphan;
mod room;

use api::{Api, ApiError};
pub use find::{FoundEngine, found};
pub use guest::{GUEST, guest};
pub(crate) use room::{ContainerRoom, Grave};

/// What opens workspaces: the launcher, or an engine.
pub trait Runtime {
    /// Opens a workspace over a project. What jobs do in it and what becomes of that is the same in each.
    fn open(&self, spec: WorkspaceSpec) -> impl Future<Output = Result<Workspace, SandboxError>> + Send;
}

impl Runtime for Launcher {
    fn open(&self, spec: WorkspaceSpec) -> impl Future<Output = Result<Workspace, SandboxError>> + Send {
        Launcher::open(self, spec)
    }
}

impl Runtime for Engine {
    fn open(&self, spec: WorkspaceSpec) -> impl Future<Output = Result<Workspace, SandboxError>> + Send {
        Engine::open(self, spec)
    }
}

/// An engine by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    Podman,
    Docker,
}

impl EngineKind {
    pub const ALL: [EngineKind; 2] = [EngineKind::Podman, EngineKind::Docker];

    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Podman => "podman",
            EngineKind::Docker => "docker",
        }
    }

    /// The command that brings it to this host.
    pub fn install(self) -> &'static str {
        match self {
            EngineKind::Podman => "install it: sudo apt-get install podman runc",
            EngineKind::Docker => "install it: sudo apt-get install docker.io && sudo systemctl start docker",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How to reach an engine.
#[derive(Debug, Clone)]
pub struct Settings {
    pub kind: EngineKind,
    /// A folder of the kernel's own: for the socket of an engine that it starts, and for what the engine has to read.
    pub home: PathBuf,
    /// This program, as which a container's pid 1 is started with [`GUEST`] as its only argument.
    pub program: PathBuf,
}

/// A container engine that answers. Dropping the last copy ends the engine if the kernel had started it.
#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    settings: Settings,
    api: Api,
    errand: Errand,
    user: User,
    /// Which kernel a container belongs to.
    kernel: Identity,
    image: OnceCell<String>,
    /// Names of containers that somebody waits for.
    live: Mutex<HashSet<String>>,
    _service: Option<find::EngineService>,
}

impl Engine {
    /// Finds the engine, or starts Podman's service where only its program is there.
    pub async fn connect(launcher: &Launcher, settings: Settings) -> Result<Engine, SandboxError> {
        let user = User::of_jobs();
        if !user.assumed {
            return Err(SandboxError::NotRoot { engine: settings.kind });
        }
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&settings.home)
            .map_err(SandboxError::io("making the engine's folder"))?;
        let errand = launcher.errand();
        let (api, service) = find::connect(&settings, &errand).await?;
        let kernel = Identity::of(rustix::process::getpid().as_raw_nonzero().get()).map_err(SandboxError::io("reading /proc/self/stat"))?;
        let inner = Inner { settings, api, errand, user, kernel, image: OnceCell::new(), live: Mutex::default(), _service: service };
        Ok(Engine { inner: Arc::new(inner) })
    }

    pub fn kind(&self) -> EngineKind {
        self.inner.settings.kind
    }

    /// Opens a workspace: makes its directories, mounts its overlay, sees to the image. An `upper/` that is there is used again.
    pub async fn open(&self, mut spec: WorkspaceSpec) -> Result<Workspace, SandboxError> {
        let shown = [&spec.project, &spec.work, &self.inner.settings.program].into_iter();
        for path in shown.chain(spec.binds.iter().flat_map(|bind| [&bind.source, &bind.target])) {
            speakable(path)?;
        }
        spec.shares.retain(|share| speakable(&share.target).is_ok());
        let image = self.inner.image().await?.to_owned();
        let mounted = self.inner.errand.mount(spec).await?;
        let (work, places) = (mounted.order.work.path().to_owned(), Places::of(&mounted.order).without(&mounted.uncovered));
        // From here on the mount is the room's to take off.
        let room = ContainerRoom::new(Arc::clone(&self.inner), image, mounted);
        let open = |folder| {
            rustix::fs::open(work.join(folder), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                .map_err(|error| SandboxError::io("opening the merged project")(error.into()))
        };
        let (root, bare) = (open(mount::SHOWN)?, open(mount::MERGED)?);
        Ok(Workspace::contained(room, root, bare, places))
    }

    /// Whether it still does.
    pub async fn answers(&self) -> bool {
        self.inner.api.ping().await.is_ok()
    }

    /// Ends every container of this kernel and waits until all are gone, but no longer than `most`. True when they are.
    pub async fn rest(&self, most: Duration) -> bool {
        let empty = async {
            loop {
                let live: Vec<String> = self.inner.live.lock().iter().cloned().collect();
                if live.is_empty() {
                    return;
                }
                let removals: JoinSet<()> = live.into_iter().map(|name| container::remove_once(Arc::clone(&self.inner), name)).collect();
                drop(removals.join_all().await);
                // One that is still being made, or whose engine is busy with its end, is asked for again.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(most, empty).await.is_ok()
    }
}

impl Inner {
    fn fault(&self, what: &'static str) -> impl FnOnce(ApiError) -> SandboxError {
        let engine = self.settings.kind;
        move |error| SandboxError::Engine { engine, what, why: error.to_string() }
    }

    /// A name that no other container has or had, also of an engine that the kernel lost and found again.
    fn name(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        format!("skep-{}-{}-{}", self.kernel.pid, self.kernel.start, NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A path in the words of an engine, which separates paths by colons.
fn speakable(path: &Path) -> Result<&str, SandboxError> {
    let text = path.to_str().filter(|text| !text.contains(':') && !text.chars().any(char::is_control));
    text.ok_or_else(|| SandboxError::Project { path: path.to_owned(), why: "engines take no path with a colon or unprintable bytes" })
}
