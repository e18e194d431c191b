//! The base of a workspace: what the project held when the task began.
//!
//! HEAD says what committed files held. What differs from it then, dirty or untracked, is kept as blobs. Git looks through the project in
//! a room of its own, without hooks, fsmonitor or anybody's configuration but the repository's. It looks at size and time of each tracked
//! file and reads those that its index does not vouch for. One that was changed with neither showing passes for HEAD's here; at the merge
//! it differs from its base and counts as edited meanwhile.
//!
//! A large project takes git seconds, so the task works meanwhile. **Invariant.** What was changed between the opening of the workspace
//! and the end of that look, by the times that the file system gave it, has no base: the task may have seen what was there before.

use crate::desk::{Desk, room_fault};
use crate::fault::{Fault, FaultKind, Stop};
use crate::mask::Sight;
use crate::reader::{self, Folder, Unread};
use crate::scratch::Shows;
use crate::{Kernel, git};
use sandbox::{JobSpec, Workspace};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use world::event::WorkspaceBased;
use world::{Base, Code, Refusal, TaskId, limits};

/// Files that were not as HEAD has them, by path.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Dirty {
    pub files: BTreeMap<String, DirtyFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "was")]
pub(crate) enum DirtyFile {
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

/// The look through a project that goes on while its task works already.
#[derive(Default)]
pub(crate) struct Scan(tokio::sync::Mutex<Option<JoinHandle<Result<(), Stop>>>>);

impl Scan {
    /// Starts it, unless the base is on record. Where the times of files are another machine's, they prove nothing: there it is waited for.
    pub async fn begin(&self, kernel: &Kernel, task: TaskId, desk: &Arc<Desk>) -> Result<(), Stop> {
        if kernel.task(task)?.workspace.is_some_and(|workspace| workspace.base.is_none()) {
            *self.0.lock().await = Some(start(kernel, task, desk)?);
            if !stamps_are_local(&desk.project) {
                kernel.base(task, desk).await?;
            }
        }
        Ok(())
    }

    pub async fn end(&self) {
        if let Some(scan) = self.0.lock().await.take() {
            scan.abort();
            // It was told to stop: whatever it says now is of no use.
            drop(scan.await);
        }
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        if let Some(scan) = self.0.get_mut() {
            scan.abort();
        }
    }
}

impl Kernel {
    /// A task's base, once it is on record.
    pub(crate) async fn base(&self, task: TaskId, desk: &Arc<Desk>) -> Result<Base, Stop> {
        let mut scan = desk.scan.0.lock().await;
        if let Some(base) = self.task(task)?.workspace.and_then(|workspace| workspace.base) {
            return Ok(base);
        }
        let running = match scan.take() {
            Some(running) => running,
            // The last one failed.
            None => start(self, task, desk)?,
        };
        running.await.map_err(|error| Fault::new(FaultKind::Bug, "the look through a project failed", error))??;
        let workspace = self.task(task)?.workspace;
        let base = workspace.and_then(|workspace| workspace.base);
        Ok(base.ok_or_else(|| Refusal::new(Code::WrongState, format!("{task} has ended")))?)
    }
}

fn start(kernel: &Kernel, task: TaskId, desk: &Arc<Desk>) -> Result<JoinHandle<Result<(), Stop>>, Stop> {
    let kernel = kernel.me.upgrade().ok_or_else(|| Fault::new(FaultKind::Bug, "the kernel is gone", task))?;
    // Not the desk itself: a look through the project does not keep a room open.
    let (project, sight) = (desk.project.clone(), Arc::clone(&desk.sight));
    Ok(tokio::spawn(async move { record(&kernel, task, &project, &sight).await }))
}

/// Records HEAD and every file that differs from it.
async fn record(kernel: &Kernel, id: TaskId, project: &Path, sight: &Sight) -> Result<(), Stop> {
    let task = kernel.task(id)?;
    let _keeps = kernel.keeping.read().await;
    let Some(since_us) = task.workspace.map(|workspace| workspace.since_us) else { return Ok(()) };
    kernel.fault_at("base", 0);
    let scratch = kernel.scratch(task.zone, project, Shows::Repository).await?;
    let (head, changed) = status(scratch.room()?).await?;
    scratch.close().await?;
    let mut dirty = Dirty::default();
    for path in changed {
        // What no room shows, no task can change: its content is not kept.
        let secret = sight.hides(&path).is_some();
        let file = if secret { DirtyFile::Unproven } else { hold(kernel, project, path.clone(), since_us).await? };
        dirty.files.insert(path, file);
    }
    let bytes = serde_json::to_vec(&dirty).map_err(|error| Fault::new(FaultKind::Bug, "cannot write a base", error))?;
    let blob = kernel.ledger.keep(&bytes)?;
    let until_us = latest_us();
    Ok(kernel.ledger.record(WorkspaceBased { pid: task.pid, task: Some(id), head, blob, until_us }).await?)
}

/// No file that is changed from now on is stamped with an earlier time: stamps come from a clock that ticks every few milliseconds.
pub(crate) fn earliest_us() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    us(now.tv_sec, now.tv_nsec)
}

/// No file that was changed until now is stamped with a later time: newer kernels stamp by the exact clock where it matters.
fn latest_us() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    us(now.tv_sec, now.tv_nsec)
}

fn us(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000).saturating_add(nanoseconds / 1000)
}

/// Whether this machine's clock stamps the files of a project.
fn stamps_are_local(project: &Path) -> bool {
    const EXT4: i64 = 0xef53;
    const XFS: i64 = 0x5846_5342;
    const BTRFS: i64 = 0x9123_683e;
    const TMPFS: i64 = 0x0102_1994;
    const OVERLAY: i64 = 0x794c_7630;
    const F2FS: i64 = 0xf2f5_2010;
    const ZFS: i64 = 0x2fc1_2fc1;
    const BCACHEFS: i64 = 0xca45_1a4e;
    const LOCAL: [i64; 8] = [EXT4, XFS, BTRFS, TMPFS, OVERLAY, F2FS, ZFS, BCACHEFS];
    rustix::fs::statfs(project).is_ok_and(|fs| LOCAL.contains(&fs.f_type))
}

/// Whether something came, went or changed at a path in a span of time, as far as the times of files tell. A folder's own change of name
/// shows only in its second time: the first tells of what is in it.
pub(crate) fn touched(project: &Path, path: &str, span: &RangeInclusive<i64>) -> bool {
    let mut is_leaf = true;
    for part in Path::new(path).ancestors() {
        let meta = match std::fs::symlink_metadata(project.join(part)) {
            Ok(meta) => meta,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => continue,
            Err(_) => return true,
        };
        let (changed, modified) = (us(meta.ctime(), meta.ctime_nsec()), us(meta.mtime(), meta.mtime_nsec()));
        if span.contains(&changed) && (is_leaf || changed != modified) {
            return true;
        }
        is_leaf = false;
    }
    false
}

/// HEAD, and the paths that are not as it has them.
pub(crate) async fn status(room: &Workspace) -> Result<(Option<String>, Vec<String>), Stop> {
    let status = git(room, &["status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--no-renames"], None).await?;
    let text = String::from_utf8_lossy(&status);
    let commit = text.split('\0').find_map(|entry| entry.strip_prefix("# branch.oid ")).filter(|commit| git::is_commit(commit));
    Ok((commit.map(str::to_owned), text.split('\0').filter_map(changed_path).map(str::to_owned).collect()))
}

/// The files of a recorded base that were not as HEAD had them.
pub(crate) fn dirty(kernel: &Kernel, blob: &str) -> Result<Dirty, Fault> {
    serde_json::from_slice(&kernel.ledger.blob(blob)?).map_err(|error| Fault::new(FaultKind::Bug, "a base cannot be read", error))
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

async fn hold(kernel: &Kernel, project: &Path, path: String, since_us: i64) -> Result<DirtyFile, Stop> {
    let top = project.to_owned();
    let (read, late) = reader::bounded(move || {
        let read = Folder::open(&top).and_then(|project| project.read_with_mode(&path, limits::MERGE_FILE_MAX));
        // Looked at last: a change during the reading counts too.
        (read, touched(&top, &path, &(since_us..=i64::MAX)))
    })
    .await?;
    Ok(match read {
        Ok((bytes, mode)) if !late => DirtyFile::Held { blob: kernel.ledger.keep(&bytes)?, executable: mode & 0o100 != 0 },
        Err(Unread::Absent) if !late => DirtyFile::Absent,
        // What cannot be read cannot be compared: a person looks at it.
        _ => DirtyFile::Unproven,
    })
}

/// Runs git in a room and gives its output.
pub(crate) async fn git(room: &Workspace, args: &[&str], stdin: Option<Vec<u8>>) -> Result<Vec<u8>, Stop> {
    let settings = [
        "core.fsmonitor=false",
        "core.hooksPath=/dev/null",
        "core.untrackedCache=false",
        "safe.directory=*",
        // A room shows owners of its own, so git would take every file for changed and read them all.
        "core.checkStat=minimal",
    ];
    let settings = settings.iter().flat_map(|setting| ["-c", setting]);
    let argv = std::iter::once("git").chain(settings).chain(args.iter().copied()).map(str::to_owned);
    let mut job = JobSpec::exec(argv);
    let env = [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        // `check-ignore` reads its paths literally and refuses to be told so.
        ("GIT_LITERAL_PATHSPECS", if args.first() == Some(&"check-ignore") { "0" } else { "1" }),
        ("GIT_TERMINAL_PROMPT", "0"),
        // A replacement could give a commit another content.
        ("GIT_NO_REPLACE_OBJECTS", "1"),
    ];
    job.env = env.iter().map(|(key, value)| (key.into(), value.into())).collect();
    job.output_max = 64 * 1024 * 1024;
    job.limits.wall = Some(Duration::from_secs(120));
    let outcome = room.run(job, stdin).await.map_err(room_fault)?;
    let command = args.first().copied().unwrap_or("git");
    if outcome.truncated {
        return Err(Refusal::new(Code::TooLarge, format!("`git {command}` has more to say than fits in memory")).into());
    }
    // `check-ignore` answers 1 for "none of them".
    if outcome.exit.success() || (command == "check-ignore" && outcome.exit == sandbox::Exit::Code(1)) {
        return Ok(outcome.stdout);
    }
    let why = match outcome.timed_out {
        true => "it took too long; a file that git reads may be a pipe".to_owned(),
        false => String::from_utf8_lossy(&outcome.stderr).trim().to_owned(),
    };
    Err(Fault::new(FaultKind::Room, format!("`git {command}` failed in the room"), why)
        .fix("run the same git command by hand in the project")
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
        let late = |path: &str| touched(project, path, &(start..=i64::MAX));
        assert!(!late("a/b/old") && !late("a/b/none") && !late("nowhere/none"));
        fs::write(project.join("a/plain"), "x").unwrap();
        assert!(late("a/plain") && !late("a/b/old") && !late("a/none"));
        fs::remove_file(project.join("a/plain")).unwrap();
        assert!(late("a/plain") && late("a/none") && !late("a/b/old"), "what is gone shows in its folder");
        fs::rename(project.join("a/b"), project.join("a/c")).unwrap();
        assert!(late("a/c/old"), "a folder took another's place");
        let end = tick();
        fs::write(project.join("later"), "").unwrap();
        assert!(!touched(project, "later", &(start..=end - 1)));
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
