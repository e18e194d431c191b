//! Carries a merge out, and back, by a log that was kept before the first step.
//!
//! A folder and the file that takes its place, or the other way round, are swapped whole. Many places go together: all new contents are written beside their places, made durable at once, and then put in place one after the
//! other.
//!
//! **Invariant.** A path is touched only while it still holds what the log says it held; one that holds its new content already is done.
//! So a retry after a crash finishes exactly the rest, in both directions, and nothing that a person wrote meanwhile is overwritten.

use crate::aside;
use crate::diff::FileGone;
use crate::frozen::{Frozen, FrozenPath};
use crate::links::Origin;
use crate::place::{CrashPoint, Half, MOMENTS, Unit};
use crate::progress::MergeProgress;
use crate::shape::{ReadBlob, Shape};
use crate::tree::{FileTree, State};
use crate::whole::{self, Swaps};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use world::{Fault, FaultKind, MergePath};

/// Paths that are made durable together; what they hold lies twice on the disk meanwhile.
const TOGETHER: usize = 1000;

/// The log of one merge, and the snapshot before it.
#[derive(Debug, Serialize, Deserialize)]
pub struct MergePlan {
    pub steps: Vec<MergeStep>,
    /// Left out, and why.
    pub left: Vec<MergePath>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct MergeStep {
    pub path: MergePath,
    pub before: State,
    pub after: State,
    /// The other half of a rename, which is told with the first.
    pub quiet: bool,
    /// A person agreed to it though it cannot be guarded against an edit at the same moment.
    #[serde(default)]
    pub unguarded: bool,
}

impl MergePlan {
    pub fn of(frozen: &Frozen) -> MergePlan {
        let mut steps: Vec<MergeStep> = Vec::new();
        for change in &frozen.changes {
            let (quiet, unguarded) = (change.to.is_some(), change.unguarded);
            steps.push(MergeStep { path: change.told(), before: change.old.clone(), after: change.new.clone(), quiet, unguarded });
        }
        MergePlan { steps, left: frozen.refused.clone() }
    }

    /// Every path as one that goes in, and those that stay out.
    pub fn told(&self) -> Vec<MergePath> {
        self.left.iter().cloned().chain(self.steps.iter().filter(|step| !step.quiet).map(|step| step.path.clone())).collect()
    }

    /// Only the steps of these paths.
    #[must_use]
    pub fn only(mut self, paths: &BTreeSet<String>) -> MergePlan {
        self.steps.retain(|step| paths.contains(&step.path.path));
        self
    }

    /// Is everything kept that its paths held and hold? `kept` reads a blob, or says that it is kept no longer.
    pub fn is_kept(&self, kept: &crate::diff::Kept<'_>) -> Result<bool, Fault> {
        for state in self.steps.iter().flat_map(|step| [&step.before, &step.after]) {
            if crate::diff::kept_bytes(state, kept)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What a path held before the merge; `None` where it is not about that path.
    pub fn before(&self, path: &str, kept: &crate::diff::Kept<'_>) -> Result<Option<Vec<u8>>, FileGone> {
        let Some(step) = self.steps.iter().find(|step| step.path.path == path) else { return Ok(None) };
        match crate::diff::kept_bytes(&step.before, kept).map_err(FileGone::Fault)? {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(FileGone::NotKept),
        }
    }

    /// How many paths it is about.
    pub fn len(&self) -> u64 {
        self.steps.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>, Fault> {
        serde_json::to_vec(self).map_err(|error| Fault::new(FaultKind::Bug, "a merge's log cannot be written", error))
    }

    pub fn parse(bytes: &[u8]) -> Result<MergePlan, Fault> {
        serde_json::from_slice(bytes).map_err(|error| Fault::new(FaultKind::Bug, "a merge's log cannot be read", error))
    }

    /// Goes on from wherever the merge stands, and tells what became of each path. `at` is called at each moment of a crash test.
    pub fn apply(
        &self,
        tree: &FileTree,
        blobs: &ReadBlob<'_>,
        progress: &MergeProgress,
        at: &dyn Fn(u64),
    ) -> Result<Vec<MergePath>, Fault> {
        let mut told = self.left.clone();
        let steps = self.steps.iter().map(|step| (step, &step.before, &step.after));
        run(tree, steps, blobs, (progress, at), &mut told)?;
        Ok(told)
    }

    /// The same way back, last step first. Links lead inside afterwards, as they do after a merge.
    pub fn revert(
        &self,
        tree: &FileTree,
        blobs: &ReadBlob<'_>,
        progress: &MergeProgress,
        at: &dyn Fn(u64),
    ) -> Result<Vec<MergePath>, Fault> {
        let mut back: Vec<FrozenPath> = self.steps.iter().map(reversed).collect();
        let swaps = Swaps::in_frozen(&back);
        let left = aside(|| whole::settle(&swaps, tree, &mut back, Origin::Project))?;
        let stays: BTreeMap<&str, &str> = left.iter().map(|(change, why)| (change.path.as_str(), why.as_str())).collect();
        let (stay, go): (Vec<&MergeStep>, Vec<&MergeStep>) =
            self.steps.iter().rev().partition(|step| stays.contains_key(step.path.path.as_str()));
        let refused = |step: &&MergeStep| stays.get(step.path.path.as_str()).map(|why| (*why).to_owned());
        let mut told: Vec<MergePath> = stay.iter().map(|step| MergePath { refused: refused(step), ..step.path.clone() }).collect();
        run(tree, go.into_iter().map(|step| (step, &step.after, &step.before)), blobs, (progress, at), &mut told)?;
        Ok(told)
    }
}

/// Which step a moment of `apply` or `revert` belongs to.
pub fn step_of(moment: u64) -> u64 {
    moment / MOMENTS
}

/// A step as the change that takes it back.
fn reversed(step: &MergeStep) -> FrozenPath {
    let MergePath { path, kind, .. } = step.path.clone();
    let (old, new) = (step.after.clone(), step.before.clone());
    FrozenPath { path, kind, from: None, to: None, size: 0, old, new, question: None, unguarded: step.unguarded }
}

fn run<'a>(
    tree: &FileTree,
    steps: impl Iterator<Item = (&'a MergeStep, &'a State, &'a State)>,
    blobs: &ReadBlob<'_>,
    (progress, at): (&MergeProgress, &dyn Fn(u64)),
    told: &mut Vec<MergePath>,
) -> Result<(), Fault> {
    let steps: Vec<_> = steps.collect();
    let at = |number: usize, moment: CrashPoint| at(number as u64 * MOMENTS + moment as u64);
    aside(|| apply_steps(tree, &steps, blobs, (progress, &at), told))
}

/// Puts all steps in place, those of one swap as one.
pub fn apply_steps(
    tree: &FileTree,
    steps: &[(&MergeStep, &State, &State)],
    blobs: &ReadBlob<'_>,
    (progress, at): (&MergeProgress, &dyn Fn(usize, CrashPoint)),
    told: &mut Vec<MergePath>,
) -> Result<(), Fault> {
    let units: Vec<_> = units(steps).into_iter().enumerate().collect();
    for some in units.chunks(TOGETHER) {
        let mut halves = Vec::with_capacity(some.len());
        for (number, (unit, _)) in some {
            halves.push(tree.begin(unit, blobs, |moment| at(*number, moment))?);
        }
        let written =
            some.iter().zip(&halves).filter(|((_, (unit, _)), half)| matches!(half, Half::Written) && unit.after != Shape::Absent);
        tree.sync_written(&written.map(|((_, (unit, _)), _)| unit.place).collect::<Vec<_>>())?;
        for ((number, (unit, members)), half) in some.iter().zip(halves) {
            let refused = match half {
                Half::Done => None,
                Half::Left(why) => Some(why),
                // It was merged before the kernel died, and somebody edited it since: that is no conflict.
                Half::Unheld(_) if progress.was_done(unit.place) => None,
                Half::Unheld(why) => Some(why.into()),
                Half::Written => {
                    let left = tree.end(unit, blobs, |moment| {
                        if matches!(moment, CrashPoint::Placed) {
                            progress.note(unit.place);
                        }
                        at(*number, moment);
                    })?;
                    if left.is_some() {
                        progress.take_back(unit.place);
                    }
                    left
                }
            };
            progress.check()?;
            let steps = members.iter().filter_map(|at| steps.get(*at)).filter(|(step, ..)| refused.is_some() || !step.quiet);
            told.extend(steps.map(|(step, ..)| MergePath { refused: refused.clone(), ..step.path.clone() }));
        }
        tree.sync_folders(&some.iter().filter_map(|(_, (unit, _))| Path::new(unit.place).parent()).collect())?;
    }
    Ok(())
}

/// The places that steps are about, each with the numbers of its steps. A folder that a file takes the place of, or that takes a file's,
/// is one place with all that is in it: it is swapped whole or not at all.
fn units<'a>(steps: &[(&'a MergeStep, &'a State, &'a State)]) -> Vec<(Unit<'a>, Vec<usize>)> {
    let by_path: BTreeMap<&Path, usize> = steps.iter().enumerate().map(|(at, (step, ..))| (Path::new(&step.path.path), at)).collect();
    // The topmost step on the way to each is its place.
    let place_of = |path: &Path| path.ancestors().filter_map(|above| by_path.get(above)).last().copied();
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, (step, ..)) in steps.iter().enumerate() {
        members.entry(place_of(Path::new(&step.path.path)).unwrap_or(at)).or_default().push(at);
    }
    let unit = |(root, members): (usize, Vec<usize>)| {
        let (step, ..) = steps[root];
        let shape = |side: fn(&(&'a MergeStep, &'a State, &'a State)) -> &'a State| {
            let own = side(&steps[root]);
            let below: BTreeMap<PathBuf, State> = members
                .iter()
                .filter(|at| **at != root)
                .filter_map(|at| {
                    let path = Path::new(&steps[*at].0.path.path).strip_prefix(&step.path.path).ok()?;
                    Some((path.to_owned(), side(&steps[*at]).clone()))
                })
                .filter(|(_, state)| !matches!(state, State::Absent | State::Folder))
                .collect();
            match own {
                State::Folder => Shape::Folder(below),
                State::Absent if below.is_empty() => Shape::Absent,
                State::Absent => Shape::Folder(below),
                own => Shape::Single(own.clone()),
            }
        };
        let (before, after) = (shape(|(_, from, _)| from), shape(|(_, _, to)| to));
        let unguarded = members.iter().all(|at| steps[*at].0.unguarded || *steps[*at].1 == State::Absent);
        (Unit { place: &step.path.path, before, after, unguarded }, members)
    };
    members.into_iter().map(unit).collect()
}
