//! May this call happen?
//!
//! Pure: no IO, no clock, no threads. Everything that needs the outside was gathered into [`Facts`] before; what the world says is
//! in [`Standing`]. **Invariant.** [`decide`] is the only maker of a [`Warrant`], deny is final, and silence is a no.
#![forbid(unsafe_code)]

mod builtin;
mod compare;
mod decide;
mod explain;
mod facts;
mod grant;
mod home;
mod index;
mod preview;
mod rule;
mod scope;
mod suggest;
mod test_rules;
mod token;
mod tree_facts;
mod trial;
mod units;
mod view;
mod yaml;

pub use builtin::{Builtin, Guard, SET_MODE, TreeRule, WORKFLOW_CALLS, is_kept, tree_calls};
pub use compare::{RuleChange, RuleChangeEffect, RuleChangeKind, compare};
pub use decide::{Standing, Verdict, Warrant, decide};
pub use explain::{Explanation, Layer, Statement, Weighed, explain};
pub use facts::{Facts, Opinion, OwnedFacts, OwnedPath, RealPath};
pub use grant::{ban_covers, ban_is_about, grant_answers, grant_covers};
pub use home::home_rule;
pub use preview::{PreviewNeed, preview};
pub use rule::{Action, Rule};
pub use scope::{BadGlob, Globs};
pub use suggest::{Asked, Proposal, Suggestions, suggest};
pub use test_rules::{CoverageDebt, ExemptionRule, TestRules};
pub use token::{Peer, TokenFacts};
pub use tree_facts::{SpawnShortage, TreeFacts};
pub use trial::{BREAKING_MAX, Case, CaseOutcome, Trial, VerdictChange, VerdictChangeKind, trial};
pub use units::{UnitError, parse_duration, parse_size};
pub use view::{HiddenBy, ReadSilence, ReadView, Readers};
pub use yaml::typo::KnownNames;
pub use yaml::{PolicyError, Warning};

use index::Index;
use std::sync::Arc;

/// A policy in force: rules and the index over them. Share it in an `Arc`.
#[derive(Debug, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    index: Index,
    guards: Vec<Guard>,
    names: Vec<yaml::typo::NamedWord>,
    /// What it says of test-first.
    pub test_rules: TestRules,
    /// The operator's own, which holds in every project; this one can only narrow it.
    above: Option<Arc<Policy>>,
}

impl Policy {
    /// Reads the text of a policy file. `name` is how messages call it.
    pub fn parse(text: &str, name: &str) -> Result<(Policy, Vec<Warning>), PolicyError> {
        let yaml::Compiled { rules, warnings, names, test_rules } = yaml::parse(text, name)?;
        let index = Index::new(&rules);
        Ok((Policy { rules, index, guards: Vec::new(), names, test_rules, above: None }, warnings))
    }

    /// Built-ins only: nothing is allowed.
    pub fn empty() -> Policy {
        Policy::default()
    }

    /// Adds the kernel's own files to the built-ins, for when they lie inside a project.
    #[must_use]
    pub fn guarded(mut self, guards: Vec<Guard>) -> Policy {
        self.guards = guards;
        self
    }

    /// Below the operator's own policy: what that denies or asks about holds whatever these rules and tokens say, and where it allows
    /// anything at all, what it neither allows nor asks about is denied.
    #[must_use]
    pub fn under(mut self, above: Arc<Policy>) -> Policy {
        self.above = Some(above);
        self
    }

    /// As the operator's own policy: does it bound what projects may allow? One without an allow only denies and asks.
    pub fn is_bound(&self) -> bool {
        self.rules.iter().any(|rule| rule.action == Action::Allow)
    }

    /// Warns of words that name nothing and are a typo away from something known.
    pub fn typos(&self, known: &KnownNames<'_>, file: &str) -> Vec<Warning> {
        yaml::typo::typos(&self.names, known, file)
    }

    /// In the order of the file.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

/// Every field that a rule can match on, by its name in a policy file.
pub fn match_fields() -> impl Iterator<Item = &'static str> {
    rule::Field::ALL.iter().map(|field| field.as_str())
}

/// Can a rule or a token name calls by this: `fs.read`, `fs.*` or `*`?
pub fn is_syscall(text: &str) -> bool {
    rule::Syscall::parse(text).is_some()
}

/// The commented `.skep/policy.yaml` that `skep init` writes.
pub fn default_policy() -> &'static str {
    include_str!("default.yaml")
}
