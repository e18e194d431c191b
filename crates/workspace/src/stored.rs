//! What a repository's store holds: every content, with the paths by which commits, reflogs and the index name it.
//!
//! Git looks, in a room over the project. Programs in rooms can read all of the store, so what is in it is in no mask. Knows no policy.

use crate::git_room::git;
use crate::reader::{Entry, Folder};
use crate::was::git_name;
use rustix::fs::FileType;
use sandbox::Workspace;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use world::{Fault, FaultKind, Stop, limits};

/// Masked files that are read to know their contents in the store again. Real projects have a handful.
const FILES_MAX: usize = 10_000;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Every path that has a content.
    pub paths: BTreeSet<String>,
    /// Contents that no path leads to.
    pub nameless: BTreeSet<String>,
    /// False where only the index was looked at.
    pub is_whole: bool,
}

/// Looks through the store for at most this long; what takes longer is looked at in the index alone.
pub async fn look(room: &Workspace, time: Duration) -> Result<Stored, Stop> {
    match tokio::time::timeout(time, whole(room)).await {
        Ok(Ok(stored)) => Ok(stored),
        Ok(Err(_)) | Err(_) => {
            let listed = git(room, &["ls-files", "-z"], None).await?;
            let paths = String::from_utf8_lossy(&listed).split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
            Ok(Stored { paths, nameless: BTreeSet::new(), is_whole: false })
        }
    }
}

async fn whole(room: &Workspace) -> Result<Stored, Stop> {
    let walk = ["rev-list", "--objects", "--filter=object:type=blob", "--all", "--reflog", "--indexed-objects"];
    let every = ["cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname) %(objecttype)"];
    let mut all = git(room, &every, None).await.unwrap_or_default();
    // Commits that no reference leads to any more name their files too. What was pruned of them is passed over.
    let ids = all.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b" commit\n"));
    let commits: Vec<u8> = ids.flat_map(lined).collect();
    let with_commits = [&walk[..], &["--missing=allow-any", "--stdin"]].concat();
    let named = match git(room, &with_commits, Some(commits)).await {
        Ok(named) => named,
        // What commits without a reference hold cannot be told, and then nor can what has no name at all.
        Err(_) => {
            all.clear();
            git(room, &walk, None).await?
        }
    };
    let sorted = tokio::task::spawn_blocking(move || sort(&all, &named));
    Ok(sorted.await.map_err(|error| Fault::new(FaultKind::Bug, "reading a list failed", error))?)
}

fn lined(commit: &[u8]) -> Vec<u8> {
    [commit, b"\n"].concat()
}

/// Lists of all objects, and of those that have a path, put together.
fn sort(all: &[u8], named: &[u8]) -> Stored {
    let (all, named) = (String::from_utf8_lossy(all), String::from_utf8_lossy(named));
    let mut nameless: BTreeSet<String> = all.lines().filter_map(|line| line.strip_suffix(" blob")).map(str::to_owned).collect();
    let mut paths = BTreeSet::new();
    for (name, path) in named.lines().filter_map(|line| line.split_once(' ')).filter(|(_, path)| !path.is_empty()) {
        nameless.remove(name);
        paths.insert(path.to_owned());
    }
    Stored { paths, nameless, is_whole: true }
}

/// What git calls the contents of these files and of all in these folders, by names of this length. Blocks.
pub fn names_of(project: &Path, files: &BTreeSet<PathBuf>, length: usize) -> Vec<(PathBuf, String)> {
    let Ok(project) = Folder::open(project) else { return Vec::new() };
    let mut found = Vec::new();
    let mut waiting: Vec<PathBuf> = files.iter().rev().cloned().collect();
    while let Some(path) = waiting.pop() {
        if found.len() == FILES_MAX {
            break;
        }
        match project.entries(&path) {
            Ok(entries) => {
                let inner = entries.into_iter().filter(|Entry { kind, .. }| matches!(kind, FileType::RegularFile | FileType::Directory));
                waiting.extend(inner.map(|Entry { name, .. }| path.join(name)));
            }
            // A file, or what is gone or not ours to read by now: then nothing is known of it.
            Err(_) => found.extend(project.read(&path, limits::MERGE_FILE_MAX).ok().map(|bytes| (path, git_name(&bytes, length)))),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_without_a_path_are_told_apart() {
        let all = b"aa commit\nbb tree\ncc blob\ndd blob\nee tag\n";
        let stored = sort(all, b"aa\ncc a b.txt\nbb \n");
        assert_eq!(stored.paths, ["a b.txt".to_owned()].into());
        assert_eq!(stored.nameless, ["dd".to_owned()].into());
        assert!(stored.is_whole);
    }

    #[test]
    fn files_are_named_as_git_names_them_through_no_link() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("private/deep")).unwrap();
        for file in [".env", "private/a", "private/deep/b"] {
            std::fs::write(dir.path().join(file), "hello\n").unwrap();
        }
        std::fs::write(dir.path().join("shown"), "hello\n").unwrap();
        std::os::unix::fs::symlink("../shown", dir.path().join("private/link")).unwrap();
        let masks = [".env", "private", "gone"].map(PathBuf::from).into();
        let mut found = names_of(dir.path(), &masks, 40);
        found.sort();
        let name = "ce013625030ba8dba906f756967f9e9ca394464a";
        assert_eq!(found, [".env", "private/a", "private/deep/b"].map(|path| (PathBuf::from(path), name.to_owned())));
    }
}
