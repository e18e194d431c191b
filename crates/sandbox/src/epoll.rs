//! The epoll watches of the user that jobs are, and the end of a job that takes them all.
//!
//! Linux counts them for a user, whatever rooms its processes are in, and no namespace has a limit of its own: a job that took them all would
//! leave none for any program of that user, the kernel among them. So it is tried whether there is one left. When there is none, a job that
//! holds a large part of them is ended. What is in want for that moment is told in SECURITY.md.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, epoll};
use rustix::io::Errno;

use crate::namespace::{self, User};
use crate::packet;
use crate::process;
use crate::sys;

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Who holds more than one part in so many is to blame when there are none left.
const BLAME_SHARE: u64 = 16;

/// That of a machine with some gigabytes.
const LIMIT_UNKNOWN: u64 = 1 << 20;

/// Tells whether the user that jobs are has any left.
#[derive(Debug)]
pub(crate) struct EpollGauge {
    /// Counted for whoever made it, so a process of that user did.
    epoll: OwnedFd,
    watched: OwnedFd,
    /// What a user may have.
    limit: u64,
    turn: Mutex<()>,
}

impl EpollGauge {
    /// The process must have one thread.
    pub(crate) fn open() -> io::Result<EpollGauge> {
        EpollGauge::of(of_jobs()?)
    }

    fn of(epoll: OwnedFd) -> io::Result<EpollGauge> {
        let told = fs::read_to_string("/proc/sys/fs/epoll/max_user_watches").ok().and_then(|text| text.trim().parse().ok());
        let watched = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(EpollGauge { epoll, watched, limit: told.unwrap_or(LIMIT_UNKNOWN), turn: Mutex::new(()) })
    }

    fn is_empty(&self) -> bool {
        let _turn = self.turn.lock();
        match epoll::add(&self.epoll, &self.watched, epoll::EventData::new_u64(0), epoll::EventFlags::IN) {
            Ok(()) => epoll::delete(&self.epoll, &self.watched).is_err(),
            Err(error) => error == Errno::NOSPC,
        }
    }

    /// Comes back when there are none left and the tree beneath this pid 1 is to blame. Never, if it is not.
    pub(crate) async fn emptied_by(self: Arc<EpollGauge>, job: i32) {
        let share = self.limit / BLAME_SHARE;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.is_empty() && tokio::task::spawn_blocking(move || holds_more(job, share)).await.unwrap_or_default() {
                return;
            }
        }
    }
}

/// Made by this process if it is the user that jobs are, else by a child that becomes it.
fn of_jobs() -> io::Result<OwnedFd> {
    let user = User::of_jobs();
    let make = || Ok(epoll::create(epoll::CreateFlags::CLOEXEC)?);
    if !user.assumed {
        return make();
    }
    let (here, there) = packet::pair()?;
    let pid = sys::fork(|| {
        let sent = namespace::become_user(user).and_then(|()| make()).and_then(|epoll| packet::send(&there, &(), &[epoll.as_fd()]));
        i32::from(sent.is_err())
    })?;
    drop(there);
    let received = packet::receive::<()>(&here);
    sys::reap(pid, true)?;
    received?.and_then(|((), mut fds)| fds.pop()).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Whether a tree holds more watches. One that is inherited counts for each who has it.
fn holds_more(job: i32, share: u64) -> bool {
    let mut held = 0;
    for process in process::tree(job) {
        process::each_file(process.pid, |path| {
            if held <= share && fs::read_link(path).is_ok_and(|target| target == Path::new("anon_inode:[eventpoll]")) {
                held += watches(path);
            }
        });
    }
    held > share
}

/// How many an epoll has, by the path to its descriptor in /proc.
fn watches(descriptor: &Path) -> u64 {
    let (Some(folder), Some(number)) = (descriptor.parent().and_then(Path::parent), descriptor.file_name()) else { return 0 };
    let Ok(info) = File::open(folder.join("fdinfo").join(number)) else { return 0 };
    BufReader::new(info).split(b'\n').map_while(Result::ok).filter(|line| line.starts_with(b"tfd:")).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_are_counted_and_there_are_some_left() {
        let gauge = EpollGauge::of(epoll::create(epoll::CreateFlags::CLOEXEC).unwrap()).unwrap();
        assert!(!gauge.is_empty() && !gauge.is_empty(), "the one that it tries is given back");
        let me = std::process::id() as i32;
        let events: Vec<OwnedFd> = (0..200).map(|_| rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap()).collect();
        assert!(!holds_more(me, 5 * 200 - 1));
        let epolls: Vec<OwnedFd> = (0..5).map(|_| epoll::create(epoll::CreateFlags::CLOEXEC).unwrap()).collect();
        for (epoll, event) in epolls.iter().flat_map(|epoll| events.iter().map(move |event| (epoll, event))) {
            epoll::add(epoll, event, epoll::EventData::new_u64(0), epoll::EventFlags::IN).unwrap();
        }
        assert!(holds_more(me, 5 * 200 - 1));
        assert!(!holds_more(me, 5 * 200 + 100), "nor are those counted that are not there");
    }
}
