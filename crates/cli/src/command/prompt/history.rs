//! What was typed at the prompt before, for this user alone: `history` in the home, one JSON string a line.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Lines that are kept.
pub const LINES_MAX: usize = 1_000;
/// The file is written anew when it has so many more.
const SLACK: usize = 200;
/// A pasted book is not remembered.
const ENTRY_BYTES_MAX: usize = 16 * 1024;
/// Nothing longer was written here.
const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;

pub struct History {
    path: PathBuf,
}

impl History {
    pub fn at(home: &Path) -> History {
        History { path: home.join("history") }
    }

    /// Entries, oldest first. What cannot be read is nothing: a prompt without a history is a prompt.
    pub fn load(&self) -> Vec<String> {
        let is_readable = std::fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.is_file() && meta.len() <= FILE_BYTES_MAX);
        let text = if is_readable { std::fs::read_to_string(&self.path).unwrap_or_default() } else { String::new() };
        let entries: Vec<String> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let kept = entries[entries.len().saturating_sub(LINES_MAX)..].to_vec();
        if entries.len() > LINES_MAX + SLACK {
            self.rewrite(&kept);
        }
        kept
    }

    /// Adds an entry. One that begins with a space is nobody's business.
    pub fn add(&self, entry: &str) {
        if entry.starts_with(' ') || entry.trim().is_empty() || entry.len() > ENTRY_BYTES_MAX {
            return;
        }
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path);
        let Ok(line) = serde_json::to_string(entry) else { return };
        // A full disk forgets what was typed, and nothing else.
        drop(file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())));
    }

    fn rewrite(&self, entries: &[String]) {
        let text: String = entries.iter().filter_map(|entry| serde_json::to_string(entry).ok()).map(|line| line + "\n").collect();
        let beside = self.path.with_extension("new");
        let written = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&beside);
        let done = written.and_then(|mut file| file.write_all(text.as_bytes())).and_then(|()| std::fs::rename(&beside, &self.path));
        drop(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn entries_are_kept_for_their_owner_alone() {
        let temp = tempfile::tempdir().unwrap();
        let history = History::at(temp.path());
        assert_eq!(history.load(), Vec::<String>::new());
        for entry in ["one", "two\nlines \"quoted\"", " private", "", "three"] {
            history.add(entry);
        }
        assert_eq!(history.load(), ["one", "two\nlines \"quoted\"", "three"]);
        let mode = std::fs::metadata(temp.path().join("history")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for n in 0..LINES_MAX + SLACK {
            history.add(&n.to_string());
        }
        assert_eq!(history.load().len(), LINES_MAX);
        assert_eq!(std::fs::read_to_string(temp.path().join("history")).unwrap().lines().count(), LINES_MAX);
        assert_eq!(history.load().last().map(String::as_str), Some("1199"));
        std::fs::write(temp.path().join("history"), "nonsense\n\"good\"\n").unwrap();
        assert_eq!(history.load(), ["good"]);
    }
}
