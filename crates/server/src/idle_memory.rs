//! What a kernel that waits gives back: it waits for most of its life.

use crate::view::resident_bytes;
use kernel::Kernel;
use std::sync::Arc;
use std::time::Duration;

/// A kernel that has recorded nothing for this long has nothing to do: the start is over, or the last task.
const QUIET_AFTER: Duration = Duration::from_secs(2);
/// Threads that did some work aside stay for so long.
pub(crate) const THREADS_STAY: Duration = Duration::from_secs(3);
/// The look at which memory is given back again: the threads of the work are gone by then.
const SECOND_LOOK: u32 = 3;
/// What only asks leaves no record; so many bytes more are worth a look all the same.
const GROWN_BYTES: u64 = 1 << 20;

/// When memory was given back last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Release {
    /// The last record then.
    head: u64,
    /// What was resident behind it.
    bytes: u64,
}

/// Gives back the code that the start needed, or the work since, what the journal has in its caches, and the pages that are free in the heap. What the
/// journal's own thread frees is free at the next look.
pub(crate) async fn release(kernel: Arc<Kernel>) {
    let head = || kernel.ledger.journal().head().seq;
    let (mut last, mut quiet_looks, mut released) = (head(), 0, None);
    loop {
        tokio::time::sleep(QUIET_AFTER).await;
        let now = head();
        quiet_looks = if last == now { quiet_looks + 1_u32 } else { 0 };
        if is_due(quiet_looks, now, released, resident_bytes()) {
            kernel.ledger.journal().release_memory();
            if let Err(error) = sandbox::release_code() {
                world::log!("skep: cannot release pages of the program: {error}");
                return;
            }
            sandbox::release_heap();
            released = Some(Release { head: now, bytes: resident_bytes() });
        }
        last = now;
    }
}

/// Nothing was recorded between two looks or more, and something was since the last release, or much was asked.
fn is_due(quiet_looks: u32, now: u64, released: Option<Release>, bytes: u64) -> bool {
    let is_new = released.is_none_or(|released| released.head != now || bytes > released.bytes + GROWN_BYTES);
    quiet_looks == SECOND_LOOK || (quiet_looks > 0 && is_new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_it_is_quiet_and_again_when_it_has_grown() {
        let released = Some(Release { head: 7, bytes: 10 << 20 });
        assert!(is_due(1, 7, None, 30 << 20), "the start is over");
        assert!(!is_due(0, 7, None, 30 << 20), "something is going on");
        assert!(!is_due(2, 7, released, 10 << 20), "nothing happened since");
        assert!(is_due(3, 7, released, 10 << 20), "the threads of the work are gone");
        assert!(!is_due(4, 7, released, 10 << 20), "nothing happened since");
        assert!(is_due(1, 8, released, 10 << 20), "something happened, and is over");
        assert!(is_due(9, 7, released, 12 << 20), "nothing was recorded, and much was asked");
    }
}
