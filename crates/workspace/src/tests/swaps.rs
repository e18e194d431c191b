//! Swaps of folders and files, file systems that lack something, and what an earlier kernel left beside a place.

use super::{State, TestBlobs, run, step};
use crate::apply::{MergeStep, apply_steps};
use crate::place::CrashPoint;
use crate::progress::MergeProgress;
use crate::tests::oracle;
use crate::tree::FileTree;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use world::MergePath;

const MOMENTS: [CrashPoint; 4] = [CrashPoint::Before, CrashPoint::Written, CrashPoint::Placed, CrashPoint::Removed];

fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    }
    folder
}

/// A folder with two files becomes a file, and the way back.
fn folder_to_file(vault: &mut TestBlobs) -> Vec<MergeStep> {
    vec![
        step("d", State::Folder, vault.file(b"file")),
        step("d/e/two", vault.file(b"two"), State::Absent),
        step("d/one", vault.file(b"one"), State::Absent),
    ]
}

const BEFORE: &[(&str, &str)] = &[("d/one", "one"), ("d/e/two", "two"), ("other", "other")];

fn read(folder: &Path) -> Vec<(String, String)> {
    let tree = oracle::read(folder);
    let files = tree.into_iter().filter_map(|(path, thing)| match thing {
        oracle::Thing::File { bytes, .. } => Some((path.display().to_string(), String::from_utf8(bytes).unwrap())),
        _ => None,
    });
    files.collect()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut list: Vec<_> = list.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    list.sort();
    list
}

fn reasons(told: &[MergePath]) -> Vec<Option<&str>> {
    told.iter().map(|path| path.refused.as_deref()).collect()
}

#[test]
fn a_swap_is_whole_whenever_the_kernel_dies() {
    for back in [false, true] {
        for kill in MOMENTS {
            let folder = project(if back { &[("d", "file"), ("other", "other")] } else { BEFORE });
            let mut vault = TestBlobs::default();
            let steps = folder_to_file(&mut vault);
            let died = catch_unwind(AssertUnwindSafe(|| {
                run(folder.path(), &steps, &vault, back, &|_, moment| {
                    if moment as u64 == kill as u64 {
                        std::panic::resume_unwind(Box::new("killed"));
                    }
                })
            }));
            assert!(died.is_err());
            let told = run(folder.path(), &steps, &vault, back, &|_, _| {});
            assert_eq!(reasons(&told), [None; 3]);
            let expected = if back { pairs(BEFORE) } else { pairs(&[("d", "file"), ("other", "other")]) };
            assert_eq!(read(folder.path()), expected, "{} {back}", kill as u64);
        }
    }
}

#[test]
fn a_swap_of_which_a_part_cannot_go_leaves_everything() {
    let mut vault = TestBlobs::default();
    let steps = folder_to_file(&mut vault);
    // A file that nobody knew of, and one that was edited, before it begins and at every moment until the folder is out.
    for late in [None, Some(CrashPoint::Written)] {
        for edit in ["d/one", "d/e/new"] {
            let folder = project(BEFORE);
            let save = || fs::write(folder.path().join(edit), "mine").unwrap();
            if late.is_none() {
                save();
            }
            let told = run(folder.path(), &steps, &vault, false, &|_, moment| {
                if late.is_some_and(|late| late as u64 == moment as u64) {
                    save();
                }
            });
            assert!(reasons(&told).iter().all(|why| why.is_some_and(|why| why.starts_with("conflict"))), "{told:?}");
            let mut expected: Vec<_> = BEFORE.iter().copied().filter(|(path, _)| *path != edit).collect();
            expected.push((edit, "mine"));
            assert_eq!(read(folder.path()), pairs(&expected));
        }
    }
    // And a file that somebody only has open.
    let folder = project(BEFORE);
    let held = fs::OpenOptions::new().append(true).open(folder.path().join("d/e/two")).unwrap();
    let told = run(folder.path(), &steps, &vault, false, &|_, _| {});
    assert!(reasons(&told)[0].unwrap().contains("open for writing"), "{told:?}");
    assert_eq!(read(folder.path()), pairs(BEFORE));
    drop(held);
    assert_eq!(reasons(&run(folder.path(), &steps, &vault, false, &|_, _| {})), [None; 3]);
}

#[test]
fn what_nobody_knows_beside_a_place_is_kept_and_named() {
    let mut vault = TestBlobs::default();
    let steps = [step("f", vault.file(b"old"), vault.file(b"new"))];
    let beside = crate::build::temporary("f");
    // A beginning of the new content, whole or cut, and the old one, are ours to remove.
    for known in ["", "ne", "new", "old"] {
        let folder = project(&[("f", "old")]);
        fs::write(folder.path().join(&beside), known).unwrap();
        assert_eq!(reasons(&run(folder.path(), &steps, &vault, false, &|_, _| {})), [None]);
        assert_eq!(read(folder.path()), pairs(&[("f", "new")]));
    }
    for (place, expected) in [
        // The edit of a file that had changed places already goes back, and the new content away.
        (Some("new"), vec![("f", "mine")]),
        (None, vec![("f", "mine")]),
        // Somebody saved another one since: both are there.
        (Some("newer"), vec![("f", "newer"), ("f.skep-kept", "mine")]),
        (Some("old"), vec![("f", "old"), ("f.skep-kept", "mine")]),
    ] {
        let folder = project(&place.map(|text| ("f", text)).into_iter().collect::<Vec<_>>());
        fs::write(folder.path().join(&beside), "mine").unwrap();
        let told = run(folder.path(), &steps, &vault, false, &|_, _| {});
        assert!(told[0].refused.as_ref().unwrap().starts_with("conflict"), "{told:?}");
        assert_eq!(told[0].refused.as_ref().unwrap().contains("`f.skep-kept`"), expected.len() == 2, "{told:?}");
        assert_eq!(read(folder.path()), pairs(&expected));
    }
}

#[test]
fn without_an_exchange_a_replacement_needs_a_persons_word() {
    let mut vault = TestBlobs::default();
    let carry_out = |folder: &Path, steps: &[MergeStep], vault: &TestBlobs, at: &dyn Fn(usize, CrashPoint)| {
        let tree = FileTree { exchanges: false, ..FileTree::at(folder.to_owned()).unwrap() };
        let list: Vec<_> = steps.iter().map(|step| (step, &step.before, &step.after)).collect();
        let mut told = Vec::new();
        apply_steps(&tree, &list, &|name| vault.blob(name), (&MergeProgress::default(), at), &mut told).unwrap();
        told
    };
    let mut steps = vec![
        step("f", vault.file(b"old"), vault.file(b"new")),
        step("g", vault.file(b"g"), State::Absent),
        step("h", State::Absent, vault.file(b"h")),
    ];
    let folder = project(&[("f", "old"), ("g", "g")]);
    let told = carry_out(folder.path(), &steps, &vault, &|_, _| {});
    assert!(reasons(&told)[0].unwrap().contains("cannot exchange"), "{told:?}");
    assert_eq!(reasons(&told)[1..], [None, None]);
    assert_eq!(read(folder.path()), pairs(&[("f", "old"), ("h", "h")]));
    // With it, and with a death at each moment.
    steps[0].unguarded = true;
    for kill in MOMENTS {
        let folder = project(&[("f", "old"), ("g", "g")]);
        let died = catch_unwind(AssertUnwindSafe(|| {
            carry_out(folder.path(), &steps, &vault, &|number, moment| {
                if number == 0 && moment as u64 == kill as u64 {
                    std::panic::resume_unwind(Box::new("killed"));
                }
            })
        }));
        assert!(died.is_err());
        assert_eq!(reasons(&carry_out(folder.path(), &steps, &vault, &|_, _| {})), [None; 3]);
        assert_eq!(read(folder.path()), pairs(&[("f", "new"), ("h", "h")]));
    }
}
