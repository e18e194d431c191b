//! Rules that are legal and can never matter: each is a warning with its place.

use super::compile::Compiler;
use super::{Capability, Spelled};
use crate::rule::{Action, Rule, Syscall};
use crate::scope::Key;
use serde_saphyr::Location;
use std::collections::HashMap;

/// Syscall families whose calls never have some fields. Tools that nobody knows yet may have any.
const NEVER_HAVE: &[(&str, &[&str])] = &[
    ("fs.", &["command", "host", "method", "port"]),
    ("search.", &["command", "host", "method", "port"]),
    ("git.", &["command", "host", "method", "port"]),
    ("http.", &["command", "path_glob"]),
    ("net.", &["command", "path_glob"]),
    ("shell.", &["host", "method", "port"]),
    ("test.", &["host", "method", "port"]),
];

/// Pairs of rules that are compared, about a tenth of a second's work.
const PAIRS_MAX: usize = 100_000;

impl Compiler<'_> {
    /// A rule by itself.
    pub(super) fn doubt(&mut self, capability: &Capability, rule: &Rule) {
        let (name, fields) = (&rule.name, &capability.on.value);
        if rule.on.path_glob.as_ref().is_some_and(|globs| globs.is_void()) {
            let what = format!("the rule `{name}` never speaks: its exclusions take away all that its globs include");
            self.warn(place(&fields.path_glob, capability), what, "make the exclusions narrower");
        }
        let ranges: Vec<_> = rule.on.size.iter().flatten().map(|test| test.range()).collect();
        if !ranges.is_empty() && ranges.iter().all(Option::is_none) {
            self.warn(
                place(&fields.size, capability),
                format!("the rule `{name}` never speaks: nothing has that size"),
                "nothing is smaller than 0",
            );
        }
        if let Some(max) = rule.constraints.max_file_size
            && !ranges.is_empty()
            && ranges.iter().flatten().all(|(least, _)| *least > max)
        {
            let what = format!("the rule `{name}` never says yes: all sizes that it matches are over its own `max_file_size`");
            self.warn(place(&fields.size, capability), what, "make `max_file_size` larger, or write a deny");
        }
        let sometimes = [
            ("command", &fields.command),
            ("host", &fields.host),
            ("method", &fields.method),
            ("port", &fields.port),
            ("path_glob", &fields.path_glob),
        ];
        for (field, spelled) in sometimes {
            if spelled.is_some() && rule.on.syscall.as_ref().is_some_and(|syscalls| never_have(syscalls, field)) {
                let what = format!("the rule `{name}` never speaks: the calls that it names have no `{field}`");
                self.warn(place(spelled, capability), what, format!("take `{field}` away, or name the syscalls that have one"));
            }
        }
        for (number, except) in rule.except.iter().enumerate() {
            let (Some(own), Some(excepted)) = (&rule.on.syscall, &except.syscall) else { continue };
            if !own.iter().any(|one| excepted.iter().any(|other| one.covers(other) || other.covers(one))) {
                let at =
                    capability.except.as_ref().and_then(|list| list.0.get(number)).map_or(Location::UNKNOWN, |fields| fields.referenced);
                self.warn(at, format!("this exception of `{name}` never applies: it is for other syscalls"), "take it away");
            }
        }
    }

    /// Rules beside each other: one whose every call another denies.
    ///
    /// A deny is looked up by the rarest name or extension in its glob; those with letters only are not looked at. So that a large
    /// policy is read in no time, the search ends after [`PAIRS_MAX`] pairs: a warning may be missing, a wrong one never comes.
    pub(super) fn shadows(&mut self, rules: &[Rule], places: &[Location]) {
        let denies = || rules.iter().filter(|rule| rule.action == Action::Deny && rule.except.is_empty());
        let mut frequency: HashMap<Key<'_>, usize> = HashMap::new();
        for key in denies().filter_map(|deny| deny.on.path_glob.as_ref()).flat_map(|globs| globs.keys().flatten()) {
            *frequency.entry(key).or_default() += 1;
        }
        let mut wide: Vec<&Rule> = Vec::new();
        let mut named: HashMap<Key<'_>, Vec<&Rule>> = HashMap::new();
        for deny in denies() {
            let Some(globs) = &deny.on.path_glob else {
                wide.push(deny);
                continue;
            };
            for keys in globs.keys() {
                match keys.iter().filter(|key| !matches!(key, Key::Part(_))).min_by_key(|key| frequency.get(key)) {
                    Some(key) => named.entry(*key).or_default().push(deny),
                    None if keys.is_empty() => wide.push(deny),
                    None => {}
                }
            }
        }
        let mut pairs_left = PAIRS_MAX;
        for (rule, at) in rules.iter().zip(places) {
            if !matches!(rule.action, Action::Allow | Action::RequireReview) {
                continue;
            }
            let keys = rule.on.path_glob.iter().filter_map(|globs| globs.keys().next()).flatten();
            let near = keys.flat_map(|key| {
                let extension = match key {
                    Key::Name(name) => name.rsplit_once('.').map(|(_, extension)| Key::Extension(extension)),
                    _ => None,
                };
                [Some(key), extension].into_iter().flatten().filter_map(|key| named.get(&key)).flatten()
            });
            for deny in wide.iter().chain(near) {
                if pairs_left == 0 {
                    return;
                }
                pairs_left -= 1;
                if deny.on.covers(&rule.on) {
                    let what =
                        format!("the rule `{}` never counts: `{}` in line {} denies all that it is about", rule.name, deny.name, deny.line);
                    self.warn(*at, what, "take one of the two away, or give the deny an exception");
                    break;
                }
            }
        }
    }
}

fn place(spelled: &Spelled, capability: &Capability) -> Location {
    spelled.as_ref().map_or(capability.on.referenced, |tree| tree.referenced)
}

fn never_have(syscalls: &[Syscall], field: &str) -> bool {
    let lacks = |syscall: &Syscall| match syscall {
        Syscall::Every => false,
        Syscall::Exact(name) | Syscall::Family(name) => {
            NEVER_HAVE.iter().any(|(family, fields)| name.starts_with(family) && fields.contains(&field))
        }
    };
    !syscalls.is_empty() && syscalls.iter().all(lacks)
}
