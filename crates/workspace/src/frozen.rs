//! Frozen changes: what a person is asked about, to the byte, and what their answer makes of it.
//!
//! **Invariant.** The digest names all that would be merged or left out. Knows no room and no policy.

use crate::auto::runs_by_itself;
use crate::diff::mode_told;
use crate::freeze::FrozenChanges;
use crate::hash;
use crate::tree::{FileTree, State};
use crate::whole::Swaps;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use world::{Fault, FaultKind, MergePath, NOT_CHOSEN, PathChange, Side, TaskId};

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

    /// The first path that holds neither what was shown nor what it shall hold.
    pub fn moved(&self, tree: &FileTree) -> Result<Option<&str>, Fault> {
        for change in &self.changes {
            let now = tree.now(&change.path)?;
            if !change.old.is(&now) && !change.new.is(&now) {
                return Ok(Some(&change.path));
            }
        }
        for conflict in &self.conflicts {
            if let Some(mine) = &conflict.mine
                && !mine.is(&tree.now(&conflict.path)?)
            {
                return Ok(Some(&conflict.path));
            }
        }
        Ok(None)
    }

    /// Leaves out what a person did not name, by its path or a folder above it; without any names all stays in. A rename goes with either
    /// of its names; what became another kind of thing goes if all of it was named.
    pub fn choose(&mut self, only: &[String]) {
        if only.is_empty() {
            return;
        }
        let going = self.chosen(only);
        let (go, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut self.changes).into_iter().partition(|change| going.contains(&change.path));
        self.changes = go;
        let stay = stay.iter().filter(|change| change.to.is_none());
        self.refused.extend(stay.map(|change| MergePath { refused: Some(NOT_CHOSEN.into()), ..change.told() }));
        let chosen = |path: &str| only.iter().any(|one| is_at_or_below(path, one));
        let (go, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut self.conflicts).into_iter().partition(|conflict| chosen(&conflict.path));
        self.conflicts = go;
        self.refused.extend(stay.iter().map(|conflict| conflict.told(NOT_CHOSEN.into())));
    }

    fn named<'a>(&'a self, only: &'a [String]) -> impl Iterator<Item = &'a FrozenPath> {
        let chosen = move |path: &str| only.iter().any(|one| is_at_or_below(path, one));
        let both = |change: &'a FrozenPath| [change.from.as_deref(), change.to.as_deref()].into_iter().flatten();
        self.changes.iter().filter(move |change| chosen(&change.path) || both(change).any(chosen))
    }

    /// The paths of all changes that these names let in.
    fn chosen(&self, only: &[String]) -> BTreeSet<String> {
        let mut going: BTreeSet<String> = self.named(only).map(|change| change.path.clone()).collect();
        let (swaps, all) =
            (Swaps::in_frozen(&self.changes), self.changes.iter().map(|change| change.path.as_str()).collect::<BTreeSet<_>>());
        loop {
            let is_missing = |path: &str| all.contains(path) && !going.contains(path);
            let is_parted = |change: &&FrozenPath| {
                let mut halves = [change.from.as_deref(), change.to.as_deref()].into_iter().flatten();
                halves.any(is_missing)
                    || swaps.around(&change.path).any(|(_, members)| members.iter().any(|path| path.to_str().is_none_or(is_missing)))
            };
            let out: Vec<String> = self
                .changes
                .iter()
                .filter(|change| going.contains(&change.path))
                .filter(is_parted)
                .map(|change| change.path.clone())
                .collect();
            if out.is_empty() {
                return going;
            }
            going.retain(|path| !out.contains(path));
        }
    }

    /// A path that these names name as a part of a change that goes as a whole or not at all, and the path of that whole.
    pub fn parted(&self, only: &[String]) -> Option<(String, String)> {
        let (going, swaps) = (self.chosen(only), Swaps::in_frozen(&self.changes));
        let mut parts = self.named(only).filter(|change| !going.contains(&change.path));
        parts.find_map(|change| {
            let (root, _) = swaps.around(&change.path).next()?;
            Some((change.path.clone(), root.to_string_lossy().into_owned()))
        })
    }

    /// Whether something would go in by this name.
    pub fn names(&self, name: &str) -> bool {
        let is = |path: &str| is_at_or_below(path, name);
        self.changes.iter().any(|change| is(&change.path)) || self.conflicts.iter().any(|conflict| is(&conflict.path))
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
        let going = self.changes.iter().filter(|change| change.to.is_none()).map(|change| {
            let what = match &change.from {
                Some(from) => format!("renamed {from} to {}", change.path),
                None => format!("{} {}", change.kind, change.path),
            };
            match mode_told(change, &self.changes).trim_end() {
                "" => what,
                mode => format!("{what} ({mode})"),
            }
        });
        let files: Vec<String> = going.chain(self.conflicts.iter().map(|conflict| format!("conflict {}", conflict.path))).collect();
        serde_json::json!({"changes": files, "left_out": self.refused.len(), "digest": self.digest})
    }
}

/// Is a path this one, or in the folder of this name?
fn is_at_or_below(path: &str, name: &str) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, from: Option<&str>, to: Option<&str>) -> FrozenPath {
        let (old, new) = (State::Absent, State::Folder);
        let (path, from, to) = (path.to_owned(), from.map(str::to_owned), to.map(str::to_owned));
        FrozenPath { path, kind: PathChange::Created, from, to, size: 0, old, new, question: None, unguarded: false }
    }

    #[test]
    fn what_is_not_named_stays_out_and_both_halves_of_a_rename_go_together() {
        let changes = vec![change("a", None, None), change("d/x", None, None), change("dx", None, None)];
        let renamed = vec![change("new", Some("old"), None), change("old", None, Some("new"))];
        let looked = FrozenChanges { changes: [changes, renamed].concat(), conflicts: Vec::new(), refused: Vec::new() };
        let frozen = Frozen::new(TaskId(1), "", None, None, 1, looked).unwrap();
        let chosen = |only: &[&str]| {
            let mut frozen = frozen.clone();
            frozen.choose(&only.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
            let left: Vec<String> = frozen.refused.iter().map(|path| path.path.clone()).collect();
            (frozen.changes.iter().map(|change| change.path.clone()).collect::<Vec<_>>().join(" "), left.join(" "))
        };
        assert_eq!(chosen(&[]), ("a d/x dx new old".into(), String::new()));
        assert_eq!(chosen(&["d"]), ("d/x".into(), "a dx new".into()));
        assert_eq!(chosen(&["old", "a"]), ("a new old".into(), "d/x dx".into()));
        assert!(frozen.names("d") && frozen.names("dx") && !frozen.names("x"));
    }

    #[test]
    fn a_swap_goes_as_a_whole_or_not_at_all() {
        let of =
            |path: &str, old: State, from: Option<&str>, to: Option<&str>| FrozenPath { old, new: State::Absent, ..change(path, from, to) };
        let swap =
            vec![of("d", State::Folder, None, None), of("d/x", State::Absent, None, Some("new")), of("d/y", State::Absent, None, None)];
        let rest = vec![of("e", State::Absent, None, None), of("new", State::Absent, Some("d/x"), None)];
        let looked = FrozenChanges { changes: [swap, rest].concat(), conflicts: Vec::new(), refused: Vec::new() };
        let frozen = Frozen::new(TaskId(1), "", None, None, 1, looked).unwrap();
        let only = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let chosen = |names: &[&str]| {
            let mut frozen = frozen.clone();
            frozen.choose(&only(names));
            frozen.changes.iter().map(|change| change.path.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(chosen(&["d"]), "d d/x d/y new", "the whole, with the rename out of it");
        assert_eq!((chosen(&["d/y"]), chosen(&["d/x", "e"]), chosen(&["new"])), (String::new(), "e".into(), String::new()));
        assert_eq!(frozen.parted(&only(&["d/y"])), Some(("d/y".into(), "d".into())));
        assert_eq!(frozen.parted(&only(&["new"])), Some(("d/x".into(), "d".into())));
        assert_eq!((frozen.parted(&only(&["d"])), frozen.parted(&only(&["e"]))), (None, None), "the controls");
    }
}
