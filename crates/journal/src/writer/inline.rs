//! Late batches, written by whoever waits for them.
//!
//! To have them written by the thread would take two wake-ups for each: more than the write itself, which waits for no disk. So a late batch
//! goes into the queue like any other and wakes nobody. Whoever comes to wait for one takes the writer, if it is free, and writes all late
//! batches that stand first in the queue; those that others append meanwhile make up the next commit. **Invariant.** Whoever had the writer
//! looks at the queue once more after giving it back, so a batch whose waiter found the writer taken is written by who had it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Shared, Writer, WriterOrder, WriterSlot};

/// A disk that makes a write take longer than this would hold up the thread of whoever waits. Then the writer's own thread has its turn.
const INLINE_MAX: Duration = Duration::from_millis(25);
/// For so long.
const SLOW_PAUSE: Duration = Duration::from_secs(1);

/// A late batch in the queue that nobody was woken for. Dropped, it is left to the thread.
pub(crate) struct LateWrite {
    shared: Arc<Shared>,
    slot: WriterSlot,
    is_written: bool,
}

impl LateWrite {
    pub(crate) fn new(shared: Arc<Shared>, slot: WriterSlot) -> Self {
        Self { shared, slot, is_written: false }
    }

    /// Writes it with all that stands before it, unless somebody else does.
    pub(crate) fn write(mut self) {
        self.is_written = true;
        loop {
            let Some(mut slot) = self.slot.try_lock() else { return };
            // Closed; the ticket says so.
            let Some(writer) = slot.as_mut() else { return };
            let must_nudge = writer.write_late();
            drop(slot);
            if must_nudge {
                self.shared.nudge();
            }
            if must_nudge || !self.shared.appending.lock().queue.front().is_some_and(is_late) {
                return;
            }
        }
    }
}

impl fmt::Debug for LateWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateWrite").field("is_written", &self.is_written).finish_non_exhaustive()
    }
}

impl Drop for LateWrite {
    fn drop(&mut self) {
        if !self.is_written {
            self.shared.nudge();
        }
    }
}

impl Writer {
    /// Writes the late batches that stand first. Says whether the thread has something to do then: to seal them, or to write the rest.
    fn write_late(&mut self) -> bool {
        let began = Instant::now();
        if self.slow_until.is_some_and(|until| began < until) {
            return true;
        }
        let was_unsealed = self.unsealed;
        self.drain(is_late);
        if self.pending.urgent {
            self.flush();
        }
        let took = began.elapsed();
        self.slow_until = (took > INLINE_MAX).then(|| began + took + SLOW_PAUSE);
        (self.unsealed && !was_unsealed) || !self.pending.batches.is_empty()
    }
}

fn is_late(order: &WriterOrder) -> bool {
    matches!(order, WriterOrder::Batch(batch) if batch.is_late)
}
