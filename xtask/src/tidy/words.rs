//! People are told of workers, repositories and sandboxes. Our own words for them stay in code, documents, flags and fields of files.

use super::source::Source;

/// Words that no text for people has, whatever their number and case.
const INNER: [&str; 6] = ["zone", "room", "foreman", "foremen", "episode", "tactical"];

/// A file, a part of a text in it, and why that keeps its word.
type Kept = (&'static str, &'static str, &'static str);
const KEPT: &[Kept] = &[
    ("crates/cli/src/command/zone.rs", "skep zone del", "the command's own name"),
    ("crates/cli/src/args.rs", "zone del", "the command's own name"),
    ("crates/cli/src/command/list.rs", "skep list zones", "the command's own name"),
    ("crates/cli/src/command/demo/project.rs", "tactical: demo/scripted", "a config.yml"),
    ("crates/ledger/src/usage.rs", "strategic, tactical, operational or all", "values of a setting"),
    ("crates/ledger/src/usage.rs", "name each tier with its tokens", "values of a setting"),
    ("crates/cli/src/command/spawn.rs", "--tier tactical", "a value of a flag"),
    ("crates/cli/src/command/spawn.rs", "none of strategic, tactical, operational", "values of a flag"),
    ("crates/tree/src/schedule.rs", "there is no time zone", "a time zone is not one of ours"),
    ("crates/world/src/remedy.rs", "tactical tokens", "an example of a cap, never shown"),
    ("crates/sandbox/src/oci/guest.rs", "skep: room", "the name of a process"),
];

/// Texts of more than a word that people may be shown, in every crate but those that only test.
pub fn check(sources: &[Source]) -> Vec<String> {
    found(sources, KEPT)
}

fn found(sources: &[Source], kept: &[Kept]) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut used = vec![false; kept.len()];
    for source in sources.iter().filter(|source| source.path.starts_with("crates/") && !source.path.starts_with("crates/testkit/")) {
        for literal in source.literals.iter().filter(|literal| !source.is_tested_only(literal.at)) {
            let Some(word) = inner_word(&literal.text) else { continue };
            let known = kept.iter().position(|(path, part, _)| source.path == *path && literal.text.contains(part));
            match known {
                Some(at) => used[at] = true,
                None => complaints.push(format!(
                    "{}:{} tells people of a `{word}`; say worker, repository or sandbox",
                    source.path,
                    source.line_of(literal.at)
                )),
            }
        }
    }
    let unused = kept.iter().zip(used).filter(|(_, used)| !used);
    complaints.extend(unused.map(|((path, part, _), _)| format!("xtask/src/tidy/words.rs keeps `{part}` of {path}, which is not there")));
    complaints
}

/// The first word of our own in a sentence. Names in backticks, fields in braces, flags and paths are no words.
fn inner_word(text: &str) -> Option<&'static str> {
    if !text.trim().contains(' ') {
        return None;
    }
    let plain = without_names(text);
    let mut words = plain.split(|letter: char| letter.is_whitespace() || "()[]\"\\,;:!?…".contains(letter));
    words.find_map(|word| {
        let word = word.trim_end_matches('.').trim_end_matches("'s").to_ascii_lowercase();
        INNER.into_iter().find(|inner| word == *inner || word.strip_suffix('s') == Some(inner))
    })
}

/// The text without what stands in backticks or braces.
fn without_names(text: &str) -> String {
    let mut plain = String::new();
    for (nth, part) in text.split('`').enumerate() {
        if nth % 2 == 0 {
            plain.push_str(part);
        }
    }
    let mut depth = 0_usize;
    plain.retain(|letter| {
        depth = match letter {
            '{' => depth + 1,
            '}' => depth.saturating_sub(1),
            _ => depth,
        };
        depth == 0
    });
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_our_own_in_a_sentence_is_found() {
        for (text, word) in [
            ("not passed into rooms", Some("room")),
            ("the zone's policy is gone", Some("zone")),
            ("Foremen work.", Some("foremen")),
            ("the sandbox of this repository", None),
            ("name it with --zone", None),
            ("`room: sandbox` is wanted", None),
            ("caches of {zone} begin anew", None),
            ("zone", None),
            ("zoned or roomy", None),
            ("waits for zone-1 there", None),
        ] {
            assert_eq!(inner_word(text), word, "{text}");
        }
    }

    #[test]
    fn tests_and_single_words_are_left_alone() {
        let check = |path: &str, text: &str| found(&[Source::of(path, text)], &[]).len();
        assert_eq!(check("crates/kernel/src/a.rs", "let a = \"the zone is gone\"; // a zone is gone"), 1);
        assert_eq!(check("crates/kernel/src/a.rs", "#[cfg(test)]\nmod tests { const A: &str = \"the zone is gone\"; }"), 0);
        assert_eq!(check("crates/kernel/tests/a.rs", "let a = \"the zone is gone\";"), 0);
        assert_eq!(check("xtask/src/a.rs", "let a = \"the zone is gone\";"), 0);
        let source = [Source::of("crates/kernel/src/a.rs", "let a = \"the zone is gone\";")];
        assert_eq!(found(&source, &[("crates/kernel/src/a.rs", "zone is gone", "a test")]), Vec::<String>::new());
        assert!(found(&source, &[("crates/kernel/src/b.rs", "x", "a test")])[1].contains("which is not there"));
    }
}
