//! The operator's own policy above a project's: what it says of one path of a call.
//!
//! **Invariant.** It only takes away. A deny or a review there holds whatever the project's rules, extensions and tokens say; its allow lets
//! nothing pass by itself.

use crate::Policy;
use crate::facts::{Facts, RealPath};
use crate::rule::{Action, Rule};

/// Before the name of a rule of the operator's own policy, where rules are named.
pub(crate) const HOME: &str = "home:";
/// The name of a rule of the operator's own policy, where a name says that it is one.
pub fn home_rule(name: &str) -> Option<&str> {
    name.strip_prefix(HOME)
}

/// What denies a call that the operator's own policy neither allows nor asks about.
pub(crate) const BOUND: &str = "home:*";
/// Why it does.
pub(crate) const BOUND_REASON: &str = "policy.yaml in $SKEP_HOME allows no such call, and a project can only narrow that";

/// Asks every rule of the policy above about a path, in the order of its index; `true` when one of them speaks.
pub(crate) fn ask<'a>(
    above: &'a Policy,
    facts: &Facts<'a>,
    path: Option<RealPath<'a>>,
    mut heard: impl FnMut(&'a Rule, Action, Option<String>),
) -> bool {
    let inside = match path {
        Some(RealPath::Inside(path)) => Some(path),
        _ => None,
    };
    let mut has_spoken = false;
    above.index.candidates(facts, inside, |number| {
        let rule = &above.rules[number as usize];
        if rule.action == Action::Pass || !rule.matches(facts, path) {
            return;
        }
        has_spoken = true;
        match (rule.action, rule.constraints.broken(facts)) {
            (Action::Deny, _) => heard(rule, Action::Deny, rule.reason.clone()),
            (_, Some(broken)) => heard(rule, Action::Deny, Some(broken)),
            (action, None) => heard(rule, action, rule.reason.clone()),
        }
    });
    has_spoken
}

/// Whether the policy above denies a path, or is silent where only its word would allow it.
pub(crate) fn denies(policy: &Policy, facts: &Facts<'_>, path: Option<RealPath<'_>>) -> bool {
    let Some(above) = &policy.above else { return false };
    let mut denied = false;
    let has_spoken = ask(above, facts, path, |_, says, _| denied |= says == Action::Deny);
    denied || (!has_spoken && above.is_bound())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{OwnedFacts, OwnedPath};
    use crate::{Layer, PreviewNeed, ReadView, Readers, Standing, Verdict, decide, explain, preview};
    use std::sync::Arc;

    const EVERYTHING: &str = "capabilities: [{name: all, match: {syscall: '*', path_glob: '**'}, action: allow}]";

    fn parse(text: &str) -> Policy {
        Policy::parse(text, "test").unwrap().0
    }

    /// A project's policy below the operator's own.
    fn below(project: &str, home: &str) -> Policy {
        parse(project).under(Arc::new(parse(home)))
    }

    fn facts(tool: &str, path: &str) -> OwnedFacts {
        OwnedFacts { paths: vec![OwnedPath::Inside(path.into())], ..OwnedFacts::of(tool) }
    }

    /// What is decided, and who decided it.
    fn decided(policy: &Policy, tool: &str, path: &str) -> (Action, Vec<String>) {
        facts(tool, path).with(|facts| {
            let verdict = decide(policy, facts, &Standing::default());
            let explained = explain(policy, facts, &Standing::default());
            assert_eq!(explained.verdict, verdict.action(), "explain says what decide says");
            let rules = match &verdict {
                Verdict::Allow(warrant) => warrant.rules().to_vec(),
                Verdict::Review { rules, .. } | Verdict::Deny { rules, .. } => rules.clone(),
            };
            (verdict.action(), rules)
        })
    }

    #[test]
    fn what_is_denied_or_asked_above_holds_whatever_a_project_allows() {
        let home = "capabilities:\n  - {name: no, match: {syscall: fs.read, path_glob: '*.key2'}, action: deny}\n  - {name: ask, match: {syscall: fs.write, path_glob: 'docs/**'}, action: require_review}";
        let policy = below(EVERYTHING, home);
        assert_eq!(decided(&policy, "fs.read", "a.key2"), (Action::Deny, vec!["home:no".into()]));
        assert_eq!(decided(&policy, "fs.write", "docs/a.md"), (Action::RequireReview, vec!["home:ask".into()]));
        // It has no allow, so it bounds nothing.
        assert_eq!(decided(&policy, "fs.read", "a.txt"), (Action::Allow, vec!["all".into()]));
        facts("fs.read", "a.key2").with(|facts| {
            assert_eq!(preview(&policy, facts), PreviewNeed::Denied, "no extension is asked");
            let explained = explain(&policy, facts, &Standing::default());
            assert!(explained.weighed[0].voices.iter().any(|voice| voice.layer == Layer::Home && voice.says == Some(Action::Deny)));
        });
        // What a project is silent about stays denied, also where the operator's own policy only asks.
        let silent = below("capabilities: []", home);
        assert_eq!(decided(&silent, "fs.write", "docs/a.md").0, Action::Deny);
    }

    #[test]
    fn an_allow_above_bounds_and_allows_nothing_by_itself() {
        let home = "capabilities: [{name: reading, match: {syscall: fs.read, path_glob: '/src/**'}, action: allow}]";
        let policy = below(EVERYTHING, home);
        assert_eq!(decided(&policy, "fs.read", "src/a.rs"), (Action::Allow, vec!["all".into()]));
        assert_eq!(decided(&policy, "fs.read", "a.rs"), (Action::Deny, vec![BOUND.into()]));
        assert_eq!(decided(&policy, "shell.run", "src"), (Action::Deny, vec![BOUND.into()]));
        assert_eq!(decided(&below("capabilities: []", home), "fs.read", "src/a.rs").0, Action::Deny);
    }

    #[test]
    fn rooms_do_not_show_what_is_denied_above() {
        let policy = below(EVERYTHING, "capabilities: [{name: no, match: {syscall: fs.read, path_glob: '*.key2'}, action: deny}]");
        let own = [facts("fs.read", "")];
        let own = own.map(|facts| OwnedFacts { paths: Vec::new(), ..facts });
        let view = ReadView::new(&policy, Readers { own: &own, ancestors: &[], bans: &[], grants: &[] });
        assert_eq!(view.at("a.key2").map(|by| by.to_string()).as_deref(), Some("rule `home:no` denies `fs.read`"));
        assert_eq!(view.at("a.txt"), None);
    }
}
