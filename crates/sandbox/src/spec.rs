//! What the caller says about a workspace and a job, and what comes back.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A workspace to open: one overlay over one project.
#[derive(Debug, Clone)]
pub struct WorkspaceSpec {
    /// The project on the host; jobs see it at the same absolute path.
    pub project: PathBuf,
    /// The workspace's own directory, which receives `upper/`, `work/` and `holder`. Kept when the workspace closes.
    pub work: PathBuf,
    /// Paths relative to the project that no job may read. Those that do not exist are passed over.
    pub masked: Vec<PathBuf>,
    /// More of the host that jobs may see, such as a toolchain in a home directory.
    pub binds: Vec<Bind>,
    /// Toolchains and caches of the host; one that lies in another comes after it. What cannot be shown is left out.
    pub shares: Vec<HostShare>,
    /// The `upper/` of another workspace, shown over the project and beneath this one's own changes. It is never written.
    pub beneath: Option<PathBuf>,
}

impl WorkspaceSpec {
    pub fn new(project: impl Into<PathBuf>, work: impl Into<PathBuf>) -> WorkspaceSpec {
        WorkspaceSpec {
            project: project.into(),
            work: work.into(),
            masked: Vec::new(),
            binds: Vec::new(),
            shares: Vec::new(),
            beneath: None,
        }
    }
}

/// A host path that appears in the room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    pub source: PathBuf,
    /// Where jobs see it; absolute.
    pub target: PathBuf,
    pub writable: bool,
}

/// A toolchain or a cache of the host's that appears in the room. The host's own files are never written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostShare {
    /// What is shown; nothing, for a folder that begins empty.
    pub source: Option<PathBuf>,
    /// Where jobs see it; absolute, and apart from the project.
    pub target: PathBuf,
    /// The folder in `layers/` of the workspace's directory that takes what jobs write there. Without one, nobody writes.
    pub layer: Option<String>,
    /// Paths relative to it that no job may read. Those that do not exist are passed over.
    pub masked: Vec<PathBuf>,
}

impl HostShare {
    /// What jobs read.
    pub fn read_only(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> HostShare {
        HostShare { source: Some(source.into()), target: target.into(), layer: None, masked: Vec::new() }
    }

    /// What jobs change for themselves, in a layer of this name.
    pub fn layered(source: Option<PathBuf>, target: impl Into<PathBuf>, layer: impl Into<String>) -> HostShare {
        HostShare { source, target: target.into(), layer: Some(layer.into()), masked: Vec::new() }
    }
}

/// How large a terminal is, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    pub rows: u16,
    pub columns: u16,
}

/// One act in a room.
#[derive(Debug, Clone)]
pub struct JobSpec {
    pub act: Act,
    /// The whole environment, besides defaults for PATH, HOME, LANG, TERM and USER.
    pub env: Vec<(OsString, OsString)>,
    /// Relative to the project; empty is the project itself.
    pub cwd: PathBuf,
    pub profile: Profile,
    pub limits: Limits,
    /// Jobs with which it shares limits.
    pub branch: Option<std::sync::Arc<crate::JobBranch>>,
    /// Ways out of the room; whoever started the job listens at them.
    pub doors: Vec<Door>,
    /// Its streams are a terminal of the room's, which becomes its own: with job control, and signals for keys.
    pub terminal: Option<Window>,
    /// Ways into the room: as many connections can lead to what listens there at a time.
    pub inlets: usize,
    /// How much of each stream `run` keeps; the rest is read and dropped.
    pub output_max: usize,
    /// Where the end of its output can be seen while it runs.
    pub tail: Option<std::sync::Arc<crate::OutputTail>>,
}

impl JobSpec {
    /// One MiB of each stream: far above what a brain reads, far below what hurts.
    pub const OUTPUT_MAX: usize = 1024 * 1024;

    pub fn new(act: Act) -> JobSpec {
        JobSpec {
            act,
            env: Vec::new(),
            cwd: PathBuf::new(),
            profile: Profile::Standard,
            limits: Limits::default(),
            branch: None,
            doors: Vec::new(),
            terminal: None,
            inlets: 0,
            output_max: JobSpec::OUTPUT_MAX,
            tail: None,
        }
    }

    pub fn exec<S: Into<OsString>>(argv: impl IntoIterator<Item = S>) -> JobSpec {
        JobSpec::new(Act::Exec { argv: argv.into_iter().map(Into::into).collect() })
    }

    /// Replaces or creates one file with what comes on stdin.
    pub fn write(path: impl Into<PathBuf>) -> JobSpec {
        JobSpec::new(Act::Write { path: path.into(), mode: None })
    }
}

/// A port on the room's own loopback, at which not the room listens but the process that started the job.
///
/// The listener is made in the room's network namespace before the job is, and handed out. So there is nothing to mount, no
/// process that forwards, and who accepts a connection knows which job it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Door {
    /// Not 0, and each door of a job has its own.
    pub port: u16,
}

impl Door {
    /// Doors of one job.
    pub const MAX: usize = 16;
}

/// Where a job finds the kernel's own doors, on its own loopback: above the ports that programs get by chance, and used by nobody. The
/// proxy to the world,
pub const PROXY_PORT: u16 = 61_128;
/// models,
pub const MODELS_PORT: u16 = 61_129;
/// the kernel's own tools for a vendor's client,
pub const TOOLS_PORT: u16 = 61_130;
/// and who answers that client's hooks.
pub const HOOK_PORT: u16 = 61_131;
/// The kernel, for a program of the process tree.
pub const CORE_PORT: u16 = 61_132;
pub const OWN_PORTS: [u16; 5] = [PROXY_PORT, MODELS_PORT, TOOLS_PORT, HOOK_PORT, CORE_PORT];

/// What the job does.
#[derive(Debug, Clone)]
pub enum Act {
    /// Runs a program; the first argument is its name, searched in the job's PATH when it holds no slash.
    Exec { argv: Vec<OsString> },
    /// Writes stdin to a path relative to the project, making its folders. The mode is for a new file; an old one keeps its own.
    Write { path: PathBuf, mode: Option<u32> },
    /// Removes a file, a link or an empty folder of the project.
    Delete { path: PathBuf },
    /// Gives a file, link or folder of the project another name, making folders. What has that name already is not replaced.
    Move { from: PathBuf, to: PathBuf },
}

/// The system-call filter. A later one allows more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Nothing but reading, writing, memory and time, for our own children: they load it themselves when they have started
    /// ([`crate::lock`]), because under it no program starts.
    Strict,
    /// Everyday programs, without internet sockets.
    Standard,
    /// The same with internet sockets, for programs that bind localhost; the room has still no interface but loopback.
    StandardNet,
}

/// Bounds of one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Wall-clock time, after which the tree is killed.
    pub wall: Option<Duration>,
    /// Memory of the whole tree with its /tmp. Without a writable memory cgroup it is watched, and /tmp does not count.
    pub memory_bytes: Option<u64>,
    /// Data segment per process (RLIMIT_DATA), for hosts without cgroups.
    pub data_bytes: Option<u64>,
    /// Thousandths of one processor that the tree gets; needs a writable cpu cgroup.
    pub cpu_milli: Option<u32>,
    /// Processes and threads: of the job with a pids cgroup, else of all jobs of the workspace together.
    pub pids: u32,
    pub open_files: u64,
    pub file_bytes: Option<u64>,
    pub cpu_seconds: Option<u64>,
    pub tmp_bytes: u64,
    pub shm_bytes: u64,
    /// Bytes that the workspace's upper layer may hold, with what was there before; the job that goes beyond is killed.
    pub disk_bytes: Option<u64>,
    /// Files and folders in the upper layer.
    pub disk_files: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            wall: None,
            memory_bytes: None,
            data_bytes: None,
            cpu_milli: None,
            pids: 1024,
            open_files: 4096,
            file_bytes: None,
            cpu_seconds: None,
            tmp_bytes: 1 << 30,
            shm_bytes: 256 << 20,
            disk_bytes: None,
            disk_files: None,
        }
    }
}

/// Where a stream of a spawned job goes.
#[derive(Debug)]
pub enum Stdio {
    Null,
    Fd(OwnedFd),
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

impl Exit {
    pub fn success(self) -> bool {
        self == Exit::Code(0)
    }
}

/// What the tree consumed, as far as its processes were collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    pub user_ms: u64,
    pub system_ms: u64,
    /// The largest process, not the sum.
    pub resident_bytes_max: u64,
}

/// What holds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforcement {
    Cgroup,
    Rlimit,
    /// We look at it, and end what goes beyond.
    Watched,
    /// Nothing was asked, or this host has no means.
    None,
}

/// A finished job with its output.
#[derive(Debug)]
pub struct Outcome {
    pub exit: Exit,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// One of the streams was longer than `output_max`.
    pub truncated: bool,
    pub timed_out: bool,
    /// The memory limit killed a process of the tree.
    pub out_of_memory: bool,
    /// It was ended because it made the workspace too full.
    pub overfull: Option<crate::disk::Overfull>,
    pub duration: Duration,
    pub usage: Usage,
    pub memory: Enforcement,
    pub pids: Enforcement,
}
