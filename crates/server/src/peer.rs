//! Who is at the other end of the operator's socket.
//!
//! The same user, in the same user, pid and mount namespace as the kernel: a process in a room is none of these, even where the
//! socket could reach it. Doubt counts as no. **Invariant.** Where Linux gives a pidfd of the peer, all that is said here is said of that very
//! process: it lives until the last look at it. Where it does not, a number that is used again in between could deceive.

use policy::Peer;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::{AsRawFd, OwnedFd};
use tokio::net::UnixStream;
use wire::{Principal, RpcError};
use world::{Code, Refusal};

/// The principal of a connection to the operator's socket.
pub(crate) fn operator(stream: &UnixStream) -> Result<Principal, Refusal> {
    let refuse = |why: String| Refusal::new(Code::Denied, format!("this socket is the operator's: {why}"));
    let peer = stream.peer_cred().map_err(|error| refuse(format!("the peer cannot be known ({error})")))?;
    let me = rustix::process::geteuid().as_raw();
    if peer.uid() != me {
        return Err(refuse(format!("user {} is not user {me}", peer.uid())).hint("run the command as the user who runs the kernel"));
    }
    // A peer that our pid namespace cannot name has pid 0.
    let pid = peer.pid().filter(|pid| *pid > 0).ok_or_else(|| refuse("the peer is in another pid namespace".into()))?;
    let held = sandbox::peer_pidfd(stream).map_err(|error| refuse(format!("the peer cannot be held ({error})")))?;
    for namespace in ["user", "pid", "mnt"] {
        let ours = std::fs::read_link(format!("/proc/self/ns/{namespace}"));
        let theirs = std::fs::read_link(format!("/proc/{pid}/ns/{namespace}"));
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) if ours == theirs => {}
            (Ok(_), Ok(_)) => return Err(refuse(format!("the peer is in another {namespace} namespace"))),
            _ => return Err(refuse(format!("the peer's {namespace} namespace cannot be known"))),
        }
    }
    let started_ticks = started(pid).ok_or_else(|| refuse("the peer is gone".into()))?;
    // Asked last: as long as it lives, its number is its own.
    if held.is_some_and(|held| !is_still(&held, pid)) {
        return Err(refuse("the peer is gone".into()));
    }
    Ok(Principal::Operator { os_pid: pid.cast_unsigned(), started_ticks })
}

/// The program that a token is bound to: the one that asked for it, and later the one that uses it.
pub(crate) fn bearer(principal: &Principal) -> Result<Peer, RpcError> {
    match principal {
        Principal::Operator { os_pid: os_pid @ 1.., started_ticks } => {
            Ok(Peer { sandbox: HOST.to_owned(), pid: *os_pid, started_ms: *started_ticks })
        }
        Principal::Operator { .. } | Principal::Process { .. } | Principal::Token { .. } => {
            Err(Refusal::new(Code::Denied, format!("{principal} is no program of this host, which a token could be bound to")).into())
        }
    }
}

/// The place of whoever is in no room.
const HOST: &str = "host";

/// Whether a process lives and has this number.
fn is_still(held: &OwnedFd, pid: i32) -> bool {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", held.as_raw_fd())).unwrap_or_default();
    let named = info.lines().find_map(|line| line.strip_prefix("Pid:")).and_then(|number| number.trim().parse().ok());
    let mut polled = [PollFd::new(held, PollFlags::IN)];
    named == Some(pid) && rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
}

/// When a process started, in the kernel's ticks: with the pid it names one process for good.
fn started(pid: i32) -> Option<i64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold spaces and brackets; what follows its last bracket does not.
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// A client that ended before it was looked at has no number any more, whoever has it now.
    #[tokio::test]
    async fn a_peer_that_is_gone_is_nobody() {
        let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        let here = UnixStream::from_std(here).unwrap();
        assert!(operator(&here).is_ok(), "the control: both ends are ours");
        let held = sandbox::peer_pidfd(&here).unwrap();
        assert!(held.is_none_or(|held| is_still(&held, std::process::id().cast_signed()) && !is_still(&held, 1)));
        drop(there);
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let held = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        assert!(is_still(&held, pid.as_raw_nonzero().get()), "the control: it lives");
        drop(child.stdin.take());
        // Ended, and not yet buried: its number still stands in /proc.
        let mut polled = [PollFd::new(&held, PollFlags::IN)];
        rustix::event::poll(&mut polled, None).unwrap();
        assert!(!is_still(&held, pid.as_raw_nonzero().get()));
        child.wait().unwrap();
        assert!(!is_still(&held, pid.as_raw_nonzero().get()));
    }
}
