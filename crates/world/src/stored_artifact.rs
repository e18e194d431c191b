//! What processes of the tree store for each other.
//!
//! A key belongs to a namespace: a private one and one of a subtree to its storer, one of a user to that user, a global one to all. So nobody
//! takes a name away from somebody who cannot see it. **Invariant.** Within a namespace only the one who stored a key stores it again, until
//! he is gone; then one of the same user may.

use crate::{ArtifactId, Pid, ProcessRole, World};
use serde::{Deserialize, Serialize};

/// One version of what was stored under a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredArtifact {
    pub id: ArtifactId,
    /// Who stored it. May be gone.
    pub owner: Pid,
    /// For whom that one acted.
    pub user: String,
    pub key: String,
    pub version: u32,
    pub visibility: Visibility,
    pub content_type: String,
    pub blob: String,
    pub bytes: u64,
    pub stored_ms: i64,
}

/// Who can read an artifact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// The one who stored it.
    #[default]
    Private,
    /// Everybody who acts for the same user.
    User,
    /// The one who stored it and everybody below.
    Subtree,
    Global,
}

impl Visibility {
    pub fn as_str(self) -> &'static str {
        match self {
            Visibility::Private => "private",
            Visibility::User => "user",
            Visibility::Subtree => "subtree",
            Visibility::Global => "global",
        }
    }
}

impl StoredArtifact {
    /// Are both versions of the same?
    pub fn is_version_of(&self, other: &StoredArtifact) -> bool {
        self.key == other.key && self.is_in(other.owner, &other.user, other.visibility)
    }

    /// Would one of this owner, user and visibility be a new version of it?
    fn is_in(&self, owner: Pid, user: &str, visibility: Visibility) -> bool {
        self.visibility == visibility
            && match visibility {
                Visibility::Private | Visibility::Subtree => self.owner == owner,
                Visibility::User => self.user == user,
                Visibility::Global => true,
            }
    }
}

/// May this process read this artifact? The kernel and the operator read everything.
pub fn readable(world: &World, pid: Pid, artifact: &StoredArtifact) -> bool {
    if pid == Pid::KERNEL || pid == Pid::OPERATOR || pid == artifact.owner {
        return true;
    }
    match artifact.visibility {
        Visibility::Private => false,
        Visibility::User => world.processes.get(&pid).is_some_and(|process| process.user == artifact.user),
        Visibility::Subtree => world.descends_from(pid, artifact.owner),
        Visibility::Global => world.processes.contains_key(&pid),
    }
}

impl World {
    /// The newest version under this key in the namespace that `pid` would store into.
    pub fn artifact_at(&self, pid: Pid, key: &str, visibility: Visibility) -> Option<&StoredArtifact> {
        let user = self.processes.get(&pid).map(|process| process.user.as_str())?;
        self.artifacts.values().rev().find(|artifact| artifact.key == key && artifact.is_in(pid, user, visibility))
    }

    /// What this key means to a reader: its own first, then of those above it, the nearest first, then its user's, then the global one.
    pub fn artifact_by_key(&self, pid: Pid, key: &str) -> Option<&StoredArtifact> {
        let all = || self.artifacts.values().rev().filter(|artifact| artifact.key == key && readable(self, pid, artifact));
        let lineage: Vec<Pid> = self.lineage(pid);
        let rank = |artifact: &&StoredArtifact| match artifact.visibility {
            Visibility::Private if artifact.owner == pid => Some(0),
            Visibility::Subtree => lineage.iter().position(|above| *above == artifact.owner).map(|at| at + 1),
            Visibility::User if self.processes.get(&pid).is_some_and(|process| process.user == artifact.user) => Some(lineage.len() + 1),
            Visibility::Global => Some(lineage.len() + 2),
            // The kernel and the operator see everything, but what is nobody's of theirs only last.
            _ => Some(lineage.len() + 3),
        };
        // The first of equals is the newest.
        all()
            .filter_map(|artifact| rank(&artifact).map(|rank| (rank, artifact)))
            .min_by_key(|(rank, _)| *rank)
            .map(|(_, artifact)| artifact)
    }

    /// May this process store under this key, or remove it? What belongs to one who is gone is his user's.
    pub fn owns_artifact(&self, pid: Pid, artifact: &StoredArtifact) -> bool {
        if pid == artifact.owner || pid == Pid::KERNEL || pid == Pid::OPERATOR {
            return true;
        }
        let is_gone = !self.processes.get(&artifact.owner).is_some_and(|owner| owner.state.alive());
        is_gone
            && self
                .processes
                .get(&pid)
                .is_some_and(|process| process.user == artifact.user && process.tree_role() != Some(ProcessRole::Task))
    }

    /// How many artifacts, and bytes of them, act for this user.
    pub fn artifacts_of(&self, user: &str) -> (usize, u64) {
        let own = self.artifacts.values().filter(|artifact| artifact.user == user);
        own.fold((0, 0), |(count, bytes), artifact| (count + 1, bytes.saturating_add(artifact.bytes)))
    }
}
