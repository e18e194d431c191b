//! A project's files as this crate sees them: it lists and reads through a trait, and opens nothing itself.

use std::collections::BTreeMap;

/// The files of a project. Paths are relative, with `/` between their parts.
pub trait ProjectFiles {
    /// Names of what a folder holds; `""` is the project itself. Empty where there is no such folder.
    fn names(&self, folder: &str) -> Vec<String>;

    /// Whether a path is a file.
    fn has_file(&self, path: &str) -> bool;

    /// A file's text; `None` if it cannot be read, is no text or is larger than [`crate::limits::SETTINGS_BYTES_MAX`].
    fn read(&self, path: &str) -> Option<String>;
}

/// Files in memory, by path.
impl ProjectFiles for BTreeMap<String, String> {
    fn names(&self, folder: &str) -> Vec<String> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{}/", folder.trim_end_matches('/')) };
        let first = |path: &String| Some(path.strip_prefix(&prefix)?.split('/').next()?.to_owned());
        let mut names: Vec<String> = self.keys().filter_map(first).collect();
        names.dedup();
        names
    }

    fn has_file(&self, path: &str) -> bool {
        self.contains_key(path)
    }

    fn read(&self, path: &str) -> Option<String> {
        self.get(path).filter(|text| text.len() <= crate::limits::SETTINGS_BYTES_MAX).cloned()
    }
}
