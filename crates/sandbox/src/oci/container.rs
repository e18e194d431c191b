//! One container: what it is told to be, its start and its removal.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Resource;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::api::ContainerState;
use super::{EngineKind, GUEST, Inner, guest, image, orphan, speakable};
use crate::fault::SandboxError;
use crate::mount::{self, Private};
use crate::order::{JobOrder, OpenOrder, ShareOrder};
use crate::resolver;
use crate::seccomp;
use crate::share;
use crate::spec::Limits;

/// Pid 1 counts too, and is not the caller's.
const OWN_TASKS: i64 = 1;

/// A container from before it is asked for until it is gone. Dropping it removes it, with everything in it.
#[derive(Debug)]
pub(super) struct Container {
    engine: Arc<Inner>,
    name: String,
    gone: bool,
    /// Closed when it is gone.
    until_gone: Option<watch::Sender<()>>,
}

impl Container {
    /// Makes it and starts it. One that fails on the way is removed.
    pub(super) async fn start(
        engine: &Arc<Inner>,
        image: &str,
        workspace: &OpenOrder,
        job: &JobOrder,
        (link, private): (&std::path::Path, &Private),
        until_gone: watch::Sender<()>,
    ) -> Result<Container, SandboxError> {
        let body = body(engine, image, workspace, job, binds(engine, workspace, link, private)?)?;
        // Before the request: an answer that never arrives leaves a container all the same.
        let container = Container { engine: Arc::clone(engine), name: engine.name(), gone: false, until_gone: Some(until_gone) };
        engine.live.lock().insert(container.name.clone());
        // A task of its own: who gives up waiting leaves a container that is made first and removed then, not the other way round.
        let made = tokio::spawn(container.make(body));
        made.await.map_err(|error| SandboxError::io("making a container")(std::io::Error::other(error)))?
    }

    async fn make(self, body: Value) -> Result<Container, SandboxError> {
        let engine = &self.engine;
        engine.api.create_container(&self.name, &body).await.map_err(engine.fault("making a container"))?;
        engine.api.start_container(&self.name).await.map_err(engine.fault("starting a container"))?;
        Ok(self)
    }

    pub(super) async fn state(&self) -> Result<ContainerState, SandboxError> {
        self.engine.api.container_state(&self.name).await.map_err(self.engine.fault("looking at a container"))
    }

    /// Removes it and waits until it is gone. On failure the next sweep finds it, since nobody waits for it any more.
    pub(super) async fn remove(mut self) {
        remove(Arc::clone(&self.engine), self.name.clone()).await;
        self.gone = true;
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        let (removal, until_gone) = (remove(Arc::clone(&self.engine), self.name.clone()), self.until_gone.take());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                removal.await;
                drop(until_gone);
            });
        }
    }
}

async fn remove(engine: Arc<Inner>, name: String) {
    for pause_ms in REMOVAL_PAUSES_MS {
        match engine.api.remove_container(&name).await {
            Ok(()) => break,
            Err(error) if error.status() == Some(404) => break,
            // An engine that is itself busy with the end of this container says no.
            Err(_) => tokio::time::sleep(Duration::from_millis(pause_ms)).await,
        }
    }
    engine.live.lock().remove(&name);
}

/// Removes one that is there, and its name only with it: one that is not there may be on its way.
pub(super) async fn remove_once(engine: Arc<Inner>, name: String) {
    if engine.api.remove_container(&name).await.is_ok() {
        engine.live.lock().remove(&name);
    }
}

/// Half a minute in all: on a loaded machine an engine takes that long to see that a container has ended.
const REMOVAL_PAUSES_MS: [u64; 9] = [50, 100, 200, 400, 800, 1600, 3200, 6400, 12_800];

/// Everything that closes it, in the words of the engine's API.
fn body(engine: &Inner, image: &str, workspace: &OpenOrder, job: &JobOrder, binds: Vec<String>) -> Result<Value, SandboxError> {
    let limits = &job.limits;
    let is_podman = engine.settings.kind == EngineKind::Podman;
    let own = if is_podman { "private" } else { "" };
    let mut host = json!({
        "Binds": binds,
        "ReadonlyRootfs": true,
        "CapDrop": ["ALL"],
        "SecurityOpt": security(engine, job)?,
        // Doors may have any port, and on a loopback of one's own none is more than another.
        "Sysctls": { "net.ipv4.ip_unprivileged_port_start": "0" },
        "Privileged": false,
        "NetworkMode": "none",
        "IpcMode": "private",
        "PidMode": own,
        "UTSMode": own,
        // Pid 1 enters one that the room's user owns, which it may only from here.
        "UsernsMode": "host",
        "CgroupnsMode": "private",
        "PidsLimit": i64::from(limits.pids) + OWN_TASKS,
        "Ulimits": ulimits(limits),
        // Podman adds file systems without a bound to a read-only root unless something is at their places already.
        "Tmpfs": { "/run": TMPFS, "/var/tmp": TMPFS },
        "LogConfig": { "Type": "none" },
        "Init": false,
        "AutoRemove": false,
    });
    if !is_podman {
        host["MaskedPaths"] = json!(MASKED);
    }
    if let Some(bytes) = limits.memory_bytes {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        host["Memory"] = json!(bytes);
        // The same as memory: no swap beside it.
        host["MemorySwap"] = json!(bytes);
    }
    if let Some(milli) = limits.cpu_milli {
        host["NanoCpus"] = json!(i64::from(milli) * 1_000_000);
    }
    Ok(json!({
        "Image": image,
        "Entrypoint": [guest::PROGRAM],
        "Cmd": [GUEST],
        "User": format!("{}:{}", engine.user.uid, engine.user.gid),
        "Hostname": "skep",
        "WorkingDir": "/",
        "Env": [],
        "Labels": orphan::labels(engine, workspace.work.path()),
        "NetworkDisabled": true,
        "AttachStdin": false,
        "AttachStdout": false,
        "AttachStderr": false,
        "HostConfig": host,
    }))
}

/// A folder that stays empty.
const TMPFS: &str = "ro,nosuid,nodev,noexec,mode=755,size=64k";

/// What Docker masks by itself, and all of /sys, which native rooms do not have.
const MASKED: &[&str] = &[
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys",
];

fn security(engine: &Inner, job: &JobOrder) -> Result<Vec<String>, SandboxError> {
    // Labels of SELinux would keep it from reading the host's own programs.
    let mut options = vec!["no-new-privileges".to_owned(), "label=disable".to_owned(), seccomp_option(engine, job)?];
    if engine.settings.kind == EngineKind::Podman {
        options.push(format!("mask={}", MASKED.join(":")));
    }
    Ok(options)
}

/// The same view of the host that native rooms have.
fn binds(engine: &Inner, workspace: &OpenOrder, link: &std::path::Path, private: &Private) -> Result<Vec<String>, SandboxError> {
    let bind = |source: &std::path::Path, target: &std::path::Path, writable: bool| {
        Ok::<String, SandboxError>(format!("{}:{}:{}", speakable(source)?, speakable(target)?, if writable { "rw" } else { "ro" }))
    };
    let read_only = |path: &str, target: &str| bind(path.as_ref(), target.as_ref(), false);
    let mut binds = vec![
        bind(&engine.settings.program, guest::PROGRAM.as_ref(), false)?,
        bind(link, guest::LINK_FOLDER.as_ref(), false)?,
        bind(&workspace.work.path().join(mount::SHOWN), workspace.project.path(), true)?,
    ];
    binds.push(bind(&resolver_settings(engine)?, "/etc/resolv.conf".as_ref(), false)?);
    for (place, shown) in private.places().into_iter().chain([private.terminals()]) {
        binds.push(bind(&place, shown.as_ref(), true)?);
    }
    for (name, kind) in image::host_paths() {
        if !matches!(kind, image::HostPath::Link) {
            let path = format!("/{name}");
            binds.push(read_only(&path, &path)?);
        }
    }
    for (at, extra) in workspace.binds.iter().enumerate() {
        // What can be written is shown through a mount on which its files are the job's own.
        let source = if extra.writable { mount::bind(workspace.work.path(), at) } else { extra.source.path().to_owned() };
        binds.push(bind(&source, extra.target.path(), extra.writable)?);
    }
    for (source, share) in made_shares(workspace) {
        binds.push(bind(&source, share.target.path(), share.layer.is_some())?);
    }
    Ok(binds)
}

/// The shares that could be made, and where they are mounted.
pub(super) fn made_shares(workspace: &OpenOrder) -> impl Iterator<Item = (std::path::PathBuf, &ShareOrder)> {
    let placed = workspace.shares.iter().enumerate().map(|(at, share)| (share::engine_path(workspace.work.path(), at), share));
    placed.filter(|(path, _)| path.exists())
}

/// Only downward: an engine that may not raise limits fails at its own defaults.
fn ulimits(limits: &Limits) -> Value {
    let bounded = |name: &str, resource, wanted: u64| {
        let held = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let value = i64::try_from(wanted.min(held)).unwrap_or(i64::MAX);
        json!({ "Name": name, "Soft": value, "Hard": value })
    };
    // Processes are counted by the container's own group; by user they would be those of every container together.
    json!([
        bounded("nofile", Resource::Nofile, limits.open_files),
        bounded("nproc", Resource::Nproc, PROCESSES_OF_ALL),
        bounded("core", Resource::Core, 1),
    ])
}

/// Podman holds itself to the smallest pid_max, and a container cannot have more than its engine.
const PROCESSES_OF_ALL: u64 = 16_384;

/// Docker takes a profile itself, Podman the path of one.
fn seccomp_option(engine: &Inner, job: &JobOrder) -> Result<String, SandboxError> {
    let internet = guest::asks_names(job);
    let profile = seccomp::profile(internet).to_string();
    if engine.settings.kind == EngineKind::Docker {
        return Ok(format!("seccomp={profile}"));
    }
    let path = written(engine, if internet { "seccomp-net.json" } else { "seccomp.json" }, &profile)?;
    Ok(format!("seccomp={}", speakable(&path)?))
}

/// What a container has for `/etc/resolv.conf`, where an engine would put the host's.
fn resolver_settings(engine: &Inner) -> Result<PathBuf, SandboxError> {
    written(engine, "resolv.conf", resolver::SETTINGS)
}

/// A file of the engine's folder with this content.
fn written(engine: &Inner, name: &str, content: &str) -> Result<PathBuf, SandboxError> {
    let path = engine.settings.home.join(name);
    // The folder is the kernel's alone, so what lies there is what it wrote.
    if std::fs::read_to_string(&path).is_ok_and(|held| held == content) {
        return Ok(path);
    }
    let fresh = path.with_extension(format!("{}.new", engine.name()));
    std::fs::write(&fresh, content)
        .and_then(|()| std::fs::rename(&fresh, &path))
        .map_err(SandboxError::io("writing what a container is shown"))?;
    Ok(path)
}
