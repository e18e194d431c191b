//! What the journal's verification found wrong, until a person has looked at it.
//!
//! **Invariant.** A doubt has one number for good, in the order of the records, so that a person acknowledges what they saw and nothing
//! that came meanwhile.

use serde::{Deserialize, Serialize};

/// Doubts that are remembered. Older ones that a person has seen are in the journal only.
const REMEMBERED_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    pub number: u64,
    pub what: String,
    pub why: String,
    pub at_ms: i64,
    /// Who acknowledged it.
    pub seen_by: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubts {
    found: Vec<Doubt>,
    last: u64,
}

impl Doubts {
    /// All that are remembered, oldest first.
    pub fn all(&self) -> &[Doubt] {
        &self.found
    }

    /// Those that nobody has acknowledged.
    pub fn open(&self) -> impl Iterator<Item = &Doubt> {
        self.found.iter().filter(|doubt| doubt.seen_by.is_none())
    }

    /// Whether exactly this was found before, seen or not: what stays in the files is told once.
    pub fn knows(&self, what: &str, why: &str) -> bool {
        self.found.iter().any(|doubt| doubt.what == what && doubt.why == why)
    }

    /// Whether a doubt up to this number waits to be seen.
    pub(crate) fn covers(&self, upto: u64) -> bool {
        upto <= self.last && self.open().any(|doubt| doubt.number <= upto)
    }

    pub(crate) fn add(&mut self, what: &str, why: &str, at_ms: i64) {
        self.last += 1;
        self.found.push(Doubt { number: self.last, what: what.to_owned(), why: why.to_owned(), at_ms, seen_by: None });
        if self.found.len() > REMEMBERED_MAX
            && let Some(oldest) = self.found.iter().position(|doubt| doubt.seen_by.is_some())
        {
            self.found.remove(oldest);
        }
    }

    pub(crate) fn acknowledge(&mut self, upto: u64, by: &str) {
        for doubt in self.found.iter_mut().filter(|doubt| doubt.number <= upto && doubt.seen_by.is_none()) {
            doubt.seen_by = Some(by.to_owned());
        }
    }
}
