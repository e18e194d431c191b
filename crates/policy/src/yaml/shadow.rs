//! Rules that another rule silences: whatever they say yes to, a deny refuses or a review asks about.

use super::compile::Compiler;
use crate::rule::{Action, Rule};
use crate::scope::Key;
use ::yaml::Location;
use std::collections::HashMap;

/// Pairs of rules that are compared, about a tenth of a second's work.
const PAIRS_MAX: usize = 100_000;

impl Compiler<'_> {
    /// Rules beside each other: one whose every call another denies, and a yes to what another asks about.
    ///
    /// A deny or a review is looked up by the rarest name or extension in its glob; those with letters only are not looked at. So that a large
    /// policy is read in no time, the search ends after [`PAIRS_MAX`] pairs: a warning may be missing, a wrong one never comes.
    pub(super) fn shadows(&mut self, rules: &[Rule], places: &[Location]) {
        let denies = || rules.iter().filter(|rule| rule.action > Action::Allow);
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
                let is_excepted = || deny.except.iter().any(|except| !except.is_apart_from(&rule.on));
                if deny.action > rule.action && deny.on.covers(&rule.on) && !is_excepted() {
                    let (says, kind) = if deny.action == Action::Deny { ("denies", "deny") } else { ("asks about", "review") };
                    let what = format!("`{}` never matters: `{}` in line {} {says} all that it covers", rule.name, deny.name, deny.line);
                    self.warn(*at, what, format!("take one of the two away, or give the {kind} an exception"));
                    break;
                }
            }
        }
    }
}
