//! Random hostile overlays against an oracle that says what may be in the project afterwards.
//!
//! Layers are made by hand, worse than any job could leave them. The real list of changes, the real judgement of swaps, links and
//! repositories and the real way into the project run over them; rules are a list of refused paths.

use super::oracle::{self, OracleMerge, Thing};
use super::random::Random;
use super::{TestBlobs, rounds, run};
use crate::apply::MergeStep;
use crate::freeze;
use crate::frozen::FrozenPath;
use crate::links::Origin;
use crate::tree::{FileState, FileTree, State};
use crate::whole::{self, Fate, Swaps};
use rustix::fs::{CWD, Mode};
use sandbox::{Change, ChangeKind, FileKind};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

const PLAIN: &[&[u8]] = &[b"a", b"b", b"c", b"d", b"e"];
const ODD: &[&[u8]] = &[
    b"HEAD",
    b"head",
    b"objects",
    b"OBJECTS",
    b"refs",
    b"commondir",
    b".git",
    b".GIT",
    b".Git ",
    ".g\u{200c}it".as_bytes(),
    b".skep",
    b"skep.yml",
    b".hg",
    b"x y",
    b"n\nl",
    b"\x1b[2J",
    b"\xff\xfe",
    b"a\xffb",
    "\u{e9}".as_bytes(),
    b"-rf",
    b"*",
];

struct Site {
    folder: tempfile::TempDir,
    whiteouts: BTreeSet<PathBuf>,
    opaque: BTreeSet<PathBuf>,
}

impl Site {
    fn new() -> Site {
        // Many small files that nobody keeps: memory is quicker than a disk, where there is such a place.
        let base = Some(Path::new("/dev/shm")).filter(|shm| shm.is_dir() && shared_memory_has_attributes(shm));
        let folder = base.map_or_else(tempfile::tempdir, tempfile::tempdir_in).unwrap();
        for name in ["project", "work/upper"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        Site { folder, whiteouts: BTreeSet::new(), opaque: BTreeSet::new() }
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn upper(&self) -> PathBuf {
        self.folder.path().join("work/upper")
    }
}

/// Marks of an overlay are attributes that not every kernel lets such a file system have.
fn shared_memory_has_attributes(folder: &Path) -> bool {
    let file = tempfile::NamedTempFile::new_in(folder);
    file.is_ok_and(|file| rustix::fs::setxattr(file.path(), "user.overlay.opaque", b"y", rustix::fs::XattrFlags::empty()).is_ok())
}

fn target(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    if random.chance(7) {
        text.push(b'/');
    }
    for number in 0..1 + random.below(5) {
        if number > 0 {
            text.push(b'/');
        }
        let part: &[u8] = match random.below(20) {
            0..=7 => b"..",
            8 => b".",
            9 => random.of::<&[u8]>(ODD),
            _ => random.of::<&[u8]>(PLAIN),
        };
        text.extend_from_slice(part);
    }
    text
}

/// Something at a path where nothing is. Says whether it is a folder.
fn make(random: &mut Random, path: &Path, files: &mut Vec<PathBuf>) -> bool {
    let kind = random.below(100);
    let special = |kind, device| rustix::fs::mknodat(CWD, path, kind, Mode::RUSR | Mode::WUSR, device);
    match kind {
        0..=22 => {
            fs::create_dir(path).unwrap();
            return true;
        }
        23..=42 => symlink(OsStr::from_bytes(&target(random)), path).unwrap(),
        43..=44 => special(rustix::fs::FileType::Fifo, 0).unwrap(),
        45 => special(rustix::fs::FileType::Socket, 0).unwrap(),
        // Only root makes devices.
        46 if special(rustix::fs::FileType::CharacterDevice, rustix::fs::makedev(1, 3)).is_ok() => {}
        47..=49 if !files.is_empty() => fs::hard_link(random.of(files), path).unwrap(),
        _ => {
            fs::write(path, format!("{}\n", random.below(6))).unwrap();
            let mode = match kind {
                50..=51 => 0o4755,
                52 => 0o2644,
                53..=57 => 0o755,
                58..=60 => 0o600,
                _ => 0o644,
            };
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            files.push(path.to_owned());
        }
    }
    false
}

fn name(random: &mut Random) -> &'static OsStr {
    OsStr::from_bytes(if random.chance(70) { random.of::<&[u8]>(PLAIN) } else { random.of::<&[u8]>(ODD) })
}

/// The project itself.
fn grow(random: &mut Random, folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    for _ in 0..random.below(if depth == 0 { 7 } else { 4 }) {
        let path = folder.join(name(random));
        if fs::symlink_metadata(&path).is_err() && make(random, &path, files) && depth < 3 {
            grow(random, &path, depth + 1, files);
        }
    }
}

impl Site {
    /// What jobs left over it.
    fn overlay(&mut self, random: &mut Random, at: &Path, depth: usize, files: &mut Vec<PathBuf>) {
        let beneath: Vec<_> =
            fs::read_dir(self.project().join(at)).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
        for _ in 0..1 + random.below(if depth == 0 { 6 } else { 4 }) {
            let name = if !beneath.is_empty() && random.chance(65) { random.of(&beneath).clone() } else { name(random).to_owned() };
            let (at, path) = (at.join(&name), self.upper().join(at).join(&name));
            if fs::symlink_metadata(&path).is_ok() {
                continue;
            }
            if random.chance(18) {
                whiteout(&path);
                self.whiteouts.insert(at);
                continue;
            }
            // A folder is gone into more often than it is replaced.
            let enter = self.project().join(&at).is_dir() && !self.project().join(&at).is_symlink() && random.chance(50);
            if enter {
                fs::create_dir(&path).unwrap();
            }
            if enter || make(random, &path, files) {
                if random.chance(15) {
                    rustix::fs::setxattr(&path, "user.overlay.opaque", b"y", rustix::fs::XattrFlags::empty()).unwrap();
                    self.opaque.insert(at.clone());
                }
                if depth < 3 {
                    self.overlay(random, &at, depth + 1, files);
                }
            }
        }
    }
}

/// A mark of deletion, in either form.
fn whiteout(path: &Path) {
    if rustix::fs::mknodat(CWD, path, rustix::fs::FileType::CharacterDevice, Mode::RUSR, 0).is_err() {
        fs::write(path, "").unwrap();
        rustix::fs::setxattr(path, "user.overlay.whiteout", b"y", rustix::fs::XattrFlags::empty()).unwrap();
    }
}

/// The changes that would be merged, as `freeze` makes them of what was found: with no base but the project itself, and these rules.
fn frozen(site: &Site, refused: &dyn Fn(&Path) -> bool, ignored: &dyn Fn(&Path) -> bool, vault: &mut TestBlobs) -> Vec<FrozenPath> {
    let found = sandbox::changes(&site.project(), &site.work()).unwrap();
    let ignored: BTreeSet<String> =
        found.changes.iter().filter(|change| ignored(&change.path)).filter_map(|change| change.path.to_str()).map(str::to_owned).collect();
    let swaps = Swaps::of(&found.changes, &ignored, &found.refused);
    let named: Vec<Change> = found.changes.into_iter().filter(|change| change.path.to_str().is_some()).collect();
    let (upper, tree) = (FileTree::at(site.upper()).unwrap(), FileTree::at(site.project()).unwrap());
    let mut going = Vec::new();
    for change in freeze::whole(named) {
        let path = change.path.to_str().unwrap().to_owned();
        let kept = path.split('/').any(policy::is_kept);
        if kept || refused(&change.path) || ignored.contains(&path) {
            continue;
        }
        let theirs = if change.kind == ChangeKind::Deleted { FileState::Absent } else { upper.now(&path).unwrap() };
        if matches!(theirs, FileState::Link { .. })
            != (matches!(change.file, FileKind::Symlink { .. }) && change.kind != ChangeKind::Deleted)
        {
            continue;
        }
        let mine = tree.now(&path).unwrap();
        let (Some(mut old), Some(mut new)) = (vault.state(&mine), vault.state(&theirs)) else { continue };
        match swaps.folder_at(&path) {
            Some(Fate::Goes) => old = State::Folder,
            Some(Fate::Comes) => new = State::Folder,
            None if old == State::Folder || new == State::Folder => continue,
            None => {}
        }
        if let State::File { owner, .. } = &mut new {
            *owner = None;
        }
        let kind = world::PathChange::Modified;
        going.push(FrozenPath { path, kind, from: None, to: None, size: 0, old, new, question: None, unguarded: false });
    }
    whole::settle(&swaps, &tree, &mut going, Origin::Task).unwrap();
    going
}

fn steps(going: &[FrozenPath]) -> Vec<MergeStep> {
    going.iter().map(|change| super::step(&change.path, change.old.clone(), change.new.clone())).collect()
}

/// Files and links with the folders they are in.
fn leaves(tree: &oracle::OracleTree) -> Vec<(&PathBuf, &Thing)> {
    tree.iter().filter(|(_, thing)| **thing != Thing::Folder).collect()
}

/// What was met on the way, so that a run that meets nothing is no proof.
#[derive(Default, Debug)]
pub struct Met {
    merged: usize,
    links: usize,
    swaps: usize,
    deaths: usize,
    edits: usize,
}

pub fn check(random: &mut Random, seed: &str, met: &mut Met) {
    let mut site = Site::new();
    let mut files = Vec::new();
    grow(random, &site.project(), 0, &mut files);
    let mut above = Vec::new();
    site.overlay(random, Path::new(""), 0, &mut above);
    let before = oracle::read(&site.project());
    let made = oracle::view(&oracle::read(&site.upper()), &before, &site.whiteouts, &site.opaque);
    let all: BTreeSet<PathBuf> = before.keys().chain(made.keys()).cloned().collect();
    let few = |random: &mut Random| -> BTreeSet<PathBuf> { all.iter().filter(|_| random.chance(4)).cloned().collect() };
    let (no, ignore) = (few(random), few(random));
    let (refused, ignored) = (|path: &Path| no.contains(path), |path: &Path| ignore.contains(path));
    let mut vault = TestBlobs::default();
    let going = frozen(&site, &refused, &ignored, &mut vault);
    met.merged += going.len();
    met.links += going.iter().filter(|change| matches!(change.new, State::Link { .. })).count();
    met.swaps += going.iter().filter(|change| change.old == State::Folder || change.new == State::Folder).count();
    let steps = steps(&going);

    // Death at any moment, and a person who saves a file there.
    let (count, dies, edits) = (RefCell::new(random.below(steps.len() * 3 + 2)), random.chance(35), random.chance(25));
    let mark = format!("<edit {seed}>");
    let edited = RefCell::new(None);
    let strike = |random: &mut Random| {
        if edits {
            *edited.borrow_mut() = save(&site.project(), &before, &made, &mark, random);
        }
        dies
    };
    let shared = RefCell::new(random);
    let struck = catch_unwind(AssertUnwindSafe(|| {
        run(&site.project(), &steps, &vault, false, &|_, _| {
            let left = count.borrow().checked_sub(1);
            match left {
                Some(left) => *count.borrow_mut() = left,
                None => return,
            }
            if left == Some(0) && strike(&mut shared.borrow_mut()) {
                std::panic::resume_unwind(Box::new("killed"));
            }
        })
    }));
    let told = struck.unwrap_or_else(|_| {
        met.deaths += 1;
        run(&site.project(), &steps, &vault, false, &|_, _| {})
    });
    let after = oracle::read(&site.project());
    let edited = edited.into_inner();
    if let Some(Edit { path, is_written: true }) = &edited {
        met.edits += 1;
        let has = |thing: &Thing| matches!(thing, Thing::File { bytes, .. } if String::from_utf8_lossy(bytes).contains(&mark));
        assert!(after.values().any(has), "seed {seed}: the edit of {} is lost: {told:?}", path.display());
        let left = after.keys().find(|path| path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".skep-")));
        assert!(left.is_none_or(|path| oracle::is_kept(path.as_os_str())), "seed {seed}: {left:?} is left behind");
        return;
    }
    // Who tried to open a file at the moment of its merge, and could not, may have it left alone: that must be told.
    let left: BTreeSet<&Path> = told.iter().filter(|path| path.refused.is_some()).map(|path| Path::new(&path.path)).collect();
    assert!(left.is_empty() || edited.is_some(), "seed {seed}: {told:?}");
    let refused = |path: &Path| no.contains(path) || left.contains(path);
    let merge = OracleMerge { before: &before, made: &made, after: &after, refused: &refused, ignored: &ignored, moves: false };
    merge.check().unwrap_or_else(|why| panic!("seed {seed}: {why}\nbefore {before:?}\nmade {made:?}\nafter {after:?}"));
    // And back.
    run(&site.project(), &steps, &vault, true, &|_, _| {});
    let back = oracle::read(&site.project());
    assert_eq!(leaves(&back), leaves(&before), "seed {seed}: taken back");
}

/// What a person did to a file of the project.
struct Edit {
    path: PathBuf,
    /// False where the file could not be opened at that moment.
    is_written: bool,
}

/// A person writes to a file of the project, where no link leads them elsewhere: in place, or by a rename.
fn save(project: &Path, before: &oracle::OracleTree, made: &oracle::OracleTree, mark: &str, random: &mut Random) -> Option<Edit> {
    let all: Vec<&PathBuf> = before.keys().chain(made.keys()).collect();
    let path = random.of(if all.is_empty() { return None } else { &all });
    let straight = path.ancestors().skip(1).all(|above| fs::symlink_metadata(project.join(above)).is_ok_and(|meta| meta.is_dir()));
    let full = project.join(path);
    let is_file = fs::symlink_metadata(&full).is_ok_and(|meta| meta.is_file());
    let is_free = fs::symlink_metadata(&full).is_err();
    if !straight || !(is_file || is_free) {
        return None;
    }
    let beside = full.with_file_name("beside.save");
    let wrote = match is_file && random.chance(50) {
        // Another name of the file may be held at this very moment, by the thread that runs this.
        true => {
            let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
            let opened = fs::OpenOptions::new().write(true).truncate(true).custom_flags(nonblocking).open(&full);
            opened.and_then(|mut file| file.write_all(mark.as_bytes()))
        }
        false => fs::write(&beside, mark).and_then(|()| fs::rename(&beside, &full)),
    };
    Some(Edit { path: (*path).clone(), is_written: wrote.is_ok() })
}

/// In four parts that run side by side, ten thousand cases together; `SKEP_FUZZ_SECONDS` runs on for as long.
fn many(part: u64) {
    let mut met = Met::default();
    let cases = rounds(2_500, 10_000);
    for seed in (0..cases).map(|number| part * cases + number) {
        check(&mut Random::new(seed), &seed.to_string(), &mut met);
    }
    let more = std::env::var("SKEP_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).map(std::time::Duration::from_secs);
    let (began, mut seed) = (std::time::Instant::now(), (part + 1) << 32);
    while more.is_some_and(|more| began.elapsed() < more) {
        seed += 1;
        check(&mut Random::new(seed), &seed.to_string(), &mut met);
    }
    println!("overlays {part}: {met:?}");
    // Each kind of difficulty was met at least so often in 10,000 cases, or nothing is proven.
    let is_met = |count: usize, often: u64| count as u64 > cases * often / 10_000;
    let rare = [met.links, met.swaps, met.edits].into_iter().all(|count| is_met(count, 200));
    assert!(is_met(met.merged, 8_000) && is_met(met.deaths, 400) && rare, "{met:?}");
}

#[test]
fn overlays_of_any_kind_1() {
    many(0);
}

#[test]
fn overlays_of_any_kind_2() {
    many(1);
}

#[test]
fn overlays_of_any_kind_3() {
    many(2);
}

#[test]
fn overlays_of_any_kind_4() {
    many(3);
}
