//! A policy tried on past calls before it is in force: only what would change is told.

use crate::compare::{RuleChange, RuleChangeEffect};
use crate::decide::Verdict;
use crate::facts::OwnedFacts;
use crate::rule::Action;
use serde::{Deserialize, Serialize};

/// More breaking changes than this need a typed confirmation.
pub const BREAKING_MAX: usize = 5;

/// A call of the past.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// How messages call it: `call-12`.
    pub name: String,
    pub facts: OwnedFacts,
    /// What the policy said. A call that was admitted with a grant is one that it wanted reviewed.
    pub then: Action,
    /// A token let it pass: no policy was asked, and none would be.
    #[serde(default)]
    pub by_token: bool,
}

/// What a candidate would change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    pub cases: usize,
    /// Cases that tokens decided.
    pub by_token: usize,
    pub breaking: usize,
    pub stricter: usize,
    pub looser: usize,
    /// In the order of the cases.
    pub changes: Vec<VerdictChange>,
    /// What the rules themselves say differently, whatever calls there were.
    #[serde(default)]
    pub rules: Vec<RuleChange>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictChange {
    pub name: String,
    pub tool: String,
    pub paths: Vec<String>,
    pub then: Action,
    pub now: Action,
    pub kind: VerdictChangeKind,
    /// Who says so now; empty when nobody speaks.
    pub rules: Vec<String>,
    pub reasons: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictChangeKind {
    /// What was allowed would be denied.
    Breaking,
    /// It would ask where it allowed, or deny where it asked.
    Stricter,
    /// It would ask where it denied, or allow where it did not.
    Looser,
}

impl Trial {
    /// Does it let more pass than what is in force?
    pub fn loosens(&self) -> bool {
        self.rules.iter().any(|change| change.effect == RuleChangeEffect::Looser)
    }

    /// What a person must type before the candidate is put in force; `None` where a yes is enough.
    pub fn phrase(&self) -> Option<String> {
        let breaks = (self.breaking > BREAKING_MAX).then(|| format!("break {} calls", self.breaking));
        match (breaks, self.loosens()) {
            (Some(breaks), true) => Some(format!("{breaks} and allow more")),
            (Some(breaks), false) => Some(breaks),
            (None, true) => Some("allow more".into()),
            (None, false) => None,
        }
    }
}

/// What a candidate makes of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseOutcome {
    /// A token decided it, and no policy would be asked.
    ByToken,
    Same,
    Changed(VerdictChange),
}

impl CaseOutcome {
    /// Of a call that the policy answered with `then`, and that a candidate answers with `verdict`.
    pub fn of(name: impl FnOnce() -> String, facts: &OwnedFacts, then: Action, verdict: Verdict) -> CaseOutcome {
        let now = verdict.action();
        let kind = match (then, now) {
            (then, now) if then == now => return CaseOutcome::Same,
            (Action::Allow, Action::Deny) => VerdictChangeKind::Breaking,
            (then, now) if then < now => VerdictChangeKind::Stricter,
            _ => VerdictChangeKind::Looser,
        };
        let (rules, reasons) = match verdict {
            Verdict::Allow(warrant) => (warrant.rules().to_vec(), Vec::new()),
            Verdict::Review { reasons, rules } => (rules, reasons),
            Verdict::Deny { refusal, rules } => (rules, vec![refusal.reason]),
        };
        let paths = facts.paths.iter().map(|path| path.as_str().to_owned()).collect();
        CaseOutcome::Changed(VerdictChange { name: name(), tool: facts.tool.clone(), paths, then, now, kind, rules, reasons })
    }
}

impl FromIterator<CaseOutcome> for Trial {
    fn from_iter<I: IntoIterator<Item = CaseOutcome>>(outcomes: I) -> Trial {
        let mut trial = Trial::default();
        for outcome in outcomes {
            trial.cases += 1;
            match outcome {
                CaseOutcome::ByToken => trial.by_token += 1,
                CaseOutcome::Same => {}
                CaseOutcome::Changed(change) => {
                    match change.kind {
                        VerdictChangeKind::Breaking => trial.breaking += 1,
                        VerdictChangeKind::Stricter => trial.stricter += 1,
                        VerdictChangeKind::Looser => trial.looser += 1,
                    }
                    trial.changes.push(change);
                }
            }
        }
        trial
    }
}

/// `judge` says what would come of the case with this number now. Budgets and grants are of their moment and left out: this is about what
/// the policy says.
pub fn trial(cases: &[Case], mut judge: impl FnMut(usize) -> Verdict) -> Trial {
    let outcome = |(at, case): (usize, &Case)| match case.by_token {
        true => CaseOutcome::ByToken,
        false => CaseOutcome::of(|| case.name.clone(), &case.facts, case.then, judge(at)),
    };
    cases.iter().enumerate().map(outcome).collect()
}
