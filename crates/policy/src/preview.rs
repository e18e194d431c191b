//! Does the opinion of an extension matter for this call?
//!
//! Asked before extensions are, so that none runs after a deny or a valid token. **Invariant.** Where it says `Settled`, no opinion
//! changes the verdict.

use crate::Policy;
use crate::builtin::{self, BuiltinVerdict};
use crate::facts::{Facts, RealPath};
use crate::home;
use crate::rule::Action;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviewNeed {
    /// An extension may still allow it, deny it or ask for a review.
    Opinion,
    /// A built-in or a rule denies it.
    Denied,
    /// A token is valid for every path.
    Token,
}

impl PreviewNeed {
    pub fn is_settled(self) -> bool {
        self != PreviewNeed::Opinion
    }
}

/// What `facts` hold of opinions does not count here.
pub fn preview(policy: &Policy, facts: &Facts<'_>) -> PreviewNeed {
    if facts.paths.is_empty() {
        return weigh(policy, facts, None);
    }
    let needs = facts.paths.iter().map(|path| weigh(policy, facts, Some(*path)));
    needs.fold(PreviewNeed::Token, |all, one| match (all, one) {
        (PreviewNeed::Denied, _) | (_, PreviewNeed::Denied) => PreviewNeed::Denied,
        (PreviewNeed::Token, PreviewNeed::Token) => PreviewNeed::Token,
        _ => PreviewNeed::Opinion,
    })
}

fn weigh(policy: &Policy, facts: &Facts<'_>, path: Option<RealPath<'_>>) -> PreviewNeed {
    if let BuiltinVerdict::Deny(_) = builtin::weigh(&policy.guards, facts, path) {
        return PreviewNeed::Denied;
    }
    if home::denies(policy, facts, path) {
        return PreviewNeed::Denied;
    }
    if facts.token.is_some_and(|token| token.covers(facts, path)) {
        return PreviewNeed::Token;
    }
    let inside = match path {
        Some(RealPath::Inside(path)) => Some(path),
        _ => None,
    };
    let mut denied = false;
    policy.index.candidates(facts, inside, |number| {
        let rule = &policy.rules[number as usize];
        denied |= match rule.action {
            Action::Pass => false,
            Action::Deny => rule.matches(facts, path),
            Action::Allow | Action::RequireReview => rule.matches(facts, path) && rule.constraints.broken(facts).is_some(),
        };
    });
    if denied { PreviewNeed::Denied } else { PreviewNeed::Opinion }
}
