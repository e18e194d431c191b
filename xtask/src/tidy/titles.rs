//! Titles of commits: at most 72 characters, since the last tag.

use crate::run::git;
use std::path::Path;

const TITLE_CHARS_MAX: usize = 72;
/// Where the rule begins as long as there is no tag. Titles before it are longer.
const BASE: &str = "881cd6d10afffd03c0dfed989f5c27d3c3f40ca7";

/// What the history says.
#[derive(Debug, PartialEq)]
pub enum Titles {
    /// One complaint for each title that is too long.
    Read(Vec<String>),
    /// There is no history to read, or it does not go back far enough.
    Unknown(String),
}

pub fn read(root: &Path) -> Titles {
    let tag = git(root, &["describe", "--tags", "--abbrev=0"]).map(|tag| tag.trim().to_owned());
    since(root, tag.as_deref().unwrap_or(BASE))
}

fn since(root: &Path, base: &str) -> Titles {
    match git(root, &["log", "--format=%h %s", &format!("{base}..HEAD")]) {
        Ok(log) => Titles::Read(complaints(&log)),
        Err(_) => Titles::Unknown(format!("commit titles are not checked: there is no history since {base}")),
    }
}

/// Each line is a commit and its title.
fn complaints(log: &str) -> Vec<String> {
    let commits = log.lines().filter_map(|line| line.split_once(' '));
    let long = commits.map(|(commit, title)| (commit, title, title.chars().count())).filter(|(.., chars)| *chars > TITLE_CHARS_MAX);
    long.map(|(commit, title, chars)| format!("{commit} has a title of {chars} characters, and {TITLE_CHARS_MAX} are the most: {title}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_of_73_characters_is_too_long() {
        let log = format!("aaaa {}\nbbbb {}\n", "ä".repeat(72), "b".repeat(73));
        let found = complaints(&log);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("bbbb has a title of 73 characters"), "{}", found[0]);
    }

    #[test]
    fn without_a_history_nothing_is_said_against_it() {
        let nowhere = Path::new("/");
        assert!(matches!(read(nowhere), Titles::Unknown(_)));
        assert!(matches!(since(&crate::run::root(), "no-such-commit"), Titles::Unknown(_)));
    }
}
