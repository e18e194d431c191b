//! What git must not open: pipes, devices, and links that lead to them.
//!
//! Git reads some names of a project by itself, and a pipe in such a place keeps it waiting until its time is over. **Invariant.** Where git
//! runs for the kernel, no pipe and no device of the project is in sight, or git is not run.

use crate::reader::{Entry, Folder, Unread};
use rustix::fs::FileType;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use world::{Code, Refusal};

/// Real projects have a handful of pipes, if any.
const SPECIAL_MAX: usize = 1000;

/// Sockets are not among them: to open one fails at once.
pub fn is_special(kind: FileType) -> bool {
    matches!(kind, FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice)
}

/// Whether git may read a name by itself: what lies in its own folder, and its files in the work tree.
pub fn is_gits(folder: &Path, name: &OsStr) -> bool {
    let dot_git = |name: &OsStr| name.as_bytes().get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b".git"));
    dot_git(name) || name == ".mailmap" || folder.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git"))
}

/// A pipe is covered, and a link to it leads to its cover. A link out of the project is no path that could be covered.
pub fn refuse_links(project: &Folder, links: impl Iterator<Item = PathBuf>) -> Result<(), Refusal> {
    for link in links {
        let Some(target) = special_target(project.path(), &link).filter(|target| !target.starts_with(project.path())) else { continue };
        let what = format!("`{}` leads to `{}`, which git would wait for", link.display(), target.display());
        return Err(Refusal::new(Code::Unsupported, what).hint("remove the link, or clone the project anew"));
    }
    Ok(())
}

/// The pipe or device that a link leads to. Links are only read here, and what they lead to is not opened.
fn special_target(folder: &Path, link: &Path) -> Option<PathBuf> {
    let target = folder.join(link).canonicalize().ok()?;
    let kind = rustix::fs::lstat(&target).ok().map(|stat| FileType::from_raw_mode(stat.st_mode))?;
    is_special(kind).then_some(target)
}

pub fn few_enough(count: usize) -> Result<(), Refusal> {
    if count <= SPECIAL_MAX {
        return Ok(());
    }
    let what = format!("the project holds {count} pipes and devices, and a sandbox covers at most {SPECIAL_MAX}");
    Err(Refusal::new(Code::TooLarge, what).hint("remove them: find . -type p"))
}

/// The first pipe, device or link to one in a repository outside its project, which nothing covers. Blocks.
pub fn find_in_repository(repository: &Folder) -> Result<Option<PathBuf>, Unread> {
    let found = walk(repository, |folder, entry| {
        let path = folder.join(&entry.name);
        is_special(entry.kind) || (entry.kind == FileType::Symlink && special_target(repository.path(), &path).is_some())
    });
    found.map(|found| found.into_iter().next())
}

/// Whether what jobs left in an upper layer could make git wait: a pipe, device or link where git reads by itself, or a pipe anywhere beside
/// a changed repository, whose configuration may name it. Blocks.
pub fn is_git_unsafe(upper: &Folder) -> Result<bool, Unread> {
    let mut has_repository = false;
    let pipes = walk(upper, |folder, entry| {
        has_repository |= entry.name.eq_ignore_ascii_case(".git");
        let is_link = entry.kind == FileType::Symlink && is_gits(folder, &entry.name);
        is_link || (is_special(entry.kind) && !is_whiteout(upper, &folder.join(&entry.name)))
    })?;
    Ok(pipes.iter().any(|path| has_repository || is_gits(path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default())))
}

/// What an overlay puts in the place of what is deleted.
fn is_whiteout(upper: &Folder, path: &Path) -> bool {
    let stat = upper.look_within(path);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0)
}

/// The paths that `wanted` says yes to. What goes away meanwhile is passed over.
fn walk(top: &Folder, mut wanted: impl FnMut(&Path, &Entry) -> bool) -> Result<Vec<PathBuf>, Unread> {
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(folder) = waiting.pop() {
        let entries = match top.entries(&folder) {
            Ok(entries) => entries,
            Err(Unread::Absent | Unread::LeadsAway | Unread::Failed(rustix::io::Errno::ACCESS)) => continue,
            Err(why) => return Err(why),
        };
        for entry in entries {
            if wanted(&folder, &entry) {
                found.push(folder.join(&entry.name));
            } else if entry.kind == FileType::Directory {
                waiting.push(folder.join(&entry.name));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
