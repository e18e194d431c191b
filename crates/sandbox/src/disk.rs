//! How much a workspace holds, and the end of a job that makes it hold too much.
//!
//! Quotas of the file system need root and a mount option, a file system in a file needs root, and one in memory would lose the
//! work of a task when the machine goes down. So the upper layer is measured while jobs run: often by the file system's own count
//! of what is free, which costs one call, and exactly when that says that the limit may be near. A job that goes beyond is killed;
//! between two looks it can write what a disk takes in [`LOOK_EVERY`], and no file can be longer than the limit (RLIMIT_FSIZE).
//! Files that a job has deleted and still holds open count for that job.
//!
//! **Invariant.** Only a job that made it worse is killed, so a workspace that is too full can still be tidied from inside.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use crate::process;
use crate::share;

/// What a workspace's layers take up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUse {
    pub bytes: u64,
    /// Files, folders, links and marks of deleted ones.
    pub files: u64,
}

/// Which limit a job went beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Overfull {
    Bytes { max: u64 },
    Files { max: u64 },
}

impl fmt::Display for Overfull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Overfull::Bytes { max } if *max >= 1 << 30 => write!(f, "{} GiB", max >> 30),
            Overfull::Bytes { max } if *max >= 1 << 20 => write!(f, "{} MiB", max >> 20),
            Overfull::Bytes { max } => write!(f, "{max} bytes"),
            Overfull::Files { max } => write!(f, "{max} files and folders"),
        }
    }
}

/// Between two looks at what is free.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Measuring exactly takes at most one part in so many of a job's time.
const MEASURE_SHARE: u32 = 10;
/// And happens at least this often while a job runs: somebody else may free what the job takes.
const MEASURE_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) bytes: Option<u64>,
    pub(crate) files: Option<u64>,
}

impl Bounds {
    pub(crate) fn twice(self) -> Bounds {
        let twice = |bound: Option<u64>| bound.map(|bound| bound.saturating_mul(2));
        Bounds { bytes: twice(self.bytes), files: twice(self.files) }
    }

    pub(crate) fn broken_by(self, held: DiskUse) -> Option<Overfull> {
        match (self.bytes, self.files) {
            (Some(max), _) if held.bytes > max => Some(Overfull::Bytes { max }),
            (_, Some(max)) if held.files > max => Some(Overfull::Files { max }),
            _ => None,
        }
    }
}

/// What is known of one workspace.
#[derive(Debug)]
pub(crate) struct DiskMeter {
    /// Its upper layer, and what jobs wrote beside the project.
    folders: RwLock<[PathBuf; 2]>,
    known: tokio::sync::Mutex<Option<Known>>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    held: DiskUse,
    /// What was free just before.
    free: DiskUse,
    measured: Instant,
    took: Duration,
}

impl Known {
    /// At most this is held now, unless others freed something since.
    fn guess(&self, free: DiskUse) -> DiskUse {
        let taken = |then: u64, now: u64| then.saturating_sub(now);
        DiskUse {
            bytes: self.held.bytes.saturating_add(taken(self.free.bytes, free.bytes)),
            files: self.held.files.saturating_add(taken(self.free.files, free.files)),
        }
    }
}

impl DiskMeter {
    /// Of the workspace in this directory.
    pub(crate) fn new(work: &Path) -> DiskMeter {
        DiskMeter { folders: RwLock::new(folders(work)), known: tokio::sync::Mutex::new(None) }
    }

    /// The workspace's directory has another name now.
    pub(crate) fn follow(&self, work: &Path) {
        *self.folders.write() = folders(work);
    }

    fn folders(&self) -> [PathBuf; 2] {
        self.folders.read().clone()
    }

    pub(crate) fn now(&self) -> DiskUse {
        held(&self.folders()).0
    }

    /// What the workspace holds before a job starts: exactly, when that could matter.
    pub(crate) async fn before(&self, bounds: Bounds) -> io::Result<DiskUse> {
        let mut known = self.known.lock().await;
        match *known {
            Some(last) if bounds.broken_by(last.guess(free(&self.folders()[0])?)).is_none() => Ok(last.held),
            _ => self.measure(&mut known).await,
        }
    }

    /// Comes back when the workspace has become too full since `before`, with what the job of this pid 1 holds. Never, if it
    /// does not.
    pub(crate) async fn overfull(&self, bounds: Bounds, before: DiskUse, job: i32) -> Overfull {
        loop {
            // A job that is over before the first look costs none.
            tokio::time::sleep(LOOK_EVERY).await;
            let mut known = self.known.lock().await;
            let Ok(free) = free(&self.folders()[0]) else { continue };
            if let Some(last) = *known {
                let age = last.measured.elapsed();
                let near = bounds.broken_by(last.guess(free)).is_some();
                if age < last.took * MEASURE_SHARE || !near && age < MEASURE_EVERY {
                    continue;
                }
            }
            let Ok(mut held) = self.measure(&mut known).await else { continue };
            let nameless = tokio::task::spawn_blocking(move || nameless(job)).await.unwrap_or_default();
            held = DiskUse { bytes: held.bytes.saturating_add(nameless.bytes), files: held.files.saturating_add(nameless.files) };
            // Each by itself: one more empty file is nothing to a bound on bytes.
            let of_bytes = Bounds { files: None, ..bounds }.broken_by(held).filter(|_| held.bytes > before.bytes);
            let of_files = Bounds { bytes: None, ..bounds }.broken_by(held).filter(|_| held.files > before.files);
            if let Some(broken) = of_bytes.or(of_files) {
                return broken;
            }
        }
    }

    async fn measure(&self, known: &mut Option<Known>) -> io::Result<DiskUse> {
        let began = Instant::now();
        let folders = self.folders();
        let measured = tokio::task::spawn_blocking(move || Ok::<_, io::Error>((free(&folders[0])?, held(&folders)))).await;
        let (free, (mut held, complete)) = measured.map_err(io::Error::other)??;
        if let Some(last) = known.filter(|_| !complete) {
            // A folder that a job closed to us: the file system's count stands in for what is in it.
            let guess = last.guess(free);
            held = DiskUse { bytes: held.bytes.max(guess.bytes), files: held.files.max(guess.files) };
        }
        *known = Some(Known { held, free, measured: Instant::now(), took: began.elapsed() });
        Ok(held)
    }
}

/// Where a workspace in this directory holds what jobs wrote.
fn folders(work: &Path) -> [PathBuf; 2] {
    [work.join("upper"), work.join(share::LAYERS)]
}

/// What the file system has left.
fn free(work: &Path) -> io::Result<DiskUse> {
    let stat = rustix::fs::statvfs(work)?;
    Ok(DiskUse { bytes: stat.f_bfree.saturating_mul(stat.f_frsize), files: stat.f_ffree })
}

/// What a folder takes up. Blocks.
pub fn measure(folder: &Path) -> DiskUse {
    held(&[folder.to_owned()]).0
}

/// Everything beneath the folders, and whether all of it could be seen. What vanishes meanwhile is not there any more.
fn held(tops: &[PathBuf]) -> (DiskUse, bool) {
    let (mut held, mut complete) = (DiskUse::default(), true);
    // A file with several names takes its space once.
    let mut linked = HashSet::new();
    let mut folders = tops.to_vec();
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                complete &= error.kind() == io::ErrorKind::NotFound;
                continue;
            }
        };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if metadata.nlink() > 1 && !linked.insert(metadata.ino()) {
                continue;
            }
            held.files += 1;
            held.bytes = held.bytes.saturating_add(metadata.blocks() * 512);
        }
    }
    (held, complete)
}

/// Files of the workspace that no folder has any more, held open by a process of the tree beneath `job`.
fn nameless(job: i32) -> DiskUse {
    let mut seen = HashSet::new();
    let mut held = DiskUse::default();
    for process in process::tree(job) {
        process::each_file(process.pid, |path| {
            let Ok(metadata) = fs::metadata(path) else { return };
            let deleted = metadata.is_file() && metadata.nlink() == 0 && seen.insert((metadata.dev(), metadata.ino()));
            // What is in memory, as /tmp is, has a limit of its own.
            if deleted && rustix::fs::statfs(path).is_ok_and(|at| at.f_type == OVERLAY) {
                held.files += 1;
                held.bytes = held.bytes.saturating_add(metadata.blocks() * 512);
            }
        });
    }
    held
}

/// OVERLAYFS_SUPER_MAGIC
const OVERLAY: rustix::fs::FsWord = 0x794c_7630;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("upper")).unwrap();
        fs::write(folder.path().join("upper/file"), vec![1; 1 << 20]).unwrap();
        fs::hard_link(folder.path().join("upper/file"), folder.path().join("upper/again")).unwrap();
        let (held, complete) = held(&[folder.path().to_owned()]);
        assert!(complete && held.files == 2 && (1 << 20..1 << 21).contains(&held.bytes), "{held:?}");
    }

    #[test]
    fn the_first_broken_bound_is_named() {
        let bounds = Bounds { bytes: Some(10), files: Some(2) };
        assert_eq!(bounds.broken_by(DiskUse { bytes: 10, files: 2 }), None);
        assert_eq!(bounds.broken_by(DiskUse { bytes: 11, files: 3 }), Some(Overfull::Bytes { max: 10 }));
        assert_eq!(bounds.broken_by(DiskUse { bytes: 1, files: 3 }), Some(Overfull::Files { max: 2 }));
        assert_eq!(Bounds { bytes: None, files: None }.broken_by(DiskUse { bytes: u64::MAX, files: u64::MAX }), None);
    }
}
