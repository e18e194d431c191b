//! The base of a workspace: what the project held when the task began.
//!
//! HEAD says what committed files held. What differs from it then, dirty or untracked, is kept as blobs. Git looks through the project in
//! a room of its own, without hooks, fsmonitor or anybody's configuration but the repository's. It looks at size and time of each tracked
//! file and reads those that its index does not vouch for. One that was changed with neither showing passes for HEAD's here; at the merge
//! it differs from its base and counts as edited meanwhile.
//!
//! A large project takes git seconds, so the task works meanwhile. **Invariant.** What was changed between the opening of the workspace
//! and the end of that look, by the times that the file system gave it, has no base: the task may have seen what was there before.

use crate::file_system;
use crate::git_room::git as run_git;
use crate::reader::{self, Folder, Unread};
use crate::repository;
use rustix::fs::FileType;
use sandbox::Workspace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use world::{Fault, FaultKind, Stop, limits};

/// Files that were not as HEAD has them, by path.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Dirty {
    pub files: BTreeMap<String, DirtyFile>,
}

impl Dirty {
    pub fn parse(bytes: &[u8]) -> Result<Dirty, Fault> {
        serde_json::from_slice(bytes).map_err(|error| Fault::new(FaultKind::Bug, "a base cannot be read", error))
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>, Fault> {
        serde_json::to_vec(self).map_err(|error| Fault::new(FaultKind::Bug, "cannot write a base", error))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "was")]
pub enum DirtyFile {
    /// Deleted by the person.
    Absent,
    /// SHA-256 of the content, also the name of its blob.
    Held {
        blob: String,
        #[serde(default)]
        executable: bool,
    },
    /// Too large, not an ordinary file, or changed too late to tell: a change to it goes to a person.
    Unproven,
}

/// HEAD, and every file that differs from it, with contents kept by `keep`. `hides` names what no room shows: no task can change that,
/// so its content is not kept. A file that was touched since `since_us` is unproven.
pub async fn look(
    room: &Workspace,
    project: &Path,
    since_us: i64,
    hides: impl Fn(&str) -> bool,
    keep: impl Fn(&[u8]) -> Result<String, Fault>,
) -> Result<(Option<String>, Dirty), Stop> {
    let (head, changed) = status(room).await?;
    let mut dirty = Dirty::default();
    for path in changed {
        let file = if hides(&path) { DirtyFile::Unproven } else { hold(&keep, project, path.clone(), since_us).await? };
        dirty.files.insert(path, file);
    }
    Ok((head, dirty))
}

/// No file that is changed from now on is stamped with an earlier time: stamps come from a clock that ticks every few milliseconds.
pub fn earliest_us() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    us(now.tv_sec, now.tv_nsec)
}

/// Comes back when what was changed before is stamped with an earlier time than what is changed then.
pub async fn stamps_tick() {
    let changed = latest_us();
    // That clock ticks every few milliseconds, and later than that where the machine is held up.
    while earliest_us() <= changed {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// No file that was changed until now is stamped with a later time: newer kernels stamp by the exact clock where it matters.
pub fn latest_us() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    us(now.tv_sec, now.tv_nsec)
}

fn us(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000).saturating_add(nanoseconds / 1000)
}

/// When something was last changed and last modified, by the clock that stamps files.
pub fn stat_us(metadata: &std::fs::Metadata) -> (i64, i64) {
    use std::os::unix::fs::MetadataExt;
    (us(metadata.ctime(), metadata.ctime_nsec()), us(metadata.mtime(), metadata.mtime_nsec()))
}

/// Whether this machine's clock stamps the files of a project.
pub fn stamps_are_local(project: &Path) -> bool {
    rustix::fs::statfs(project).is_ok_and(|fs| file_system::LOCAL.contains(&fs.f_type))
}

/// Whether something came, went or changed at a path in a span of time, as far as the times of files tell. A folder's own change of name
/// shows only in its second time: the first tells of what is in it.
///
/// Opens nothing and follows no link: behind one, nothing of the project stands. Blocks.
pub fn touched(project: &Folder, path: &str, span: &RangeInclusive<i64>) -> bool {
    let mut parts: Vec<&Path> = Path::new(path).ancestors().collect();
    parts.reverse();
    let mut seen = Vec::new();
    for part in parts {
        let stat = match project.look_within(part) {
            Ok(stat) => stat,
            Err(Unread::Absent) => break,
            Err(_) => return true,
        };
        seen.push((us(stat.st_ctime, stat_ns(stat.st_ctime_nsec)), us(stat.st_mtime, stat_ns(stat.st_mtime_nsec))));
        if !FileType::from_raw_mode(stat.st_mode).is_dir() {
            break;
        }
    }
    // The last that is there shows what became of the path itself; those above it, only that they took another's place.
    let last = seen.pop();
    last.is_some_and(|(changed, _)| span.contains(&changed))
        || seen.iter().any(|(changed, modified)| span.contains(changed) && changed != modified)
}

fn stat_ns(nanoseconds: u64) -> i64 {
    i64::try_from(nanoseconds).unwrap_or_default()
}

/// Submodules are not asked: git would run in each of them by its own configuration, without the settings that switch programs off.
const STATUS: [&str; 7] =
    ["status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--no-renames", "--ignore-submodules=all"];

/// HEAD, and the paths that are not as it has them.
pub async fn status(room: &Workspace) -> Result<(Option<String>, Vec<String>), Stop> {
    let status = run_git(room, &STATUS, None).await?;
    let text = String::from_utf8_lossy(&status);
    let commit = text.split('\0').find_map(|entry| entry.strip_prefix("# branch.oid ")).filter(|commit| repository::is_commit(commit));
    Ok((commit.map(str::to_owned), text.split('\0').filter_map(changed_path).map(str::to_owned).collect()))
}

/// The path of one entry of `git status --porcelain=v2 -z`.
fn changed_path(entry: &str) -> Option<&str> {
    match entry.get(..2)? {
        "? " => Some(&entry[2..]),
        // 1 XY sub mH mI mW hH hI path
        "1 " => entry.splitn(9, ' ').nth(8),
        // u XY sub m1 m2 m3 mW h1 h2 h3 path
        "u " => entry.splitn(11, ' ').nth(10),
        _ => None,
    }
}

async fn hold(keep: &impl Fn(&[u8]) -> Result<String, Fault>, project: &Path, path: String, since_us: i64) -> Result<DirtyFile, Stop> {
    let top = project.to_owned();
    let looked = reader::bounded(move || {
        let project = Folder::open(&top)?;
        let read = project.read_with_mode(&path, limits::MERGE_FILE_MAX);
        // Looked at last: a change during the reading counts too.
        Ok((read, touched(&project, &path, &(since_us..=i64::MAX))))
    })
    .await?;
    let (read, late) = looked.unwrap_or_else(|why: Unread| (Err(why), true));
    Ok(match read {
        Ok((bytes, mode)) if !late => DirtyFile::Held { blob: keep(&bytes)?, executable: mode & 0o100 != 0 },
        Err(Unread::Absent) if !late => DirtyFile::Absent,
        // What cannot be read cannot be compared: a person looks at it.
        _ => DirtyFile::Unproven,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    #[test]
    fn times_tell_what_was_touched() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path();
        fs::create_dir_all(project.join("a/b")).unwrap();
        fs::write(project.join("a/b/old"), "").unwrap();
        fs::write(project.join("a/plain"), "").unwrap();
        // Longer than a tick, on both sides.
        let tick = || {
            std::thread::sleep(Duration::from_millis(20));
            let now = latest_us();
            std::thread::sleep(Duration::from_millis(20));
            now
        };
        let start = tick();
        let folder = Folder::open(project).unwrap();
        let late = |path: &str| touched(&folder, path, &(start..=i64::MAX));
        assert!(!late("a/b/old") && !late("a/b/none") && !late("nowhere/none"));
        fs::write(project.join("a/plain"), "x").unwrap();
        assert!(late("a/plain") && !late("a/b/old") && !late("a/none"));
        fs::remove_file(project.join("a/plain")).unwrap();
        assert!(late("a/plain") && late("a/none") && !late("a/b/old"), "what is gone shows in its folder");
        fs::rename(project.join("a/b"), project.join("a/c")).unwrap();
        assert!(late("a/c/old"), "a folder took another's place");
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), project.join("a/out")).unwrap();
        let linked = tick();
        let since = |path: &str| touched(&folder, path, &(linked..=i64::MAX));
        fs::write(outside.path().join("x"), "").unwrap();
        fs::write(project.join("a/c/new"), "").unwrap();
        assert!(!since("a/out/x") && since("a/c/new"), "behind a link is nothing of the project");
        let end = tick();
        fs::write(project.join("later"), "").unwrap();
        assert!(!touched(&folder, "later", &(start..=end - 1)));
    }

    #[test]
    fn paths_with_spaces_are_read_whole() {
        assert_eq!(changed_path("? a b.txt"), Some("a b.txt"));
        assert_eq!(changed_path("1 .M N... 100644 100644 100644 aaaa bbbb src/a b.rs"), Some("src/a b.rs"));
        assert_eq!(changed_path("u UU N... 1 2 3 4 h1 h2 h3 x y"), Some("x y"));
        assert_eq!(changed_path("# branch.head main"), None);
        assert_eq!(changed_path(""), None);
    }
}
