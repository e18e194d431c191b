//! A walk over the files below a directory, in the order of their names, as git sees them: without what `.gitignore` leaves out
//! and without `.git`.
//!
//! Goes from descriptor to descriptor and never through a link, so it cannot leave the directory it began in.

use crate::fault::ToolFault;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// Files of one walk. A repository with more wants `path`.
const FILES_MAX: usize = 500_000;
const DEPTH_MAX: usize = 128;
/// Entries of one directory that are read, so that a flood of files costs memory that the kernel has.
const ENTRIES_MAX: usize = 100_000;
/// Bytes of a `.gitignore` that are read.
const IGNORE_BYTES_MAX: u64 = 1024 * 1024;

pub(crate) struct WalkedFiles {
    /// Relative to the project, sorted.
    pub files: Vec<String>,
    /// There was more than a walk takes.
    pub truncated: bool,
}

/// The regular files below `start`, which lies at `prefix` of `root`.
pub(crate) fn files(root: BorrowedFd<'_>, start: OwnedFd, prefix: &str, deadline: Instant) -> Result<WalkedFiles, ToolFault> {
    let prefix = if prefix == "." { "" } else { prefix };
    let mut walk = Walk { ignores: Vec::new(), found: WalkedFiles { files: Vec::new(), truncated: false }, deadline };
    walk.enter_parents(root, prefix);
    walk.directory(start, prefix, 0)?;
    walk.found.files.sort_unstable();
    Ok(walk.found)
}

/// One entry of a directory, its name as text; what is not UTF-8 shows as `�`.
pub(crate) struct FolderEntry {
    pub name: String,
    pub kind: FileType,
}

/// The entries of a directory by name, without `.` and `..`, and whether there are more than are read.
pub(crate) fn entries(directory: BorrowedFd<'_>, path: &str) -> Result<(Vec<FolderEntry>, bool), ToolFault> {
    let list = || -> rustix::io::Result<(Vec<FolderEntry>, bool)> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let raw = entry.file_name();
            if matches!(raw.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match rustix::fs::statat(directory, raw, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(error),
                },
                kind => kind,
            };
            if entries.len() == ENTRIES_MAX {
                return Ok((entries, true));
            }
            entries.push(FolderEntry { name: raw.to_string_lossy().into_owned(), kind });
        }
        Ok((entries, false))
    };
    let (mut entries, truncated) = list().map_err(|error| ToolFault::io("list", path, error))?;
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok((entries, truncated))
}

/// A regular file below a directory, opened without following anything.
pub(crate) fn open_file(directory: BorrowedFd<'_>, name: &str) -> rustix::io::Result<(File, u64)> {
    use rustix::fs::ResolveFlags;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let fd = rustix::fs::openat2(directory, name, flags, Mode::empty(), resolve)?;
    let stat = rustix::fs::fstat(&fd)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((File::from(fd), u64::try_from(stat.st_size).unwrap_or(0))),
        _ => Err(Errno::INVAL),
    }
}

/// What is closed, gone or no longer what it was since it was listed is passed over, as grep does; anything else is a fault.
pub(crate) fn is_passed_over(error: Errno) -> bool {
    matches!(error, Errno::ACCESS | Errno::PERM | Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::INVAL | Errno::NXIO)
}

struct Walk {
    /// Of the directories above the one at hand, the root's first.
    ignores: Vec<Gitignore>,
    found: WalkedFiles,
    deadline: Instant,
}

impl Walk {
    /// What the directories above the start leave out holds below it too.
    fn enter_parents(&mut self, root: BorrowedFd<'_>, prefix: &str) {
        if prefix.is_empty() {
            return;
        }
        let mut path = String::new();
        self.ignores.extend(read_ignore(root, ".gitignore", ""));
        for part in prefix.split('/').take(prefix.split('/').count() - 1) {
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(part);
            self.ignores.extend(read_ignore(root, &format!("{path}/.gitignore"), &path));
        }
    }

    fn directory(&mut self, directory: OwnedFd, path: &str, depth: usize) -> Result<(), ToolFault> {
        if depth >= DEPTH_MAX || self.found.files.len() >= FILES_MAX || Instant::now() >= self.deadline {
            self.found.truncated = true;
            return Ok(());
        }
        let shown = if path.is_empty() { "." } else { path };
        let (entries, truncated) = match entries(directory.as_fd(), shown) {
            Ok(listed) => listed,
            // Gone since its parent was listed.
            Err(ToolFault::Io { cause, .. }) if depth > 0 && cause.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(fault) => return Err(fault),
        };
        self.found.truncated |= truncated;
        let own = read_ignore(directory.as_fd(), ".gitignore", path);
        let has_own = own.is_some();
        self.ignores.extend(own);
        for FolderEntry { name, kind } in entries {
            let below = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            let is_directory = kind == FileType::Directory;
            if name == ".git" || self.ignored(&below, is_directory) {
                continue;
            }
            if kind == FileType::RegularFile && self.found.files.len() < FILES_MAX {
                self.found.files.push(below);
            } else if is_directory {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                match rustix::fs::openat(&directory, name.as_str(), flags, Mode::empty()) {
                    Ok(inner) => self.directory(inner, &below, depth + 1)?,
                    Err(error) if is_passed_over(error) => {}
                    Err(error) => return Err(ToolFault::io("open", &below, error)),
                }
            } else if kind == FileType::RegularFile {
                self.found.truncated = true;
            }
        }
        if has_own {
            self.ignores.pop();
        }
        Ok(())
    }

    /// The innermost file that has a word on it decides.
    fn ignored(&self, path: &str, is_directory: bool) -> bool {
        for ignore in self.ignores.iter().rev() {
            match ignore.matched(path, is_directory) {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        false
    }
}

/// A line that is no pattern is passed over, as git does.
fn read_ignore(directory: BorrowedFd<'_>, name: &str, at: &str) -> Option<Gitignore> {
    let (file, _) = open_file(directory, name).ok()?;
    let mut text = Vec::new();
    file.take(IGNORE_BYTES_MAX).read_to_end(&mut text).ok()?;
    let mut builder = GitignoreBuilder::new(at);
    for line in String::from_utf8_lossy(&text).lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}
