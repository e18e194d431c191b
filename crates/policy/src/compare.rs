//! Two policies side by side, rule by rule: what was added, removed or changed, and whether that lets more pass or less.
//!
//! Rules are known by their names. **Invariant.** What cannot be shown to be stricter or the same counts as looser.

use crate::Policy;
use crate::rule::{Action, Rule};
use serde::{Deserialize, Serialize};

/// One difference between two policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleChange {
    /// The rule's name, or the key of `skep.yml`.
    pub name: String,
    pub kind: RuleChangeKind,
    /// In a few words: `allow`, `deny → allow`.
    pub what: String,
    pub effect: RuleChangeEffect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleChangeKind {
    Added,
    Removed,
    Changed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleChangeEffect {
    /// It may let pass what the other policy asked about or denied.
    Looser,
    Stricter,
    /// Words, order, or what another rule says already.
    Same,
}

/// What `new` says differently than `old`, in the order of `new`, then what is gone.
pub fn compare(old: &Policy, new: &Policy) -> Vec<RuleChange> {
    let changed = new.rules().iter().filter_map(|rule| match old.rules().iter().find(|before| before.name == rule.name) {
        Some(before) => changed(before, rule),
        None => Some(RuleChange {
            name: rule.name.clone(),
            kind: RuleChangeKind::Added,
            what: rule.action.as_str().into(),
            effect: added(rule, old),
        }),
    });
    let gone = old.rules().iter().filter(|rule| !new.rules().iter().any(|after| after.name == rule.name));
    let removed = gone.map(|rule| RuleChange {
        name: rule.name.clone(),
        kind: RuleChangeKind::Removed,
        what: rule.action.as_str().into(),
        effect: removed(rule, new),
    });
    changed.chain(removed).collect()
}

/// Does a rule of `policy` say at least what this one says, with the same action?
fn is_said_by(policy: &Policy, rule: &Rule) -> bool {
    let says = |other: &Rule| other.action == rule.action && other.except.is_empty() && other.on.covers(&rule.on);
    // A condition of a yes narrows it, so only one without any says all.
    policy.rules().iter().any(|other| says(other) && (rule.action != Action::Allow || other.constraints == Default::default()))
}

fn added(rule: &Rule, old: &Policy) -> RuleChangeEffect {
    match rule.action {
        Action::Pass => RuleChangeEffect::Same,
        Action::Allow if is_said_by(old, rule) => RuleChangeEffect::Same,
        Action::Allow => RuleChangeEffect::Looser,
        Action::RequireReview | Action::Deny => RuleChangeEffect::Stricter,
    }
}

fn removed(rule: &Rule, new: &Policy) -> RuleChangeEffect {
    match rule.action {
        Action::Pass => RuleChangeEffect::Same,
        Action::Allow => RuleChangeEffect::Stricter,
        Action::RequireReview | Action::Deny if is_said_by(new, rule) => RuleChangeEffect::Same,
        Action::RequireReview | Action::Deny => RuleChangeEffect::Looser,
    }
}

fn changed(before: &Rule, after: &Rule) -> Option<RuleChange> {
    let same_scope = before.on == after.on && before.except == after.except && before.constraints == after.constraints;
    if same_scope && before.action == after.action {
        return None;
    }
    let effect = if before.action == after.action {
        scope_effect(before, after)
    } else if same_scope {
        action_effect(before.action, after.action)
    } else {
        RuleChangeEffect::Looser
    };
    let what = match before.action == after.action {
        true => format!("{}, about other calls", after.action.as_str()),
        false => format!("{} → {}", before.action.as_str(), after.action.as_str()),
    };
    Some(RuleChange { name: after.name.clone(), kind: RuleChangeKind::Changed, what, effect })
}

/// A rule that says something else about the same calls. One that abstains leaves them to others, and silence is a no.
fn action_effect(before: Action, after: Action) -> RuleChangeEffect {
    match (before, after) {
        (Action::Pass, Action::Allow) => RuleChangeEffect::Looser,
        (Action::Pass, _) | (Action::Allow, _) => RuleChangeEffect::Stricter,
        (Action::RequireReview, Action::Deny) => RuleChangeEffect::Stricter,
        _ => RuleChangeEffect::Looser,
    }
}

/// A rule that says the same about other calls.
fn scope_effect(before: &Rule, after: &Rule) -> RuleChangeEffect {
    let within = |narrow: &Rule, wide: &Rule| wide.on.covers(&narrow.on) && wide.except.iter().all(|except| narrow.except.contains(except));
    let is_stricter = match after.action {
        Action::Pass => return RuleChangeEffect::Same,
        Action::Allow => before.constraints == after.constraints && within(after, before),
        Action::RequireReview | Action::Deny => within(before, after),
    };
    if is_stricter { RuleChangeEffect::Stricter } else { RuleChangeEffect::Looser }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rules: &str) -> Policy {
        let text = format!("capabilities:\n{rules}");
        Policy::parse(if rules.is_empty() { "capabilities: []" } else { &text }, "p").unwrap().0
    }

    fn told(old: &str, new: &str) -> Vec<String> {
        let rule = |line: &str| -> String { line.split(';').map(|rule| format!("  - {{{rule}}}\n")).collect() };
        let text = |line: &str| if line.is_empty() { String::new() } else { rule(line) };
        compare(&policy(&text(old)), &policy(&text(new)))
            .into_iter()
            .map(|change| format!("{:?} {} {} {:?}", change.kind, change.name, change.what, change.effect).to_lowercase())
            .collect()
    }

    #[test]
    fn each_difference_has_its_direction() {
        let reads = "name: a, match: {syscall: fs.read, path_glob: '/src/**'}, action: allow";
        let table: &[(&str, &str, &[&str])] = &[
            (reads, reads, &[]),
            ("", reads, &["added a allow looser"]),
            (reads, "", &["removed a allow stricter"]),
            ("", "name: d, match: {syscall: fs.*}, action: deny", &["added d deny stricter"]),
            ("name: d, match: {syscall: fs.*}, action: deny", "", &["removed d deny looser"]),
            (
                "name: d, match: {syscall: fs.*}, action: deny",
                "name: d, match: {syscall: fs.*}, action: allow",
                &["changed d deny → allow looser"],
            ),
            (
                "name: d, match: {syscall: fs.*}, action: allow",
                "name: d, match: {syscall: fs.*}, action: deny",
                &["changed d allow → deny stricter"],
            ),
            (reads, "name: a, match: {syscall: fs.read, path_glob: '/**'}, action: allow", &["changed a allow, about other calls looser"]),
            (
                "name: a, match: {syscall: fs.read, path_glob: '/**'}, action: allow",
                reads,
                &["changed a allow, about other calls stricter"],
            ),
            (
                "name: d, match: {syscall: fs.*}, action: deny",
                "name: d, match: {syscall: fs.*}, except: [{syscall: fs.read}], action: deny",
                &["changed d deny, about other calls looser"],
            ),
            (
                "name: d, match: {syscall: fs.*}, except: [{syscall: fs.read}], action: deny",
                "name: d, match: {syscall: fs.*}, action: deny",
                &["changed d deny, about other calls stricter"],
            ),
            (
                "name: wide, match: {syscall: fs.*}, action: allow",
                &format!("name: wide, match: {{syscall: fs.*}}, action: allow;{reads}"),
                &["added a allow same"],
            ),
            ("name: p, match: {syscall: fs.*}, action: pass", "", &["removed p pass same"]),
        ];
        for (old, new, expected) in table {
            assert_eq!(told(old, new), *expected, "{old} / {new}");
        }
    }

    #[test]
    fn another_name_for_the_same_deny_loosens_nothing() {
        let old = "name: d, match: {syscall: fs.write}, action: deny";
        let new = "name: all, match: {syscall: fs.*}, action: deny";
        assert_eq!(told(old, new), ["added all deny stricter", "removed d deny same"]);
    }
}
