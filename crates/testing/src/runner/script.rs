//! The scripts that a test command runs, as far as they are named: what changes in one of them changes what is tested.
//!
//! By words alone. *Does not know* what a script puts together from variables, nor what a program does that is no text.

use crate::project::ProjectFiles;
use std::collections::VecDeque;

/// Scripts that are followed.
const SCRIPTS_MAX: usize = 30;

/// A script and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerScript {
    pub path: String,
    text: String,
}

impl RunnerScript {
    /// Whether it names this file, by its whole path or its name.
    pub fn names(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        words(&self.text).any(|word| plain(word) == path || word.rsplit('/').next() == Some(name) && name.contains('.'))
    }
}

/// Every script that the command leads to by names of files.
pub fn runner_scripts(command: &[String], files: &dyn ProjectFiles) -> Vec<RunnerScript> {
    let mut waiting: VecDeque<String> = command.iter().map(|word| plain(word).to_owned()).collect();
    let unasked: &[&str] = match command.first().map(|program| program.rsplit('/').next().unwrap_or(program)) {
        Some("npm" | "pnpm" | "yarn" | "bun") => &["package.json"],
        Some("make" | "gmake") => &["GNUmakefile", "makefile", "Makefile"],
        Some("just") => &["justfile"],
        _ => &[],
    };
    waiting.extend(unasked.iter().map(|name| (*name).to_owned()));
    let mut scripts: Vec<RunnerScript> = Vec::new();
    while let Some(path) = waiting.pop_front().filter(|_| scripts.len() < SCRIPTS_MAX) {
        if path.is_empty() || scripts.iter().any(|script| script.path == path) || !files.has_file(&path) {
            continue;
        }
        let Some(text) = files.read(&path) else { continue };
        waiting.extend(words(&text).map(|word| plain(word).to_owned()));
        scripts.push(RunnerScript { path, text });
    }
    scripts
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || "_./-+@".contains(c))).filter(|word| !word.is_empty())
}

fn plain(word: &str) -> &str {
    word.trim_start_matches("./")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn scripts_are_followed_by_the_names_in_them() {
        let texts = [
            ("package.json", r#"{"scripts": {"test": "node scripts/test.js"}}"#),
            ("scripts/test.js", "import { run } from './lib/run.js'; run('src');"),
            ("check.sh", "if [ -e out/run.sh ]; then exec sh out/run.sh; fi; . ./lib.sh"),
            ("lib.sh", "check.sh"),
        ];
        let files: BTreeMap<String, String> = texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let paths = |command: &[&str]| {
            let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            runner_scripts(&command, &files)
        };
        let npm = paths(&["npm", "test"]);
        assert_eq!(npm.iter().map(|script| script.path.as_str()).collect::<Vec<_>>(), ["package.json", "scripts/test.js"]);
        assert!(npm.iter().any(|script| script.names("scripts/test.js")) && npm.iter().any(|script| script.names("lib/run.js")));
        assert!(!npm.iter().any(|script| script.names("src/a.js")));
        let shell = paths(&["sh", "./check.sh"]);
        assert_eq!(shell.iter().map(|script| script.path.as_str()).collect::<Vec<_>>(), ["check.sh", "lib.sh"]);
        assert!(shell[0].names("out/run.sh"), "a file that is not there yet");
        assert!(!shell.iter().any(|script| script.names("src/two.sh")));
        assert_eq!(paths(&["cargo", "test"]), []);
    }
}
