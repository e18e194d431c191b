//! A capability token as the gate sees it: signature and nonce are checked, scope and life are weighed here.

use crate::decide::{Facts, RealPath};
use crate::rule::Syscall;
use crate::scope::Globs;

/// Who stands behind a call: a sandbox and one process in it. The start time tells a reused pid apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub sandbox: String,
    pub pid: u32,
    pub started_ms: i64,
}

/// A token whose signature and nonce hold. Whether it speaks for this call is decided with the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFacts {
    pub id: String,
    /// As in a rule: exact, `fs.*` or `*`.
    pub syscall: String,
    /// `None` where the token names no paths; then it speaks for calls without paths only.
    pub paths: Option<Globs>,
    pub ops_left: u64,
    pub expires_ms: i64,
    /// The clock, read once when the facts were gathered, so that a token cannot run out between two checks.
    pub now_ms: i64,
    pub bound_to: Peer,
    pub presented_by: Peer,
}

impl TokenFacts {
    /// Does the token speak for this call on this path? An invalid one is no refusal: the call is weighed as if it had none.
    pub(crate) fn covers(&self, facts: &Facts<'_>, path: Option<RealPath<'_>>) -> bool {
        self.silence(facts, path).is_none()
    }

    /// Why it does not speak; `None` when it does.
    pub(crate) fn silence(&self, facts: &Facts<'_>, path: Option<RealPath<'_>>) -> Option<&'static str> {
        if self.ops_left == 0 {
            return Some("its operations are used up");
        }
        if self.now_ms >= self.expires_ms {
            return Some("its time is over");
        }
        if self.bound_to != self.presented_by {
            return Some("it was issued to another sandbox or process");
        }
        if !Syscall::parse(&self.syscall).is_some_and(|syscall| syscall.matches(facts.tool)) {
            return Some("it is for other syscalls");
        }
        match (path, &self.paths) {
            (None, _) => None,
            (Some(RealPath::Inside(path)), Some(globs)) if globs.matches(path) => None,
            (Some(_), _) => Some("it is for other paths"),
        }
    }
}
