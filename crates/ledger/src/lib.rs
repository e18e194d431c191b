//! The journal and the world that is folded from it, as one thing: append facts, fold them, look at the present.
//!
//! Beside [`Ledger::commit`] stand the commands that need nothing else: answers, grants and bans, budgets, lookups; and what keeps a journal in
//! order: its verification, the blobs that may go, the volume of each process. It knows no policy, no tool, no room and no model.
#![forbid(unsafe_code)]

mod aside;
mod boottime;
mod clean;
mod collect;
mod fold;
mod forget;
mod held;
mod home;
mod ledger;
mod lookup;
mod prompt;
mod review;
mod usage;
mod verify;
mod volume;

pub use aside::aside;
pub use boottime::{Clock, boot_id};
pub use collect::{BlobCollector, KeptDeadline, Retention};
pub use home::Home;
pub use ledger::{Keeping, Ledger, Pending, Unrecorded, Urgency, blob_fault, fault};
pub use lookup::{event_of, name_of, unknown_task};
pub use review::{MERGE, Reply, review_closed};
pub use usage::{ProcessAccount, check_budget, dollars};
pub use verify::{Verification, Verifier, blob_names, doubts};
