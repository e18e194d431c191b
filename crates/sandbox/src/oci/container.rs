//! One container: what it is told to be, its start and its removal.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bollard::models::{ContainerCreateBody, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, ResourcesUlimits};
use bollard::query_parameters::{CreateContainerOptions, InspectContainerOptions, RemoveContainerOptions, StartContainerOptions};
use rustix::process::Resource;

use super::{GUEST, Inner, Kind, guest, image, orphan, speakable};
use crate::fault::SandboxError;
use crate::mount::{self, Private};
use crate::order::{OpenOrder, SpawnOrder};
use crate::seccomp;
use crate::spec::{Limits, Profile};

/// Pid 1 and its watch on the socket count too, and are not the caller's.
const OWN_TASKS: i64 = 2;

/// A container from before it is asked for until it is gone. Dropping it removes it, with everything in it.
#[derive(Debug)]
pub(super) struct Container {
    engine: Arc<Inner>,
    name: String,
    gone: bool,
}

/// How a container ended.
pub(super) struct State {
    pub(super) running: bool,
    pub(super) exit_code: i64,
    pub(super) out_of_memory: bool,
}

impl Container {
    /// Makes it and starts it. One that fails on the way is removed.
    pub(super) async fn start(
        engine: &Arc<Inner>,
        image: &str,
        workspace: &OpenOrder,
        job: &SpawnOrder,
        link: &std::path::Path,
        private: &Private,
    ) -> Result<Container, SandboxError> {
        let body = body(engine, image, workspace, job, binds(engine, workspace, link, private)?)?;
        // Before the request: an answer that never arrives leaves a container all the same.
        let container = Container { engine: Arc::clone(engine), name: engine.name(), gone: false };
        engine.live.lock().insert(container.name.clone());
        let options = CreateContainerOptions { name: Some(container.name.clone()), ..Default::default() };
        engine.docker.create_container(Some(options), body).await.map_err(engine.fault("making a container"))?;
        let started = engine.docker.start_container(&container.name, None::<StartContainerOptions>).await;
        started.map_err(engine.fault("starting a container"))?;
        Ok(container)
    }

    pub(super) async fn state(&self) -> Result<State, SandboxError> {
        let asked = self.engine.docker.inspect_container(&self.name, None::<InspectContainerOptions>).await;
        let state = asked.map_err(self.engine.fault("looking at a container"))?.state.unwrap_or_default();
        Ok(State {
            running: state.running.unwrap_or_default(),
            exit_code: state.exit_code.unwrap_or_default(),
            out_of_memory: state.oom_killed.unwrap_or_default(),
        })
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
        let removal = remove(Arc::clone(&self.engine), self.name.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(removal);
        }
    }
}

async fn remove(engine: Arc<Inner>, name: String) {
    for pause_ms in REMOVAL_PAUSES_MS {
        let options = RemoveContainerOptions { force: true, v: true, ..Default::default() };
        match engine.docker.remove_container(&name, Some(options)).await {
            Ok(()) | Err(bollard::errors::Error::DockerResponseServerError { status_code: 404, .. }) => break,
            // An engine that is itself busy with the end of this container says no.
            Err(_) => tokio::time::sleep(Duration::from_millis(pause_ms)).await,
        }
    }
    engine.live.lock().remove(&name);
}

/// Half a minute in all: on a loaded machine an engine takes that long to see that a container has ended.
const REMOVAL_PAUSES_MS: [u64; 9] = [50, 100, 200, 400, 800, 1600, 3200, 6400, 12_800];

/// Everything that closes it.
fn body(
    engine: &Inner,
    image: &str,
    workspace: &OpenOrder,
    job: &SpawnOrder,
    binds: Vec<String>,
) -> Result<ContainerCreateBody, SandboxError> {
    let limits = &job.limits;
    let amount = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let user = format!("{}:{}", engine.user.uid, engine.user.gid);
    let host = HostConfig {
        binds: Some(binds),
        readonly_rootfs: Some(true),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(security(engine, job)?),
        masked_paths: (engine.settings.kind == Kind::Docker).then(|| MASKED.iter().map(|path| (*path).to_owned()).collect()),
        // Doors may have any port, and on a loopback of one's own none is more than another.
        sysctls: Some(HashMap::from([("net.ipv4.ip_unprivileged_port_start".to_owned(), "0".to_owned())])),
        privileged: Some(false),
        network_mode: Some("none".to_owned()),
        ipc_mode: Some("private".to_owned()),
        pid_mode: Some(if engine.settings.kind == Kind::Podman { "private" } else { "" }.to_owned()),
        uts_mode: Some(if engine.settings.kind == Kind::Podman { "private" } else { "" }.to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        memory: limits.memory_bytes.map(amount),
        // The same as memory: no swap beside it.
        memory_swap: limits.memory_bytes.map(amount),
        nano_cpus: limits.cpu_milli.map(|milli| i64::from(milli) * 1_000_000),
        pids_limit: Some(i64::from(limits.pids) + OWN_TASKS),
        ulimits: Some(ulimits(limits)),
        tmpfs: Some(tmpfs()),
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        init: Some(false),
        auto_remove: Some(false),
        ..Default::default()
    };
    Ok(ContainerCreateBody {
        image: Some(image.to_owned()),
        entrypoint: Some(vec![guest::PROGRAM.to_owned()]),
        cmd: Some(vec![GUEST.to_owned()]),
        user: Some(user),
        hostname: Some("skep".to_owned()),
        working_dir: Some("/".to_owned()),
        env: Some(Vec::new()),
        labels: Some(orphan::labels(engine, workspace.work.path())),
        network_disabled: Some(true),
        attach_stdin: Some(false),
        attach_stdout: Some(false),
        attach_stderr: Some(false),
        host_config: Some(host),
        ..Default::default()
    })
}

/// Podman adds file systems without a bound to a read-only root unless something is at their places already.
fn tmpfs() -> HashMap<String, String> {
    ["/run", "/var/tmp"].map(|path| (path.to_owned(), "ro,nosuid,nodev,noexec,mode=755,size=64k".to_owned())).into()
}

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

fn security(engine: &Inner, job: &SpawnOrder) -> Result<Vec<String>, SandboxError> {
    // Labels of SELinux would keep it from reading the host's own programs.
    let mut options = vec!["no-new-privileges".to_owned(), "label=disable".to_owned(), seccomp_option(engine, job)?];
    if engine.settings.kind == Kind::Podman {
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
    for (place, shown) in private.places() {
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
    Ok(binds)
}

/// Only downward: an engine that may not raise limits fails at its own defaults.
fn ulimits(limits: &Limits) -> Vec<ResourcesUlimits> {
    let bounded = |name: &str, resource, wanted: u64| {
        let held = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let value = Some(i64::try_from(wanted.min(held)).unwrap_or(i64::MAX));
        ResourcesUlimits { name: Some(name.to_owned()), soft: value, hard: value }
    };
    // Processes are counted by the container's own group; by user they would be those of every container together.
    vec![
        bounded("nofile", Resource::Nofile, limits.open_files),
        bounded("nproc", Resource::Nproc, PROCESSES_OF_ALL),
        bounded("core", Resource::Core, 1),
    ]
}

/// Podman holds itself to the smallest pid_max, and a container cannot have more than its engine.
const PROCESSES_OF_ALL: u64 = 16_384;

/// Docker takes a profile itself, Podman the path of one.
fn seccomp_option(engine: &Inner, job: &SpawnOrder) -> Result<String, SandboxError> {
    let internet = job.profile == Profile::StandardNet || !job.doors.is_empty() || job.inlets > 0;
    let profile = seccomp::profile(internet).to_string();
    if engine.settings.kind == Kind::Docker {
        return Ok(format!("seccomp={profile}"));
    }
    let path = engine.settings.home.join(if internet { "seccomp-net.json" } else { "seccomp.json" });
    // The folder is the kernel's alone, so what lies there is what it wrote.
    if std::fs::read_to_string(&path).is_ok_and(|held| held == profile) {
        return Ok(format!("seccomp={}", speakable(&path)?));
    }
    let fresh = path.with_extension(format!("{}.new", engine.name()));
    std::fs::write(&fresh, profile)
        .and_then(|()| std::fs::rename(&fresh, &path))
        .map_err(SandboxError::io("writing the system-call profile"))?;
    Ok(format!("seccomp={}", speakable(&path)?))
}
