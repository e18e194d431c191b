//! Where links lead and what is a repository, by the project as it will be.

use super::{FileTree, FrozenPath, State};
use crate::links::Origin;
use crate::whole::{Swaps, settle};
use std::fs;
use std::os::unix::fs::symlink;

/// A project of lines (`path`, or `path -> target`), changes of lines (`-path` for a deletion), and what of them stays out.
fn check(project: &[&str], changes: &[&str], stays: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    for line in project {
        let (path, target) = line.split_once(" -> ").map_or((*line, None), |(path, target)| (path, Some(target)));
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match target {
            Some(target) => symlink(target, path).unwrap(),
            None => fs::write(path, "x").unwrap(),
        }
    }
    let tree = FileTree::at(folder.path().to_owned()).unwrap();
    let file = || State::File { blob: String::new(), mode: None, owner: None };
    let link = |target: &str| State::Link { target: target.into() };
    let frozen_path = |line: &&str| {
        let (path, new) = match (line.split_once(" -> "), line.strip_prefix('-')) {
            (Some((path, target)), _) => (path, link(target)),
            (None, Some(path)) => (path, State::Absent),
            (None, None) => (*line, file()),
        };
        let old = match tree.link(path.as_ref()).unwrap() {
            Some(target) => link(&target.to_string_lossy()),
            None if folder.path().join(path).is_dir() => State::Folder,
            None if folder.path().join(path).exists() => file(),
            None => State::Absent,
        };
        FrozenPath {
            path: path.into(),
            kind: world::PathChange::Modified,
            from: None,
            to: None,
            size: 0,
            old,
            new,
            question: None,
            unguarded: false,
        }
    };
    let mut going: Vec<FrozenPath> = changes.iter().map(frozen_path).collect();
    let swaps = Swaps::in_frozen(&going);
    let left = settle(&swaps, &tree, &mut going, Origin::Task).unwrap();
    let mut left: Vec<&str> = left.iter().map(|(change, _)| change.path.as_str()).collect();
    left.sort_unstable();
    assert_eq!(left, stays, "{project:?} with {changes:?}");
}

#[test]
fn links_are_followed_through_what_comes_with_them() {
    check(&["a/b/c/f"], &["a/b/c/up -> ../../..", "x -> a/b/c/up/../out"], &["x"]);
    check(&["a/b/c/f"], &["a/b/c/up -> ../../..", "x -> a/b/c/up/a"], &[]);
    check(&["a/b/f"], &["one -> two/../..", "two -> a/b"], &[]);
    check(&["a/b/f"], &["one -> two/../../../z", "two -> a/b"], &["one"]);
    // One after the other: `one` leads out only through `two`, and not once that stays out.
    check(&[], &["one -> two/x", "two -> /etc"], &["one", "two"]);
    check(&["d/f"], &["l -> d/../../x"], &["l"]);
    // What is not there, or is a file, may become a folder.
    check(&["f"], &["l -> none/../../x", "m -> f/../../x", "n -> none/../x"], &["l", "m"]);
    check(&[], &["l -> l", "m -> n", "n -> m"], &["l", "m", "n"]);
    check(&["d/f"], &["l -> .git/config", "m -> d/.GIT./x", "n -> .skep", "o -> .gitignore", "p -> d"], &["l", "m", "n"]);
    // Through a link of the project's own that leads out.
    check(&["away -> /etc", "home -> .."], &["l -> away/passwd", "m -> home/x", "n -> f"], &["l", "m"]);
}

#[test]
fn links_of_the_project_keep_leading_inside() {
    // `s/l` is `x` while `d` is a folder; where `d` is the project itself, it is beside it.
    check(&["s/l -> ../d/e/../../x", "d/e/f"], &["d -> .", "-d/e/f"], &["d", "d/e/f"]);
    check(&["s/l -> ../d/e/../../x", "d/e/f"], &["d -> s", "-d/e/f"], &[]);
    // A link that goes or changes turns others, too.
    check(&["l -> k/../../x", "k -> a/b/c", "a/b/c/f"], &["-k", "a/new"], &["k"]);
    check(&["l -> k/../../x", "k -> a/b/c", "a/b/c/f"], &["k -> a"], &["k"]);
    check(&["l -> k/../../x", "k -> a/b/c", "a/b/c/f"], &["k -> a/b"], &[]);
    // One that led out before is the person's own matter, and so is where it leads.
    check(&["l -> k/../../../../x", "k -> a/b/c", "a/b/c/f"], &["k -> a"], &["k"]);
    check(&["l -> k/../../../../x", "k -> a/b/c", "m -> a", "a/b/c/f"], &["m -> a/b", "n -> a"], &[]);
    // One that led round in a circle led nowhere, and not out.
    check(&["l -> k/../../x", "k -> k", "a/f"], &["k -> a"], &["k"]);
    check(&["l -> k/../x", "k -> k", "a/f"], &["k -> a"], &[]);
}

#[test]
fn repositories_and_what_would_become_one_stay_out() {
    check(&["a/f"], &["r/HEAD", "r/objects/x", "r/refs/x", "r/config", "a/g"], &["r/HEAD", "r/config", "r/objects/x", "r/refs/x"]);
    check(&["r/objects/x", "r/refs/x", "r/f"], &["r/head", "r/f"], &["r/f", "r/head"]);
    check(&["r/HEAD"], &["r/commondir"], &["r/commondir"]);
    check(&["r/HEAD", "r/f"], &["r/objects/x", "r/f"], &[]);
    check(&["r/HEAD", "r/objects/x", "r/refs/x", "r/hooks/h"], &["r/hooks/h", "-r/HEAD", "s"], &["r/HEAD", "r/hooks/h"]);
    check(&["r/HEAD"], &["r/objects -> ../o", "r/Refs -> ../o", "o/x"], &["r/Refs", "r/objects"]);
    // Work trees of others: a submodule, a clone, a linked one.
    check(&["sub/.git", "sub/f", "g"], &["sub/f", "g"], &["sub/f"]);
    check(&["c/.Git/HEAD", "c/.Git/objects/x", "c/.Git/refs/x", "c/d/f"], &["c/d/f", "-c/d/g"], &["c/d/f", "c/d/g"]);
    check(&["c/.git/config", "c/f"], &["c/f"], &[]);
    // The project's own folder.
    check(&["f"], &["HEAD", "objects/x", "refs/x", "f"], &["HEAD", "f", "objects/x", "refs/x"]);
}

#[test]
fn what_stays_out_takes_the_rest_of_its_swap_along() {
    check(&["d/f", "d/g"], &["d -> ../x", "-d/f", "-d/g", "h"], &["d", "d/f", "d/g"]);
    check(&["d/f", "d/g"], &["d -> e", "-d/f", "-d/g", "e/h"], &[]);
}

/// Each link leads inside through the one before it, and out without it: what stays out takes them along one after the other.
#[test]
fn links_that_hang_on_each_other_fall_one_by_one() {
    let mut changes =
        vec!["r/l -> ../p/q/t".to_owned(), "l00 -> r/l/../../../y/z/w".to_owned(), "file".to_owned(), "good -> file".to_owned()];
    changes.extend((1..30).map(|number| format!("l{number:02} -> l{:02}/../../../y/z/w", number - 1)));
    let lines: Vec<&str> = changes.iter().map(String::as_str).collect();
    check(&[], &lines, &[]);
    let mut stays: Vec<String> = (0..30).map(|number| format!("l{number:02}")).collect();
    stays.push("r/l".into());
    check(&["r/HEAD", "r/objects/x", "r/refs/x"], &lines, &stays.iter().map(String::as_str).collect::<Vec<_>>());
}
