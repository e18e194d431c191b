//! What a kernel does from time to time, as long as it runs: it takes the disk's reserve back, collects blobs, releases what was held,
//! drops watchers that are gone, looks at the operator's files.
//!
//! Each chore holds the kernel only while it works, so that none keeps it alive.

use crate::Kernel;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use world::limits;

/// Starts all of them.
pub(crate) fn begin(kernel: &Arc<Kernel>) {
    tokio::spawn(hold_reserve(Arc::downgrade(kernel)));
    tokio::spawn(release_held(Arc::downgrade(kernel)));
    tokio::spawn(sweep_watchers(Arc::downgrade(kernel)));
    tokio::spawn(end_idle_clients(Arc::downgrade(kernel)));
    tokio::spawn(Kernel::watch_settings(Arc::downgrade(kernel)));
    kernel.blobs.work_dropped();
    tokio::spawn(collect_blobs(Arc::downgrade(kernel), kernel.blobs.due()));
}

/// The kernel, unless it is gone or going.
fn running(kernel: &Weak<Kernel>) -> Option<Arc<Kernel>> {
    kernel.upgrade().filter(|kernel| !kernel.instance.stopping())
}

/// Takes the disk's reserve again as soon as there is space for it, so that brains go on.
async fn hold_reserve(kernel: Weak<Kernel>) {
    loop {
        tokio::time::sleep(Duration::from_millis(limits::RESERVE_RETRY_MS)).await;
        let Some(kernel) = running(&kernel) else { return };
        if kernel.ledger.restore_reserve() {
            kernel.tasks.wake();
        }
    }
}

/// How often clients that wait are looked at.
const CLIENTS_EVERY: Duration = Duration::from_secs(5);

/// Ends clients that have waited too long for a task.
async fn end_idle_clients(kernel: Weak<Kernel>) {
    loop {
        let wait = {
            let Some(kernel) = running(&kernel) else { return };
            kernel.clients.end_idle().await;
            kernel.clients.idle_time().clamp(Duration::from_millis(200), CLIENTS_EVERY)
        };
        tokio::time::sleep(wait).await;
    }
}

/// Releases what requests may have cost, as its time comes.
async fn release_held(kernel: Weak<Kernel>) {
    loop {
        let wait = {
            let Some(kernel) = running(&kernel) else { return };
            if let Err(fault) = kernel.ledger.release_held().await {
                world::log!("skep: what is held could not be released: {fault}");
            }
            kernel.ledger.next_release()
        };
        tokio::time::sleep(wait).await;
    }
}

/// Drops watchers that are gone without a word.
async fn sweep_watchers(kernel: Weak<Kernel>) {
    loop {
        tokio::time::sleep(Duration::from_millis(limits::WATCH_SWEEP_MS)).await;
        let Some(kernel) = running(&kernel) else { return };
        kernel.watchers.sweep(Instant::now());
    }
}

/// Collects blobs whenever that is due.
async fn collect_blobs(kernel: Weak<Kernel>, first: impl Future<Output = ()> + Send) {
    first.await;
    loop {
        let due = {
            let Some(kernel) = running(&kernel) else { return };
            if let Err(stop) = kernel.blobs.collect().await {
                world::log!("skep: blobs were not collected: {stop}");
            }
            kernel.blobs.due()
        };
        due.await;
    }
}
