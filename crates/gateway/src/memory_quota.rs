//! Memory for the requests of one process. A process has many connections and each may carry a long request; together they wait.
//!
//! **Invariant.** The bodies of one process's requests take no more than its space, from before they are read until they are answered.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const KIB: usize = 1024;

#[derive(Debug)]
pub(crate) struct MemoryQuota {
    kib: u32,
    each: Mutex<HashMap<u64, Weak<Semaphore>>>,
}

/// Room for one request.
pub(crate) type MemoryLease = Arc<(OwnedSemaphorePermit, Arc<Semaphore>)>;

impl MemoryQuota {
    pub fn new(bytes: usize) -> MemoryQuota {
        MemoryQuota { kib: u32::try_from(bytes / KIB).unwrap_or(u32::MAX).max(1), each: Mutex::default() }
    }

    /// Waits until there is room for so many bytes of this process.
    pub async fn take(&self, pid: u64, bytes: usize) -> Option<MemoryLease> {
        let semaphore = {
            let mut each = self.each.lock();
            let known = each.get(&pid).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                each.retain(|_, space| space.strong_count() > 0);
                let new = Arc::new(Semaphore::new(self.kib as usize));
                each.insert(pid, Arc::downgrade(&new));
                new
            })
        };
        let kib = u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX).clamp(1, self.kib);
        // Never closed, so there is always an end to the wait.
        let permit = semaphore.clone().acquire_many_owned(kib).await.ok()?;
        Some(Arc::new((permit, semaphore)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn one_process_waits_for_itself_and_for_nobody_else() {
        let spaces = MemoryQuota::new(64 * KIB);
        let soon = async |pid, bytes| tokio::time::timeout(Duration::from_secs(1), spaces.take(pid, bytes)).await.ok().flatten();
        let first = soon(1, 40 * KIB).await.unwrap();
        assert!(soon(1, 30 * KIB).await.is_none() && soon(2, 64 * KIB).await.is_some());
        let second = soon(1, 24 * KIB).await.unwrap();
        drop((first, second));
        // More than there is takes all there is.
        assert!(soon(1, 1 << 30).await.is_some() && soon(1, 0).await.is_some());
        assert_eq!(spaces.each.lock().values().filter(|space| space.strong_count() > 0).count(), 0);
    }
}
