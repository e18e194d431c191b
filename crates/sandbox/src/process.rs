//! What /proc says about processes, and how ours present themselves.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::sys;

/// A process that cannot be mistaken for a later one with the same pid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) pid: i32,
    /// Clock ticks since boot, from /proc/PID/stat.
    pub(crate) start: u64,
    pub(crate) boot: String,
}

impl Identity {
    /// The identity of a process that runs now; one that only waits to be buried does not.
    pub(crate) fn of(pid: i32) -> io::Result<Identity> {
        let fields = stat(&pid.to_string())?;
        if matches!(fields.first().map(String::as_str), Some("Z" | "X")) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Identity { pid, start: number(&fields, 22)?, boot: boot_id()? })
    }

    /// Whether that very process still runs. A pid of another boot or another start is somebody else.
    pub(crate) fn runs(&self) -> bool {
        Identity::of(self.pid).is_ok_and(|now| now == *self)
    }
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// The fields of /proc/PID/stat from the state on, which is number 3. The name before it may hold anything, spaces too.
fn stat(pid: &str) -> io::Result<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').ok_or(io::ErrorKind::InvalidData)?;
    Ok(rest.split_whitespace().map(str::to_owned).collect())
}

/// A numeric field, counted from 1 as proc(5) does.
fn number(fields: &[String], field: usize) -> io::Result<u64> {
    fields.get(field - 3).and_then(|text| text.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// One process of a tree at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    /// Of its first thread or, if that has ended before the others, of another: /proc shows the process under either, but an ended one as dead.
    pub(crate) pid: i32,
    pub(crate) stopped: bool,
    pub(crate) own_ms: u64,
    /// Of children that were collected.
    pub(crate) children_ms: u64,
    pub(crate) resident_bytes: u64,
}

/// A process and all beneath it, itself first. Empty when it is gone.
pub(crate) fn tree(top: i32) -> Vec<Member> {
    let tick_ms = 1000 / rustix::param::clock_ticks_per_second().max(1);
    let page = rustix::param::page_size() as u64;
    let member = |pid: i32| -> io::Result<Member> {
        let mut fields = stat(&pid.to_string())?;
        let mut pid = pid;
        if is_dead(&fields)
            && let Some((thread, of_thread)) =
                threads_of(pid).find_map(|thread| Some((thread, stat(&thread.to_string()).ok()?)).filter(|(_, fields)| !is_dead(fields)))
        {
            (pid, fields) = (thread, of_thread);
        }
        let ms = |first| Ok::<u64, io::Error>((number(&fields, first)? + number(&fields, first + 1)?) * tick_ms);
        // A dead one that waits for its parent runs as little as a stopped one; and one that waits for a disk, or in vfork for its
        // child, finds the stop before it comes back to its program.
        let stopped = fields.first().is_some_and(|state| matches!(state.as_str(), "T" | "t" | "Z" | "X" | "D"));
        Ok(Member { pid, stopped, own_ms: ms(14)?, children_ms: ms(16)?, resident_bytes: number(&fields, 24)? * page })
    };
    let (mut found, mut waiting) = (Vec::new(), vec![top]);
    while let Some(pid) = waiting.pop() {
        // Gone between the list and the look.
        let Ok(member) = member(pid) else { continue };
        found.push(member);
        for thread in threads_of(pid) {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default();
            waiting.extend(children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
    }
    found
}

/// The oldest child of a process that has one thread.
pub(crate) fn first_child(pid: i32) -> Option<i32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

fn is_dead(stat: &[String]) -> bool {
    matches!(stat.first().map(String::as_str), Some("Z" | "X"))
}

fn threads_of(pid: i32) -> impl Iterator<Item = i32> {
    let listed = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    listed.filter_map(|thread| thread.file_name().to_str()?.parse().ok())
}

/// Hands over a path to each file that a process holds open, whichever of its threads holds it and whether or not it lets others look.
pub(crate) fn each_file(pid: i32, mut look: impl FnMut(&Path)) {
    // Threads nearly always have one table of files. One that has its own would hide them from a look at the first thread.
    let mut tables: Vec<i32> = vec![pid];
    tables.extend(threads_of(pid).filter(|thread| *thread != pid && !sys::share_files(pid, *thread)));
    for thread in tables {
        match fs::read_dir(format!("/proc/{thread}/fd")) {
            Ok(descriptors) => descriptors.flatten().for_each(|descriptor| look(&descriptor.path())),
            // The folder is root's if the process asked for it, or runs a program that it may not read. Its numbers are told to whoever may
            // trace it, as the owner of its user namespace may.
            Err(_) => {
                let listed = fs::read_dir(format!("/proc/{thread}/fdinfo")).into_iter().flatten().flatten();
                let numbers = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
                for copy in numbers.filter_map(|number| sys::copied_descriptor(thread, number).ok()) {
                    look(Path::new(&format!("/proc/self/fd/{}", copy.as_raw_fd())));
                }
            }
        }
    }
}

/// How many threads this process has.
pub(crate) fn threads() -> io::Result<usize> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("Threads:"));
    line.and_then(|text| text.trim().parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Wipes the arguments and environment this process was started with, which its children show in /proc, and gives it a title.
///
/// Moving the area instead (PR_SET_MM) needs CAP_SYS_RESOURCE, which even root may lack.
pub(crate) fn wipe_memory_of_start(title: &str) -> io::Result<()> {
    let stat = stat("self")?;
    let at = |field| number(&stat, field).map(|at| at as usize);
    let (arguments, environment) = ((at(48)?, at(49)?), (at(50)?, at(51)?));
    sys::clear_environment();
    // SAFETY: the kernel says that these ranges hold the initial argument and environment strings, on our own stack. The
    // environment was just cleared, and the arguments are looked at through std only before this process was forked.
    unsafe {
        sys::overwrite(arguments.0, arguments.1, title.as_bytes());
        sys::overwrite(environment.0, environment.1, &[]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_of_one_process_only() {
        let me = Identity::of(std::process::id() as i32).unwrap();
        assert!(me.runs());
        assert!(!Identity { start: me.start + 1, ..me.clone() }.runs());
        assert!(!Identity { boot: "another".into(), ..me }.runs());
    }
}
