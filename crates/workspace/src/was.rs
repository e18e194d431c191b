//! What the project held when a task began, for the paths that changed.
//!
//! Git answers from a room that holds the project alone: what a task wrote into its own `.git` has no say in what its base was.

use crate::base::{self, Dirty, DirtyFile};
use crate::git_room::git;
use crate::hash;
use crate::keep::KeptChanges;
use crate::reader::{self, Folder};
use crate::shape::ReadBlob;
use crate::tree::{FileState, State};
use crate::unsettled::Unsettled;
use sandbox::Workspace;
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};
use std::collections::BTreeMap;
use std::path::Path;
use world::{Base, Fault, Stop};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaseState {
    Absent,
    /// A dirty or untracked file: SHA-256 of its content.
    Held {
        blob: String,
        executable: bool,
    },
    /// What the project held when the work was laid over it anew: SHA-256 of its content.
    Given {
        blob: String,
        executable: bool,
    },
    /// Git's own name of the content.
    Committed {
        oid: String,
        executable: bool,
    },
    /// Too large, not an ordinary file, or not readable then.
    Unproven,
}

impl BaseState {
    /// What stands at a path of the project, as the base of what is laid over it.
    pub fn given(state: &State, keep: &dyn Fn(&[u8]) -> Result<String, Fault>) -> Result<BaseState, Fault> {
        Ok(match state {
            State::Absent => BaseState::Absent,
            State::File { blob, mode, .. } => {
                BaseState::Given { blob: blob.clone(), executable: mode.is_some_and(|mode| mode & 0o111 != 0) }
            }
            State::Link { target } => BaseState::Given { blob: keep(target.as_bytes())?, executable: false },
            State::Folder => BaseState::Unproven,
        })
    }

    pub fn holds(&self, bytes: &[u8]) -> bool {
        match self {
            BaseState::Held { blob, .. } | BaseState::Given { blob, .. } => hash::sha256(bytes) == *blob,
            BaseState::Committed { oid, .. } => git_name(bytes, oid.len()) == *oid,
            BaseState::Absent | BaseState::Unproven => false,
        }
    }

    pub fn is(&self, now: &FileState) -> bool {
        match now {
            FileState::Absent => *self == BaseState::Absent,
            FileState::File { bytes, .. } => self.holds(bytes),
            FileState::Link { target } => self.holds(target.as_bytes()),
            FileState::Folder | FileState::Other => false,
        }
    }

    /// Of the permission bits only this one has a base, as git has it.
    pub fn executable(&self) -> Option<bool> {
        match self {
            BaseState::Held { executable, .. } | BaseState::Given { executable, .. } | BaseState::Committed { executable, .. } => {
                Some(*executable)
            }
            BaseState::Absent | BaseState::Unproven => None,
        }
    }

    /// The person had changed it already when the task began.
    pub fn is_dirty(&self) -> bool {
        matches!(self, BaseState::Held { .. })
    }
}

pub struct Bases<'a> {
    dirty: Dirty,
    committed: BTreeMap<String, BaseState>,
    /// The commit that `committed` is from.
    head: Option<String>,
    /// Paths that were kept from an earlier stretch of the same work, with bases of their own.
    kept: KeptChanges,
    /// Whether the task was sent back with a conflict.
    has_unsettled: bool,
    /// A room over the project alone, for git.
    room: &'a Workspace,
}

impl<'a> Bases<'a> {
    /// What a recorded base held at these paths. `dirty` is what its blob says.
    pub async fn at(room: &'a Workspace, base: &Base, dirty: Dirty, paths: &[&str]) -> Result<Bases<'a>, Stop> {
        let mut committed = BTreeMap::new();
        if let Some(head) = &base.head {
            for some in paths.chunks(200) {
                let mut args = vec!["ls-tree", "-z", "--full-tree", head, "--"];
                args.extend(some);
                let listed = git(room, &args, None).await?;
                committed.extend(String::from_utf8_lossy(&listed).split('\0').filter_map(tree_entry));
            }
        }
        Ok(Bases { dirty, committed, head: base.head.clone(), kept: KeptChanges::default(), has_unsettled: false, room })
    }

    /// The bases of kept paths alone, for work that nobody has gone on with.
    pub fn of_kept(room: &'a Workspace, kept: KeptChanges) -> Bases<'a> {
        Bases { dirty: Dirty::default(), committed: BTreeMap::new(), head: None, kept: KeptChanges::default(), has_unsettled: false, room }
            .with_kept(kept)
    }

    /// Kept paths are measured against what they were measured against before.
    #[must_use]
    pub fn with_kept(self, kept: KeptChanges) -> Bases<'a> {
        let has_unsettled = kept.paths.values().any(|path| path.unsettled.is_some());
        Bases { kept, has_unsettled, ..self }
    }

    /// The commit that the base of a path is from.
    pub fn head_of(&self, path: &str) -> Option<String> {
        self.kept.head_of(path).or(self.head.as_ref()).cloned()
    }

    /// The conflict that was laid out at a path, if one was.
    pub fn unsettled(&self, path: &str) -> Option<&Unsettled> {
        self.kept.paths.get(path)?.unsettled.as_ref()
    }

    /// Whether the task was sent back with a conflict.
    pub fn has_unsettled(&self) -> bool {
        self.has_unsettled
    }

    /// Of what was touched while the base was looked for, nobody knows what the task saw.
    pub async fn distrust(&mut self, project: &Path, since_us: i64, until_us: i64, paths: &[&str]) -> Result<(), Stop> {
        let span = since_us..=until_us;
        let (project, mut paths) = (project.to_owned(), paths.iter().map(|path| (*path).to_owned()).collect::<Vec<String>>());
        let touched = reader::bounded_walk(move || {
            if let Ok(project) = Folder::open(&project) {
                paths.retain(|path| base::touched(&project, path, &span));
            }
            paths
        });
        self.dirty.files.extend(touched.await?.into_iter().map(|path| (path, DirtyFile::Unproven)));
        Ok(())
    }

    pub fn of(&self, path: &str) -> BaseState {
        if let Some(base) = self.kept.base_of(path) {
            return base;
        }
        match (self.dirty.files.get(path), self.committed.get(path)) {
            (Some(DirtyFile::Held { blob, executable }), _) => BaseState::Held { blob: blob.clone(), executable: *executable },
            (Some(DirtyFile::Absent), _) | (None, None) => BaseState::Absent,
            (Some(DirtyFile::Unproven), _) => BaseState::Unproven,
            (None, Some(was)) => was.clone(),
        }
    }

    /// Whether a file is what the commit holds once git has put its line ends and filters into the work tree.
    pub async fn is_checked_out(&self, path: &str, was: &BaseState, now: &FileState) -> Result<bool, Stop> {
        let (BaseState::Committed { oid, .. }, FileState::File { bytes, .. }) = (was, now) else { return Ok(false) };
        let named = git(self.room, &["hash-object", "--stdin", "--path", path], Some(bytes.clone())).await;
        Ok(named.is_ok_and(|name| String::from_utf8_lossy(&name).trim() == oid))
    }

    /// The base's content as it stood in the work tree; `None` where it can't be had.
    pub async fn bytes(&self, blobs: &ReadBlob<'_>, path: &str, was: &BaseState) -> Result<Option<Vec<u8>>, Stop> {
        match was {
            BaseState::Held { blob, .. } | BaseState::Given { blob, .. } => Ok(Some(blobs(blob)?)),
            BaseState::Committed { oid, .. } => {
                let Some(head) = self.head_of(path) else { return Ok(None) };
                let object = format!("{head}:{path}");
                let found = git(self.room, &["cat-file", "--filters", &object], None).await;
                match found {
                    Ok(bytes) => Ok(Some(bytes)),
                    Err(_) => Ok(git(self.room, &["cat-file", "blob", oid], None).await.ok()),
                }
            }
            BaseState::Absent | BaseState::Unproven => Ok(None),
        }
    }
}

/// `<mode> SP <type> SP <oid> TAB <path>`
fn tree_entry(entry: &str) -> Option<(String, BaseState)> {
    let (meta, path) = entry.split_once('\t')?;
    let mut meta = meta.split(' ');
    let mode = meta.next()?;
    (meta.next()? == "blob").then_some(())?;
    Some((path.to_owned(), BaseState::Committed { oid: meta.next()?.to_owned(), executable: mode == "100755" }))
}

/// Git's name of a content: SHA-1, or SHA-256 in repositories that use it.
pub fn git_name(bytes: &[u8], length: usize) -> String {
    object_name("blob", bytes, length)
}

/// Git's name of an object of this kind, in as many digits.
pub fn object_name(kind: &str, bytes: &[u8], length: usize) -> String {
    let head = format!("{kind} {}\0", bytes.len());
    if length == 64 {
        return hash::sha256(&[head.as_bytes(), bytes].concat());
    }
    hash::hex(&Sha1::new().chain_update(head).chain_update(bytes).finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_entries_are_gits() {
        assert_eq!(git_name(b"hello\n", 40), "ce013625030ba8dba906f756967f9e9ca394464a");
        let (path, was) = tree_entry("100755 blob ce013625030ba8dba906f756967f9e9ca394464a\ta b.sh").unwrap();
        assert_eq!(path, "a b.sh");
        assert!(was.holds(b"hello\n") && !was.holds(b"hello") && was.executable() == Some(true) && !was.is_dirty());
        assert_eq!(tree_entry("160000 commit ce013625030ba8dba906f756967f9e9ca394464a\tsub"), None);
    }
}
