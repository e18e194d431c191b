//! Every `cargo xtask …` that a document names exists. What `skep` takes is held against its documents by a test of `crates/cli`.

use crate::CHORES;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// The documents: Markdown at the root and in `docs`, decisions too.
pub fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in [root.to_path_buf(), root.join("docs"), root.join("docs/decisions")] {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for path in documents(root)? {
        let name = path.strip_prefix(root)?.display().to_string();
        complaints.extend(unknown(&std::fs::read_to_string(&path)?).into_iter().map(|what| format!("{name}:{what}")));
    }
    Ok(complaints)
}

/// Line and command of each chore that is none, or has not this flag.
fn unknown(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in document.lines().enumerate() {
        for (at, mark) in line.match_indices("cargo xtask ") {
            let command = line[at + mark.len()..].split(['`', '#', ',', ';']).next().unwrap_or_default();
            let mut words = command.split_whitespace();
            let name = words.next().unwrap_or_default();
            let chore = CHORES.iter().find(|chore| chore.name == name);
            let unknown_flag = words
                .take_while(|word| *word != "--")
                .find(|word| word.starts_with("--") && !chore.is_some_and(|chore| chore.flags.contains(word)));
            match (chore, unknown_flag) {
                (None, _) if name != "COMMAND" => found.push(format!("{}: there is no `cargo xtask {name}`", number + 1)),
                (Some(_), Some(flag)) => found.push(format!("{}: `cargo xtask {name}` has no `{flag}`", number + 1)),
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chore_that_is_none_is_found() {
        assert_eq!(unknown("`cargo xtask test`, `cargo xtask tidy --write` and\ncargo xtask lint    # everything"), Vec::<String>::new());
        assert_eq!(unknown("a\nrun `cargo xtask tset`"), ["2: there is no `cargo xtask tset`"]);
        assert_eq!(unknown("`cargo xtask tidy --all`"), ["1: `cargo xtask tidy` has no `--all`"]);
    }

    #[test]
    fn the_documents_are_found() {
        let root = crate::run::root();
        let found = documents(&root).unwrap();
        assert!(found.contains(&root.join("README.md")) && found.contains(&root.join("docs/models.md")));
    }
}
