//! What stops an operation: the system said no, or the world failed.

use crate::{Refusal, Remedy};
use std::{fmt, io, path::Path};

/// The world failed: disk, room, child. Three lines for the person: what, why, fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    pub what: String,
    pub why: String,
    /// What may mend it, in words that hold for every face.
    pub fix: Option<String>,
    /// What the operator can do; a face says how.
    pub remedy: Option<Box<Remedy>>,
    /// Might the same call go well in a moment?
    pub is_retryable: bool,
}

/// Which part of the world, so that a caller knows whether to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Nothing can be recorded, so nothing is done. Try again when there is room.
    DiskFull,
    /// The file system said no.
    Io,
    /// The setup of a room failed, or a job could not be run.
    Room,
    /// The mind went away.
    Brain,
    /// The kernel is going down.
    Stopping,
    /// The operator's own settings cannot be used.
    Settings,
    /// We were wrong.
    Bug,
}

impl Fault {
    pub fn new(kind: FaultKind, what: impl Into<String>, why: impl fmt::Display) -> Fault {
        Fault { kind, what: what.into(), why: why.to_string(), fix: None, remedy: None, is_retryable: false }
    }

    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Fault {
        self.fix = Some(fix.into());
        self
    }

    #[must_use]
    pub fn remedy(mut self, remedy: Remedy) -> Fault {
        self.remedy = Some(Box::new(remedy));
        self
    }

    /// The fix and the remedy as one text, for those who cannot type a command.
    pub fn advice(&self) -> Option<String> {
        crate::remedy::advice(self.fix.as_deref(), self.remedy.as_deref())
    }

    pub fn io(verb: &str, path: &Path, error: impl Into<io::Error>) -> Fault {
        let error = error.into();
        let kind = if error.kind() == io::ErrorKind::StorageFull { FaultKind::DiskFull } else { FaultKind::Io };
        let fault = Fault::new(kind, format!("cannot {verb} `{}`", path.display()), &error);
        match error.kind() {
            io::ErrorKind::PermissionDenied => fault.fix("check its owner and mode"),
            io::ErrorKind::StorageFull => fault.fix("free some disk space"),
            io::ErrorKind::ReadOnlyFilesystem => fault.fix("set SKEP_HOME to a folder that can be written"),
            _ => fault,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl std::error::Error for Fault {}

/// Why an operation did not come to its end. The two kinds of no stay apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    Refused(Refusal),
    Failed(Fault),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Failed(fault)
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Refused(refusal) => refusal.fmt(f),
            Stop::Failed(fault) => fault.fmt(f),
        }
    }
}
