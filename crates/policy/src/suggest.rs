//! Rules that would have saved questions: from what a person was asked and said, to what need not be asked again.
//!
//! A review is not outweighed by an allow, so a proposal is an exception to the rules that asked and, where nobody else says yes, an
//! allow of its own. **Invariant.** No proposal matches any call that was denied, so none of them comes through; and the same
//! history always gives the same proposals.

mod guess;

use crate::decide::{Standing, Verdict, decide};
use crate::facts::{Facts, OwnedFacts, RealPath};
use crate::index::Index;
use crate::rule::{Action, Rule};
use crate::{Builtin, Policy};
use guess::RuleGuess;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A question that a person answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    pub facts: OwnedFacts,
    pub allowed: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Suggestions {
    pub asked: usize,
    pub denied: usize,
    /// Questions that all proposals together would have saved.
    pub saved: usize,
    pub proposals: Vec<Proposal>,
}

#[derive(Debug, Clone)]
pub struct Proposal {
    /// What is no longer asked about, as a condition of a policy file.
    pub condition: String,
    /// The rules that asked, each of which gets the exception.
    pub excepts: Vec<String>,
    /// The name of its own allow, where it needs one.
    pub allow: Option<String>,
    /// Questions that it alone would have saved.
    pub saved: usize,
    rule: Rule,
}

/// `refused` are calls that policy itself refused: no proposal is about any of them either.
pub fn suggest(policy: &Policy, history: &[Asked], refused: &[OwnedFacts]) -> Suggestions {
    let open: Vec<Open<'_>> = history.iter().filter(|asked| asked.allowed).filter_map(|asked| Open::new(policy, &asked.facts)).collect();
    let denied = history.iter().filter(|asked| !asked.allowed).map(|asked| &asked.facts);
    let denied: Vec<&OwnedFacts> = denied.chain(refused).collect();
    let mut guesses: Vec<(RuleGuess, Vec<usize>)> = guess::all(open.iter().map(|open| open.facts))
        .into_iter()
        .filter(|guess| !denied.iter().any(|facts| touches(&guess.rule, facts)))
        .map(|guess| {
            let saves = (0..open.len()).filter(|number| fits(&guess.rule, open[*number].facts)).collect();
            (guess, saves)
        })
        .collect();
    // The most useful first, and of equally useful ones the narrowest.
    guesses.sort_by(|(a, a_saves), (b, b_saves)| {
        b_saves.len().cmp(&a_saves.len()).then(a.width.cmp(&b.width)).then_with(|| a.condition.cmp(&b.condition))
    });

    let mut suggestions = Suggestions { asked: history.len(), denied: denied.len(), ..Suggestions::default() };
    let mut left: BTreeSet<usize> = (0..open.len()).collect();
    for (guess, saves) in guesses {
        let saves: Vec<&Open<'_>> = saves.iter().filter(|number| left.contains(number)).map(|number| &open[*number]).collect();
        if !guess.is_worth(saves.iter().map(|open| open.facts)) {
            continue;
        }
        left.retain(|number| !fits(&guess.rule, open[*number].facts));
        let allow = saves.iter().any(|open| !open.allowed).then(|| free_name(policy, &guess.rule.name, suggestions.proposals.len() + 1));
        let excepts: BTreeSet<&str> = saves.iter().flat_map(|open| open.asked_by.iter().map(String::as_str)).collect();
        suggestions.proposals.push(Proposal {
            condition: guess.condition,
            excepts: excepts.into_iter().map(str::to_owned).collect(),
            saved: saves.len(),
            rule: Rule { name: allow.clone().unwrap_or_default(), ..guess.rule },
            allow,
        });
    }
    let after = suggestions.applied(policy);
    let saved = |open: &&Open<'_>| open.facts.with(|facts| matches!(decide(&after, facts, &Standing::default()), Verdict::Allow(_)));
    suggestions.saved = open.iter().filter(saved).count();
    suggestions
}

impl Suggestions {
    /// The policy with all proposals in it.
    pub fn applied(&self, policy: &Policy) -> Policy {
        let mut rules = policy.rules.clone();
        for proposal in &self.proposals {
            for rule in rules.iter_mut().filter(|rule| proposal.excepts.contains(&rule.name)) {
                rule.except.push(proposal.rule.on.clone());
            }
            if proposal.allow.is_some() {
                rules.push(proposal.rule.clone());
            }
        }
        let index = Index::new(&rules);
        Policy {
            rules,
            index,
            guards: policy.guards.clone(),
            names: Vec::new(),
            test_rules: policy.test_rules.clone(),
            above: policy.above.clone(),
        }
    }

    pub fn summary(&self) -> String {
        format!("would have saved {} of {} questions and let none of the {} denied through", self.saved, self.asked, self.denied)
    }

    /// Text to paste into the policy file: new rules, and above them the exceptions that go to rules that are there.
    pub fn yaml(&self) -> String {
        let mut text = format!("# {}\n", self.summary());
        let names: BTreeSet<&String> = self.proposals.iter().flat_map(|proposal| &proposal.excepts).collect();
        for name in names {
            // Writing to a String does not fail.
            let _ = writeln!(text, "#\n# below `except:` of `{name}`:");
            for proposal in self.proposals.iter().filter(|proposal| proposal.excepts.contains(name)) {
                let _ = writeln!(text, "#   - {}", proposal.condition);
            }
        }
        if self.proposals.iter().any(|proposal| proposal.allow.is_some()) {
            text.push_str("\ncapabilities:\n");
        }
        for proposal in &self.proposals {
            let Some(name) = &proposal.allow else { continue };
            let times = proposal.saved;
            let _ = writeln!(text, "  - name: {name}\n    match: {}\n    action: allow", proposal.condition);
            let _ = writeln!(text, "    reason: allowed {times} times in review and never refused");
        }
        text
    }
}

/// A question that rules of the file asked and a person allowed.
struct Open<'a> {
    facts: &'a OwnedFacts,
    asked_by: Vec<String>,
    /// Some rule says yes beside the question.
    allowed: bool,
}

impl<'a> Open<'a> {
    fn new(policy: &Policy, facts: &'a OwnedFacts) -> Option<Open<'a>> {
        facts.with(|call| {
            let Verdict::Review { rules, .. } = decide(policy, call, &Standing::default()) else { return None };
            // Built-ins and extensions take no exceptions.
            if rules.iter().any(|name| !policy.rules.iter().any(|rule| rule.name == *name)) || call.tool == Builtin::POLICY_UPDATE {
                return None;
            }
            let yes = |path| policy.rules.iter().any(|rule| rule.action == Action::Allow && rule.matches(call, path));
            Some(Open { facts, asked_by: rules, allowed: paths(call).into_iter().all(yes) })
        })
    }
}

fn paths<'a>(facts: &Facts<'a>) -> Vec<Option<RealPath<'a>>> {
    if facts.paths.is_empty() { vec![None] } else { facts.paths.iter().copied().map(Some).collect() }
}

/// It matches the call on every path, so that nothing of it is asked any more.
fn fits(rule: &Rule, facts: &OwnedFacts) -> bool {
    facts.with(|facts| paths(facts).into_iter().all(|path| rule.matches(facts, path)))
}

/// It matches the call on some path.
fn touches(rule: &Rule, facts: &OwnedFacts) -> bool {
    facts.with(|facts| paths(facts).into_iter().any(|path| rule.matches(facts, path)))
}

fn free_name(policy: &Policy, stem: &str, number: usize) -> String {
    let name = format!("{stem}-{number}");
    if policy.rules.iter().any(|rule| rule.name == name) { free_name(policy, stem, number + 1000) } else { name }
}
