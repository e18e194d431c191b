//! What a running tool may use besides its paths.

use crate::follower::JobSetup;
use crate::net::AddressFilter;
use crate::subcall::SubcallGate;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// What a running tool may use besides its paths.
pub struct Context<'a> {
    /// The project as the caller sees it: the workspace's merged root.
    pub root: BorrowedFd<'a>,
    /// The project's path on the host, for absolute names.
    pub project: &'a Path,
    pub room: Option<&'a sandbox::Workspace>,
    /// `test.command` of `skep.yml`.
    pub test_command: Option<&'a [String]>,
    /// Bytes of a file or stream that a result may hold.
    pub output_max: usize,
    /// May a result name this path, relative to the project?
    pub visible: &'a (dyn Fn(&str) -> bool + Sync),
    pub mode: RunMode,
    /// Which addresses http.request may connect to.
    pub addresses: &'a AddressFilter,
    /// Asked about what the input did not say: redirects, files of a patch.
    pub subcalls: &'a dyn SubcallGate,
    /// What a trusted configuration passes into the room, before it is scrubbed.
    pub environment: &'a [(String, String)],
    /// The bounds of a job, and whoever follows it.
    pub job: JobSetup<'a>,
    /// Secrets that stand in headers as sentinels.
    pub secrets: &'a [SentinelSecret],
}

/// The way out of a room with a restricted network.
pub trait JobNetwork: Send + Sync {
    fn doors(&self) -> Vec<sandbox::Door>;

    /// What tells programs about it.
    fn environment(&self) -> Vec<(String, String)>;

    /// Gets the doors of a job that has started.
    fn serve_doors(&self, doors: Vec<tokio::net::TcpListener>);
}

/// A secret that callers know by its sentinel alone.
#[derive(Clone, PartialEq, Eq)]
pub struct SentinelSecret {
    pub sentinel: String,
    pub value: String,
    /// The hosts that may get it.
    pub hosts: Vec<String>,
    /// The only header it may stand in, in lower case.
    pub header: Option<String>,
}

impl fmt::Debug for SentinelSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentinelSecret").field("sentinel", &self.sentinel).field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// How real a call is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunMode {
    #[default]
    Live,
    /// It says what it would do, and does nothing.
    DryRun,
    /// It answers with the manifest's first mock response.
    Mock,
}

impl RunMode {
    /// As policies and configurations call it; `real` is KarnEvil9's word for `live`.
    pub fn parse(name: &str) -> Option<RunMode> {
        match name {
            "live" | "real" => Some(RunMode::Live),
            "dry_run" => Some(RunMode::DryRun),
            "mock" => Some(RunMode::Mock),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            RunMode::Live => "live",
            RunMode::DryRun => "dry_run",
            RunMode::Mock => "mock",
        }
    }
}
