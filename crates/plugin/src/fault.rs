//! What stops rules from being loaded.

use std::fmt;

use sandbox::SandboxError;
use serde::{Deserialize, Serialize};

/// Why there are no rules. None of these is ever a reason to go on without them.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// A file is wrong; its author can mend it.
    #[error("{0}")]
    Flawed(RuleFlaw),
    /// The files together do not fit into one message.
    #[error("the rule files are too large: {bytes} bytes, and {max} is the most")]
    TooLarge { bytes: usize, max: usize },
    #[error("the sandbox for extension rules did not open")]
    Room(#[source] SandboxError),
    #[error("the folder for extension rules could not be made")]
    Folder(#[source] std::io::Error),
    /// The child crashed, hung or spoke another version of the protocol.
    #[error("the child for extension rules did not start: {why}")]
    Child { why: String },
}

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleFlaw {
    pub file: String,
    /// Line and column, both from 1; `None` when the whole file is meant.
    pub at: Option<(u32, u32)>,
    pub what: String,
}

impl RuleFlaw {
    pub(crate) fn new(file: impl Into<String>, at: Option<(u32, u32)>, what: impl Into<String>) -> RuleFlaw {
        RuleFlaw { file: file.into(), at, what: what.into() }
    }
}

impl fmt::Display for RuleFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}
