//! Which command runs a project's tests, by the files it has. A guess that `skep init` writes into `skep.yml` and a person can change.

use testing::{ProjectFiles, TestRunner};
use workspace::reader::Folder;

/// Names in a folder that are looked at.
const NAMES_MAX: usize = 10_000;

/// The runners that fit, the likeliest first.
pub(crate) fn detect(project: &Folder) -> Vec<TestRunner> {
    testing::detect(&FolderFiles(project))
}

/// The files of a folder on disk, for [`testing`].
struct FolderFiles<'a>(&'a Folder);

impl ProjectFiles for FolderFiles<'_> {
    fn names(&self, folder: &str) -> Vec<String> {
        let names = self.0.list(if folder.is_empty() { "." } else { folder }, NAMES_MAX).unwrap_or_default();
        names.into_iter().filter_map(|name| name.into_string().ok()).collect()
    }

    fn has_file(&self, path: &str) -> bool {
        self.0.has_file(path)
    }

    fn read(&self, path: &str) -> Option<String> {
        self.0.read(path, testing::limits::SETTINGS_BYTES_MAX as u64).ok().and_then(|bytes| String::from_utf8(bytes).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_on_disk_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let found = || detect(&Folder::open(dir.path()).unwrap()).into_iter().map(|runner| runner.command.join(" ")).collect::<Vec<_>>();
        assert_eq!(found(), Vec::<String>::new());
        std::fs::create_dir(dir.path().join("tests")).unwrap();
        std::fs::write(dir.path().join("tests/test_a.py"), "import unittest\n").unwrap();
        assert_eq!(found(), ["python3 -m unittest discover -s tests"]);
        std::fs::write(dir.path().join("Cargo.toml"), "").unwrap();
        std::fs::write(dir.path().join("Makefile"), "test:\n").unwrap();
        assert_eq!(found(), ["cargo test", "python3 -m unittest discover -s tests", "make test"]);
    }
}
