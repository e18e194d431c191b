//! A person saves a file while it is merged: whatever they wrote is in the project afterwards, or beside it under a name that is told.

use super::random::Random;
use super::{TestBlobs, rounds, run, step};
use crate::place::CrashPoint;
use crate::remove::Removed;
use crate::shape::Spot;
use crate::tree::State;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use world::MergePath;

/// The ways in which editors and shells write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Opened long before, written to in two parts.
    Held,
    /// Opened, added to and closed.
    Append,
    /// Cut to nothing and written anew, in place.
    Rewrite,
    /// Cut by its path, then added to.
    Truncate,
    /// Written beside it and renamed over it.
    Rename,
}

const WAYS: [Way; 5] = [Way::Held, Way::Append, Way::Rewrite, Way::Truncate, Way::Rename];

fn pause(random: &mut Random, most_us: usize) {
    let until = std::time::Instant::now() + Duration::from_micros(random.below(most_us) as u64);
    while std::time::Instant::now() < until {
        std::thread::yield_now();
    }
}

/// Edits the file so that it holds `mark`. An editor that cannot open it tries again, as a person would.
fn edit(path: &Path, way: Way, mark: &str, random: &mut Random, wait_us: usize) {
    let again = |open: &dyn Fn() -> std::io::Result<fs::File>| loop {
        match open() {
            Ok(file) => break file,
            Err(error) => assert!(matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::WouldBlock), "{error}"),
        }
    };
    let append = || OpenOptions::new().append(true).open(path);
    match way {
        Way::Held => {
            let mut file = again(&append);
            pause(random, wait_us);
            file.write_all(&mark.as_bytes()[..4]).unwrap();
            pause(random, wait_us / 4);
            file.write_all(&mark.as_bytes()[4..]).unwrap();
        }
        Way::Append => {
            pause(random, wait_us);
            again(&append).write_all(mark.as_bytes()).unwrap();
        }
        Way::Rewrite => {
            pause(random, wait_us);
            again(&|| OpenOptions::new().write(true).truncate(true).open(path)).write_all(mark.as_bytes()).unwrap();
        }
        Way::Truncate => {
            pause(random, wait_us);
            drop(again(&|| {
                rustix::fs::ftruncate(OpenOptions::new().write(true).open(path)?, 7)?;
                fs::File::open(path)
            }));
            again(&append).write_all(mark.as_bytes()).unwrap();
        }
        Way::Rename => {
            pause(random, wait_us);
            let beside = path.with_extension("save");
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).unwrap();
            file.write_all(mark.as_bytes()).unwrap();
            fs::rename(&beside, path).unwrap();
        }
    }
}

/// Files in which a mark stands.
fn with(folder: &Path, mark: &str) -> Vec<PathBuf> {
    let has = |path: &PathBuf| fs::read(path).is_ok_and(|bytes| bytes.windows(mark.len()).any(|part| part == mark.as_bytes()));
    fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).filter(has).collect()
}

/// What is kept is told, what is told is there, and nothing of ours is left beside it.
fn is_told(folder: &Path, told: &[MergePath]) -> Result<(), String> {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(".skep-") {
            return Err(format!("{name} is left behind: {told:?}"));
        }
        let named = told.iter().any(|path| path.refused.as_ref().is_some_and(|why| why.contains(&format!("`{name}`"))));
        if name.contains(".skep-kept") != named {
            return Err(format!("{name} is kept: {told:?}"));
        }
    }
    Ok(())
}

/// Who comes first. The machine decides only the race, so both ends of it are met on every machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    EditFirst,
    MergeFirst,
    Race,
}

/// Every way of writing meets every order, the race twice as often.
fn order(seed: u64) -> Order {
    [Order::EditFirst, Order::MergeFirst, Order::Race, Order::Race][seed as usize / WAYS.len() % 4]
}

/// A merge of one file with an edit around it, and a kill if `kill` says where. What was told.
fn race(seed: u64, way: Way, size: usize, deletes: bool, kill: Option<CrashPoint>, order: Order) -> Vec<MergePath> {
    let mut random = Random::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    let mut vault = TestBlobs::default();
    let (old, new) = (vec![b'o'; size], vec![b'n'; size]);
    fs::write(&file, &old).unwrap();
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let after = if deletes { State::Absent } else { vault.file(&new) };
    let steps = [step("f", vault.file(&old), after)];
    let mark = format!("<edit {seed}>");
    // As long as a merge of it takes, more or less.
    let wait_us = 200 + size / 300;
    // Whether there was something to write to: once the file is gone there is nothing to open.
    let person = || {
        let mut random = Random::new(seed ^ 0xabcd);
        if !deletes || way == Way::Rename {
            edit(&file, way, &mark, &mut random, wait_us);
            return true;
        }
        match OpenOptions::new().append(true).open(&file) {
            Ok(mut held) => {
                pause(&mut random, wait_us);
                held.write_all(mark.as_bytes()).unwrap();
                true
            }
            Err(_) => false,
        }
    };
    let mut merge = || {
        let died = catch_unwind(AssertUnwindSafe(|| {
            run(folder.path(), &steps, &vault, false, &|_, moment| {
                if kill.is_some_and(|kill| kill as u64 == moment as u64) {
                    std::panic::resume_unwind(Box::new("killed"));
                }
            })
        }));
        died.unwrap_or_else(|_| {
            // The next kernel may come before or after the person is done.
            pause(&mut random, wait_us);
            run(folder.path(), &steps, &vault, false, &|_, _| {})
        })
    };
    let (wrote, told) = match order {
        Order::EditFirst => (person(), merge()),
        Order::MergeFirst => {
            let told = merge();
            (person(), told)
        }
        Order::Race => std::thread::scope(|scope| {
            let person = scope.spawn(person);
            pause(&mut Random::new(seed), wait_us);
            let told = merge();
            (person.join().unwrap(), told)
        }),
    };
    let found = with(folder.path(), &mark);
    assert_eq!(found.is_empty(), !wrote, "seed {seed} {way:?}: the edit is lost; {told:?}");
    is_told(folder.path(), &told).unwrap_or_else(|why| panic!("seed {seed} {way:?}: {why}"));
    told
}

/// Threads that keep processors and disk busy, so that everything takes its time at any point.
fn under_load<T>(work: impl FnOnce() -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (over, path) = (&over, folder.path().join(number.to_string()));
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    fs::write(&path, vec![number as u8; 256 * 1024]).unwrap();
                    std::thread::yield_now();
                }
            });
        }
        let done = catch_unwind(AssertUnwindSafe(work));
        over.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[test]
fn edits_at_the_moment_of_a_merge_are_all_there() {
    under_load(|| {
        let (mut merged, mut left) = (0, 0);
        for seed in 0..rounds(70, 1000) {
            let way = WAYS[seed as usize % WAYS.len()];
            let size = if seed % 40 == 0 { 16 << 20 } else { 256 << 10 };
            let told = race(seed, way, size, false, None, order(seed));
            match &told[0].refused {
                None => merged += 1,
                Some(_) => left += 1,
            }
        }
        assert!(merged >= 15 && left >= 15, "{merged} merged, {left} left");
    });
}

#[test]
fn edits_of_files_that_a_merge_deletes_are_all_there() {
    under_load(|| {
        let (mut deleted, mut left) = (0, 0);
        for seed in (0..rounds(70, 1000)).map(|number| 10_000 + number) {
            let told = race(seed, WAYS[seed as usize % WAYS.len()], 128 << 10, true, None, order(seed));
            match &told[0].refused {
                None => deleted += 1,
                Some(_) => left += 1,
            }
        }
        assert!(deleted >= 15 && left >= 15, "{deleted} deleted, {left} left");
    });
}

#[test]
fn edits_around_a_kill_between_the_steps_are_all_there() {
    under_load(|| {
        let moments = [CrashPoint::Before, CrashPoint::Written, CrashPoint::Placed, CrashPoint::Removed];
        for seed in (0..rounds(70, 1000)).map(|number| 20_000 + number) {
            let (way, kill) = (WAYS[seed as usize % WAYS.len()], moments[seed as usize / WAYS.len() % moments.len()]);
            race(seed, way, 128 << 10, seed % 7 == 0, Some(kill), Order::Race);
        }
    });
}

/// The old file, beside its place when the kernel died there, is removed whole; what somebody cut short is an edit.
#[test]
fn a_part_of_the_old_content_is_an_edit_and_is_kept() {
    for cut in [None, Some(4), Some(0)] {
        let folder = tempfile::tempdir().unwrap();
        let mut vault = TestBlobs::default();
        fs::write(folder.path().join("f"), "old content").unwrap();
        let steps = [step("f", vault.file(b"old content"), vault.file(b"new"))];
        let died = catch_unwind(AssertUnwindSafe(|| {
            run(folder.path(), &steps, &vault, false, &|_, moment| {
                if matches!(moment, CrashPoint::Placed) {
                    std::panic::resume_unwind(Box::new("killed"));
                }
            })
        }));
        assert!(died.is_err());
        let beside = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path()).find(|path| !path.ends_with("f")).unwrap();
        assert_eq!(fs::read(&beside).unwrap(), b"old content");
        if let Some(length) = cut {
            OpenOptions::new().write(true).open(&beside).unwrap().set_len(length).unwrap();
        }
        let told = run(folder.path(), &steps, &vault, false, &|_, _| {});
        let held: Vec<Vec<u8>> = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| fs::read(entry.path()).unwrap()).collect();
        match cut {
            None => assert_eq!((held.as_slice(), &told[0].refused), ([b"new".to_vec()].as_slice(), &None), "the control"),
            Some(length) => {
                let edit = &b"old content"[..length as usize];
                assert!(held.iter().any(|bytes| bytes == edit) && told[0].refused.is_some(), "{held:?} {told:?}");
            }
        }
    }
}

/// The new file is in its place, and the old one not removed yet: whoever opens the old one then finds it in its place again.
#[test]
fn who_opens_the_old_file_before_it_is_removed_gets_it_back() {
    for opens in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut vault = TestBlobs::default();
        fs::write(folder.path().join("f"), "old").unwrap();
        let steps = [step("f", vault.file(b"old"), vault.file(b"new"))];
        let told = run(folder.path(), &steps, &vault, false, &|_, moment| {
            if matches!(moment, CrashPoint::Placed) && opens {
                let mut entries = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path());
                let beside = entries.find(|path| !path.ends_with("f")).unwrap();
                let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
                let opened = OpenOptions::new().write(true).custom_flags(nonblocking).open(beside);
                assert_eq!(opened.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "the lease holds");
            }
        });
        let held: Vec<Vec<u8>> = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| fs::read(entry.path()).unwrap()).collect();
        let expected = if opens { b"old" } else { b"new" };
        assert_eq!((held, told[0].refused.is_some()), (vec![expected.to_vec()], opens), "{told:?}");
    }
}

/// Between the last look at the lease and the removal somebody opens the old file: what they write has its name again.
#[test]
fn who_opens_the_old_file_while_it_is_removed_loses_nothing() {
    for opens in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "old").unwrap();
        let parent = OwnedFd::from(fs::File::open(folder.path()).unwrap());
        let lease = sandbox::WriteLease::take(fs::File::open(&path).unwrap()).unwrap();
        let person = || OpenOptions::new().append(true).open(&path).unwrap().write_all(b" and mine").unwrap();
        let removed = std::thread::scope(|scope| {
            Spot { folder: &parent, name: OsStr::new("f") }.unlink_leased(&lease, || {
                if opens {
                    scope.spawn(person);
                }
                // It has found the file by its name, and waits for the lease.
                while opens && lease.holds() {
                    std::thread::yield_now();
                }
            })
        });
        assert_eq!(removed.unwrap(), if opens { Removed::No } else { Removed::Yes });
        assert_eq!(fs::read(&path).ok(), opens.then(|| b"old and mine".to_vec()));
    }
}
