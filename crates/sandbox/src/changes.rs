//! What jobs made of the project, read from the overlay's upper layer.
//!
//! **Invariant.** It reads what jobs wrote and trusts none of it: no link is followed, no special file opened, no depth or number
//! of entries goes unbounded. What a merge must never apply is listed as refused, without refusing the rest.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Stat};

use crate::job::TEMPORARY_PREFIX;
use crate::layer::{
    attribute, is_embedded, is_repository_in, is_whiteout, names, open_file, open_folder, read_link, readable, same_bytes, stat,
};

/// Deeper than any real project, shallow enough for the stack and the descriptor table.
const DEPTH_MAX: usize = 200;
/// A dependency folder has a few hundred thousand files; a bomb has more.
const ENTRIES_MAX: usize = 1_000_000;
/// Kept by git and by us; nothing in them is ever merged.
const PROTECTED: &[&str] = &[".git", ".skep"];

/// Where other version controls keep what they know, and programs that they run.
const STORES: &[&str] = &[".hg", ".jj", ".sl", ".svn", ".bzr", ".pijul", "_darcs"];
/// Larger files never merge, so their bytes need not be compared: a file that is nearly all holes would take hours.
const COMPARED_BYTES_MAX: i64 = 64 * 1024 * 1024;

/// Files that vendors' clients put into git's folder for themselves, and that no git reads: OpenCode's name for the project.
const CLIENT_MARKS: &[&str] = &["opencode"];

const STORE: &str = "it is kept by another version control";
const KEPT: &str = "it is kept by git or skep itself";
const EMBEDDED: &str = "it is an embedded repository";
const SPECIAL: &str = "it is a special file";
const PRIVILEGED: &str = "it has a setuid or setgid bit";
const UNREADABLE: &str = "it cannot be read";

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
    /// What of it is nobody's but the task's, and could be kept: a link, the files of an embedded repository without its store.
    pub changes: Vec<Change>,
    /// Whether that is all that changed there.
    pub is_whole: bool,
}

impl Refused {
    /// Whether it is the folder of a version control, or skep's own. Programs write there by themselves.
    pub fn is_store(&self) -> bool {
        matches!(self.why, KEPT | STORE)
    }

    /// Whether it is the task's own work, of a kind that nobody can keep.
    pub fn is_unkeepable(&self) -> bool {
        matches!(self.why, SPECIAL | PRIVILEGED | UNREADABLE)
    }
}

/// All of it, in the order of paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    pub changes: Vec<Change>,
    pub refused: Vec<Refused>,
}

/// Compares the upper layer in `work` with the project. Blocks for as long as reading the changed files takes.
pub fn changes(project: &Path, work: &Path) -> io::Result<Changes> {
    let mut walk = Walk { found: Changes::default(), seeking: true };
    let upper = open_folder(rustix::fs::CWD, work.join("upper").as_os_str())?;
    let lower = open_folder(rustix::fs::CWD, project.as_os_str())?;
    walk.folder(&upper, Some(&lower), false, Path::new(""), 0)?;
    walk.found.changes.sort();
    walk.found.refused.sort();
    Ok(walk.found)
}

/// Is it a file that a client left in git's folder, and nothing else? That hides nothing of the repository.
fn is_client_mark(change: &Change) -> bool {
    let is_written = change.file == FileKind::File && matches!(change.kind, ChangeKind::Created | ChangeKind::Modified);
    is_written && CLIENT_MARKS.iter().any(|mark| change.path == Path::new(".git").join(mark))
}

struct Walk {
    found: Changes,
    /// Whether repositories are told apart; not in one, of which it is enough to know that something changed.
    seeking: bool,
}

impl Walk {
    /// `opaque`: nothing of the lower folder shows through.
    fn folder(&mut self, upper: &OwnedFd, lower: Option<&OwnedFd>, opaque: bool, at: &Path, depth: usize) -> io::Result<()> {
        if depth > DEPTH_MAX {
            self.refuse(at, "it is nested too deep");
            return Ok(());
        }
        let names = names(upper)?;
        // The project's own folder as a repository: there is no folder around it to refuse.
        if depth == 0 && is_repository_in(upper, lower)? {
            for name in &names {
                self.refuse(&at.join(name), EMBEDDED);
            }
            return Ok(());
        }
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
        if let Some(why) = kept(name) {
            let mut inner = Walk { found: Changes::default(), seeking: false };
            inner.plain_entry(upper, lower, name, opaque, at, depth)?;
            inner.found.changes.retain(|change| !is_client_mark(change));
            if inner.found != Changes::default() {
                self.refuse(at, why);
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
                let Some(inner) = readable(open_folder(upper, name))? else {
                    self.refuse(at, UNREADABLE);
                    return Ok(());
                };
                let inner_lower = match (lower, same_kind) {
                    (Some(lower), Some(_)) => Some(open_folder(lower, name)?),
                    _ => None,
                };
                if self.seeking && is_embedded(&inner, inner_lower.as_ref())? {
                    let mut walk = Walk { found: Changes::default(), seeking: false };
                    walk.plain_entry(upper, lower, name, opaque, at, depth)?;
                    self.refuse_repository(at, walk.found);
                    return Ok(());
                }
                let mode_changed = same_kind.is_some_and(|before| permissions(before) != permissions(&now));
                match same_kind {
                    None => self.add(ChangeKind::Created, FileKind::Folder, at, &now)?,
                    Some(_) if mode_changed => self.add(ChangeKind::ModeChanged, FileKind::Folder, at, &now)?,
                    Some(_) => {}
                }
                let opaque = opaque || attribute(&inner, c"user.overlay.opaque")?.as_deref() == Some(b"y");
                self.folder(&inner, inner_lower.as_ref(), opaque, at, depth + 1)?;
            }
            _ => self.refuse(at, SPECIAL),
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
        let Some(content) = readable(open_file(upper, name))? else {
            self.refuse(at, UNREADABLE);
            return Ok(());
        };
        let kind = match (lower, before) {
            (Some(lower), Some(before)) => {
                let same = now.st_size == before.st_size
                    && match readable(open_file(lower, name))? {
                        Some(_) if now.st_size > COMPARED_BYTES_MAX => written(now) == written(before),
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
        if now.st_mode & 0o6000 != 0 {
            self.refuse(at, PRIVILEGED);
            return Ok(());
        }
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
        let leads_out = leaves_project(at, &target);
        let is_protected = target.components().any(|part| is_protected(part.as_os_str()));
        let kind = if old.is_some() { ChangeKind::Modified } else { ChangeKind::Created };
        self.add(kind, FileKind::Symlink { target }, at, now)?;
        let why = match (leads_out, is_protected) {
            (true, _) => "it is a link out of the project",
            (false, true) => "it is a link to what git or skep itself keeps",
            (false, false) => return Ok(()),
        };
        let changes = self.found.changes.pop().into_iter().collect();
        self.found.refused.push(Refused { path: at.to_owned(), why, changes, is_whole: true });
        Ok(())
    }

    /// Everything of the project that is gone with this path.
    fn deleted(&mut self, lower: &OwnedFd, name: &OsStr, at: &Path, depth: usize) -> io::Result<()> {
        let Some(before) = stat(lower, name)? else { return Ok(()) };
        if let Some(why) = kept(name) {
            self.refuse(at, why);
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
            if self.seeking && is_embedded(&folder, None)? {
                self.refuse(at, EMBEDDED);
                return Ok(());
            }
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
        self.found.refused.push(Refused { path: at.to_owned(), why, changes: Vec::new(), is_whole: false });
    }

    /// Refuses what changed in an embedded repository, if something did.
    fn refuse_repository(&mut self, at: &Path, found: Changes) {
        if found == Changes::default() {
            return;
        }
        let Changes { mut changes, refused } = found;
        let is_whole = refused.iter().all(|no| no.is_whole);
        changes.extend(refused.into_iter().flat_map(|no| no.changes));
        let known: usize = self.found.refused.iter().map(|no| no.changes.len()).sum();
        let fits = known + changes.len() <= ENTRIES_MAX;
        let changes = if fits { changes } else { Vec::new() };
        self.found.refused.push(Refused { path: at.to_owned(), why: EMBEDDED, changes, is_whole: is_whole && fits });
    }
}

/// Whether a link at `at` points outside by its text alone. Where it really leads is judged at the merge.
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

/// Why nothing of this name is ever merged.
fn kept(name: &OsStr) -> Option<&'static str> {
    if is_protected(name) {
        return Some(KEPT);
    }
    STORES.contains(&spelled(name).as_str()).then_some(STORE)
}

/// A name as the loosest file systems compare it: by Unicode's case folding, without final dots and blanks, and without the name of a stream.
fn spelled(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    let plain = name.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    plain.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// When a file was last written to. An overlay's copy keeps it.
fn written(stat: &Stat) -> (i64, u64) {
    (stat.st_mtime, stat.st_mtime_nsec)
}

fn is_protected(name: &OsStr) -> bool {
    PROTECTED.contains(&spelled(name).as_str())
}

fn permissions(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
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

    /// A project and what jobs left over it, each a folder.
    fn layers() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (project, upper) = (dir.path().join("project"), dir.path().join("work/upper"));
        std::fs::create_dir_all(&project).unwrap();
        std::fs::create_dir_all(&upper).unwrap();
        (dir, project, upper)
    }

    #[test]
    fn files_that_are_too_large_to_merge_are_not_read() {
        use std::os::unix::fs::PermissionsExt;
        let (dir, project, upper) = layers();
        let time = std::time::SystemTime::now();
        for (folder, mode) in [(&project, 0o644), (&upper, 0o755)] {
            for name in ["copied", "touched"] {
                let file = std::fs::File::create(folder.join(name)).unwrap();
                // To read a tebibyte takes longer than any test may.
                file.set_len(1 << 40).unwrap();
                let later = u64::from(name == "touched" && *folder == upper);
                file.set_modified(time + std::time::Duration::from_secs(later)).unwrap();
                file.set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
            }
            std::fs::write(folder.join("small"), "same").unwrap();
        }
        let found = changes(&project, &dir.path().join("work")).unwrap();
        let found: Vec<_> = found.changes.iter().map(|change| (change.path.to_str().unwrap(), change.kind)).collect();
        assert_eq!(found, [("copied", ChangeKind::ModeChanged), ("touched", ChangeKind::Modified)]);
    }

    #[test]
    fn stores_of_other_version_controls_are_never_changed() {
        let (dir, project, upper) = layers();
        for folder in [&project, &upper] {
            std::fs::create_dir_all(folder.join("sub/.hg")).unwrap();
        }
        std::fs::write(project.join("sub/.hg/hgrc"), "[hooks]").unwrap();
        let found = || changes(&project, &dir.path().join("work")).unwrap();
        assert_eq!(found(), Changes::default(), "the control: nothing in it changed");
        std::fs::write(upper.join("sub/.hg/hgrc"), "[hooks]\nstatus = ./x").unwrap();
        std::fs::create_dir(upper.join(".JJ")).unwrap();
        std::fs::write(upper.join(".JJ/config"), "x").unwrap();
        std::fs::write(upper.join(".\u{17f}vn. :x"), "x").unwrap();
        std::fs::write(upper.join(".hgignore"), "x").unwrap();
        let found = found();
        let refused: Vec<_> = found.refused.iter().map(|no| (no.path.to_str().unwrap(), no.why)).collect();
        assert_eq!(refused, [(".JJ", STORE), (".\u{17f}vn. :x", STORE), ("sub/.hg", STORE)]);
        assert_eq!(found.changes.iter().map(|change| change.path.to_str().unwrap()).collect::<Vec<_>>(), [".hgignore"]);
    }

    #[test]
    fn a_clients_mark_in_gits_folder_is_no_change() {
        let (dir, project, upper) = layers();
        for folder in [&project, &upper] {
            std::fs::create_dir_all(folder.join(".git")).unwrap();
        }
        let refused = || {
            let found = changes(&project, &dir.path().join("work")).unwrap();
            assert!(found.changes.is_empty(), "git's folder is never merged");
            found.refused.iter().map(|no| no.path.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        std::fs::write(upper.join(".git/opencode"), "4f2a").unwrap();
        assert_eq!(refused(), [""; 0]);
        // The controls: what git reads, a link of that name, and the same name elsewhere.
        std::fs::write(upper.join(".git/config"), "[core]").unwrap();
        assert_eq!(refused(), [".git"]);
        std::fs::remove_file(upper.join(".git/config")).unwrap();
        std::fs::remove_file(upper.join(".git/opencode")).unwrap();
        std::os::unix::fs::symlink("config", upper.join(".git/opencode")).unwrap();
        assert_eq!(refused(), [".git"]);
        std::fs::remove_file(upper.join(".git/opencode")).unwrap();
        std::fs::create_dir(upper.join(".git/hooks")).unwrap();
        std::fs::write(upper.join(".git/hooks/opencode"), "x").unwrap();
        assert_eq!(refused(), [".git"]);
    }
}
