//! Tests of the way into the project without a kernel around it: edits at the same moment, and random hostile overlays.

mod edits;
mod fuzzed;
mod judged;
#[path = "../../testkit/oracle/oracle.rs"]
mod oracle;
mod overlays;
mod random;
mod swaps;

use crate::apply::{MergeStep, apply_steps};
use crate::frozen::FrozenPath;
use crate::hash;
use crate::place::CrashPoint;
use crate::progress::MergeProgress;
use crate::tree::{FileState, FileTree, State};
use std::collections::BTreeMap;
use std::path::Path;
use world::{Fault, FaultKind, MergePath, PathChange};

/// So many in the tests, and so many in `cargo xtask soak`.
fn rounds(short: u64, long: u64) -> u64 {
    if std::env::var_os("SKEP_SOAK").is_some() { long } else { short }
}

/// Contents by their names, as the vault has them.
#[derive(Default)]
pub(crate) struct TestBlobs(BTreeMap<String, Vec<u8>>);

impl TestBlobs {
    fn keep(&mut self, bytes: &[u8]) -> String {
        let name = hash::sha256(bytes);
        self.0.insert(name.clone(), bytes.to_vec());
        name
    }

    pub(crate) fn file(&mut self, bytes: &[u8]) -> State {
        State::File { blob: self.keep(bytes), mode: Some(0o644), owner: None }
    }

    /// What stands somewhere, as a state.
    fn state(&mut self, now: &FileState) -> Option<State> {
        Some(match now {
            FileState::Absent => State::Absent,
            FileState::File { bytes, mode, owner } => State::File { blob: self.keep(bytes), mode: Some(*mode), owner: Some(*owner) },
            FileState::Link { target } => State::Link { target: target.clone() },
            FileState::Folder => State::Folder,
            FileState::Other => return None,
        })
    }

    pub(crate) fn blob(&self, name: &str) -> Result<Vec<u8>, Fault> {
        self.0.get(name).cloned().ok_or_else(|| Fault::new(FaultKind::Bug, "a blob is missing", name))
    }
}

fn step(path: &str, before: State, after: State) -> MergeStep {
    let path = MergePath { path: path.to_owned(), kind: PathChange::Modified, from: None, refused: None };
    MergeStep { path, before, after, quiet: false, unguarded: false }
}

/// Carries steps out, or back, and tells what was left.
fn run(project: &Path, steps: &[MergeStep], vault: &TestBlobs, back: bool, at: &dyn Fn(usize, CrashPoint)) -> Vec<MergePath> {
    let tree = FileTree::at(project.to_owned()).unwrap();
    let mut list: Vec<_> = steps.iter().map(|step| (step, &step.before, &step.after)).collect();
    if back {
        list = steps.iter().rev().map(|step| (step, &step.after, &step.before)).collect();
    }
    let mut told = Vec::new();
    apply_steps(&tree, &list, &|name| vault.blob(name), (&MergeProgress::default(), at), &mut told).unwrap();
    told
}

/// The kernel dies after the first of two files; both are edited before the next start.
#[test]
fn an_edit_of_a_merged_file_is_no_conflict_of_the_merge_that_a_crash_cut_short() {
    let mut vault = TestBlobs::default();
    let steps = [step("a", vault.file(b"old"), vault.file(b"new")), step("b", vault.file(b"old"), vault.file(b"new"))];
    let list: Vec<_> = steps.iter().map(|step| (step, &step.before, &step.after)).collect();
    for (is_noted, expected) in [(true, [false, true]), (false, [true, true])] {
        let folder = tempfile::tempdir().unwrap();
        let (project, notes) = (folder.path().join("project"), folder.path().join("notes"));
        std::fs::create_dir(&project).unwrap();
        for name in ["a", "b"] {
            std::fs::write(project.join(name), "old").unwrap();
        }
        let tree = FileTree::at(project.clone()).unwrap();
        let apply = |at: &dyn Fn(usize, CrashPoint)| {
            let mut told = Vec::new();
            let progress = MergeProgress::open(&notes).unwrap();
            apply_steps(&tree, &list, &|name| vault.blob(name), (&progress, at), &mut told).unwrap();
            told
        };
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            apply(&|number, moment| assert!(!(number == 0 && matches!(moment, CrashPoint::Removed)), "the kernel dies"))
        }));
        assert!(died.is_err());
        assert_eq!(std::fs::read(project.join("a")).unwrap(), b"new", "the control: it was merged");
        for name in ["a", "b"] {
            std::fs::write(project.join(name), "mine").unwrap();
        }
        if !is_noted {
            MergeProgress::remove(&notes).unwrap();
        }
        let told = apply(&|_, _| {});
        assert_eq!(told.iter().map(|path| path.refused.is_some()).collect::<Vec<_>>(), expected, "{told:?}");
        assert_eq!(std::fs::read(project.join("a")).unwrap(), b"mine");
    }
}
