//! What /proc says about processes, and how ours present themselves.

use std::fs;
use std::io;

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
    /// The identity of a process that runs now.
    pub(crate) fn of(pid: i32) -> io::Result<Identity> {
        Ok(Identity { pid, start: stat_field(&pid.to_string(), 22)?, boot: boot_id()? })
    }

    /// Whether that very process still runs. A pid of another boot or another start is somebody else.
    pub(crate) fn runs(&self) -> bool {
        Identity::of(self.pid).is_ok_and(|now| now == *self)
    }
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// A numeric field of /proc/PID/stat, counted from 1 as proc(5) does. The name in parentheses may hold anything.
fn stat_field(pid: &str, field: usize) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let (_, rest) = stat.rsplit_once(')').ok_or_else(invalid)?;
    // The first field after the name is number 3.
    rest.split_whitespace().nth(field - 3).and_then(|text| text.parse().ok()).ok_or_else(invalid)
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
    let fields: Vec<usize> =
        [48, 49, 50, 51].iter().map(|field| stat_field("self", *field).map(|at| at as usize)).collect::<io::Result<_>>()?;
    sys::clear_environment();
    // SAFETY: the kernel says that these ranges hold the initial argument and environment strings, on our own stack. Rust copies
    // both before it lends them out, and the environment was just cleared.
    unsafe {
        sys::overwrite(fields[0], fields[1], title.as_bytes());
        sys::overwrite(fields[2], fields[3], &[]);
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
