//! What the kernel reads of a repository itself: no program runs here, so nothing a repository configures can.
//!
//! **Invariant.** A repository that lies outside its project counts only if it says itself that this project is its work tree, is a
//! repository of the same owner, and neither holds nor lies in the kernel's home or the project. Of HEAD and references nothing is passed on but a
//! commit's number and a branch's name.

use crate::reader::{self, Folder, Unread};
use crate::special;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use world::Stop;
use world::{Code, Refusal};

mod config;
mod file;
mod reference;
pub mod write;

use reference::Target;
pub use reference::is_commit;

/// A path, with much room to spare.
const POINTER_BYTES_MAX: u64 = 16 * 1024;
/// A repository of a million references has less.
const PACKED_BYTES_MAX: u64 = 64 * 1024 * 1024;
const CONFIG_BYTES_MAX: u64 = 1024 * 1024;
/// That of ten million files.
const INDEX_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// Of submodules and work trees; each that holds a credential is one mount of every room.
const CONFIGS_MAX: usize = 1000;
/// How often one reference may name another, as in git.
const REFERENCES_MAX: usize = 5;

/// The work tree that `path` is in, by the path that its links lead to. The path is the operator's own word and may lead anywhere; what
/// stands there is looked at and not opened.
pub async fn toplevel(path: &Path) -> Result<WorkTree, Stop> {
    if let Some(top) = remembered_toplevel(path) {
        return Ok(WorkTree::At(top));
    }
    let path = path.to_owned();
    Ok(reader::bounded(move || {
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) => return WorkTree::Unseen(error),
        };
        let has_git = |dir: &&Path| Folder::open(dir).is_ok_and(|dir| !matches!(dir.look(".git"), Err(Unread::Absent)));
        match real.ancestors().find(has_git) {
            Some(top) => WorkTree::At(top.to_owned()),
            None => WorkTree::None(real),
        }
    })
    .await?)
}

/// The same where the operating system need not ask a disk or another machine for it, so that no other thread has to wait for the answer.
/// `None` where it would have to, where a link stands on the way, and where there is no work tree.
fn remembered_toplevel(path: &Path) -> Option<PathBuf> {
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if !path.is_absolute() || !path.components().all(is_plain) {
        return None;
    }
    // Written without doubled slashes: what its links lead to if there are none.
    let real: PathBuf = path.components().collect();
    let look = |path: &Path| {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::CACHED)
    };
    let mut is_known = false;
    for dir in real.ancestors() {
        match look(&dir.join(".git")) {
            Ok(_) => return Some(dir.to_owned()),
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(_) => return None,
        }
        // What is above a path counts only if the path itself is there, and no link.
        if !is_known {
            let found = look(dir).and_then(rustix::fs::fstat).ok()?;
            is_known = FileType::from_raw_mode(found.st_mode) != FileType::Symlink;
            is_known.then_some(())?;
        }
    }
    None
}

/// What is at or above a path.
#[derive(Debug)]
pub enum WorkTree {
    At(PathBuf),
    /// The real path is in none.
    None(PathBuf),
    /// The path cannot be looked at.
    Unseen(std::io::Error),
}

/// The branch a work tree is on, or the short commit when it is on none.
pub async fn branch(top: &Path, home: &Path) -> String {
    let (top, home) = (top.to_owned(), home.to_owned());
    let read = reader::bounded(move || Repository::open(&top, &home).ok().and_then(|repository| repository.branch())).await;
    // Only for people to look at: a tree whose branch cannot be told has none to show.
    read.ok().flatten().unwrap_or_else(|| "?".into())
}

/// The commit a work tree stands at; `None` before the first, and where it cannot be told.
pub async fn head(top: &Path, home: &Path) -> Result<Option<String>, Stop> {
    let (top, home) = (top.to_owned(), home.to_owned());
    Ok(reader::bounded(move || Repository::open(&top, &home).ok().and_then(|repository| repository.head())).await?)
}

/// Which repository a work tree belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryIdentity {
    /// The folder of git's own that all its work trees share.
    pub folder: PathBuf,
    /// Where it was cloned from.
    pub remote: Option<String>,
}

impl RepositoryIdentity {
    /// The name of the project's folder.
    pub fn name(&self) -> String {
        let project = if self.folder.ends_with(".git") { self.folder.parent() } else { Some(self.folder.as_path()) };
        let name = project.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.strip_suffix(".git").map(str::to_owned).unwrap_or(name)
    }
}

/// The repository of a work tree. One that cannot be used is known by its place alone.
pub async fn identity(top: &Path, home: &Path) -> Result<RepositoryIdentity, Stop> {
    let (top, home) = (top.to_owned(), home.to_owned());
    Ok(reader::bounded(move || match Repository::open(&top, &home) {
        Ok(repository) => {
            let common = repository.common();
            let remote = common.read("config", CONFIG_BYTES_MAX).ok().and_then(|text| config::remote(&text));
            RepositoryIdentity { folder: common.path().to_owned(), remote }
        }
        Err(_) => RepositoryIdentity { folder: top.join(".git"), remote: None },
    })
    .await?)
}

/// The work trees of a repository that are there, by what it says itself.
pub async fn work_trees(folder: &Path) -> Result<Vec<PathBuf>, Stop> {
    let folder = folder.to_owned();
    Ok(reader::bounded(move || {
        let main = folder.ends_with(".git").then(|| folder.parent().map(Path::to_owned)).flatten();
        let Ok(common) = Folder::open(&folder) else { return main.into_iter().collect() };
        let linked = common.list("worktrees", CONFIGS_MAX).unwrap_or_default().into_iter().filter_map(|name| {
            let text = common.read(Path::new("worktrees").join(name).join("gitdir"), POINTER_BYTES_MAX).ok()?;
            let pointer = PathBuf::from(OsStr::from_bytes(line(&text)?));
            pointer.parent()?.canonicalize().ok()
        });
        main.into_iter().chain(linked).collect()
    })
    .await?)
}

/// What a room needs of a repository beside the project itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Needs {
    /// The repository, where it is outside the project.
    pub outside: Option<PathBuf>,
    /// Files that hold credentials, with their text without them.
    pub cleaned: Vec<(PathBuf, Vec<u8>)>,
}

/// `embedded` are configurations of repositories in folders of the project, by their paths in it.
pub async fn needs(top: &Path, home: &Path, embedded: &BTreeSet<PathBuf>) -> Result<Needs, Stop> {
    let (project, home, embedded) = (top.to_owned(), home.to_owned(), embedded.clone());
    let needs = reader::bounded(move || Repository::open(&project, &home)?.needs(&project, &embedded)).await?;
    Ok(needs.map_err(|unusable| Refusal::new(Code::Unsupported, unusable.what).hint(unusable.fix))?)
}

/// All that the kernel takes from a repository. For fuzzing.
#[doc(hidden)]
#[derive(Debug)]
pub struct RepositoryView {
    pub branch: Option<String>,
    pub head: Option<String>,
    pub outside: Option<PathBuf>,
}

#[doc(hidden)]
pub fn read_repository(top: &Path, home: &Path) -> Result<RepositoryView, String> {
    let repository = Repository::open(top, home).map_err(|unusable| unusable.what)?;
    let outside = repository.needs(top, &BTreeSet::new()).map_err(|unusable| unusable.what)?.outside;
    Ok(RepositoryView { branch: repository.branch(), head: repository.head(), outside })
}

/// Why a repository is not used, without a word of what it holds.
#[derive(Debug, PartialEq, Eq)]
struct Unusable {
    what: String,
    fix: &'static str,
}

fn unusable(what: impl Into<String>, fix: &'static str) -> Unusable {
    Unusable { what: what.into(), fix }
}

/// A repository as its work tree's `.git` names it.
struct Repository {
    /// With the work tree's own HEAD.
    own: Folder,
    /// What all work trees share, if that is another folder.
    shared: Option<Folder>,
    is_outside: bool,
}

impl Repository {
    fn open(top: &Path, home: &Path) -> Result<Repository, Unusable> {
        let broken =
            |why: Unread| unusable(format!("`.git` cannot be used: {why}"), "make `.git` the folder of a repository, or clone it anew");
        let project = Folder::open(top).map_err(broken)?;
        let stat = project.look(".git").map_err(broken)?;
        if FileType::from_raw_mode(stat.st_mode).is_dir() {
            return Ok(Repository { own: project.folder(".git").map_err(broken)?, shared: None, is_outside: false });
        }
        let text = project.read(".git", POINTER_BYTES_MAX).map_err(broken)?;
        let nowhere = || unusable("`.git` is a file that names no repository", "run `git worktree repair`, or clone it anew");
        let path = line(&text).and_then(|line| line.strip_prefix(b"gitdir: ")).ok_or_else(nowhere)?;
        let own = top.join(OsStr::from_bytes(path)).canonicalize().map_err(|_| nowhere())?;
        if let Ok(inside) = own.strip_prefix(top) {
            let own = project.folder(inside).map_err(broken)?;
            if own.look("commondir").is_ok() {
                return Err(unusable("`.git` names a part of the project that names another folder", "clone it anew"));
            }
            return Ok(Repository { own, shared: None, is_outside: false });
        }
        let own = Folder::open(&own).map_err(|_| nowhere())?;
        let shared = match own.read("commondir", POINTER_BYTES_MAX) {
            Err(Unread::Absent) => None,
            Err(_) => return Err(nowhere()),
            Ok(text) => {
                let path = line(&text).ok_or_else(nowhere)?;
                let path = own.path().join(OsStr::from_bytes(path)).canonicalize().map_err(|_| nowhere())?;
                Some(Folder::open(&path).map_err(|_| nowhere())?)
            }
        };
        let repository = Repository { own, shared, is_outside: true };
        repository.vouch(&project, home)?;
        Ok(repository)
    }

    /// What all work trees share.
    fn common(&self) -> &Folder {
        self.shared.as_ref().unwrap_or(&self.own)
    }

    /// Whether a repository outside the project may be shown to its rooms. Whatever the project says, the repository must say it too.
    fn vouch(&self, project: &Folder, home: &Path) -> Result<(), Unusable> {
        let (top, common) = (project.path(), self.common());
        let home = home
            .canonicalize()
            .map_err(|error| unusable(format!("the kernel's home cannot be looked at: {error}"), "look at the folder's owner and mode"))?;
        for folder in [&self.own, common] {
            if overlap(folder.path(), &home) {
                return Err(unusable(
                    "`.git` names a folder that holds the kernel's home or lies in it, which no sandbox sees",
                    "clone it anew",
                ));
            }
            if overlap(folder.path(), top) {
                let fix = "move the work tree out of its repository: `git worktree move`";
                return Err(unusable("`.git` names a folder that the project lies in", fix));
            }
        }
        let is = |name, is_kind: fn(FileType) -> bool| common.look(name).is_ok_and(|stat| is_kind(FileType::from_raw_mode(stat.st_mode)));
        if !is("HEAD", FileType::is_file) || !is("objects", FileType::is_dir) || !is("refs", FileType::is_dir) {
            return Err(unusable("`.git` names a folder that is not a repository", "run `git worktree repair`, or clone it anew"));
        }
        let (user, owner) = (rustix::process::geteuid(), project.stat().map(|stat| stat.st_uid));
        let is_own = |folder: &Folder| {
            let of = folder.stat().map(|stat| stat.st_uid);
            of == Ok(user.as_raw()) || (user.is_root() && of.is_ok() && of == owner)
        };
        if !is_own(&self.own) || !is_own(common) {
            return Err(unusable("`.git` names a repository of another user", "clone it anew"));
        }
        let points_back = match &self.shared {
            Some(shared) => self.own.path().parent() == Some(&shared.path().join("worktrees")) && self.names_work_tree(top),
            None => self.is_configured_for(top),
        };
        if points_back {
            return Ok(());
        }
        Err(unusable(
            "`.git` names a repository that does not name this project as its work tree",
            "run `git worktree repair` in that repository, or `git config core.worktree \"$PWD\"` in this one",
        ))
    }

    /// A linked work tree's side of the repository holds the path of the tree's `.git`.
    fn names_work_tree(&self, top: &Path) -> bool {
        let Ok(text) = self.own.read("gitdir", POINTER_BYTES_MAX) else { return false };
        let Some(path) = line(&text).map(|path| self.own.path().join(OsStr::from_bytes(path))) else { return false };
        path.file_name() == Some(OsStr::new(".git")) && path.parent().is_some_and(|tree| tree.canonicalize().is_ok_and(|tree| tree == top))
    }

    /// A submodule's repository, and one that was made with `--separate-git-dir`, can name its work tree in its configuration.
    fn is_configured_for(&self, top: &Path) -> bool {
        let Ok(text) = self.own.read("config", CONFIG_BYTES_MAX) else { return false };
        let named = config::work_tree(&text).map(|path| self.own.path().join(OsStr::from_bytes(&path)));
        named.is_some_and(|path| path.canonicalize().is_ok_and(|path| path == top))
    }

    fn branch(&self) -> Option<String> {
        match self.target(&self.own, "HEAD")? {
            Target::Reference(name) => Some(name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned()),
            Target::Commit(commit) => Some(commit.chars().take(8).collect()),
        }
    }

    fn head(&self) -> Option<String> {
        let mut target = self.target(&self.own, "HEAD")?;
        for _ in 0..REFERENCES_MAX {
            target = match target {
                Target::Commit(commit) => return Some(commit),
                // A linked work tree keeps its branches in what it shares.
                Target::Reference(name) => {
                    let own = self.own.look(&name).is_ok();
                    self.target(if own { &self.own } else { self.common() }, &name).or_else(|| self.packed(&name))?
                }
            };
        }
        None
    }

    fn target(&self, folder: &Folder, name: &str) -> Option<Target> {
        reference::parse(line(&folder.read(name, POINTER_BYTES_MAX).ok()?)?)
    }

    fn packed(&self, name: &str) -> Option<Target> {
        reference::find(&self.common().read("packed-refs", PACKED_BYTES_MAX).ok()?, name)
    }

    /// Git in a room opens these by itself, would wait for ever for a pipe, and read a file without end until its time is over.
    fn is_readable(&self) -> Result<(), Unusable> {
        let pointers = ["HEAD", "commondir"].map(|name| (&self.own, name, POINTER_BYTES_MAX));
        let lists = ["packed-refs", "shallow", "info/exclude", "info/attributes", "info/grafts", "objects/info/alternates"];
        let lists = lists.map(|name| (self.common(), name, PACKED_BYTES_MAX));
        for (folder, name, bytes_max) in pointers.into_iter().chain(lists).chain([(&self.own, "index", INDEX_BYTES_MAX)]) {
            let Ok(stat) = folder.look(name) else { continue };
            let kind = FileType::from_raw_mode(stat.st_mode);
            if !matches!(kind, FileType::RegularFile | FileType::Symlink | FileType::Directory) {
                return Err(unusable(format!("`{name}` of the repository is not an ordinary file"), "remove it, or clone it anew"));
            }
            if kind.is_file() && u64::try_from(stat.st_size).is_ok_and(|size| size > bytes_max) {
                return Err(unusable(format!("`{name}` of the repository is too large for git to read"), "remove it, or clone it anew"));
            }
        }
        Ok(())
    }

    /// The configurations of submodules and of other work trees, which lie in the repository too: every file of such a name, at any depth.
    fn inner_configurations(&self) -> Result<Vec<PathBuf>, Unusable> {
        let broken = |why: Unread| unusable(format!("the repository cannot be looked through: {why}"), "clone it anew");
        let mut found = Vec::new();
        let mut waiting = vec![PathBuf::from("modules"), PathBuf::from("worktrees")];
        while let Some(folder) = waiting.pop() {
            let entries = match self.common().entries(&folder) {
                Ok(entries) => entries,
                // What we cannot list, a job of an unprivileged user cannot either.
                Err(Unread::Absent | Unread::Failed(Errno::ACCESS)) => continue,
                Err(why) => return Err(broken(why)),
            };
            for entry in entries {
                let path = folder.join(&entry.name);
                match entry.kind {
                    // A submodule may be named like a file of git's, but its objects are in folders that hold nothing else.
                    FileType::Directory if entry.name == "objects" && folder.components().count() > 1 => {}
                    FileType::Directory => waiting.push(path),
                    _ if entry.name.as_bytes().starts_with(b"config") => found.push(path),
                    _ => {}
                }
            }
            if found.len() > CONFIGS_MAX {
                return Err(unusable(
                    format!("the repository has more than {CONFIGS_MAX} configurations"),
                    "remove submodules or work trees",
                ));
            }
        }
        found.sort();
        Ok(found)
    }

    fn needs(&self, top: &Path, embedded: &BTreeSet<PathBuf>) -> Result<Needs, Unusable> {
        self.is_readable()?;
        let project =
            Folder::open(top).map_err(|why| unusable(format!("the project cannot be opened: {why}"), "look at its owner and mode"))?;
        let mut cleaned = Vec::new();
        let mut files = vec![(self.common(), PathBuf::from("config")), (&self.own, PathBuf::from("config.worktree"))];
        files.extend(self.inner_configurations()?.into_iter().map(|path| (self.common(), path)));
        files.extend(embedded.iter().map(|path| (&project, path.clone())));
        if files.len() > CONFIGS_MAX {
            let what = format!("the project has more than {CONFIGS_MAX} configurations of repositories");
            return Err(unusable(what, "remove submodules, work trees or repositories in its folders"));
        }
        for (folder, name) in files {
            let text = match folder.read(&name, CONFIG_BYTES_MAX) {
                Ok(text) => text,
                Err(Unread::Absent) => continue,
                // It may hold credentials, which no room may see.
                Err(why) => {
                    let fix = "make it an ordinary file of at most 1 MiB that you can read";
                    // Not after a colon: what follows it would be redacted.
                    let what = format!("`{}` of the repository cannot be cleaned of credentials, for {why}", name.display());
                    return Err(unusable(what, fix));
                }
            };
            let clean = config::without_credentials(&text);
            let path = folder.path().join(name);
            if clean != text && !cleaned.iter().any(|(known, _)| *known == path) {
                cleaned.push((path, clean));
            }
        }
        if self.is_outside {
            let unread = |why: Unread| unusable(format!("the repository cannot be looked through: {why}"), "clone it anew");
            if let Some(path) = special::find_in_repository(self.common()).map_err(unread)? {
                let what = format!("`{}` of the repository is not an ordinary file", path.display());
                return Err(unusable(what, "remove it, or clone it anew"));
            }
        }
        Ok(Needs { outside: self.is_outside.then(|| self.common().path().to_owned()), cleaned })
    }
}

/// A file of one line, without its end; `None` if it has more or none.
fn line(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii_end();
    (!text.is_empty() && !text.contains(&b'\n') && !text.contains(&0)).then_some(text)
}

fn overlap(a: &Path, b: &Path) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

#[cfg(test)]
mod tests;
