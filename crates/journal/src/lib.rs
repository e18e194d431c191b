//! The journal: keeps records and blobs, and proves them unchanged.
//!
//! A record is one JSON line in a hash chain inside SQLite; a signed head outside the database (the seal) makes a cut
//! tail visible. This crate keeps *lines*: it does not know what an event means, who may write one, or what the world
//! looks like after it.
//!
//! **Invariant.** A ticket resolves `Ok` only when its whole batch is fsynced, and for a security batch also the seal.
#![forbid(unsafe_code)]

mod blob;
mod body;
mod canon;
mod chain;
mod error;
mod evidence;
mod fault;
mod files;
mod gather;
mod index;
mod lanes;
mod layout;
mod log;
mod read;
mod redact;
mod reserve;
mod seal;
mod slices;
mod snapshot;
mod store;
mod ticket;
mod vault;
mod verify;
mod wal;
mod writer;

pub use blob::{Batch, BlobError, Blobs, KeptBlob};
pub use body::BodyChanges;
pub use chain::{Class, Draft, Head};
pub use error::JournalError;
pub use fault::{Faults, Point};
pub use log::{Journal, Opened, Options};
pub use read::{Filter, Record, read_offline};
pub use redact::{OWN_KEY, REDACTED, Redactor};
pub use slices::StoredLine;
pub use snapshot::Snapshot;
pub use ticket::{Receipt, Ticket};
pub use vault::Vault;
pub use verify::{Examination, Examined, Finding, Flaw, Names, Report, SealState, verify, verify_with};
