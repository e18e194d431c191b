//! Work that waits for a disk, beside the async workers.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs `work` on this thread after handing its other tasks on. Outside a runtime with workers it only runs.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
