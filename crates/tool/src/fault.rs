//! Why a tool came to no result.

use sandbox::SandboxError;
use std::io;
use world::{Code, Refusal};

/// The two kinds of no that a tool's work can end in.
#[derive(Debug)]
pub enum ToolStop {
    /// The world is as it is and the call does not fit it: no such file, a binary one, an unknown program.
    Refused(Refusal),
    Failed(ToolFault),
}

/// The world failed under a tool.
#[derive(Debug, thiserror::Error)]
pub enum ToolFault {
    #[error("cannot {verb} `{path}`: {cause}")]
    Io {
        verb: &'static str,
        path: String,
        #[source]
        cause: io::Error,
    },
    #[error("{0}")]
    Room(#[source] SandboxError),
    #[error("it was still at work after {ms} ms")]
    TimedOut { ms: u64 },
    #[error("cannot {verb} `{host}`: {cause}")]
    Net {
        verb: &'static str,
        host: String,
        #[source]
        cause: io::Error,
    },
    #[error("this host has no list of certificate authorities")]
    NoRoots,
    /// KarnEvil9's INVALID_OUTPUT: the tool is broken, not the call.
    #[error("`{tool}` gave a result that does not fit its manifest: {what}")]
    InvalidOutput { tool: String, what: String },
    #[error("its worker ended early: {0}")]
    Worker(#[source] tokio::task::JoinError),
}

impl ToolFault {
    pub fn io(verb: &'static str, path: &str, cause: impl Into<io::Error>) -> ToolFault {
        ToolFault::Io { verb, path: path.to_owned(), cause: cause.into() }
    }

    /// Might the same call go well in a moment?
    pub fn is_transient(&self) -> bool {
        match self {
            ToolFault::Io { cause, .. } => matches!(cause.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock),
            ToolFault::Net { cause, .. } => !matches!(cause.kind(), io::ErrorKind::InvalidData | io::ErrorKind::Other),
            ToolFault::TimedOut { .. } => true,
            ToolFault::Room(_) | ToolFault::Worker(_) | ToolFault::NoRoots | ToolFault::InvalidOutput { .. } => false,
        }
    }

    /// What a person can do about it, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ToolFault::Room(error) => error.hint(),
            ToolFault::TimedOut { .. } => Some("narrow it down with `path` or `glob`"),
            ToolFault::Net { .. } => Some("check the name, and ask again later"),
            ToolFault::NoRoots => Some("install the package ca-certificates"),
            ToolFault::InvalidOutput { .. } => Some("the tool or its tool.yaml needs a fix; use another tool"),
            ToolFault::Io { .. } | ToolFault::Worker(_) => None,
        }
    }
}

impl ToolStop {
    /// May the caller make the same call again, as it is?
    pub fn is_retryable(&self) -> bool {
        matches!(self, ToolStop::Failed(fault) if fault.is_transient())
    }
}

impl From<Refusal> for ToolStop {
    fn from(refusal: Refusal) -> Self {
        ToolStop::Refused(refusal)
    }
}

impl From<ToolFault> for ToolStop {
    fn from(fault: ToolFault) -> Self {
        ToolStop::Failed(fault)
    }
}

impl From<SandboxError> for ToolStop {
    /// What the job itself is to blame for is a refusal; a room that does not close is a fault.
    fn from(error: SandboxError) -> Self {
        let hint = error.hint().map(str::to_owned);
        let (code, fallback) = match &error {
            SandboxError::NotFound { .. } => (Code::NotFound, "use a program that the sandbox has"),
            SandboxError::NotExecutable { .. } => {
                (Code::WrongState, "check its mode and its first line, or run it through its interpreter")
            }
            SandboxError::ForeignOwner { .. } => (Code::WrongState, "give the file to the project's owner with chown"),
            SandboxError::BadJob { .. } => (Code::BadInput, "check the arguments: none may hold a NUL byte, and together they must fit"),
            SandboxError::Write { cause, .. } if cause.kind() != io::ErrorKind::StorageFull => {
                (Code::WrongState, "check that its folders are folders and that it is a regular file")
            }
            SandboxError::Delete { .. } => (Code::WrongState, "only files, links and empty directories are deleted; look with fs.list"),
            SandboxError::Move { cause, .. } if cause.kind() == io::ErrorKind::CrossesDevices => {
                (Code::Unsupported, "a directory of the project is moved file by file")
            }
            SandboxError::Move { cause, .. } if cause.kind() != io::ErrorKind::StorageFull => {
                (Code::WrongState, "choose a name that is free, in a folder that is one")
            }
            _ => return ToolStop::Failed(ToolFault::Room(error)),
        };
        ToolStop::Refused(Refusal::new(code, error.to_string()).hint(hint.unwrap_or_else(|| fallback.to_owned())))
    }
}
