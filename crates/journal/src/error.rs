//! How the journal fails. Cloneable, because one failed batch fails every ticket behind it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A fault of the disk, the database or the files beside it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    #[error("could not {what} `{}`: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: Arc<io::Error> },
    #[error("could not {what} in the journal database: {source}")]
    Database { what: &'static str, source: Arc<rusqlite::Error> },
    #[error("the disk is full{}", not_kept(*records))]
    DiskFull { records: u64, source: Arc<rusqlite::Error> },
    #[error("the journal stopped after a failed batch: {cause}")]
    Stopped { cause: Arc<JournalError> },
    #[error("the journal is closed")]
    Closed,
    #[error("another process writes the journal in `{}`", home.display())]
    Locked { home: PathBuf },
    #[error("record {seq} can't be read: {why}")]
    Malformed { seq: u64, why: String },
    #[error("`{}` is not usable: {why}", path.display())]
    BadFile { path: PathBuf, why: String },
    #[error("record {seq} is not durable yet, the head is {head}")]
    NotDurable { seq: u64, head: u64 },
    #[error("no random numbers from the operating system: {why}")]
    NoRandom { why: String },
}

impl JournalError {
    /// How to fix it, where the journal knows a way.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::DiskFull { .. } => Some("free some space on the disk that holds the journal, then resume"),
            Self::Locked { .. } => Some("stop the other kernel, or use another home"),
            Self::Malformed { .. } => Some("verify the journal; a newer version may have written this record"),
            Self::BadFile { .. } => Some("restore the file from a backup, or move it away to keep it as evidence"),
            Self::Stopped { cause } => cause.hint(),
            _ => None,
        }
    }

    /// Whether the cause is a full disk, directly or through an earlier batch.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::DiskFull { .. } => true,
            Self::Stopped { cause } => cause.is_disk_full(),
            Self::Database { source, .. } => source.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull),
            Self::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            _ => false,
        }
    }

    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source: Arc::new(source) }
    }

    pub(crate) fn db(what: &'static str) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::Database { what, source: Arc::new(source) }
    }

    /// The error for batches that come after the failed one.
    pub(crate) fn stopped(&self) -> Self {
        match self {
            Self::Stopped { .. } | Self::Closed => self.clone(),
            cause => Self::Stopped { cause: Arc::new(cause.clone()) },
        }
    }
}

fn not_kept(records: u64) -> String {
    if records == 0 { String::new() } else { format!(", {records} records were not kept") }
}
