//! Sets of changes out of bytes: the two that follow links agree on where they lead, and what is merged keeps every promise.

#[path = "../../../testkit/fuzz/fuzz.rs"]
mod fuzz;

use super::oracle::{self, Thing};
use super::overlays::{Met, check};
use super::random::Random;
use super::{FileTree, State};
use crate::links::After;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const PARTS: &[&str] = &["a", "b", "c", "d", "..", "..", "..", ".", "", ".git", ".GIT.", "skep.yml", "e"];

#[test]
fn links() {
    let folder = tempfile::tempdir().unwrap();
    let tree = FileTree::at(folder.path().to_owned()).unwrap();
    fuzz::bytes("links", |input| {
        let mut random = Random::of_bytes(input);
        let mut things = BTreeMap::new();
        for _ in 0..1 + random.below(6) {
            let depth = 1 + random.below(3);
            let path: PathBuf = (0..depth).map(|_| *random.of(&PARTS[..4])).collect();
            let text: Vec<&str> = (0..1 + random.below(6)).map(|_| *random.of(PARTS)).collect();
            things.insert(path, text.join("/"));
        }
        let links: BTreeMap<PathBuf, State> =
            things.iter().map(|(path, target)| (path.clone(), State::Link { target: target.clone() })).collect();
        let model = things.iter().map(|(path, target)| (path.clone(), Thing::Link(target.into()))).collect();
        let after = After { tree: &tree, changes: links.iter().map(|(path, state)| (path.as_path(), state)).collect() };
        for (path, target) in &things {
            // Where a folder of its own is a link, there is no such place.
            if path.ancestors().skip(1).any(|above| things.contains_key(above)) {
                continue;
            }
            let led = after.follow(path, OsStr::new(target)).unwrap().end;
            assert_eq!(led.is_ok(), oracle::leads_inside(&model, path, OsStr::new(target)), "{path:?} of {things:?}: {led:?}");
            if led.is_ok() {
                assert!(!Path::new(target).is_absolute());
            }
        }
    });
}

#[test]
fn merge_sets() {
    let met = RefCell::new(Met::default());
    fuzz::bytes("merge_sets", |input| check(&mut Random::of_bytes(input), &format!("{input:?}"), &mut met.borrow_mut()));
}
