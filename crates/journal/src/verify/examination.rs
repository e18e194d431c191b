//! The verification that every start begins, beside the work.
//!
//! Holds neither the journal nor its lock, so a kernel that goes down does not wait for it; `go_on` is asked between two slices.

use std::path::PathBuf;

use super::{BlobCheck, Checker, Finding, Flaw, Names, blobs, walk};
use crate::chain::{Genesis, Tip, hex};
use crate::error::JournalError;
use crate::store::{self, Store};

/// The whole chain up to the head that a journal was opened with.
pub struct Examination {
    pub(crate) home: PathBuf,
    pub(crate) store: Store,
    pub(crate) genesis: Genesis,
    /// The head when the journal was opened.
    pub(crate) head: Tip,
    pub(crate) names: Names,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Examined {
    pub records: u64,
    pub findings: Vec<Finding>,
    /// Findings beyond those listed.
    pub more: u64,
    /// Whether it came to its end.
    pub complete: bool,
}

impl Examination {
    /// Looks at every record, and whether every blob is there. What cannot be read is a finding.
    pub fn run(&self, go_on: &dyn Fn() -> bool) -> Examined {
        let mut checker = Checker::new(self.genesis, None);
        let complete = match self.look(&mut checker, go_on) {
            Ok(complete) => complete,
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                checker.found(None, Flaw::FileDamaged, format!("{error}{cause}"));
                true
            }
        };
        Examined { records: checker.records, findings: checker.findings, more: checker.more, complete }
    }

    fn look(&self, checker: &mut Checker, go_on: &dyn Fn() -> bool) -> Result<bool, JournalError> {
        let db = self.store.open_reader()?;
        checker.blobs = Some(BlobCheck::open(&self.home, self.names)?);
        for name in store::foreign_schema(&db)? {
            checker.found(None, Flaw::ForeignSchema, format!("`{name}` is not as the journal made it"));
        }
        if !walk(&db, checker, Some(self.head.count), go_on)? {
            return Ok(false);
        }
        if checker.tip.count < self.head.count {
            let why = format!("records {} to {} are gone", checker.tip.count, self.head.count - 1);
            checker.found(Some(checker.tip.count), Flaw::CutTail, why);
        } else if checker.tip != self.head {
            let why = format!("the line is not the one that the kernel started with (now {})", &hex(&checker.tip.hash)[..16]);
            checker.found(self.head.count.checked_sub(1), Flaw::ChainBroken, why);
        }
        blobs::finish(checker, blobs::Depth::Presence, go_on)
    }
}
