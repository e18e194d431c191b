//! Hints are typed: below the faces nobody says which command would help, or by which flag.

use super::list::{TidyCheck, TidyFinding};
use super::source::Source;
use std::collections::BTreeSet;

/// The crates that speak to people, and the one that plays them.
const FACES: [&str; 4] = ["cli", "server", "wire", "testkit"];

/// Flags of other programs that texts below the faces may name, with the file that does. All there are: one that no text names any more is a
/// finding too.
const FOREIGN: [(&str, &str); 10] = [
    ("crates/agent/src/preflight.rs", "--version"),
    ("crates/room/src/unmasked.rs", "--all"),
    ("crates/room/src/unmasked.rs", "--diff-filter"),
    ("crates/room/src/unmasked.rs", "--name-only"),
    ("crates/room/src/unmasked.rs", "--expire"),
    ("crates/sandbox/src/probe.rs", "--system"),
    // The first line of a diff.
    ("crates/tool/src/builtin/unified.rs", "--git"),
    ("crates/workspace/src/patch.rs", "--git"),
    // An argument with a format in it.
    ("crates/workspace/src/stored.rs", "--batch-check"),
    ("crates/workspace/src/toolchain/python.rs", "--user"),
];

/// `commands` are the first words that `skep` takes.
pub fn below_faces(sources: &[Source], commands: &[String]) -> Vec<TidyFinding> {
    find(sources, commands, &FOREIGN)
}

fn find(sources: &[Source], commands: &[String], foreign: &[(&str, &str)]) -> Vec<TidyFinding> {
    let (mut found, mut named) = (Vec::new(), BTreeSet::new());
    for source in sources {
        let mut parts = source.path.split('/');
        let is_below = parts.next() == Some("crates") && parts.next().is_some_and(|name| !FACES.contains(&name));
        if !is_below || source.is_test {
            continue;
        }
        let mut lines = Vec::new();
        for literal in source.literals.iter().filter(|literal| !source.is_tested_only(literal.at)) {
            let mut says = names_command(&literal.text, commands);
            for flag in flags(&literal.text) {
                match foreign.iter().position(|known| *known == (source.path.as_str(), flag)) {
                    Some(known) => drop(named.insert(known)),
                    None => says = true,
                }
            }
            lines.extend(says.then(|| source.line_of(literal.at).to_string()));
        }
        if !lines.is_empty() {
            let (path, count, lines) = (&source.path, lines.len(), lines.join(", "));
            let what = format!("{path} says a `skep …` command or a flag of one in line {lines}; give a typed hint instead");
            found.push(TidyFinding { check: TidyCheck::Text, key: path.clone(), count, what });
        }
    }
    let stale = foreign.iter().enumerate().filter(|(known, _)| !named.contains(known));
    found.extend(stale.map(|(_, (path, flag))| {
        let what = format!("{path} names no `{flag}` any more; take it out of `FOREIGN` in xtask/src/tidy/texts.rs");
        TidyFinding { check: TidyCheck::Text, key: format!("{path} {flag}"), count: 1, what }
    }));
    found
}

/// The `--flag`s that a text names. One word alone is an argument that a program is given, not a text.
fn flags(text: &str) -> impl Iterator<Item = &str> {
    let is_text = text.contains(char::is_whitespace);
    text.match_indices("--").filter_map(move |(at, _)| {
        let is_begun = !text[..at].ends_with(|letter: char| letter.is_alphanumeric() || "-_".contains(letter));
        let rest = &text[at + 2..];
        let length = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-').unwrap_or(rest.len());
        (is_text && is_begun && rest.starts_with(|letter: char| letter.is_ascii_lowercase())).then(|| &text[at..at + 2 + length])
    })
}

fn names_command(text: &str, commands: &[String]) -> bool {
    text.match_indices("skep ").any(|(at, word)| {
        let is_word = !text[..at].ends_with(|letter: char| letter.is_alphanumeric() || "._-/$".contains(letter));
        let next: String = text[at + word.len()..].chars().take_while(|letter| letter.is_alphanumeric() || *letter == '-').collect();
        is_word && (commands.contains(&next) || text[..at].ends_with('`'))
    })
}

/// The first words that `skep` takes: the variants of `Command` in the command line's own source.
pub fn commands(arguments: &Source) -> Vec<String> {
    let Some((_, rest)) = arguments.code.split_once("pub enum Command {") else { return Vec::new() };
    let variants = rest.split_once("\n}").map_or(rest, |(inside, _)| inside).lines();
    variants
        .filter_map(|line| line.trim().split_once('(').map(|(name, _)| name))
        .filter(|name| name.starts_with(|letter: char| letter.is_ascii_uppercase()))
        .map(kebab)
        .collect()
}

fn kebab(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_from_the_command_line() {
        let arguments =
            Source::of("args.rs", "pub enum Command {\n    #[command(about = \"x\")]\n    Act(Work),\n    ExtensionChild(X),\n}\nA(b)");
        assert_eq!(commands(&arguments), ["act", "extension-child"]);
    }

    #[test]
    fn a_command_below_the_faces_is_found() {
        let known = ["trust".to_owned(), "ps".to_owned()];
        let check = |path: &str, text: &str| find(&[Source::of(path, text)], &known, &[]).first().map_or(0, |found| found.count);
        assert_eq!(check("crates/kernel/src/a.rs", "let a = \"run `skep trust`\"; let b = \"skep ps lists them\";"), 2);
        assert_eq!(check("crates/kernel/src/a.rs", "let a = \"git or skep itself\"; // skep trust\nlet b = \".skep trust\";"), 0);
        assert_eq!(check("crates/kernel/src/a.rs", "#[cfg(test)]\nmod tests { const A: &str = \"skep trust\"; }"), 0);
        assert_eq!(check("crates/cli/src/a.rs", "let a = \"skep trust\";"), 0);
        assert_eq!(check("crates/kernel/tests/a.rs", "let a = \"skep trust\";"), 0);
    }

    #[test]
    fn a_flag_below_the_faces_is_found() {
        let of = |path: &str, text: &str, foreign: &[(&str, &str)]| find(&[Source::of(path, text)], &[], foreign);
        let check = |text: &str| of("crates/kernel/src/a.rs", text, &[]).first().map_or(0, |found| found.count);
        assert_eq!(check("let a = \"leave out --new\"; let b = \"use (`--max-ops`) here\"; let c = \"--money 5 is enough\";"), 3);
        assert_eq!(
            check("let a = [\"--porcelain\", \"-z\"]; let b = \"a--b c\"; let c = \"--- a/x\\n\"; let d = \"x -- y\"; // --new is it"),
            0
        );
        assert!(of("crates/cli/src/a.rs", "let a = \"leave out --new\";", &[]).is_empty(), "a face");
        let git = [("crates/kernel/src/a.rs", "--all")];
        assert!(of("crates/kernel/src/a.rs", "let a = \"look yourself: git log --all\";", &git).is_empty());
        assert_eq!(of("crates/kernel/src/a.rs", "let a = \"git log --all --new\";", &git).len(), 1, "another flag");
        assert_eq!(
            of("crates/kernel/src/b.rs", "let a = \"git log --all\";", &git).len(),
            2,
            "another file, and an entry that nothing needs"
        );
    }
}
