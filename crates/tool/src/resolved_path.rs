//! A resolved path: where a name of a call really leads, opened once.
//!
//! The name is walked one component at a time from the project's root, links read and never followed by the operating system, so
//! that what is decided and what is opened are the same file whatever a job renames meanwhile. **Invariant.** A descriptor in a
//! [`ResolvedPath`] lies beneath the root, and `real` is where it lay when it was opened. Nothing is read and nothing is created here.

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use world::{Code, Refusal};

/// Links in one name. The operating system stops at forty too.
const LINKS_MAX: usize = 40;
/// Bytes of a name that are read without asking for memory; a longer one is asked for again.
const NAME_SPACE: usize = 512;
/// Components of one name, so that descriptors do not run out.
const DEPTH_MAX: usize = 256;

/// A path that an input names, and what for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPath {
    pub path: String,
    pub access: Access,
}

impl NamedPath {
    /// The whole project.
    pub fn project(access: Access) -> NamedPath {
        NamedPath { path: ".".to_owned(), access }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    /// Names below it.
    List,
    Write,
    /// The name itself is given, changed or taken away, so a link at its end is not followed.
    Name,
    /// A program works there.
    Run,
}

impl Access {
    /// Does a call with it change what it names?
    pub(crate) fn writes(self) -> bool {
        matches!(self, Access::Write | Access::Name | Access::Run)
    }
}

#[derive(Debug)]
pub struct ResolvedPath {
    pub real: Real,
    pub kind: PathKind,
    /// To the thing itself, not open for reading or writing; `None` when nothing is there.
    pub fd: Option<OwnedFd>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Real {
    /// Relative to the project, normalised; `.` is the project itself.
    Inside(String),
    /// Absolute, as the name or its link says. Nothing outside is looked at.
    Outside(String),
}

impl Real {
    pub fn as_str(&self) -> &str {
        match self {
            Real::Inside(path) | Real::Outside(path) => path,
        }
    }
}

/// What stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    File {
        bytes: u64,
    },
    Directory,
    /// Only where the name itself is meant.
    Link,
    /// A pipe, socket or device: opening one can hang or act.
    Special(&'static str),
    Missing,
    /// A folder on the way is a file.
    NotDirectory,
    /// A folder on the way may not be entered.
    Closed,
    /// Outside, and not looked at.
    Unknown,
}

impl ResolvedPath {
    /// Walks to a target. Whatever is or is not there is told in the result; only a name that leads nowhere at all is refused.
    pub fn open(root: BorrowedFd<'_>, project: &Path, target: &NamedPath) -> Result<ResolvedPath, Refusal> {
        let follow_last = target.access != Access::Name;
        let mut walk = Walk { project, fds: Vec::new(), names: Vec::new(), links: 0, follow_last };
        match walk.run(root, &target.path)? {
            End::Outside(path) => Ok(ResolvedPath { real: Real::Outside(path), kind: PathKind::Unknown, fd: None }),
            End::Inside(found) => walk.resolved(root, found, &target.path),
        }
    }

    /// The same once more, for a second try.
    pub(crate) fn try_clone(&self) -> std::io::Result<ResolvedPath> {
        let fd = self.fd.as_ref().map(OwnedFd::try_clone).transpose()?;
        Ok(ResolvedPath { real: self.real.clone(), kind: self.kind, fd })
    }

    /// The regular file here, open for reading. It cannot block: what is no file is refused before.
    pub fn file(&self) -> Result<(File, u64), Refusal> {
        let path = self.real.as_str();
        match (self.kind, &self.fd) {
            (PathKind::File { bytes }, Some(fd)) => match reopen(fd, OFlags::NONBLOCK | OFlags::NOCTTY) {
                Ok(file) => Ok((File::from(file), bytes)),
                Err(error) => Err(unreadable(path, error)),
            },
            (PathKind::Directory, _) => Err(Refusal::new(Code::BadInput, format!("`{path}` is a directory")).hint("list it with fs.list")),
            _ => Err(self.unusable()),
        }
    }

    /// The directory here, open for listing.
    pub(crate) fn directory(&self) -> Result<OwnedFd, Refusal> {
        let path = self.real.as_str();
        match (self.kind, &self.fd) {
            (PathKind::Directory, Some(fd)) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                rustix::fs::openat(fd, ".", flags, Mode::empty()).map_err(|error| unreadable(path, error))
            }
            (PathKind::File { .. }, _) => {
                Err(Refusal::new(Code::BadInput, format!("`{path}` is a file")).hint("name the directory it lies in"))
            }
            _ => Err(self.unusable()),
        }
    }

    /// Why nothing can be done here.
    pub(crate) fn unusable(&self) -> Refusal {
        let path = self.real.as_str();
        match self.kind {
            PathKind::Special(kind) => Refusal::new(Code::BadInput, format!("`{path}` is a {kind}")).hint("name a regular file"),
            PathKind::NotDirectory => Refusal::new(Code::NotFound, format!("`{path}` does not exist: a part of it is a file"))
                .hint("look at the parts with fs.list"),
            PathKind::Closed => Refusal::new(Code::WrongState, format!("`{path}` cannot be reached: a directory on the way is closed"))
                .hint("the operator can open it with chmod +x"),
            PathKind::Unknown => {
                Refusal::new(Code::Denied, format!("`{path}` lies outside the project")).hint("use a path inside the project")
            }
            PathKind::Missing | PathKind::File { .. } | PathKind::Directory | PathKind::Link => {
                Refusal::new(Code::NotFound, format!("`{path}` does not exist")).hint("find the right name with fs.list or search.glob")
            }
        }
    }
}

fn unreadable(path: &str, error: Errno) -> Refusal {
    let hint = match error {
        Errno::ACCESS | Errno::PERM => "its mode or owner keeps it closed; the operator can open it with chmod",
        _ => "try another file, or have the operator look at this one",
    };
    Refusal::new(Code::WrongState, format!("`{path}` cannot be read: {}", std::io::Error::from(error))).hint(hint)
}

/// Opens what a descriptor stands for once more, now for reading.
fn reopen(fd: &OwnedFd, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(format!("/proc/self/fd/{}", fd.as_raw_fd()), flags, Mode::empty())
}

/// What the operating system calls an open file.
fn proc_name(fd: BorrowedFd<'_>) -> rustix::io::Result<PathBuf> {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let mut space = [MaybeUninit::uninit(); NAME_SPACE];
    let (name, rest) = rustix::fs::readlinkat_raw(rustix::fs::CWD, link.as_str(), &mut space)?;
    // One that fills the space may have been cut.
    match rest.is_empty() {
        true => Ok(OsString::from_vec(rustix::fs::readlink(link, Vec::new())?.into_bytes()).into()),
        false => Ok(OsStr::from_bytes(name).into()),
    }
}

struct Walk<'a> {
    project: &'a Path,
    /// One for each name that exists; the root itself is not among them.
    fds: Vec<OwnedFd>,
    names: Vec<String>,
    links: usize,
    /// Does a link at the very end lead on?
    follow_last: bool,
}

enum End {
    Inside(PathKind),
    Outside(String),
}

impl Walk<'_> {
    fn run(&mut self, root: BorrowedFd<'_>, path: &str) -> Result<End, Refusal> {
        if path.is_empty() || path.contains('\0') {
            return Err(Refusal::new(Code::BadInput, "a path is empty or holds a NUL byte").hint("write `.` for the project itself"));
        }
        let mut todo: Vec<String> = Vec::new();
        if let Some(outside) = self.enter(path, &mut todo) {
            return Ok(End::Outside(outside));
        }
        let mut found = PathKind::Directory;
        while let Some(name) = todo.pop() {
            if name == ".." {
                if self.names.pop().is_none() {
                    let parent = self.project.parent().unwrap_or(Path::new("/"));
                    return Ok(End::Outside(normal(parent, todo.iter().rev())));
                }
                // What is missing has no descriptor; behind it, `..` is only a matter of names.
                self.fds.truncate(self.names.len());
                if self.fds.len() == self.names.len() {
                    found = PathKind::Directory;
                }
                continue;
            }
            if self.names.len() >= DEPTH_MAX {
                return Err(Refusal::new(Code::BadInput, format!("`{path}` has more than {DEPTH_MAX} parts")).hint("use a shorter path"));
            }
            if self.fds.len() < self.names.len() {
                self.names.push(name);
                continue;
            }
            let parent = self.fds.last().map_or(root, AsFd::as_fd);
            let fd = match open_step(parent, &name) {
                Ok(fd) => fd,
                Err(error) => {
                    found = match error {
                        Errno::NOENT => PathKind::Missing,
                        Errno::NOTDIR => PathKind::NotDirectory,
                        Errno::ACCESS | Errno::PERM => PathKind::Closed,
                        other => return Err(unreadable(path, other)),
                    };
                    self.names.push(name);
                    continue;
                }
            };
            let stat = rustix::fs::fstat(&fd).map_err(|error| unreadable(path, error))?;
            found = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Symlink if todo.is_empty() && !self.follow_last => PathKind::Link,
                FileType::Symlink => {
                    if let Some(outside) = self.follow(&fd, path, &mut todo)? {
                        return Ok(End::Outside(outside));
                    }
                    found = PathKind::Directory;
                    continue;
                }
                FileType::RegularFile => PathKind::File { bytes: u64::try_from(stat.st_size).unwrap_or(0) },
                FileType::Directory => PathKind::Directory,
                FileType::Fifo => PathKind::Special("named pipe"),
                FileType::Socket => PathKind::Special("socket"),
                _ => PathKind::Special("device"),
            };
            self.fds.push(fd);
            self.names.push(name);
        }
        Ok(End::Inside(found))
    }

    /// Puts a name's parts on the list, from the right directory on. `Some` is the outside path that it is.
    fn enter(&mut self, path: &str, todo: &mut Vec<String>) -> Option<String> {
        let inner = if path.starts_with('/') {
            let Ok(inner) = Path::new(path).strip_prefix(self.project) else {
                return Some(normal(Path::new(path), todo.iter().rev()));
            };
            self.fds.clear();
            self.names.clear();
            inner
        } else {
            Path::new(path)
        };
        for part in inner.components().rev() {
            match part {
                Component::Normal(name) => todo.push(name.to_string_lossy().into_owned()),
                Component::ParentDir => todo.push("..".to_owned()),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        None
    }

    /// Reads a link and walks on where it points.
    fn follow(&mut self, link: &OwnedFd, path: &str, todo: &mut Vec<String>) -> Result<Option<String>, Refusal> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Refusal::new(Code::WrongState, format!("`{path}` goes through more than {LINKS_MAX} links"))
                .hint("the links run in a circle; the operator can remove one"));
        }
        let target = rustix::fs::readlinkat(link, "", Vec::new()).map_err(|error| unreadable(path, error))?;
        let target = target.into_string().map_err(|_| not_text(path))?;
        Ok(self.enter(&target, todo))
    }

    /// The path at the end, under the name that the operating system itself has for it: on a file system that does not tell
    /// cases apart, the one on disk and not the one that was written.
    fn resolved(mut self, root: BorrowedFd<'_>, found: PathKind, path: &str) -> Result<ResolvedPath, Refusal> {
        let moved = || Refusal::new(Code::WrongState, format!("`{path}` was moved while it was being opened")).hint("ask again");
        let proc_name = |fd: BorrowedFd<'_>| proc_name(fd).map_err(|error| unreadable(path, error));
        let top = self.fds.last().map_or(root, AsFd::as_fd);
        let real = proc_name(top)?;
        let beneath = real.strip_prefix(proc_name(root)?).map_err(|_| moved())?;
        let mut parts: Vec<String> = Vec::new();
        for part in beneath.components() {
            parts.push(part.as_os_str().to_str().ok_or_else(|| not_text(path))?.to_owned());
        }
        // A name that is gone reads `… (deleted)`, and has no link left.
        if rustix::fs::fstat(top).map_err(|error| unreadable(path, error))?.st_nlink == 0 {
            return Err(moved());
        }
        let exists = self.fds.len() == self.names.len();
        parts.extend(self.names.drain(self.fds.len()..));
        let fd = match self.fds.pop() {
            _ if !exists => None,
            Some(fd) => Some(fd),
            None => Some(root.try_clone_to_owned().map_err(|_| moved())?),
        };
        let real = if parts.is_empty() { ".".to_owned() } else { parts.join("/") };
        Ok(ResolvedPath { real: Real::Inside(real), kind: found, fd })
    }
}

fn open_step(parent: BorrowedFd<'_>, name: &str) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), resolve)
}

fn not_text(path: &str) -> Refusal {
    Refusal::new(Code::Unsupported, format!("`{path}` leads to a name that is not UTF-8"))
        .hint("rename it, or reach it in the sandbox with shell.run")
}

/// An absolute path by its letters alone: no file is looked at.
fn normal<'a>(base: &Path, rest: impl Iterator<Item = &'a String>) -> String {
    let mut parts: Vec<String> = Vec::new();
    let base = base.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    for part in base.chain(rest.cloned()) {
        match part.as_str() {
            "/" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests;
