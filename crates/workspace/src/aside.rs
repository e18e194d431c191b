//! Work that waits for a disk, beside the async workers.
//!
//! **Invariant.** While files are read, written, hashed or synced, whatever else the workers have to do goes on: no command waits for
//! another's files.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs `work` on this thread after handing its other tasks on. Inside itself, and outside a runtime with workers, it only runs.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
