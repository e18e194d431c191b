//! Who is at the other end of the operator's socket.
//!
//! The same user, in the same user, pid and mount namespace as the kernel: a process in a room is none of these, even where the
//! socket could reach it. Doubt counts as no.

use policy::Peer;
use tokio::net::UnixStream;
use world::{Code, Refusal};

/// Who it is, if it is the operator.
pub(crate) fn check(stream: &UnixStream) -> Result<Peer, Refusal> {
    let no = |why: String| Refusal::new(Code::Denied, format!("this socket is the operator's: {why}"));
    let peer = stream.peer_cred().map_err(|error| no(format!("the peer cannot be known ({error})")))?;
    let me = rustix::process::geteuid().as_raw();
    if peer.uid() != me {
        return Err(no(format!("user {} is not user {me}", peer.uid())).hint("run the command as the user who runs the kernel"));
    }
    // A peer that our pid namespace cannot name has pid 0.
    let pid = peer.pid().filter(|pid| *pid > 0).ok_or_else(|| no("the peer is in another pid namespace".into()))?;
    for namespace in ["user", "pid", "mnt"] {
        let ours = std::fs::read_link(format!("/proc/self/ns/{namespace}"));
        let theirs = std::fs::read_link(format!("/proc/{pid}/ns/{namespace}"));
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) if ours == theirs => {}
            (Ok(_), Ok(_)) => return Err(no(format!("the peer is in another {namespace} namespace"))),
            _ => return Err(no(format!("the peer's {namespace} namespace cannot be known"))),
        }
    }
    let started_ms = started(pid).ok_or_else(|| no("the peer is gone".into()))?;
    Ok(Peer { sandbox: HOST.to_owned(), pid: pid.cast_unsigned(), started_ms })
}

/// The place of whoever is in no room.
const HOST: &str = "host";

/// When a process started, in the kernel's ticks: with the pid it names one process for good.
fn started(pid: i32) -> Option<i64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold spaces and brackets; what follows its last bracket does not.
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}
