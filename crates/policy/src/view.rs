//! What a process may read of a project, asked path by path and folder by folder: the source of the masks in rooms.
//!
//! Everything but the path is settled once, when a [`ReadView`] is made: of each rule only its globs are left, and rules that cannot speak
//! about this reader are gone. A room shows a path for as long as a job runs, so what may change meanwhile counts against showing it: a
//! deny or a review counts whatever state or size it asks for, an allow only if it holds now; its `max_file_size` counts as met.
//! **Invariant.** What [`ReadView::at`] shows, `decide` allows as `fs.read` to each of the readers, sizes aside; `below` says yes only if
//! `at` hides every path beneath that folder. Opinions of extensions are not asked.

use crate::Policy;
use crate::builtin::{self, BuiltinVerdict};
use crate::facts::{OwnedFacts, RealPath};
use crate::grant::{Reach, reach_of_ban, reach_of_grant};
use crate::home::HOME;
use crate::index::Index;
use crate::rule::{Action, Condition, Rule, RuleConstraints};
use std::fmt;
use world::{Ban, BanId, Grant};

/// Who reads, and what is for and against it.
#[derive(Debug, Clone, Copy)]
pub struct Readers<'a> {
    /// The process as a reader, once for each room that it may read in. It must be allowed to every one.
    pub own: &'a [OwnedFacts],
    /// Those above it: what is denied to one of them is denied here, and what would ask them does not count.
    pub ancestors: &'a [OwnedFacts],
    /// In force for the process.
    pub bans: &'a [Ban],
    /// Live for the process.
    pub grants: &'a [Grant],
}

/// Why a path is hidden.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HiddenBy {
    Ban(BanId),
    /// A built-in rule, or one of the policy, by its name.
    Rule(String),
    /// A rule that asks a person, and no grant answers it.
    Review(String),
    /// No rule allows it.
    NoRule(ReadSilence),
}

/// Whose rules say nothing of a path, and how far that goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReadSilence {
    /// The operator's own policy, which bounds what projects may allow.
    pub is_home: bool,
    /// No rule lets this reader read anything, or asks.
    pub is_whole: bool,
}

impl fmt::Display for HiddenBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HiddenBy::Ban(ban) => write!(f, "{ban} forbids `fs.read`"),
            HiddenBy::Rule(rule) => write!(f, "rule `{rule}` denies `fs.read`"),
            HiddenBy::Review(rule) => write!(f, "rule `{rule}` asks before `fs.read`, and no grant answers it"),
            HiddenBy::NoRule(ReadSilence { is_home: true, .. }) => f.write_str("policy.yaml in $SKEP_HOME allows no such `fs.read`"),
            HiddenBy::NoRule(ReadSilence { is_whole: true, .. }) => f.write_str("no rule allows `fs.read` on any file"),
            HiddenBy::NoRule(_) => f.write_str("no rule allows `fs.read`"),
        }
    }
}

/// The rules about reading, narrowed to one process.
#[derive(Debug)]
pub struct ReadView {
    /// One for each reader that differs from the others.
    readers: Vec<Reader>,
    guards: Vec<crate::Guard>,
    bans: Vec<(BanId, Reach)>,
    grants: Vec<ReadGrant>,
    /// The silence of a reader that may read nothing at all.
    whole: Option<ReadSilence>,
    /// Facts in which nothing is left for the narrowed rules to ask but the path.
    plain: OwnedFacts,
}

/// What a yes to reading shows, and whose questions it answered; without rules everybody's.
#[derive(Debug)]
struct ReadGrant {
    reach: Reach,
    rules: Option<Vec<String>>,
}

impl ReadGrant {
    fn of(grant: &Grant) -> Option<ReadGrant> {
        let reach = reach_of_grant(grant, READ);
        (!reach.is_nothing()).then(|| ReadGrant { reach, rules: grant.shown.as_ref().map(|shown| shown.rules.clone()) })
    }

    fn answers(&self, path: &str, asking: &[&Rule]) -> bool {
        self.reach.has(path) && self.rules.as_ref().is_none_or(|rules| asking.iter().all(|rule| rules.contains(&rule.name)))
    }
}

#[derive(Debug)]
struct Reader {
    /// With globs and nothing else.
    rules: Vec<Rule>,
    index: Index,
    /// A review is no yes: so for the process itself, and not for those above it.
    heeds_reviews: bool,
    /// What no rule allows is hidden by this; `None` for an operator's own policy that only denies and asks.
    silence: Option<ReadSilence>,
}

/// What the rules say of one path.
struct Spoken<'a> {
    deny: Option<&'a Rule>,
    reviews: Vec<&'a Rule>,
    allow: bool,
}

impl ReadView {
    pub fn new(policy: &Policy, readers: Readers<'_>) -> ReadView {
        let mut view = ReadView {
            readers: Vec::new(),
            guards: policy.guards.clone(),
            bans: readers.bans.iter().map(|ban| (ban.id, reach_of_ban(ban, READ))).filter(|(_, reach)| !reach.is_nothing()).collect(),
            grants: readers.grants.iter().filter_map(ReadGrant::of).collect(),
            whole: None,
            plain: OwnedFacts { read_only: true, ..OwnedFacts::of(READ) },
        };
        let own = readers.own.iter().map(|facts| (facts, true));
        let mut seen = Vec::new();
        for (facts, heeds_reviews) in own.chain(readers.ancestors.iter().map(|facts| (facts, false))) {
            // The operator's own rules are another reader's: what they hide is hidden, whatever the project's show.
            let above = policy.above.as_deref().map(|above| (above, HOME));
            for (rules_of, prefix) in above.into_iter().chain([(policy, "")]) {
                let narrowed: Vec<Narrowed> =
                    facts.with(|facts| (0..).zip(&rules_of.rules).filter_map(|(number, rule)| narrow(number, rule, facts)).collect());
                let shape = (heeds_reviews, prefix, narrowed);
                if !seen.contains(&shape) {
                    let rules: Vec<Rule> = shape.2.iter().map(|narrowed| narrowed.rule(&rules_of.rules, prefix)).collect();
                    let is_home = prefix == HOME;
                    let is_whole = rules.iter().all(|rule| rule.action == Action::Deny);
                    let silence = (!is_home || rules_of.is_bound()).then_some(ReadSilence { is_home, is_whole });
                    view.readers.push(Reader { index: Index::new(&rules), rules, heeds_reviews, silence });
                    view.whole = view.whole.or(silence.filter(|silence| silence.is_whole));
                    seen.push(shape);
                }
            }
        }
        view
    }

    /// Why this path of the project is hidden; `None` when every reader may read it.
    pub fn at(&self, path: &str) -> Option<HiddenBy> {
        if let Some((ban, _)) = self.bans.iter().find(|(_, reach)| reach.has(path)) {
            return Some(HiddenBy::Ban(*ban));
        }
        self.plain.with(|facts| {
            if let BuiltinVerdict::Deny(rule) = builtin::weigh(&self.guards, facts, Some(RealPath::Inside(path))) {
                return Some(HiddenBy::Rule(rule.name().to_owned()));
            }
            self.readers.iter().find_map(|reader| {
                let said = reader.say(facts, path);
                let first = said.reviews.iter().min_by_key(|rule| &rule.name).filter(|_| reader.heeds_reviews);
                match (said.deny, first) {
                    (Some(rule), _) => Some(HiddenBy::Rule(rule.name.clone())),
                    (None, Some(rule)) if !self.grants.iter().any(|grant| grant.answers(path, &said.reviews)) => {
                        Some(HiddenBy::Review(rule.name.clone()))
                    }
                    (None, Some(_)) => None,
                    (None, None) => {
                        let silence = reader.silence.filter(|_| !said.allow && said.reviews.is_empty());
                        silence.map(|silence| HiddenBy::NoRule(self.whole.unwrap_or(silence)))
                    }
                }
            })
        })
    }

    /// Why everything beneath this folder is hidden, whatever will be there. `None` where something is shown, or nobody can tell.
    pub fn below(&self, folder: &str) -> Option<HiddenBy> {
        if let Some((ban, _)) = self.bans.iter().find(|(_, reach)| reach.has_all_below(folder)) {
            return Some(HiddenBy::Ban(*ban));
        }
        // A name that no glob has in it: what covers the folder matches it.
        let child = if folder.is_empty() { NOBODY.to_owned() } else { format!("{folder}/{NOBODY}") };
        let hidden = self.at(&child)?;
        self.plain
            .with(|facts| {
                if matches!(builtin::weigh(&self.guards, facts, Some(RealPath::Inside(&child))), BuiltinVerdict::Deny(_)) {
                    return true;
                }
                let granted = self.grants.iter().any(|grant| grant.reach.may_have_below(folder));
                self.readers.iter().any(|reader| {
                    let reviews_hide = reader.heeds_reviews && !granted;
                    let mut covered = false;
                    reader.index.candidates(facts, Some(&child), |number| {
                        let rule = &reader.rules[number as usize];
                        let hides = rule.action == Action::Deny || (reviews_hide && rule.action == Action::RequireReview);
                        covered |= hides && covers_below(rule, folder);
                    });
                    covered || (reader.silence.is_some() && reader.allows_nothing_below(folder, reviews_hide))
                })
            })
            .then_some(hidden)
    }
}

/// The call that rooms are masked by.
const READ: &str = "fs.read";
/// Stands for any name in a folder.
const NOBODY: &str = "\u{1}\u{10ffff}\u{1}";

impl Reader {
    fn say<'a>(&'a self, facts: &crate::Facts<'_>, path: &str) -> Spoken<'a> {
        let mut said = Spoken { deny: None, reviews: Vec::new(), allow: false };
        let first = |held: Option<&'a Rule>, rule: &'a Rule| held.filter(|held| held.name <= rule.name).or(Some(rule));
        self.index.candidates(facts, Some(path), |number| {
            let rule = &self.rules[number as usize];
            if !rule.matches(facts, Some(RealPath::Inside(path))) {
                return;
            }
            match rule.action {
                Action::Deny => said.deny = first(said.deny, rule),
                Action::RequireReview => said.reviews.push(rule),
                Action::Allow => said.allow = true,
                Action::Pass => {}
            }
        });
        said
    }

    /// No rule lets anything beneath the folder be read.
    fn allows_nothing_below(&self, folder: &str, reviews_hide: bool) -> bool {
        let lets = |rule: &&Rule| rule.action == Action::Allow || (!reviews_hide && rule.action == Action::RequireReview);
        let reaches = |rule: &Rule| rule.on.path_glob.as_ref().is_none_or(|globs| globs.may_match_below(folder));
        !self.rules.iter().filter(lets).any(reaches)
    }
}

/// Whether a narrowed rule speaks about every path beneath a folder.
fn covers_below(rule: &Rule, folder: &str) -> bool {
    rule.on.path_glob.as_ref().is_none_or(|globs| globs.matches_all_below(folder))
        && rule.except.iter().all(|except| except.path_glob.as_ref().is_some_and(|globs| !globs.may_match_below(folder)))
}

/// What is left of a rule: what it says, and which of its exceptions still depend on the path.
#[derive(Debug, PartialEq, Eq)]
struct Narrowed {
    number: usize,
    says: Action,
    excepts: Vec<usize>,
}

/// A rule for one reader; `None` when it has nothing to say to it about any path.
fn narrow(number: usize, rule: &Rule, facts: &crate::Facts<'_>) -> Option<Narrowed> {
    // How large a file is changes while a room is open, so it is asked of each call and not of the room: here it counts as met.
    let lasting = RuleConstraints { max_file_size: None, ..rule.constraints.clone() };
    let (says, strict) = match (rule.action, lasting.broken(facts)) {
        (Action::Pass, _) => return None,
        (Action::Deny, _) => (Action::Deny, true),
        // A yes or a question whose constraint does not hold is a no.
        (_, Some(_)) => (Action::Deny, true),
        (Action::RequireReview, None) => (Action::RequireReview, true),
        (Action::Allow, None) => (Action::Allow, false),
    };
    // What restricts holds in any state and for any size, and only its sure exceptions count; what loosens, the other way round.
    let settled = |condition: &Condition, any: bool| {
        let condition = Condition { path_glob: None, ..condition.clone() };
        let condition = if any { Condition { workflow_state: None, session_mode: None, size: None, ..condition } } else { condition };
        condition.matches(facts, None)
    };
    let sure = |condition: &Condition| condition.workflow_state.is_none() && condition.session_mode.is_none() && condition.size.is_none();
    if !settled(&rule.on, strict) {
        return None;
    }
    let mut excepts = Vec::new();
    for (at, except) in rule.except.iter().enumerate() {
        let holds = if strict { sure(except) && settled(except, false) } else { settled(except, true) };
        match (holds, &except.path_glob) {
            (false, _) => {}
            (true, None) => return None,
            (true, Some(_)) => excepts.push(at),
        }
    }
    Some(Narrowed { number, says, excepts })
}

impl Narrowed {
    /// `prefix` says whose rule it is.
    fn rule(&self, rules: &[Rule], prefix: &str) -> Rule {
        let whole = &rules[self.number];
        let globs = |condition: &Condition| Condition { path_glob: condition.path_glob.clone(), ..Condition::default() };
        Rule {
            name: format!("{prefix}{}", whole.name),
            action: self.says,
            reason: None,
            hint: None,
            line: whole.line,
            on: globs(&whole.on),
            except: self.excepts.iter().map(|at| globs(&whole.except[*at])).collect(),
            constraints: RuleConstraints::default(),
        }
    }
}
