//! Conditions that a call suggests, from exactly this one to others like it.

use crate::facts::{OwnedFacts, OwnedPath};
use crate::rule::{Rule, Syscall};
use crate::yaml;
use std::collections::{BTreeMap, BTreeSet};

/// Times that the same thing must have been allowed.
const SAME_MIN: usize = 2;
/// Different things of a kind that must have been allowed before the kind is proposed.
const KINDS_MIN: usize = 3;

/// Programs that run what they are told: of these only whole commands are proposed.
const INTERPRETERS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "fish", "env", "xargs", "find", "sudo", "doas", "su", "nohup", "time", "timeout", "nice", "setsid",
    "watch", "parallel", "python", "python3", "node", "deno", "bun", "perl", "ruby", "php", "lua", "awk", "gawk", "sed", "make", "git",
    "ssh", "docker", "podman", "npx", "eval", "exec", "busybox", "script", "expect", "gdb", "strace", "vi", "vim", "ed",
];

pub(super) struct RuleGuess {
    pub condition: String,
    pub width: Width,
    /// The condition as a rule that allows, named after its syscall.
    pub rule: Rule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Width {
    Same,
    Kind,
    /// So many folders from the call's own upwards.
    Folder(usize),
}

impl RuleGuess {
    /// Were enough questions of it answered with yes?
    pub fn is_worth<'a>(&self, saves: impl Iterator<Item = &'a OwnedFacts>) -> bool {
        let saves: Vec<&OwnedFacts> = saves.collect();
        let different: BTreeSet<_> = saves.iter().map(|facts| (&facts.paths, &facts.command, &facts.host)).collect();
        saves.len() >= SAME_MIN && (self.width == Width::Same || different.len() >= KINDS_MIN)
    }
}

/// Every condition that some call suggests, once.
pub(super) fn all<'a>(calls: impl Iterator<Item = &'a OwnedFacts>) -> Vec<RuleGuess> {
    let mut found: BTreeMap<String, (Width, &str)> = BTreeMap::new();
    for facts in calls {
        if !matches!(Syscall::parse(&facts.tool), Some(Syscall::Exact(_))) {
            continue;
        }
        for (width, fields) in conditions(facts) {
            let condition = format!("{{ syscall: {}, {fields} }}", quoted(&facts.tool));
            found.entry(condition).or_insert((width, &facts.tool));
        }
    }
    let guess = |(condition, (width, tool)): (String, (Width, &str))| {
        let text = format!("capabilities:\n  - {{ name: \"suggested-{tool}\", match: {condition}, action: allow }}\n");
        // What the file's own reader does not take is not proposed.
        let yaml::Compiled { mut rules, warnings, .. } = yaml::parse(&text, "suggestion").ok()?;
        let rule = rules.pop().filter(|_| warnings.is_empty())?;
        Some(RuleGuess { condition, width, rule })
    };
    found.into_iter().filter_map(guess).collect()
}

fn conditions(facts: &OwnedFacts) -> Vec<(Width, String)> {
    if let Some(host) = &facts.host {
        let method = facts.method.as_ref().map(|method| format!(", method: {}", quoted(&method.to_ascii_uppercase()))).unwrap_or_default();
        // Never a whole domain: on many of them each name is somebody else's.
        return vec![(Width::Same, format!("host: {}{method}", quoted(&escaped(&host.to_ascii_lowercase()))))];
    }
    if let Some(argv) = &facts.command {
        return commands(argv);
    }
    match facts.paths.first() {
        Some(OwnedPath::Inside(path)) if path != "." => {
            globs(path).into_iter().map(|(width, glob)| (width, format!("path_glob: {}", quoted(&glob)))).collect()
        }
        _ => Vec::new(),
    }
}

fn commands(argv: &[String]) -> Vec<(Width, String)> {
    let Some(program) = argv.first() else { return Vec::new() };
    let name = program.rsplit('/').next().unwrap_or(program);
    let written = |words: &[String]| {
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        format!("command: [{}]", words.join(", "))
    };
    let interpreter = INTERPRETERS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'));
    let mut found = Vec::new();
    // A command of one word would let pass whatever is written behind it.
    if argv.len() >= 2 {
        found.push((Width::Same, written(argv)));
    }
    if argv.len() > 2 && !interpreter && !argv[1].starts_with('-') {
        found.push((Width::Kind, written(&argv[..2])));
    }
    found
}

fn globs(path: &str) -> Vec<(Width, String)> {
    let names: Vec<String> = path.split('/').map(escaped).collect();
    let mut found = vec![(Width::Same, format!("/{}", names.join("/")))];
    // What begins with a dot is configuration: that stays exact.
    if path.split('/').any(|name| name.starts_with('.')) {
        return found;
    }
    let folders = &names[..names.len() - 1];
    if let Some((_, extension)) = path.rsplit('/').next().and_then(|name| name.rsplit_once('.')) {
        let folder: String = folders.iter().map(|name| format!("/{name}")).collect();
        found.push((Width::Kind, format!("{folder}/*.{}", escaped(extension))));
    }
    for depth in (1..=folders.len()).rev() {
        found.push((Width::Folder(folders.len() - depth), format!("/{}/**", folders[..depth].join("/"))));
    }
    found
}

/// A name as a glob that matches only it.
fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        if matches!(c, '\\' | '*' | '?' | '[' | ']' | '{' | '}') {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

/// A YAML string in double quotes.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                quoted.push_str(&format!("\\U{:08x}", u32::from(c)))
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
