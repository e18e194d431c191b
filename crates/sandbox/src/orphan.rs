//! What an earlier kernel left behind.
//!
//! Its processes are gone by design. This makes sure of it for the holders it noted, and removes cgroups and directories.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::cgroup;
use crate::process::Identity;

/// In a workspace's directory: which process held it last.
pub(crate) const HOLDER: &str = "holder";
/// The same before it is whole.
pub(crate) const HALF: &str = "holder.half";

/// What a sweep found and removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub killed: usize,
    pub cgroups: usize,
    pub directories: usize,
    /// What could not be removed, and why.
    pub left: Vec<(PathBuf, String)>,
}

/// Ends the holders that these workspaces name, removes cgroups of kernels that are no more, and removes the workspaces for
/// which `keep` is false. To be called before the first workspace is opened. Blocks.
pub fn sweep(workspaces: &[PathBuf], keep: impl Fn(&Path) -> bool) -> Swept {
    let mut swept = Swept::default();
    for work in workspaces {
        match end_holder(work) {
            Ok(ended) => swept.killed += usize::from(ended),
            Err(error) => {
                // Its mount may still be in use, so its files stay.
                swept.left.push((work.clone(), error.to_string()));
                continue;
            }
        }
        // Mounts for containers outlive a kernel that was killed.
        crate::mount::unmount(work);
        if !keep(work) {
            match remove(work) {
                Ok(()) => swept.directories += 1,
                Err(error) => swept.left.push((work.clone(), error.to_string())),
            }
        }
    }
    let parents = ["memory", "pids", "cpu"].iter().filter_map(|name| cgroup::controller(name)).map(|controller| controller.path);
    for folder in parents.chain(cgroup::unified()).flat_map(|parent| stale_groups(&parent)) {
        match empty_and_remove(&folder) {
            Ok(()) => swept.cgroups += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => swept.left.push((folder, error.to_string())),
        }
    }
    swept
}

/// Ends whoever is still in a group of a kernel that is no more, and removes the group. Nobody but a job of that kernel is in it.
fn empty_and_remove(folder: &Path) -> io::Result<()> {
    let began = Instant::now();
    // The group of a branch has those of its jobs in it.
    let below = fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    for group in below {
        empty_and_remove(&group.path())?;
    }
    loop {
        match fs::remove_dir(folder) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && began.elapsed() < GROUP_ENDS_MAX => {}
            result => return result,
        }
        // Version 2 kills all at once. In version 1 each is killed, through a descriptor that was opened while it was in the group.
        if fs::write(folder.join("cgroup.kill"), "1").is_err() {
            let members = || cgroup::read(&folder.join("cgroup.procs"));
            for pid in members().lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
                if let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty())
                    && members().lines().any(|line| line.parse() == Ok(pid.as_raw_nonzero().get()))
                {
                    let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
                }
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A killed process leaves its group when it is gone, which may wait for a disk.
const GROUP_ENDS_MAX: Duration = Duration::from_secs(5);

/// Kills the noted holder if that very process still runs, and waits for its end. True when it did.
fn end_holder(work: &Path) -> io::Result<bool> {
    let noted = match fs::read(work.join(HOLDER)) {
        // Power failed before the note was on disk; whoever it named is gone with the boot.
        Ok(bytes) if bytes.is_empty() => return Ok(false),
        Ok(bytes) => serde_json::from_slice::<Identity>(&bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let Some(pid) = Pid::from_raw(noted.pid) else { return Ok(false) };
    // Opened before the check: if the identity holds afterwards, the descriptor is of that process.
    let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return Ok(false) };
    if !noted.runs() {
        return Ok(false);
    }
    rustix::process::pidfd_send_signal(&pidfd, Signal::KILL)?;
    let mut polled = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
    let ten_seconds = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
    if rustix::event::poll(&mut polled, Some(&ten_seconds))? == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(true)
}

/// Removes a workspace. Overlayfs leaves a folder without any permission in `work/`, and a job may have made more of them.
pub fn remove(work: &Path) -> io::Result<()> {
    match fs::remove_dir_all(work) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            unlock(work)?;
            fs::remove_dir_all(work)
        }
        other => other,
    }
}

/// Removes a directory that was only for a trial.
pub(crate) fn discard(folder: &Path) {
    let _ = remove(folder);
}

/// Makes every folder beneath one's own to remove. Nobody else changes it any more, so names are safe to use.
fn unlock(top: &Path) -> io::Result<()> {
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Groups named after a kernel that does not run any more: `skep-PID-START-N`.
fn stale_groups(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let stale = |name: &str| {
        let mut numbers = name.strip_prefix(cgroup::PREFIX)?.split('-').map(|part| part.parse::<u64>().ok());
        let (pid, start) = (numbers.next()??, numbers.next()??);
        Some(!Identity::of(pid as i32).is_ok_and(|now| now.start == start))
    };
    let names = entries.flatten().filter(|entry| entry.file_name().to_str().and_then(stale) == Some(true));
    names.map(|entry| entry.path()).collect()
}
