//! Flawed policy files, kept as data in `flawed.txt`: what is said about each, with its place. None is passed over in silence.
//!
//! Above `--` stands the file, with `\t`, `\r`, `\0` and `\u{…}` for what cannot be seen; below it what must be said. `SKEP_UPDATE=1`
//! rewrites the lower halves.

use policy::{KnownNames, Policy};
use std::fmt::Write as _;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gate/flawed.txt");
const KNOWN: KnownNames<'_> = KnownNames {
    calls: &["fs.read", "fs.write", "fs.edit", "fs.list", "shell.run", "http.request", "net.connect", "net.request"],
    rooms: &["default", "code-executor"],
    tags: &["operator", "brain", "foreman"],
    roles: &["operator", "foreman"],
    callers: &["operator", "worker"],
};

#[test]
fn every_flaw_is_told_where_it_stands() {
    let held = std::fs::read_to_string(FILE).unwrap();
    let mut told = String::new();
    for block in held.split("## ").skip(1) {
        let (title, rest) = block.split_once('\n').unwrap();
        let (text, _) = rest.split_once("\n--\n").unwrap_or_else(|| panic!("`{title}` has no `--`"));
        let said = said(&plain(text));
        assert!(!said.is_empty() || title.starts_with("fine:"), "`{title}` is passed over in silence");
        assert!(said.lines().all(|line| !line.contains(" 0:0 ")), "`{title}` says not where: {said}");
        write!(told, "## {title}\n{text}\n--\n{said}\n").unwrap();
    }
    if std::env::var_os("SKEP_UPDATE").is_some() {
        std::fs::write(FILE, &told).unwrap();
        return;
    }
    assert!(told.matches("## ").count() >= 100, "the corpus shrank");
    for (told, held) in told.split("## ").zip(held.split("## ")) {
        assert_eq!(told, held);
    }
}

fn said(text: &str) -> String {
    let line = |kind: &str, line: u64, column: u64, what: &str, hint: Option<String>| {
        let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
        format!("{kind} {line}:{column} {what}{hint}\n")
    };
    match Policy::parse(text, "p.yaml") {
        Err(error) => line("error", error.line, error.column, &error.what, error.hint),
        Ok((policy, warnings)) => {
            let warnings = warnings.into_iter().chain(policy.typos(&KNOWN, "p.yaml"));
            let advice = |warning: &policy::Warning| world::remedy::advice(warning.hint.as_deref(), warning.remedy.as_ref());
            warnings.map(|warning| line("warning", warning.line, warning.column, &warning.what, advice(&warning))).collect()
        }
    }
}

/// The file that a block stands for.
fn plain(text: &str) -> String {
    let text = text.replace("\\t", "\t").replace("\\r", "\r").replace("\\0", "\0");
    let mut parts = text.split("\\u{");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_once('}').unwrap_or_else(|| panic!("`\\u{{{part}` does not end"));
        let letter = u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
        plain.push(letter.unwrap_or_else(|| panic!("`{code}` is no letter")));
        plain.push_str(rest);
    }
    plain + "\n"
}
