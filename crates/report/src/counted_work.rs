//! Long work with files, and how far it is, for whoever waits for it.
//!
//! **Invariant.** A work is listed exactly as long as its [`WorkCounter`] lives.

use crate::WorkHold;
use ledger::Ledger;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use world::TaskId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedKind {
    RecordingBase,
    Freezing,
    Merging,
    Undoing,
    Verifying,
}

/// One long work, as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedWork {
    pub kind: CountedKind,
    pub task: Option<TaskId>,
    pub done: u64,
    /// 0 where nobody knows.
    pub total: u64,
    pub ms: u64,
}

/// All long work under way.
#[derive(Debug, Default)]
pub struct CountedWorks {
    entries: Mutex<Vec<Arc<Entry>>>,
    hold: Option<Arc<WorkHold>>,
}

#[derive(Debug)]
struct Entry {
    kind: CountedKind,
    task: Option<TaskId>,
    done: AtomicU64,
    total: u64,
    since: Instant,
}

/// A long work under way, as long as this is held.
#[derive(Debug)]
pub struct WorkCounter {
    works: Arc<CountedWorks>,
    entry: Arc<Entry>,
}

impl CountedKind {
    fn as_str(self) -> &'static str {
        match self {
            CountedKind::RecordingBase => "recording",
            CountedKind::Freezing => "freezing",
            CountedKind::Merging => "merging",
            CountedKind::Undoing => "undoing",
            CountedKind::Verifying => "verifying",
        }
    }
}

impl CountedWorks {
    pub fn new(hold: Option<Arc<WorkHold>>) -> CountedWorks {
        CountedWorks { entries: Mutex::default(), hold }
    }

    pub fn begin(self: &Arc<CountedWorks>, kind: CountedKind, task: Option<TaskId>, total: u64) -> WorkCounter {
        let entry = Arc::new(Entry { kind, task, done: AtomicU64::new(0), total, since: Instant::now() });
        self.entries.lock().push(Arc::clone(&entry));
        WorkCounter { works: Arc::clone(self), entry }
    }

    pub fn list(&self) -> Vec<CountedWork> {
        let view = |entry: &Arc<Entry>| CountedWork {
            kind: entry.kind,
            task: entry.task,
            done: entry.done.load(Ordering::Relaxed),
            total: entry.total,
            ms: u64::try_from(entry.since.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        self.entries.lock().iter().map(view).collect()
    }

    /// Somebody has read the journal up to this record.
    pub fn read_up_to(&self, seq: u64) {
        if let Some(hold) = &self.hold {
            hold.reached("reading", seq);
        }
    }

    /// Verifies the whole journal; how far it is can be seen meanwhile.
    pub fn verify_journal(self: &Arc<CountedWorks>, ledger: &Ledger) -> Result<journal::Report, journal::JournalError> {
        let journal = ledger.journal();
        let counter = self.begin(CountedKind::Verifying, None, journal.head().count);
        journal.verify_telling(&|records| counter.reached(records))
    }
}

impl WorkCounter {
    /// One more is done.
    pub fn step(&self) {
        let before = self.entry.done.fetch_add(1, Ordering::Relaxed);
        self.held(before + 1);
    }

    /// So many are done, unless more were.
    pub fn reached(&self, done: u64) {
        self.entry.done.fetch_max(done, Ordering::Relaxed);
        self.held(done);
    }

    fn held(&self, done: u64) {
        if let Some(hold) = &self.works.hold {
            hold.reached(self.entry.kind.as_str(), done);
        }
    }
}

impl Drop for WorkCounter {
    fn drop(&mut self) {
        self.works.entries.lock().retain(|entry| !Arc::ptr_eq(entry, &self.entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_is_listed_while_it_lasts() {
        let works = Arc::new(CountedWorks::default());
        let base = works.begin(CountedKind::RecordingBase, Some(TaskId(1)), 0);
        let merge = works.begin(CountedKind::Merging, Some(TaskId(2)), 9);
        base.step();
        base.step();
        merge.reached(5);
        merge.reached(3);
        let seen: Vec<_> = works.list().iter().map(|work| (work.kind, work.done, work.total)).collect();
        assert_eq!(seen, [(CountedKind::RecordingBase, 2, 0), (CountedKind::Merging, 5, 9)]);
        drop(base);
        assert_eq!(works.list().len(), 1);
        drop(merge);
        assert_eq!(works.list(), []);
    }
}
