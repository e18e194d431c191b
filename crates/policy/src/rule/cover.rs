//! Does one condition hold wherever another does? As with globs, a yes is sure and a no is not.

use super::{CommandPattern, Condition, SizeTest, Syscall};
use crate::scope::Word;

impl Condition {
    /// Cheap fields first: most conditions differ in one of them.
    pub(crate) fn covers(&self, other: &Condition) -> bool {
        let words = |wide: &Option<Vec<Word>>, narrow: &Option<Vec<Word>>| each(wide, narrow, Word::covers);
        each(&self.syscall, &other.syscall, Syscall::covers)
            && words(&self.caller, &other.caller)
            && words(&self.caller_tag, &other.caller_tag)
            && words(&self.role, &other.role)
            && words(&self.tier, &other.tier)
            && words(&self.user, &other.user)
            && words(&self.zone, &other.zone)
            && words(&self.mode, &other.mode)
            && words(&self.workflow_state, &other.workflow_state)
            && words(&self.session_mode, &other.session_mode)
            && each(&self.command, &other.command, CommandPattern::covers)
            && words(&self.host, &other.host)
            && each(&self.method, &other.method, |wide, narrow| wide == narrow)
            && each(&self.port, &other.port, |wide, narrow| wide == narrow)
            && words(&self.sandbox, &other.sandbox)
            && words(&self.network, &other.network)
            && each(&self.size, &other.size, SizeTest::covers)
            && match (&self.path_glob, &other.path_glob) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(wide), Some(narrow)) => wide.covers(narrow),
            }
    }
}

impl Condition {
    /// No call fits both. A yes is sure and a no is not: some fields are not looked at.
    pub(crate) fn is_apart_from(&self, other: &Condition) -> bool {
        let words = |own: &Option<Vec<Word>>, theirs: &Option<Vec<Word>>| apart(own, theirs, Word::is_apart_from);
        apart(&self.syscall, &other.syscall, |own, theirs| !own.covers(theirs) && !theirs.covers(own))
            || words(&self.host, &other.host)
            || words(&self.sandbox, &other.sandbox)
            || words(&self.caller, &other.caller)
            || apart(&self.method, &other.method, |own, theirs| own != theirs)
            || apart(&self.port, &other.port, |own, theirs| own != theirs)
    }
}

/// Both fields were written, and no two of their values go together.
fn apart<T>(own: &Option<Vec<T>>, theirs: &Option<Vec<T>>, is_apart: impl Fn(&T, &T) -> bool) -> bool {
    match (own, theirs) {
        (Some(own), Some(theirs)) => own.iter().all(|own| theirs.iter().all(|value| is_apart(own, value))),
        _ => false,
    }
}

/// Every value of the narrow list lies in one of the wide list; a field that was not written takes every value.
fn each<T>(wide: &Option<Vec<T>>, narrow: &Option<Vec<T>>, covers: impl Fn(&T, &T) -> bool) -> bool {
    match (wide, narrow) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(wide), Some(narrow)) => narrow.iter().all(|value| wide.iter().any(|own| covers(own, value))),
    }
}

impl Syscall {
    pub(crate) fn covers(&self, other: &Syscall) -> bool {
        match (self, other) {
            (Syscall::Every, _) => true,
            (Syscall::Family(own), Syscall::Family(name) | Syscall::Exact(name)) => name.starts_with(own.as_str()),
            (Syscall::Exact(own), Syscall::Exact(name)) => own == name,
            _ => false,
        }
    }
}

impl CommandPattern {
    fn covers(&self, other: &CommandPattern) -> bool {
        other.prefix.starts_with(&self.prefix) && (self.any_folder || !other.any_folder)
    }
}

impl SizeTest {
    /// The least and the most that it holds for; `None` when it holds for nothing.
    pub(crate) fn range(self) -> Option<(u64, u64)> {
        match self {
            SizeTest::Less(limit) => limit.checked_sub(1).map(|most| (0, most)),
            SizeTest::AtMost(limit) => Some((0, limit)),
            SizeTest::Equal(limit) => Some((limit, limit)),
            SizeTest::AtLeast(limit) => Some((limit, u64::MAX)),
            SizeTest::More(limit) => limit.checked_add(1).map(|least| (least, u64::MAX)),
        }
    }

    fn covers(&self, other: &SizeTest) -> bool {
        match (self.range(), other.range()) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some((least, most)), Some((from, to))) => least <= from && to <= most,
        }
    }
}
