//! Why a call is decided as it is: who could have spoken, who did, and what kept the others silent.
//!
//! The slow sister of `decide`, for people. **Invariant.** The verdict in it is `decide`'s own, never a second opinion.

use crate::builtin::{self, BuiltinVerdict};
use crate::decide::{Standing, Verdict, decide};
use crate::facts::{Facts, OwnedPath, RealPath};
use crate::rule::{Action, Field, Rule, Silence};
use crate::{Builtin, Policy, home};
use serde::{Deserialize, Serialize};
use world::{Code, Remedy};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// Allow, require_review or deny.
    pub verdict: Action,
    /// Of a deny.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// One of a deny, all of a review, none of an allow.
    pub reasons: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What the operator can do about a deny.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Box<Remedy>>,
    /// Who decided it; sorted.
    pub rules: Vec<String>,
    /// One for each path, or one for a call that has none.
    pub weighed: Vec<Weighed>,
    /// What the world added: grant and budget.
    pub standing: Vec<Statement>,
}

/// What was said about one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weighed {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<OwnedPath>,
    /// In the order in which they are asked.
    pub voices: Vec<Statement>,
    /// Rules that are about other syscalls.
    pub others: usize,
}

/// What one part of the gate says of a call, or why it says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    pub layer: Layer,
    pub name: String,
    /// Where a rule stands in its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// What it says of this call; `None` where it has nothing to say.
    pub says: Option<Action>,
    /// Its reason to speak, or why it does not.
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    Builtin,
    /// The operator's own policy, in `$SKEP_HOME`.
    Home,
    Token,
    Rule,
    Extension,
    Grant,
    Budget,
}

pub fn explain(policy: &Policy, facts: &Facts<'_>, standing: &Standing) -> Explanation {
    let verdict = decide(policy, facts, standing);
    let paths = facts.paths.iter().copied().map(Some);
    let weighed =
        if facts.paths.is_empty() { vec![weigh(policy, facts, None)] } else { paths.map(|path| weigh(policy, facts, path)).collect() };
    let empty = Explanation {
        verdict: Action::Pass,
        code: None,
        reasons: Vec::new(),
        hint: None,
        remedy: None,
        rules: Vec::new(),
        weighed,
        standing: world(standing),
    };
    empty.decided(verdict)
}

impl Explanation {
    /// The same voices with this verdict: what no rule knows of, such as a ban, outweighs what rules say.
    #[must_use]
    pub fn decided(self, verdict: Verdict) -> Explanation {
        let action = verdict.action();
        let (code, reasons, hint, remedy, rules) = match verdict {
            Verdict::Allow(warrant) => (None, Vec::new(), None, None, warrant.rules().to_vec()),
            Verdict::Review { reasons, rules } => (None, reasons, None, None, rules),
            Verdict::Deny { refusal, rules } => (Some(refusal.code), vec![refusal.reason], refusal.hint, refusal.remedy, rules),
        };
        Explanation { verdict: action, code, reasons, hint, remedy, rules, ..self }
    }
}

fn weigh(policy: &Policy, facts: &Facts<'_>, path: Option<RealPath<'_>>) -> Weighed {
    let mut weighed = Weighed { path: path.map(OwnedPath::from), voices: Vec::new(), others: 0 };
    let builtin = |rule: Builtin, says| Statement {
        layer: Layer::Builtin,
        name: rule.name().to_owned(),
        line: None,
        says: Some(says),
        why: rule.reason().to_owned(),
    };
    match builtin::weigh(&policy.guards, facts, path) {
        BuiltinVerdict::Deny(rule) => {
            // Nobody else is asked.
            weighed.voices.push(builtin(rule, Action::Deny));
            return weighed;
        }
        BuiltinVerdict::Review(rule) => weighed.voices.push(builtin(rule, Action::RequireReview)),
        BuiltinVerdict::Nothing => {}
    }
    weighed.voices.extend(policy.above.as_deref().map(|above| of_home(above, facts, path)).unwrap_or_default());
    if let Some(token) = facts.token {
        let silence = token.silence(facts, path);
        weighed.voices.push(Statement {
            layer: Layer::Token,
            name: format!("token:{}", token.id),
            line: None,
            says: silence.is_none().then_some(Action::Allow),
            why: silence.unwrap_or("it is valid, so rules and extensions are not asked").to_owned(),
        });
        if silence.is_none() {
            return weighed;
        }
    }
    for rule in &policy.rules {
        match rule.silence(facts, path) {
            Some(Silence::Misses(fields)) if fields.contains(&Field::Syscall) => weighed.others += 1,
            silence => weighed.voices.push(of_rule(rule, facts, silence.as_ref())),
        }
    }
    weighed.voices.extend(facts.opinions.iter().map(|opinion| {
        let unheard = opinion.says == Action::Allow && matches!(path, Some(RealPath::Outside(_)));
        Statement {
            layer: Layer::Extension,
            name: format!("extension:{}", opinion.from),
            line: None,
            says: (!unheard && opinion.says != Action::Pass).then_some(opinion.says),
            why: if unheard { Silence::Outside.to_string() } else { opinion.reason.clone() },
        }
    }));
    let has_spoken = weighed.voices.iter().any(|voice| voice.layer != Layer::Home && voice.says.is_some());
    if let Some(by) = builtin::allows_silently(facts.tool).filter(|_| !has_spoken) {
        weighed.voices.push(Statement {
            layer: Layer::Builtin,
            name: by.to_owned(),
            line: None,
            says: Some(Action::Allow),
            why: "no rule of the kernel's own denies it, and nobody else speaks about it".to_owned(),
        });
    }
    weighed
}

/// What the operator's own rules say: it holds whatever is said below them.
fn of_home(above: &Policy, facts: &Facts<'_>, path: Option<RealPath<'_>>) -> Vec<Statement> {
    let voice = |rule: &Rule| match rule.silence(facts, path) {
        Some(Silence::Misses(fields)) if fields.contains(&Field::Syscall) => None,
        silence => Some(Statement { layer: Layer::Home, ..of_rule(rule, facts, silence.as_ref()) }),
    };
    let mut voices: Vec<Statement> = above.rules.iter().filter_map(voice).collect();
    if above.is_bound() && voices.iter().all(|voice| voice.says.is_none()) {
        let (name, why) = (home::BOUND.to_owned(), home::BOUND_REASON.to_owned());
        voices.push(Statement { layer: Layer::Home, name, line: None, says: Some(Action::Deny), why });
    }
    voices
}

fn of_rule(rule: &Rule, facts: &Facts<'_>, silence: Option<&Silence>) -> Statement {
    let reason = || rule.reason.clone().unwrap_or_else(|| "it fits".to_owned());
    let (says, why) = match (silence, rule.action, rule.constraints.broken(facts)) {
        (Some(silence), ..) => (None, silence.to_string()),
        (None, Action::Pass, _) => (None, "it abstains".to_owned()),
        (None, Action::Deny, _) => (Some(Action::Deny), reason()),
        (None, _, Some(broken)) => (Some(Action::Deny), broken),
        (None, action, None) => (Some(action), reason()),
    };
    Statement { layer: Layer::Rule, name: rule.name.clone(), line: Some(rule.line), says, why }
}

fn world(standing: &Standing) -> Vec<Statement> {
    let grant = standing.grant.map(|grant| Statement {
        layer: Layer::Grant,
        name: grant.to_string(),
        line: None,
        says: Some(Action::Allow),
        why: "a person agreed; it answers reviews and nothing else".to_owned(),
    });
    let budget = standing.calls_left.map(|left| Statement {
        layer: Layer::Budget,
        name: "calls".to_owned(),
        line: None,
        says: (left == 0).then_some(Action::Deny),
        why: format!("{left} calls are left"),
    });
    grant.into_iter().chain(budget).collect()
}
