//! What a bundle says differently than another, in a few words: its rules one by one, the keys of its `skep.yml`, its extensions.
//!
//! **Invariant.** What cannot be shown to be stricter or the same counts as looser.

use crate::config::Config;
use crate::role::Role;
use crate::zone::{Bundle, POLICY_FILE, Parsed, parse_whole};
use policy::{Policy, RuleChange, RuleChangeEffect, RuleChangeKind};
use std::collections::BTreeSet;

/// How `new` differs from `old`; what does not parse differs in nothing, since it cannot be put in force.
pub(crate) fn between(old: &Bundle, new: &Bundle) -> Vec<RuleChange> {
    let parse = |bundle: &Bundle| Policy::parse(&bundle.policy, POLICY_FILE).ok().map(|(policy, _)| policy);
    let mut changes = match (parse(old), parse(new)) {
        (Some(old), Some(new)) => policy::compare(&old, &new),
        _ => Vec::new(),
    };
    if let (Ok(old), Ok(new)) = (Config::parse(&old.config), Config::parse(&new.config)) {
        changes.extend(settings(&old, &new));
    }
    changes.extend(extensions(old, new));
    changes.extend(roles(old, new));
    changes
}

/// Words change nothing that may happen; a tool list that is shorter or gone does.
fn roles(old: &Bundle, new: &Bundle) -> Vec<RuleChange> {
    use RuleChangeEffect::{Looser, Same, Stricter};
    let (Ok(before), Ok(after)) = (parse_whole(old), parse_whole(new)) else { return Vec::new() };
    let names: BTreeSet<&str> = before.role_names().into_iter().chain(after.role_names()).collect();
    let change = |name: &str| {
        let of = |parsed: &Parsed| parsed.role(name).ok().flatten().cloned();
        let (was, is) = (of(&before), of(&after));
        let lists = |parsed: &Parsed, role: &Option<Role>| parsed.tool_lists(name, role.as_ref());
        let (had, has) = (lists(&before, &was), lists(&after, &is));
        let kind = match (&was, &is) {
            (None, Some(_)) => RuleChangeKind::Added,
            (Some(_), None) => RuleChangeKind::Removed,
            _ if was == is && had == has => return None,
            _ => RuleChangeKind::Changed,
        };
        let (what, effect) = match had.iter().all(|list| has.contains(list)) {
            true if had == has || was.is_none() => ("what workers are told", Same),
            true => ("fewer tools", Stricter),
            false => ("another tool list", Looser),
        };
        Some(RuleChange { name: format!("role {name}"), kind, what: what.to_owned(), effect })
    };
    names.into_iter().filter_map(change).collect()
}

fn changed(name: &str, what: impl Into<String>, effect: RuleChangeEffect) -> RuleChange {
    RuleChange { name: name.to_owned(), kind: RuleChangeKind::Changed, what: what.into(), effect }
}

/// The keys of `skep.yml` that decide what may happen. The others say what is done, not what may be.
fn settings(old: &Config, new: &Config) -> Vec<RuleChange> {
    use RuleChangeEffect::{Looser, Same, Stricter};
    let mut changes = Vec::new();
    let mut list = |name: &str, old: &[String], new: &[String], more: RuleChangeEffect, less: RuleChangeEffect| {
        let (old, new): (BTreeSet<&String>, BTreeSet<&String>) = (old.iter().collect(), new.iter().collect());
        let added: Vec<&str> = new.difference(&old).map(|item| item.as_str()).collect();
        let gone: Vec<&str> = old.difference(&new).map(|item| item.as_str()).collect();
        changes.extend((!added.is_empty()).then(|| changed(name, format!("with {}", added.join(", ")), more)));
        changes.extend((!gone.is_empty()).then(|| changed(name, format!("without {}", gone.join(", ")), less)));
    };
    list("skep.yml merge.safe", &old.merge.safe, &new.merge.safe, Looser, Stricter);
    list("skep.yml mask", &old.mask, &new.mask, Stricter, Looser);
    let names = |config: &Config| config.redact.iter().map(|(name, pattern)| format!("{name} {pattern}")).collect::<Vec<_>>();
    list("skep.yml redact", &names(old), &names(new), Stricter, Looser);
    match (&old.providers, &new.providers) {
        (Some(old), Some(new)) => list("skep.yml providers", old, new, Looser, Stricter),
        (Some(_), None) => changes.push(changed("skep.yml providers", "all that you set up", Looser)),
        (None, Some(_)) => changes.push(changed("skep.yml providers", "fewer", Stricter)),
        (None, None) => {}
    }
    if old.limits.calls != new.limits.calls {
        let number = |calls: Option<u64>| calls.map_or_else(|| "no limit".to_owned(), |calls| calls.to_string());
        let most = |calls: Option<u64>| calls.unwrap_or(u64::MAX);
        let effect = if most(new.limits.calls) > most(old.limits.calls) { Looser } else { Stricter };
        changes.push(changed("skep.yml limits.calls", format!("{} → {}", number(old.limits.calls), number(new.limits.calls)), effect));
    }
    if old.sandbox != new.sandbox {
        changes.push(changed("skep.yml sandbox", "other bounds of sandboxes", Looser));
    }
    let others = [
        ("skep.yml test", old.test != new.test),
        ("skep.yml brain", old.brain != new.brain),
        ("skep.yml models", old.models != new.models),
        ("skep.yml pins", old.pins != new.pins),
        ("skep.yml runtime", old.runtime != new.runtime),
        ("skep.yml crew", old.crew != new.crew),
        ("skep.yml limits", old.zone != new.zone),
    ];
    changes.extend(others.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| changed(name, "other", Same)));
    changes
}

/// What a program says cannot be read off its text.
fn extensions(old: &Bundle, new: &Bundle) -> Vec<RuleChange> {
    let files: BTreeSet<&String> = old.rules.iter().chain(&new.rules).map(|(file, _)| file).collect();
    let text = |bundle: &Bundle, file: &String| bundle.rules.iter().find(|(name, _)| name == file).map(|(_, text)| text.clone());
    let change = |file: &String| {
        let kind = match (text(old, file), text(new, file)) {
            (before, after) if before == after => return None,
            (None, _) => RuleChangeKind::Added,
            (_, None) => RuleChangeKind::Removed,
            _ => RuleChangeKind::Changed,
        };
        let what = "a program: read it".to_owned();
        Some(RuleChange { name: format!(".skep/rules/{file}"), kind, what, effect: RuleChangeEffect::Looser })
    };
    files.into_iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_programs_have_a_direction() {
        let bundle = |config: &str, rules: &[(&str, &str)]| Bundle {
            config: config.to_owned(),
            policy: "capabilities: []".to_owned(),
            rules: rules.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect(),
            roles: Vec::new(),
        };
        let told = |old: &Bundle, new: &Bundle| -> Vec<String> {
            between(old, new).iter().map(|change| format!("{}: {} {:?}", change.name, change.what, change.effect)).collect()
        };
        let plain = bundle("limits: {calls: 10}\nmask: [a]\n", &[]);
        assert_eq!(told(&plain, &plain), Vec::<String>::new());
        let other = bundle("limits: {calls: 20}\nmask: [b]\nmerge: {safe: ['docs/**']}\nbrain: native\n", &[("a.ts", "x")]);
        assert_eq!(
            told(&plain, &other),
            [
                "skep.yml merge.safe: with docs/** Looser",
                "skep.yml mask: with b Stricter",
                "skep.yml mask: without a Looser",
                "skep.yml limits.calls: 10 → 20 Looser",
                "skep.yml brain: other Same",
                ".skep/rules/a.ts: a program: read it Looser",
            ]
        );
        assert_eq!(told(&bundle("", &[]), &bundle("limits: {calls: 1}", &[])), ["skep.yml limits.calls: no limit → 1 Stricter"]);
    }
}
