//! The decision: built-ins, token, rules and opinions folded into one verdict.
//!
//! Deny is final, a review outweighs an allow, and where nobody speaks the answer is no. A call with several paths is allowed
//! only if each of them is. The order of rules never shows: what is reported is sorted by name.

use crate::Policy;
use crate::builtin::{self, Builtin, BuiltinVerdict};
pub(crate) use crate::facts::{Facts, RealPath};
use crate::home::{self, BOUND, BOUND_REASON, HOME};
use crate::rule::Action;
use std::borrow::Cow;
use world::{Code, GrantId, Refusal, Remedy};

/// What the world says about the caller, read in the commit that records the decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// A person's answer to exactly this call.
    pub grant: Option<GrantId>,
    /// `None` is no limit.
    pub calls_left: Option<u64>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow(Warrant),
    Review { reasons: Vec<String>, rules: Vec<String> },
    Deny { refusal: Refusal, rules: Vec<String> },
}

impl Verdict {
    /// In a rule's word.
    pub fn action(&self) -> Action {
        match self {
            Verdict::Allow(_) => Action::Allow,
            Verdict::Review { .. } => Action::RequireReview,
            Verdict::Deny { .. } => Action::Deny,
        }
    }
}

/// Proof that [`decide`] said yes. Nothing else makes one.
#[derive(Debug, PartialEq, Eq)]
pub struct Warrant {
    rules: Vec<String>,
    grant: Option<GrantId>,
    token: Option<String>,
}

impl Warrant {
    /// Who allowed it, or asked and was answered; sorted.
    pub fn rules(&self) -> &[String] {
        &self.rules
    }

    /// The grant that this call uses up; `None` when nothing had asked for one.
    pub fn grant(&self) -> Option<GrantId> {
        self.grant
    }

    /// The token that this call uses one operation of.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }
}

pub fn decide(policy: &Policy, facts: &Facts<'_>, standing: &Standing) -> Verdict {
    let mut tally = Tally::default();
    if facts.paths.is_empty() {
        weigh(policy, facts, None, &mut tally);
    }
    for path in facts.paths {
        weigh(policy, facts, Some(*path), &mut tally);
    }
    tally.verdict(facts, standing)
}

/// Before the name of an extension rule, where rules are named.
const EXTENSION: &str = "extension:";

/// One path of the call, or the call itself when it has none.
fn weigh<'a>(policy: &'a Policy, facts: &Facts<'a>, path: Option<RealPath<'a>>, tally: &mut Tally<'a>) {
    let before = tally.statement_count();
    match builtin::weigh(&policy.guards, facts, path) {
        BuiltinVerdict::Deny(rule) => {
            tally.denies.push(Statement::of_builtin(rule, path));
            return;
        }
        BuiltinVerdict::Review(rule) => tally.review(Statement::of_builtin(rule, path)),
        BuiltinVerdict::Nothing => {}
    }
    let before = before + weigh_above(policy, facts, path, tally);
    if let Some(token) = facts.token.filter(|token| token.covers(facts, path)) {
        tally.token = Some(&token.id);
        return;
    }
    let inside = match path {
        Some(RealPath::Inside(path)) => Some(path),
        _ => None,
    };
    policy.index.candidates(facts, inside, |number| {
        let rule = &policy.rules[number as usize];
        if rule.action == Action::Pass || !rule.matches(facts, path) {
            return;
        }
        let (name, hint) = (rule.name.as_str(), rule.hint.as_deref());
        let voice = |reason: Option<Cow<'a, str>>| Statement { rule: name.into(), reason, hint, path, builtin: None };
        let reason = || rule.reason.as_deref().map(Cow::Borrowed);
        match (rule.action, rule.constraints.broken(facts)) {
            (Action::Pass, _) => {}
            (Action::Deny, _) => tally.denies.push(voice(reason())),
            (_, Some(broken)) => tally.denies.push(voice(Some(broken.into()))),
            (Action::RequireReview, None) => tally.review(voice(reason())),
            (Action::Allow, None) => tally.allow(Cow::Borrowed(&rule.name)),
        }
    });
    for opinion in facts.opinions {
        let rule = || Cow::Owned(format!("{EXTENSION}{}", opinion.from));
        let voice = || Statement { rule: rule(), reason: Some(opinion.reason.as_str().into()), hint: None, path, builtin: None };
        match opinion.says {
            Action::Pass => {}
            Action::Deny => tally.denies.push(voice()),
            Action::RequireReview => tally.review(voice()),
            Action::Allow if matches!(path, Some(RealPath::Outside(_))) => {}
            Action::Allow => tally.allow(rule()),
        }
    }
    if tally.statement_count() == before {
        match builtin::allows_silently(facts.tool) {
            Some(by) => tally.allow(Cow::Borrowed(by)),
            None => drop(tally.silence.get_or_insert(path)),
        }
    }
}

/// The operator's own policy, which nothing below it outweighs. How often it spoke; what it says is no word of the project's.
fn weigh_above<'a>(policy: &'a Policy, facts: &Facts<'a>, path: Option<RealPath<'a>>, tally: &mut Tally<'a>) -> usize {
    let Some(above) = policy.above.as_deref() else { return 0 };
    let before = tally.statement_count();
    let has_spoken = home::ask(above, facts, path, |rule, says, reason| {
        let name = Cow::Owned(format!("{HOME}{}", rule.name));
        let voice = Statement { rule: name, reason: reason.map(Cow::Owned), hint: rule.hint.as_deref(), path, builtin: None };
        match says {
            Action::Deny => tally.denies.push(voice),
            Action::RequireReview => tally.review(voice),
            Action::Allow | Action::Pass => {}
        }
    });
    if !has_spoken && above.is_bound() {
        tally.denies.push(Statement { rule: BOUND.into(), reason: Some(BOUND_REASON.into()), hint: None, path, builtin: None });
    }
    tally.statement_count() - before
}

/// What was said so far, about all paths together.
#[derive(Default)]
struct Tally<'a> {
    denies: Vec<Statement<'a>>,
    reviews: Vec<Statement<'a>>,
    allows: Vec<Cow<'a, str>>,
    /// Yes or review, each time one is said: the lists above hold a rule once.
    yes: usize,
    token: Option<&'a str>,
    /// The first path that nobody spoke about.
    silence: Option<Option<RealPath<'a>>>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Statement<'a> {
    rule: Cow<'a, str>,
    reason: Option<Cow<'a, str>>,
    hint: Option<&'a str>,
    path: Option<RealPath<'a>>,
    builtin: Option<Builtin>,
}

impl<'a> Statement<'a> {
    fn of_builtin(rule: Builtin, path: Option<RealPath<'a>>) -> Statement<'a> {
        Statement { rule: rule.name().into(), reason: Some(rule.reason().into()), hint: rule.hint(), path, builtin: Some(rule) }
    }
}

impl<'a> Tally<'a> {
    fn statement_count(&self) -> usize {
        self.denies.len() + self.yes
    }

    fn allow(&mut self, rule: Cow<'a, str>) {
        self.yes += 1;
        if !self.allows.contains(&rule) {
            self.allows.push(rule);
        }
    }

    fn review(&mut self, voice: Statement<'a>) {
        self.yes += 1;
        if !self.reviews.iter().any(|known| known.rule == voice.rule && known.reason == voice.reason) {
            self.reviews.push(voice);
        }
    }

    fn verdict(mut self, facts: &Facts<'_>, standing: &Standing) -> Verdict {
        self.denies.sort();
        if let Some(first) = self.denies.first() {
            let refusal = denied(facts, first);
            return Verdict::Deny { refusal, rules: names(self.denies.into_iter().map(|voice| voice.rule)) };
        }
        if let Some(path) = self.silence {
            return Verdict::Deny { refusal: unspoken(facts, path), rules: Vec::new() };
        }
        if standing.calls_left == Some(0) {
            return Verdict::Deny { refusal: exhausted(facts), rules: Vec::new() };
        }
        let token = self.token.map(str::to_owned);
        if self.reviews.is_empty() {
            let rules = names(self.allows.into_iter().chain(self.token.map(|id| format!("token:{id}").into())));
            return Verdict::Allow(Warrant { rules, grant: None, token });
        }
        self.reviews.sort();
        let Some(grant) = standing.grant else {
            let reasons = self.reviews.iter().map(asked).collect();
            return Verdict::Review { reasons, rules: names(self.reviews.into_iter().map(|voice| voice.rule)) };
        };
        let rules = names(self.reviews.into_iter().map(|voice| voice.rule));
        Verdict::Allow(Warrant { rules, grant: Some(grant), token })
    }
}

fn names<'a>(rules: impl Iterator<Item = Cow<'a, str>>) -> Vec<String> {
    let mut names: Vec<String> = rules.map(Cow::into_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// `fs.write` on `src/lib.rs`, `net.connect` to `docs.rs:443`
fn act(facts: &Facts<'_>, path: Option<RealPath<'_>>) -> String {
    match (path, facts.host, facts.port) {
        (Some(path), ..) => format!("`{}` on `{}`", facts.tool, path.as_str()),
        (None, Some(host), Some(port)) if host.contains(':') => format!("`{}` to `[{host}]:{port}`", facts.tool),
        (None, Some(host), Some(port)) => format!("`{}` to `{host}:{port}`", facts.tool),
        (None, Some(host), None) => format!("`{}` to `{host}`", facts.tool),
        (None, None, _) => format!("`{}`", facts.tool),
    }
}

fn asked(voice: &Statement<'_>) -> String {
    voice.reason.as_deref().map_or_else(|| format!("rule `{}` asks for a review", voice.rule), str::to_owned)
}

/// What a caller can do whom a rule denies something.
const ANOTHER_WAY: &str = "do it another way";

fn denied(facts: &Facts<'_>, voice: &Statement<'_>) -> Refusal {
    let act = act(facts, voice.path);
    let reason = match &voice.reason {
        Some(reason) => format!("{act} is denied by `{}`: {reason}", voice.rule),
        None => format!("{act} is denied by `{}`", voice.rule),
    };
    let refusal = Refusal::new(Code::Denied, reason);
    if let Some(remedy) = voice.builtin.and_then(Builtin::remedy) {
        return refusal.remedy(remedy);
    }
    if let Some(name) = voice.rule.strip_prefix(HOME) {
        let rule = (voice.rule != BOUND).then(|| name.to_owned());
        return refusal.hint(voice.hint.unwrap_or(ANOTHER_WAY)).remedy(Remedy::ChangeHomePolicy { rule });
    }
    match (voice.hint, voice.rule.strip_prefix(EXTENSION)) {
        (Some(hint), _) => refusal.hint(hint),
        (None, Some(name)) => refusal.hint(ANOTHER_WAY).remedy(Remedy::ChangeExtensionRule { name: name.to_owned() }),
        (None, None) => refusal.hint(ANOTHER_WAY).remedy(Remedy::ChangeRule { rule: voice.rule.to_string() }),
    }
}

fn unspoken(facts: &Facts<'_>, path: Option<RealPath<'_>>) -> Refusal {
    let act = act(facts, path);
    if let Some(RealPath::Outside(_)) = path {
        return Refusal::new(Code::Denied, format!("{act} is denied: it lies outside the project"))
            .hint("use a path inside the project, or have the operator copy the file there");
    }
    let host = facts.host.filter(|_| path.is_none()).map(str::to_owned);
    Refusal::new(Code::Denied, format!("{act} is denied: no rule allows it")).remedy(Remedy::AddRule { tool: facts.tool.to_owned(), host })
}

fn exhausted(facts: &Facts<'_>) -> Refusal {
    Refusal::new(Code::Exhausted, format!("`{}` is refused: no calls are left in the budget of `{}`", facts.tool, facts.caller))
        .hint("finish with what is there, or have the operator raise the budget")
}
