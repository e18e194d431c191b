//! Keeps the WAL ahead of its frames, so that a commit overwrites blocks which the file already has.
//!
//! The sync of such a commit writes its data and nothing else; that of one which grows the file also waits for the file system's own
//! journal. Zeros are no frames: whoever reads the WAL after a crash ends where they begin. **Invariant.** Only who holds the writer calls
//! this, between two commits, and it writes behind everything that SQLite has written.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A small journal gets a small step: a kernel that starts and stops must not pay for megabytes.
const STEP_BYTES_MIN: u64 = 64 << 10;
const STEP_BYTES_MAX: u64 = 1 << 20;
/// With less space on the disk, what is left is for records.
const FREE_BYTES_MIN: u64 = 256 << 20;

pub(crate) struct WalSpace {
    path: PathBuf,
    file: Option<File>,
    /// Up to here the file was filled. What is longer, SQLite has made so.
    filled: u64,
}

impl WalSpace {
    /// For the WAL of this database.
    pub(crate) fn of(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        Self { path: path.into(), file: None, filled: 0 }
    }

    /// Fills the next step with zeros, if frames have come to the end of the last one. What fails leaves the WAL to grow by itself.
    pub(crate) fn keep_ahead(&mut self) {
        let Some((file, length)) = self.file.take().and_then(still_there).or_else(|| self.open()) else { return };
        if length > self.filled && self.has_space() {
            let step = length.clamp(STEP_BYTES_MIN, STEP_BYTES_MAX);
            let zeros = vec![0; usize::try_from(step).unwrap_or_default()];
            self.filled = match file.write_all_at(&zeros, length) {
                Ok(()) => length + step,
                // The next try is when SQLite has come this far.
                Err(_) => file.metadata().map_or(length, |meta| meta.len()),
            };
        }
        self.file = Some(file);
    }

    fn open(&mut self) -> Option<(File, u64)> {
        self.filled = 0;
        still_there(OpenOptions::new().write(true).open(&self.path).ok()?)
    }

    fn has_space(&self) -> bool {
        rustix::fs::statvfs(&self.path).is_ok_and(|disk| disk.f_bavail * disk.f_frsize >= FREE_BYTES_MIN)
    }
}

/// The file with its length, unless SQLite has removed it.
fn still_there(file: File) -> Option<(File, u64)> {
    let meta = file.metadata().ok()?;
    (meta.nlink() > 0).then_some((file, meta.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn it_is_filled_a_step_at_a_time_behind_what_is_there() {
        let home = tempfile::tempdir().unwrap();
        let (database, wal) = (home.path().join("j.db"), home.path().join("j.db-wal"));
        let mut space = WalSpace::of(&database);
        space.keep_ahead();
        assert!(!wal.exists(), "the file is SQLite's to make");
        fs::write(&wal, b"frames").unwrap();
        space.keep_ahead();
        let filled = 6 + STEP_BYTES_MIN;
        let bytes = fs::read(&wal).unwrap();
        assert_eq!((bytes.len() as u64, &bytes[..6]), (filled, &b"frames"[..]));
        assert!(bytes[6..].iter().all(|byte| *byte == 0));
        space.keep_ahead();
        assert_eq!(fs::metadata(&wal).unwrap().len(), filled, "there is space left");
        let file = OpenOptions::new().write(true).open(&wal).unwrap();
        file.write_all_at(b"more", filled).unwrap();
        space.keep_ahead();
        let bytes = fs::read(&wal).unwrap();
        assert_eq!(bytes.len() as u64, 2 * (filled + 4), "a longer one gets a longer step");
        let at = usize::try_from(filled).unwrap();
        assert_eq!(&bytes[at..at + 4], b"more");
        // One that was removed and made anew begins anew.
        fs::remove_file(&wal).unwrap();
        fs::write(&wal, b"x").unwrap();
        space.keep_ahead();
        assert_eq!(fs::metadata(&wal).unwrap().len(), 1 + STEP_BYTES_MIN);
    }
}
