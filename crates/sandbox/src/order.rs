//! What kernel, launcher and holders say to each other.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fault::Failure;
use crate::probe::Check;
use crate::spec::{Door, Limits, Profile, Usage, Window};

/// A path, argument or variable: any bytes, as text where they are text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Bytes {
    Text(String),
    Raw(Vec<u8>),
}

impl Bytes {
    pub(crate) fn os(&self) -> &OsStr {
        match self {
            Bytes::Text(text) => OsStr::new(text),
            Bytes::Raw(bytes) => OsStr::from_bytes(bytes),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        Path::new(self.os())
    }
}

impl From<OsString> for Bytes {
    fn from(string: OsString) -> Bytes {
        match String::from_utf8(string.into_vec()) {
            Ok(text) => Bytes::Text(text),
            Err(error) => Bytes::Raw(error.into_bytes()),
        }
    }
}

impl From<PathBuf> for Bytes {
    fn from(path: PathBuf) -> Bytes {
        path.into_os_string().into()
    }
}

/// Kernel to launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LauncherOrder {
    Open(OpenOrder),
    /// Mount the overlay where every process of the host's mount namespace sees it.
    Mount(OpenOrder),
    /// Change what is masked in the overlay that lies in this directory.
    Mask(Bytes, MaskOrder),
    /// Start a program that lives no longer than the launcher.
    Start(Vec<Bytes>),
    /// With the directory in which workspaces will lie.
    Probe(Bytes),
}

/// Launcher to kernel. `Opened` brings the holder's pidfd and the kernel's end of its socket, `Mounted` of an overlay the user namespace of
/// its containers and the kernel's end of their steward's socket, `Started` a pidfd.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LauncherReply {
    Opened { pid: i32 },
    Mounted(Uncovered),
    Started,
    Failed(Failure),
    Probed(Vec<Check>),
}

/// A workspace as the holder needs it; every path is absolute but the masked ones.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OpenOrder {
    pub(crate) project: Bytes,
    pub(crate) work: Bytes,
    pub(crate) masked: Vec<Bytes>,
    pub(crate) binds: Vec<BindOrder>,
    pub(crate) shares: Vec<ShareOrder>,
    pub(crate) beneath: Option<Bytes>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BindOrder {
    pub(crate) source: Bytes,
    pub(crate) target: Bytes,
    pub(crate) writable: bool,
}

/// See [`crate::HostShare`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ShareOrder {
    pub(crate) source: Option<Bytes>,
    pub(crate) target: Bytes,
    pub(crate) layer: Option<String>,
    pub(crate) masked: Vec<Bytes>,
}

/// Paths relative to the project, none of them beneath another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MaskOrder {
    /// Covered until now, and no more.
    pub(crate) lift: Vec<Bytes>,
    pub(crate) cover: Vec<Bytes>,
    /// Before that, forget what was looked up.
    #[serde(default)]
    pub(crate) refresh: bool,
}

/// Paths of a mask order over which nothing lies.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Uncovered {
    /// Not there.
    pub(crate) absent: Vec<Bytes>,
    /// In a folder that the room's user may not enter, nor any job.
    pub(crate) closed: Vec<Bytes>,
}

impl Uncovered {
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.absent.iter().chain(&self.closed).any(|own| own.path() == path)
    }
}

/// Kernel to holder.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum HolderOrder {
    Spawn(Box<JobOrder>),
    Mask { id: u64, change: MaskOrder },
}

/// A job, with stdin, stdout, stderr, the report's write end and the `cgroup.procs` files to join.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JobOrder {
    pub(crate) id: u64,
    pub(crate) act: ActOrder,
    pub(crate) env: Vec<(Bytes, Bytes)>,
    /// Relative to the project.
    pub(crate) cwd: Bytes,
    pub(crate) profile: Profile,
    pub(crate) limits: Limits,
    pub(crate) terminal: Option<Window>,
    pub(crate) doors: Vec<Door>,
    pub(crate) inlets: usize,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ActOrder {
    Exec { argv: Vec<Bytes> },
    Write { path: Bytes, mode: Option<u32> },
    Delete { path: Bytes },
    Move { from: Bytes, to: Bytes },
}

/// Holder to kernel. `Ready` brings the merged root with masks and without, `Started` the pidfd of the job's pid 1, its doors, its inlets
/// and its terminal.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum HolderReply {
    Ready(Uncovered),
    Failed(Failure),
    Masked {
        id: u64,
        uncovered: Uncovered,
    },
    NotMasked {
        id: u64,
        failure: Failure,
    },
    Started {
        id: u64,
        pid: i32,
    },
    NotStarted {
        id: u64,
        failure: Failure,
    },
    /// Pid 1 ended with this wait status and without a report; most likely it was killed.
    Unreported {
        id: u64,
        status: i32,
        usage: Usage,
    },
}

/// What pid 1 of a job writes last, when nothing else lives in its namespace any more.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum JobReport {
    /// The command ended with this wait status.
    Ended {
        status: i32,
        usage: Usage,
    },
    /// One file was written, deleted or moved.
    Written,
    Failed(Failure),
}
