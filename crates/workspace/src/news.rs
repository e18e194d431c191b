//! What became of a project's files since a moment, by the times that the file system gave them.
//!
//! **Invariant.** It opens no file, follows no link and reads a bounded number of folders. What is removed shows in its folder alone.

use crate::base::stat_us;
use crate::hash::hex;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Entries that are looked at: a large project has so many, and that takes a tenth of a second.
const ENTRIES_MAX: usize = 100_000;
/// Kept by git and by the kernel: changes in them are nobody's work.
const SKIPPED: [&str; 2] = [".git", ".skep"];

/// Paths that were changed, and whether there may be more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Relative to the project; a folder that lost something ends with `/`.
    pub paths: BTreeSet<String>,
    pub is_cut: bool,
}

/// What was changed in a project since `since_us`. Blocks.
pub fn changed_since(project: &Path, since_us: i64) -> News {
    let mut news = News::default();
    let mut folders_changed: Vec<String> = Vec::new();
    news.is_cut = walk(project, |path, metadata| {
        let (changed, modified) = stat_us(metadata);
        if metadata.is_dir() {
            if modified >= since_us {
                folders_changed.push(path.to_owned());
            }
        } else if changed >= since_us {
            news.paths.insert(path.to_owned());
        }
    });
    // A folder in which something was made or changed says no more than that does.
    for folder in folders_changed {
        let within = format!("{folder}/");
        if !news.paths.iter().any(|path| path.strip_prefix(&within).is_some_and(|rest| !rest.contains('/'))) {
            news.paths.insert(within);
        }
    }
    news
}

/// A digest of a project and of what lies over it: names, kinds, sizes and times. Blocks.
pub fn state_of(project: &Path, upper: Option<&Path>) -> String {
    let mut digest = Sha256::new();
    for tree in [Some(project), upper].into_iter().flatten() {
        digest.update(b"tree\0");
        walk(tree, |path, metadata| {
            // A folder's own times change with what is in it, which counts by itself.
            let (_, modified) = if metadata.is_dir() { (0, 0) } else { stat_us(metadata) };
            let size = if metadata.is_dir() { 0 } else { metadata.len() };
            digest.update(format!("{path}\0{}\0{size}\0{modified}\n", metadata.mode()));
        });
    }
    hex(&digest.finalize())
}

/// Shows every entry, in the order of names. True where there are more than may be looked at.
fn walk(top: &Path, mut see: impl FnMut(&str, &Metadata)) -> bool {
    let mut left = ENTRIES_MAX;
    let mut folders: Vec<PathBuf> = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(top.join(&folder)) else { continue };
        let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        for name in names {
            let path = folder.join(&name);
            let is_skipped = folder.as_os_str().is_empty() && SKIPPED.iter().any(|skipped| name == *skipped);
            let Ok(metadata) = top.join(&path).symlink_metadata() else { continue };
            if is_skipped {
                continue;
            }
            if left == 0 {
                return true;
            }
            left -= 1;
            if let Some(text) = path.to_str() {
                see(text, &metadata);
            }
            if metadata.is_dir() {
                folders.push(path);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::earliest_us;

    /// A moment after which stamps differ from those before.
    fn later() -> i64 {
        let before = earliest_us();
        while earliest_us() == before {}
        earliest_us()
    }

    #[test]
    fn what_was_changed_made_and_removed_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(at("old/deep")).unwrap();
        std::fs::create_dir_all(at(".git")).unwrap();
        for path in ["same", "edited", "old/deep/gone", "old/same"] {
            std::fs::write(at(path), "x").unwrap();
        }
        let state = state_of(folder.path(), None);
        let since = later();
        assert_eq!((changed_since(folder.path(), since), state_of(folder.path(), None)), (News::default(), state.clone()));
        std::fs::write(at("edited"), "y").unwrap();
        std::fs::write(at("made"), "y").unwrap();
        std::fs::remove_file(at("old/deep/gone")).unwrap();
        std::fs::write(at(".git/index"), "y").unwrap();
        let news = changed_since(folder.path(), since);
        assert_eq!(news.paths.iter().map(String::as_str).collect::<Vec<_>>(), ["edited", "made", "old/deep/"]);
        assert_ne!(state_of(folder.path(), None), state);
    }
}
