//! What jobs made of the project, read from the overlay's upper layer.
//!
//! **Invariant.** It reads what jobs wrote and trusts none of it: no link is followed, no special file opened, no depth or number
//! of entries goes unbounded. What a merge must never apply is listed as refused, without refusing the rest.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::job::TEMPORARY_PREFIX;

/// Deeper than any real project, shallow enough for the stack and the descriptor table.
const DEPTH_MAX: usize = 200;
/// A dependency folder has a few hundred thousand files; a bomb has more.
const ENTRIES_MAX: usize = 1_000_000;
/// Kept by git and by us; nothing in them is ever merged.
const PROTECTED: &[&str] = &[".git", ".skep"];

/// One path that differs from the project.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// Relative to the project.
    pub path: PathBuf,
    pub kind: ChangeKind,
    /// What it is now; for a deletion, what it was.
    pub file: FileKind,
    /// Permission bits.
    pub mode: u32,
    pub size: u64,
}

/// A path whose kind changed is deleted first and then created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    Deleted,
    Created,
    Modified,
    ModeChanged,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    File,
    Folder,
    Symlink {
        target: PathBuf,
    },
    /// Only ever deleted.
    Special,
}

/// A path that must not be merged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refused {
    pub path: PathBuf,
    pub why: &'static str,
}

/// All of it, in the order of paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    pub changes: Vec<Change>,
    pub refused: Vec<Refused>,
}

/// Compares the upper layer in `work` with the project. Blocks for as long as reading the changed files takes.
pub fn changes(project: &Path, work: &Path) -> io::Result<Changes> {
    let mut walk = Walk { found: Changes::default() };
    let upper = open_folder(rustix::fs::CWD, work.join("upper").as_os_str())?;
    let lower = open_folder(rustix::fs::CWD, project.as_os_str())?;
    walk.folder(&upper, Some(&lower), false, Path::new(""), 0)?;
    walk.found.changes.sort();
    walk.found.refused.sort();
    Ok(walk.found)
}

struct Walk {
    found: Changes,
}

impl Walk {
    /// `opaque`: nothing of the lower folder shows through.
    fn folder(&mut self, upper: &OwnedFd, lower: Option<&OwnedFd>, opaque: bool, at: &Path, depth: usize) -> io::Result<()> {
        if depth > DEPTH_MAX {
            self.refuse(at, "it is nested too deep");
            return Ok(());
        }
        let names = names(upper)?;
        for name in &names {
            self.entry(upper, lower, name, opaque, &at.join(name), depth)?;
        }
        if let (true, Some(lower)) = (opaque, lower) {
            for name in self::names(lower)?.difference(&names) {
                self.deleted(lower, name, &at.join(name), depth)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, upper: &OwnedFd, lower: Option<&OwnedFd>, name: &OsStr, opaque: bool, at: &Path, depth: usize) -> io::Result<()> {
        if is_protected(name) {
            let mut inner = Walk { found: Changes::default() };
            inner.plain_entry(upper, lower, name, opaque, at, depth)?;
            if inner.found != Changes::default() {
                self.refuse(at, "it is kept by git or skep itself");
            }
            return Ok(());
        }
        self.plain_entry(upper, lower, name, opaque, at, depth)
    }

    fn plain_entry(
        &mut self,
        upper: &OwnedFd,
        lower: Option<&OwnedFd>,
        name: &OsStr,
        opaque: bool,
        at: &Path,
        depth: usize,
    ) -> io::Result<()> {
        let Some(now) = stat(upper, name)? else { return Ok(()) };
        let before = lower.map(|lower| stat(lower, name)).transpose()?.flatten();
        let kind = FileType::from_raw_mode(now.st_mode);
        if is_whiteout(upper, name, &now)? {
            return match lower {
                Some(lower) => self.deleted(lower, name, at, depth),
                None => Ok(()),
            };
        }
        let same_kind = before.as_ref().filter(|before| FileType::from_raw_mode(before.st_mode) == kind);
        let refused = self.found.refused.len();
        match kind {
            FileType::RegularFile if name.as_bytes().starts_with(TEMPORARY_PREFIX.as_bytes()) => return Ok(()),
            FileType::RegularFile => self.file(upper, lower, name, &now, same_kind, at)?,
            FileType::Symlink => self.symlink(upper, lower, name, &now, same_kind, at)?,
            FileType::Directory => {
                let mode_changed = same_kind.is_some_and(|before| permissions(before) != permissions(&now));
                match same_kind {
                    None => self.add(ChangeKind::Created, FileKind::Folder, at, &now)?,
                    Some(_) if mode_changed => self.add(ChangeKind::ModeChanged, FileKind::Folder, at, &now)?,
                    Some(_) => {}
                }
                let Some(upper) = readable(open_folder(upper, name))? else {
                    self.refuse(at, "it cannot be read");
                    return Ok(());
                };
                let lower = match (lower, same_kind) {
                    (Some(lower), Some(_)) => Some(open_folder(lower, name)?),
                    _ => None,
                };
                let opaque = opaque || attribute(&upper, c"user.overlay.opaque")?.as_deref() == Some(b"y");
                self.folder(&upper, lower.as_ref(), opaque, at, depth + 1)?;
            }
            _ => self.refuse(at, "it is a special file"),
        }
        // What must not take a place does not empty it either.
        let stays = kind != FileType::Directory && self.found.refused.len() > refused;
        match (lower, before) {
            (Some(lower), Some(_)) if same_kind.is_none() && !stays => self.deleted(lower, name, at, depth),
            _ => Ok(()),
        }
    }

    fn file(
        &mut self,
        upper: &OwnedFd,
        lower: Option<&OwnedFd>,
        name: &OsStr,
        now: &Stat,
        before: Option<&Stat>,
        at: &Path,
    ) -> io::Result<()> {
        if now.st_mode & 0o6000 != 0 && before.is_none_or(|before| before.st_mode != now.st_mode) {
            self.refuse(at, "it has a setuid or setgid bit");
            return Ok(());
        }
        let Some(content) = readable(open_file(upper, name))? else {
            self.refuse(at, "it cannot be read");
            return Ok(());
        };
        let kind = match (lower, before) {
            (Some(lower), Some(before)) => {
                let same = now.st_size == before.st_size
                    && match readable(open_file(lower, name))? {
                        Some(old) => same_bytes(content, old)?,
                        None => false,
                    };
                match (same, permissions(now) == permissions(before)) {
                    (true, true) => return Ok(()),
                    (true, false) => ChangeKind::ModeChanged,
                    (false, _) => ChangeKind::Modified,
                }
            }
            _ => ChangeKind::Created,
        };
        self.add(kind, FileKind::File, at, now)
    }

    fn symlink(
        &mut self,
        upper: &OwnedFd,
        lower: Option<&OwnedFd>,
        name: &OsStr,
        now: &Stat,
        before: Option<&Stat>,
        at: &Path,
    ) -> io::Result<()> {
        let target = read_link(upper, name)?;
        let old = match (lower, before) {
            (Some(lower), Some(_)) => Some(read_link(lower, name)?),
            _ => None,
        };
        if old.as_ref() == Some(&target) {
            return Ok(());
        }
        if leaves_project(at, &target) {
            self.refuse(at, "it is a link out of the project");
            return Ok(());
        }
        if target.components().any(|part| is_protected(part.as_os_str())) {
            self.refuse(at, "it is a link to what git or skep itself keeps");
            return Ok(());
        }
        let kind = if old.is_some() { ChangeKind::Modified } else { ChangeKind::Created };
        self.add(kind, FileKind::Symlink { target }, at, now)
    }

    /// Everything of the project that is gone with this path.
    fn deleted(&mut self, lower: &OwnedFd, name: &OsStr, at: &Path, depth: usize) -> io::Result<()> {
        let Some(before) = stat(lower, name)? else { return Ok(()) };
        if is_protected(name) {
            self.refuse(at, "it is kept by git or skep itself");
            return Ok(());
        }
        let file = match FileType::from_raw_mode(before.st_mode) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Folder,
            FileType::Symlink => FileKind::Symlink { target: read_link(lower, name)? },
            _ => FileKind::Special,
        };
        if file == FileKind::Folder && depth < DEPTH_MAX {
            let folder = open_folder(lower, name)?;
            for inner in names(&folder)? {
                self.deleted(&folder, &inner, &at.join(&inner), depth + 1)?;
            }
        }
        self.add(ChangeKind::Deleted, file, at, &before)
    }

    fn add(&mut self, kind: ChangeKind, file: FileKind, at: &Path, stat: &Stat) -> io::Result<()> {
        if self.found.changes.len() >= ENTRIES_MAX {
            return Err(io::Error::other(format!("more than {ENTRIES_MAX} changes")));
        }
        let size = if file == FileKind::Folder { 0 } else { stat.st_size as u64 };
        self.found.changes.push(Change { path: at.to_owned(), kind, file, mode: permissions(stat), size });
        Ok(())
    }

    fn refuse(&mut self, at: &Path, why: &'static str) {
        self.found.refused.push(Refused { path: at.to_owned(), why });
    }
}

/// Whether a link at `at` points outside, judged by its text: what lies on the way may change before the merge.
fn leaves_project(at: &Path, target: &Path) -> bool {
    let mut depth = at.components().count() as i64 - 1;
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::ParentDir => depth -= 1,
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return true,
        }
        if depth < 0 {
            return true;
        }
    }
    false
}

/// In any case of letters: some file systems do not tell them apart.
fn is_protected(name: &OsStr) -> bool {
    PROTECTED.iter().any(|protected| name.eq_ignore_ascii_case(protected))
}

fn permissions(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

fn stat(folder: impl AsFd, name: &OsStr) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn open_folder(folder: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?)
}

/// The entry was a regular file a moment ago; should it be something else by now, opening must neither follow nor wait.
fn open_file(folder: impl AsFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?.into())
}

fn readable<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    match opened {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        other => other.map(Some),
    }
}

fn read_link(folder: impl AsFd, name: &OsStr) -> io::Result<PathBuf> {
    let target = rustix::fs::readlinkat(folder, name, Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()).into())
}

fn names(folder: &OwnedFd) -> io::Result<BTreeSet<OsString>> {
    let mut names = BTreeSet::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.insert(OsString::from_vec(name.to_vec()));
        }
    }
    Ok(names)
}

/// A deletion mark: a device that does not exist, or an empty file that says so.
fn is_whiteout(folder: &OwnedFd, name: &OsStr, stat: &Stat) -> io::Result<bool> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice => Ok(stat.st_rdev == 0),
        FileType::RegularFile if stat.st_size == 0 => match readable(open_file(folder, name))? {
            Some(file) => Ok(attribute(&file, c"user.overlay.whiteout")?.is_some()),
            None => Ok(false),
        },
        _ => Ok(false),
    }
}

fn attribute(file: impl AsFd, name: &std::ffi::CStr) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; 16];
    match rustix::fs::fgetxattr(file, name, &mut value[..]) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(Errno::RANGE) => Ok(Some(Vec::new())),
        Err(error) => Err(error.into()),
    }
}

fn same_bytes(mut one: File, mut other: File) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        let got = one.read(&mut left)?;
        if got == 0 {
            return Ok(other.read(&mut right)? == 0);
        }
        match other.read_exact(&mut right[..got]) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            result => result?,
        }
        if left[..got] != right[..got] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_judged_by_where_they_point() {
        let check = |at: &str, target: &str, leaves: bool| {
            assert_eq!(leaves_project(Path::new(at), Path::new(target)), leaves, "{at} -> {target}");
        };
        check("a", "b", false);
        check("a/b", "../c", false);
        check("a", "..", true);
        check("a/b", "../../c", true);
        check("a/b", "../x/../../c", true);
        check("a", "/etc/passwd", true);
        check("a/b/c", "./../../d", false);
    }
}
