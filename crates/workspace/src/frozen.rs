//! Frozen changes: what a person is asked about, to the byte, and what their answer makes of it.
//!
//! **Invariant.** The digest names all that would be merged or left out. Knows no room and no policy.

use crate::auto::runs_by_itself;
use crate::freeze::FrozenChanges;
use crate::hash;
use crate::tree::{State, Tree};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use world::{Fault, FaultKind, MergePath, PathChange, Side, TaskId};

/// A task's changes as they were when the question was asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Frozen {
    pub task: TaskId,
    pub summary: String,
    /// HEAD now, and when the task began.
    pub head: Option<String>,
    pub began: Option<String>,
    pub policy_version: u64,
    pub changes: Vec<FrozenPath>,
    /// Changed by both sides in ways that do not go together.
    pub conflicts: Vec<Conflict>,
    /// Left out, and why.
    pub refused: Vec<MergePath>,
    pub digest: String,
}

/// One path that goes in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrozenPath {
    pub path: String,
    pub kind: PathChange,
    /// A rename's other half: what this path was called, or is called from now on.
    pub from: Option<String>,
    pub to: Option<String>,
    pub size: u64,
    pub old: State,
    pub new: State,
    /// Why a person must look at this path.
    pub question: Option<String>,
    /// It cannot be guarded against an edit at the moment of the merge; the question says so.
    #[serde(default)]
    pub unguarded: bool,
}

/// Two versions of one path, of which a person may choose one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    pub path: String,
    pub why: String,
    pub size: u64,
    /// What the project holds; `None` for what can't be replaced, such as a folder.
    pub mine: Option<State>,
    pub theirs: State,
    /// Blob with both in one text, marked, where they are text.
    pub marked: Option<String>,
    /// As for a change.
    #[serde(default)]
    pub unguarded: bool,
}

impl FrozenPath {
    pub fn told(&self) -> MergePath {
        MergePath { path: self.path.clone(), kind: self.kind, from: self.from.clone(), refused: None }
    }

    /// One more reason for a person to look.
    pub fn ask(&mut self, why: String) {
        self.question = Some(match self.question.take() {
            Some(question) if question.contains(&why) => question,
            Some(question) => format!("{question}; {why}"),
            None => why,
        });
    }
}

impl Conflict {
    fn told(&self, why: String) -> MergePath {
        MergePath { path: self.path.clone(), kind: PathChange::Conflict, from: None, refused: Some(why) }
    }
}

impl Frozen {
    /// `head` is HEAD now, `began` when the task began.
    pub fn new(
        task: TaskId,
        summary: &str,
        head: Option<String>,
        began: Option<String>,
        policy_version: u64,
        looked: FrozenChanges,
    ) -> Result<Frozen, Fault> {
        let FrozenChanges { changes, conflicts, refused } = looked;
        let summary = summary.to_owned();
        let mut frozen = Frozen { task, summary, head, began, policy_version, changes, conflicts, refused, digest: String::new() };
        frozen.digest = frozen.hash()?;
        Ok(frozen)
    }

    fn hash(&self) -> Result<String, Fault> {
        let body = serde_json::to_vec(&(self.task, &self.head, self.policy_version, &self.changes, &self.conflicts, &self.refused));
        body.map(|bytes| hash::sha256(&bytes)).map_err(|error| Fault::new(FaultKind::Bug, "changes cannot be hashed", error))
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>, Fault> {
        serde_json::to_vec(self).map_err(|error| Fault::new(FaultKind::Bug, "changes cannot be written", error))
    }

    pub fn parse(bytes: &[u8]) -> Result<Frozen, Fault> {
        serde_json::from_slice(bytes).map_err(|error| Fault::new(FaultKind::Bug, "frozen changes cannot be read", error))
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.conflicts.is_empty() && self.refused.is_empty()
    }

    /// Whether each path still holds what was shown, or what it shall hold.
    pub fn holds(&self, tree: &Tree) -> Result<bool, Fault> {
        for change in &self.changes {
            let now = tree.now(&change.path)?;
            if !change.old.is(&now) && !change.new.is(&now) {
                return Ok(false);
            }
        }
        for conflict in &self.conflicts {
            if let Some(mine) = &conflict.mine
                && !mine.is(&tree.now(&conflict.path)?)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Turns each conflict into what a person chose; one without a choice stays out.
    pub fn resolve(&mut self, sides: &BTreeMap<String, Side>) {
        for conflict in std::mem::take(&mut self.conflicts) {
            match (sides.get(&conflict.path), &conflict.mine) {
                (Some(Side::Theirs), Some(mine)) => self.changes.push(FrozenPath {
                    path: conflict.path.clone(),
                    kind: PathChange::Modified,
                    from: None,
                    to: None,
                    size: conflict.size,
                    old: mine.clone(),
                    new: conflict.theirs.clone(),
                    question: None,
                    unguarded: conflict.unguarded,
                }),
                (Some(Side::Mine), _) => self.refused.push(conflict.told("yours stays".into())),
                _ => self.refused.push(conflict.told(conflict.why.clone())),
            }
        }
        self.changes.sort_by(|one, other| std::path::Path::new(&one.path).cmp(std::path::Path::new(&other.path)));
    }

    /// What will run without anybody starting it, once it is in.
    pub fn marks(&self) -> Vec<String> {
        let going = self.changes.iter().filter(|change| change.new != State::Absent).map(|change| &change.path);
        let clashing = self.conflicts.iter().map(|conflict| &conflict.path);
        going.chain(clashing).filter_map(|path| Some(format!("{path} runs by itself: {}", runs_by_itself(path)?))).collect()
    }

    pub fn paths(&self) -> Vec<MergePath> {
        let going = self.changes.iter().filter(|change| change.to.is_none()).map(FrozenPath::told);
        let clashing = self.conflicts.iter().map(|conflict| conflict.told(conflict.why.clone()));
        going.chain(clashing).chain(self.refused.iter().cloned()).collect()
    }

    /// What the reviewer is told; the diff is read from the blobs.
    pub fn shown(&self) -> serde_json::Value {
        let going = self.changes.iter().filter(|change| change.to.is_none()).map(|change| match &change.from {
            Some(from) => format!("renamed {from} to {}", change.path),
            None => format!("{} {}", change.kind, change.path),
        });
        let files: Vec<String> = going.chain(self.conflicts.iter().map(|conflict| format!("conflict {}", conflict.path))).collect();
        serde_json::json!({"changes": files, "left_out": self.refused.len(), "digest": self.digest})
    }
}
