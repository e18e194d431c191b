//! Where a test has long work wait, so that what people are shown meanwhile can be looked at.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// From `SKEP_HOLD=work:n:PIPE`: once `n` steps of this work are done, it waits until somebody opens the pipe for writing. It waits once.
#[derive(Debug)]
pub struct WorkHold {
    work: String,
    steps: u64,
    pipe: PathBuf,
    is_used: AtomicBool,
}

impl WorkHold {
    /// `None` for what is not `work:n:PIPE`.
    pub fn parse(text: &str) -> Option<WorkHold> {
        let (work, rest) = text.split_once(':')?;
        let (steps, pipe) = rest.split_once(':')?;
        Some(WorkHold { work: work.to_owned(), steps: steps.parse().ok()?, pipe: pipe.into(), is_used: AtomicBool::new(false) })
    }

    /// So many steps of `work` are done.
    pub fn reached(&self, work: &str, steps: u64) {
        if self.work != work || steps < self.steps || self.is_used.swap(true, Ordering::Relaxed) {
            return;
        }
        // A pipe opens when both its ends do.
        if let Err(error) = std::fs::File::open(&self.pipe) {
            world::log!("skep: {work} was to wait at `{}` and did not: {error}", self.pipe.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_once_at_the_step_that_was_named() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let hold = WorkHold::parse(&format!("merging:3:{}", pipe.display())).unwrap();
        // There is no pipe yet, so whoever waited would return at once and be used up.
        hold.reached("merging", 2);
        hold.reached("undoing", 3);
        assert!(!hold.is_used.load(Ordering::Relaxed));
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| hold.reached("merging", 3));
            drop(std::fs::OpenOptions::new().write(true).open(&pipe).unwrap());
            waits.join().unwrap();
        });
        hold.reached("merging", 4);
        assert!(WorkHold::parse("merging:x:/p").is_none() && WorkHold::parse("merging").is_none());
    }
}
