//! What the tab key completes: commands, brains, and paths of the project. Pure, but for the listing of a folder.

use super::slash::SLASH;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Names in one folder that are looked at.
const NAMES_MAX: usize = 2_000;

/// What can be completed.
#[derive(Clone, Debug)]
pub struct Completion {
    pub project: PathBuf,
    /// Filled when the kernel has told them.
    pub brains: Arc<Mutex<Vec<String>>>,
}

impl Completion {
    /// Where the word before `at` begins, and what may stand in its place.
    pub fn complete(&self, line: &str, at: usize) -> (usize, Vec<String>) {
        let before = line.get(..at).unwrap_or(line);
        let from = before.rfind(char::is_whitespace).map_or(0, |space| space + before[space..].chars().next().map_or(1, char::len_utf8));
        let word = &before[from..];
        let found = match before.split_whitespace().next() {
            Some(_) if from == 0 && word.starts_with('/') && !word[1..].contains('/') => {
                SLASH.iter().map(|command| format!("{} ", command.name)).filter(|name| name.starts_with(word)).collect()
            }
            Some("/brain") => {
                let brains = self.brains.lock().unwrap_or_else(PoisonError::into_inner);
                brains.iter().filter(|brain| brain.starts_with(word)).cloned().collect()
            }
            Some("/approve") => ["commit "].iter().filter(|name| name.starts_with(word)).map(|name| (*name).to_owned()).collect(),
            _ => paths(&self.project, word.trim_start_matches(['`', '"', '\'', '@', '('])),
        };
        let quoted = word.len() - word.trim_start_matches(['`', '"', '\'', '@', '(']).len();
        (if word.starts_with('/') || found.is_empty() { from } else { from + quoted }, found)
    }
}

/// Names in the project that begin with what was typed; folders end in a slash.
fn paths(project: &Path, typed: &str) -> Vec<String> {
    let (folder, start) = typed.rsplit_once('/').map_or(("", typed), |(folder, start)| (folder, start));
    // Only beneath the project, and only once something is typed.
    if typed.is_empty() || folder.starts_with('/') || folder.split('/').any(|part| part == "..") {
        return Vec::new();
    }
    let Ok(entries) = std::fs::read_dir(project.join(folder)) else { return Vec::new() };
    let mut found: Vec<String> = entries
        .take(NAMES_MAX)
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let is_hidden = name.starts_with('.') && !start.starts_with('.');
            let is_foreign = name.chars().any(char::is_control) || name == ".git";
            if !name.starts_with(start) || is_hidden || is_foreign {
                return None;
            }
            let slash = if entry.file_type().ok()?.is_dir() { "/" } else { "" };
            Some(if folder.is_empty() { format!("{name}{slash}") } else { format!("{folder}/{name}{slash}") })
        })
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_brains_and_paths_are_completed() {
        let temp = tempfile::tempdir().unwrap();
        for file in ["src/main.rs", "src/map.rs", "setup.py", ".git/config"] {
            std::fs::create_dir_all(temp.path().join(file).parent().unwrap()).unwrap();
            std::fs::write(temp.path().join(file), "").unwrap();
        }
        let brains = Arc::new(Mutex::new(vec!["claude".to_owned(), "codex".to_owned()]));
        let completion = Completion { project: temp.path().to_owned(), brains };
        let told = |line: &str| completion.complete(line, line.len());
        assert_eq!(told("/ap"), (0, vec!["/approve ".to_owned()]));
        assert_eq!(told("/brain c"), (7, vec!["claude".to_owned(), "codex".to_owned()]));
        assert_eq!(told("fix s"), (4, vec!["setup.py".to_owned(), "src/".to_owned()]));
        assert_eq!(told("fix `src/m"), (5, vec!["src/main.rs".to_owned(), "src/map.rs".to_owned()]));
        assert_eq!(told("see src/ma and src/map"), (15, vec!["src/map.rs".to_owned()]));
        assert_eq!(told("fix "), (4, Vec::new()));
        assert_eq!(told("fix ../").1, Vec::<String>::new());
        assert_eq!(told("fix .g").1, Vec::<String>::new());
        assert_eq!(told("/etc/ho").1, Vec::<String>::new(), "a path of the machine is nobody's business");
        assert_eq!(told("ärger s"), (7, vec!["setup.py".to_owned(), "src/".to_owned()]));
    }
}
