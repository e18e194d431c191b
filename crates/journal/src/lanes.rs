//! Slices of the journal on several threads: each reads with a connection of its own, and what they make is handed over in order.
//!
//! **Invariant.** Memory is bounded: a thread that is ahead waits until what it made was taken.

use std::ops::{ControlFlow, Range};
use std::sync::mpsc::sync_channel;
use std::thread;

use rusqlite::Connection;

use crate::error::JournalError;
use crate::store::Store;

/// Records of one slice. Each is a short read of its own: a long one would keep the WAL from being written back.
pub(crate) const SLICE_RECORDS: u64 = 1_000;
/// Fewer records are read before a thread has started.
const RECORDS_MIN: u64 = 3 * SLICE_RECORDS;
/// Slices of one thread that may wait to be taken.
const WAITING_MAX: usize = 2;
const THREADS_MAX: usize = 8;

/// Whether threads are worth starting for so many records.
pub(crate) fn are_worth(range: &Range<u64>) -> bool {
    range.end.saturating_sub(range.start) >= RECORDS_MIN
}

/// The slices of a range, in order or against it.
fn slices(range: &Range<u64>, reverse: bool) -> impl Iterator<Item = Range<u64>> + Clone + Send + use<> {
    let Range { start, end } = *range;
    let count = end.saturating_sub(start).div_ceil(SLICE_RECORDS);
    (0..count).map(move |number| {
        let from = start + SLICE_RECORDS * if reverse { count - 1 - number } else { number };
        from..(from + SLICE_RECORDS).min(end)
    })
}

/// Hands what `work` makes of each slice to `take`, until it has enough. `None` stands for a slice whose thread has ended.
pub(crate) fn run<R: Send>(
    store: &Store,
    range: &Range<u64>,
    reverse: bool,
    work: &(impl Fn(&Connection, &Range<u64>) -> R + Sync),
    take: &mut dyn FnMut(Range<u64>, Option<R>) -> Result<ControlFlow<()>, JournalError>,
) -> Result<(), JournalError> {
    let threads = thread::available_parallelism().map_or(1, usize::from).clamp(1, THREADS_MAX);
    let all = slices(range, reverse);
    thread::scope(|scope| {
        let mut lanes = Vec::with_capacity(threads);
        for number in 0..threads {
            let (lane, made) = sync_channel(WAITING_MAX);
            let db = store.open_reader()?;
            let own = all.clone().skip(number).step_by(threads);
            let run = move || {
                for slice in own {
                    // Nobody takes it any more.
                    if lane.send(work(&db, &slice)).is_err() {
                        return;
                    }
                }
            };
            let spawned = thread::Builder::new().name("journal-slices".into()).spawn_scoped(scope, run);
            spawned.map_err(JournalError::io("start a thread for", &store.path))?;
            lanes.push(made);
        }
        for (slice, lane) in all.zip(lanes.iter().cycle()) {
            if take(slice, lane.recv().ok())?.is_break() {
                break;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_cover_a_range_once_in_either_order() {
        for range in [0..0, 5..6, 0..1_000, 7..3_500, 1_000..5_000] {
            let mut forth: Vec<_> = slices(&range, false).collect();
            let places: Vec<u64> = forth.iter().cloned().flatten().collect();
            assert_eq!(places, range.clone().collect::<Vec<_>>());
            forth.reverse();
            assert_eq!(slices(&range, true).collect::<Vec<_>>(), forth);
        }
        // No counting from place to place.
        assert_eq!(slices(&(0..u64::MAX / 2), false).take(2).collect::<Vec<_>>(), [0..1_000, 1_000..2_000]);
    }
}
