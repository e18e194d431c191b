//! Which engines this host has, and how to reach them.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::api::{Api, EngineVersion};
use super::{EngineKind, Settings};
use crate::fault::SandboxError;
use crate::holder;
use crate::launcher::Errand;

/// Podman's service reads its whole storage first.
const SERVICE_START_MAX: Duration = Duration::from_secs(30);

/// What was found of one engine, for a person.
#[derive(Debug, Clone)]
pub struct FoundEngine {
    pub kind: EngineKind,
    /// A socket that answers, and what it says of itself.
    pub answers: Option<(PathBuf, String)>,
    /// The program that could be started, as only Podman's can be by us.
    pub program: Option<PathBuf>,
}

/// Looks for every engine, and starts nothing.
pub async fn found() -> Vec<FoundEngine> {
    let mut all = Vec::new();
    for kind in EngineKind::ALL {
        let mut found = FoundEngine { kind, answers: None, program: program(kind.name()) };
        for socket in sockets(kind) {
            if found.answers.is_none()
                && let Ok((_, said)) = reach(kind, &socket).await
            {
                found.answers = Some((socket, said.version()));
            }
        }
        all.push(found);
    }
    all
}

/// Podman's service, started for one kernel and ended with it.
#[derive(Debug)]
pub(super) struct EngineService {
    pidfd: OwnedFd,
    socket: PathBuf,
}

impl Drop for EngineService {
    fn drop(&mut self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
        let _ = std::fs::remove_file(&self.socket);
    }
}

pub(super) async fn connect(settings: &Settings, errand: &Errand) -> Result<(Api, Option<EngineService>), SandboxError> {
    let kind = settings.kind;
    let mut tried = Vec::new();
    for socket in sockets(kind) {
        match reach(kind, &socket).await {
            Ok((api, _)) => return Ok((api, None)),
            Err(why) => tried.push(format!("{}: {why}", socket.display())),
        }
    }
    match program(kind.name()).filter(|_| kind == EngineKind::Podman) {
        Some(program) => serve(settings, errand, &program).await,
        None => {
            tried.push(format!("there is no program `{kind}` to start either"));
            Err(SandboxError::NoEngine { engine: kind, why: tried.join("; ") })
        }
    }
}

/// Starts `podman system service` on a socket that only the kernel reaches.
async fn serve(settings: &Settings, errand: &Errand, program: &Path) -> Result<(Api, Option<EngineService>), SandboxError> {
    clear(&settings.home);
    let socket = address(&settings.home);
    let mut argv = vec![program.as_os_str().to_owned()];
    argv.extend(flags().into_iter().map(Into::into));
    argv.extend(["system", "service", "--time=0"].map(Into::into));
    let mut listen = std::ffi::OsString::from("unix://");
    listen.push(&socket);
    argv.push(listen);
    let pidfd = errand.start(argv.into_iter().map(Into::into).collect()).await?;
    let service = EngineService { pidfd, socket };
    let began = Instant::now();
    loop {
        let why = match reach(settings.kind, &service.socket).await {
            Ok((api, _)) => return Ok((api, Some(service))),
            Err(why) => why,
        };
        let ended = holder::has_ended(&service.pidfd).unwrap_or(true);
        if ended || began.elapsed() > SERVICE_START_MAX {
            let why = if ended { "its service ended at once; try `podman info`".to_owned() } else { why };
            return Err(SandboxError::Engine { engine: settings.kind, what: "starting its service", why });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A socket that no service had: the end of an earlier one takes its own away, and nobody else's.
fn address(home: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    home.join(format!("podman-{}-{}.sock", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// Removes sockets at which nobody listens any more.
fn clear(home: &Path) {
    let found = std::fs::read_dir(home).into_iter().flatten().flatten().map(|entry| entry.path());
    for socket in found.filter(|path| path.extension().is_some_and(|ending| ending == "sock")) {
        if UnixStream::connect(&socket).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            let _ = std::fs::remove_file(&socket);
        }
    }
}

/// What this host needs to be said to Podman. With cgroups of version 1 only runc works, and without systemd nobody but us makes
/// groups.
fn flags() -> Vec<&'static str> {
    let mut flags = Vec::new();
    let unified = rustix::fs::statfs("/sys/fs/cgroup").is_ok_and(|fs| fs.f_type == libc::CGROUP2_SUPER_MAGIC);
    if !unified && program("runc").is_some() {
        flags.extend(["--runtime", "runc"]);
    }
    if !unified || !Path::new("/run/systemd/system").exists() {
        flags.extend(["--cgroup-manager", "cgroupfs"]);
    }
    flags
}

async fn reach(kind: EngineKind, socket: &Path) -> Result<(Api, EngineVersion), String> {
    if !socket.exists() {
        return Err("no such socket".to_owned());
    }
    let (api, said) = Api::connect(socket.to_owned()).await.map_err(|error| error.to_string())?;
    // A socket with one engine's name may be the other's.
    match (kind, said.is_podman()) {
        (EngineKind::Podman, true) | (EngineKind::Docker, false) => Ok((api, said)),
        (EngineKind::Podman, false) => Err("Docker answers there".to_owned()),
        (EngineKind::Docker, true) => Err("Podman answers there".to_owned()),
    }
}

/// Where engines listen, in the order in which they are tried.
fn sockets(kind: EngineKind) -> Vec<PathBuf> {
    let named = |name: &str| std::env::var_os(name).and_then(|value| Some(PathBuf::from(value.to_str()?.strip_prefix("unix://")?)));
    let mine = |path: &str| std::env::var_os("XDG_RUNTIME_DIR").map(|folder| Path::new(&folder).join(path));
    let all = match kind {
        EngineKind::Podman => {
            [named("CONTAINER_HOST"), named("DOCKER_HOST"), mine("podman/podman.sock"), Some("/run/podman/podman.sock".into())]
        }
        EngineKind::Docker => [named("DOCKER_HOST"), mine("docker.sock"), Some("/var/run/docker.sock".into()), None],
    };
    all.into_iter().flatten().collect()
}

fn program(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let executable = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    folders.iter().map(|folder| Path::new(folder).join(name)).find(executable)
}
