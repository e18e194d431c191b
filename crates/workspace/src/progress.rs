//! Which places of a merge have got their new content, remembered across a crash of the kernel.
//!
//! What stands at a place says whether it is done, unless somebody edited it between the crash and the next start: then it holds neither
//! the old nor the new content, and only this tells an edit of a merged file from one of a file that was never merged.
//! **Invariant.** A place is noted after it got its content, and not any more once its old one went back. A note is not synced: the page cache
//! outlives the kernel, and what a power loss takes of the notes is told as a conflict.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use world::Fault;

/// Behind each place; no name holds it.
const END: char = '\0';
/// Before each: it is done, or its old content went back.
const DONE: char = '+';
const BACK: char = '-';

#[derive(Debug, Default)]
pub struct MergeProgress {
    /// Places that an earlier kernel noted.
    before: BTreeSet<String>,
    notes: Option<Notes>,
}

#[derive(Debug)]
struct Notes {
    path: PathBuf,
    file: Mutex<File>,
    failed: Mutex<Option<Error>>,
}

impl MergeProgress {
    /// Goes on with the notes of this file, which is made where there is none.
    pub fn open(path: &Path) -> Result<MergeProgress, Fault> {
        let fault = |error| Fault::io("open", path, error);
        let text = match std::fs::read(path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(fault(error)),
        };
        // The last one counts if it was written whole.
        let mut before = BTreeSet::new();
        for note in text.split_inclusive(END).filter_map(|note| note.strip_suffix(END)) {
            match (note.strip_prefix(DONE), note.strip_prefix(BACK)) {
                (Some(place), _) => drop(before.insert(place.to_owned())),
                (_, Some(place)) => drop(before.remove(place)),
                _ => {}
            }
        }
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path).map_err(fault)?;
        let notes = Notes { path: path.to_owned(), file: Mutex::new(file), failed: Mutex::new(None) };
        Ok(MergeProgress { before, notes: Some(notes) })
    }

    pub(crate) fn was_done(&self, place: &str) -> bool {
        self.before.contains(place)
    }

    pub(crate) fn note(&self, place: &str) {
        self.write(DONE, place);
    }

    pub(crate) fn take_back(&self, place: &str) {
        self.write(BACK, place);
    }

    fn write(&self, what: char, place: &str) {
        let Some(notes) = &self.notes else { return };
        if let Err(error) = notes.file.lock().write_all(format!("{what}{place}{END}").as_bytes()) {
            notes.failed.lock().get_or_insert(error);
        }
    }

    /// Whether all notes were written.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let Some(notes) = &self.notes else { return Ok(()) };
        notes.failed.lock().take().map_or(Ok(()), |error| Err(Fault::io("write", &notes.path, error)))
    }

    /// Removes the notes of a merge that is on record as finished.
    pub fn remove(path: &Path) -> Result<(), Fault> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Fault::io("remove", path, error)),
            _ => Ok(()),
        }
    }
}
