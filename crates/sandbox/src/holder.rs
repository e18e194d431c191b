//! The holder: the process that owns a workspace's mount and starts its jobs.
//!
//! **Invariant.** It has one thread, never execs, and lives no longer than the launcher or the kernel's end of its socket.
//! Its jobs live no longer than it does.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use rustix::thread::UnshareFlags;

use crate::door;
use crate::fault::{At, Failure, Step};
use crate::inlet;
use crate::inotify::Allowance;
use crate::job;
use crate::landlock::Landlock;
use crate::namespace::{self, User};
use crate::order::{HolderOrder, HolderReply, JobOrder, OpenOrder};
use crate::packet;
use crate::process;
use crate::resolver::Resolver;
use crate::seccomp::Filters;
use crate::sys;
use crate::terminal;

pub(crate) mod tree;

/// What a job needs to know of its holder.
pub(crate) struct Holder {
    pub(crate) room: tree::RoomTree,
    /// Of this process: a job asks it whether its holder still lives.
    pub(crate) lifeline: OwnedFd,
    pub(crate) landlock: Option<Landlock>,
}

struct Running {
    id: u64,
    pidfd: OwnedFd,
    resolver: Resolver,
}

/// Builds the room and serves jobs until the kernel hangs up. The exit code is for the launcher, which ignores it.
pub(crate) fn main(order: &OpenOrder, kernel: &OwnedFd, launcher: Pid, filters: &Filters, watches: Allowance) -> i32 {
    let opened = open(order, launcher, watches);
    let told = match &opened {
        Ok(holder) => {
            let ready = HolderReply::Ready(holder.room.uncovered.clone());
            packet::send(kernel, &ready, &[holder.room.root.as_fd(), holder.room.bare.as_fd()])
        }
        Err(failure) => packet::send(kernel, &HolderReply::Failed(failure.clone()), &[]),
    };
    match (opened, told) {
        (Ok(holder), Ok(())) => i32::from(serve(&holder, kernel, filters).is_err()),
        _ => 1,
    }
}

pub(crate) fn open(order: &OpenOrder, launcher: Pid, watches: Allowance) -> Result<Holder, Failure> {
    // Names are for people who look at the process list; a holder works without.
    let _ = rustix::thread::set_name(c"skep-holder");
    let _ = process::wipe_memory_of_start("skep: holder");
    rustix::process::setsid().at(Step::Privileges)?;
    let user = User::of_jobs();
    let sources = tree::Sources::as_root(order, user)?;
    namespace::leave(user, watches)?;
    // The last change of credentials is behind us; an earlier request would have been forgotten.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).at(Step::Lifeline)?;
    if rustix::process::getppid() != Some(launcher) {
        return Err(Failure::new(Step::Lifeline, io::Error::from_raw_os_error(libc::ESRCH)));
    }
    let room = tree::build(order, user, sources)?;
    namespace::forswear().at(Step::Privileges)?;
    let lifeline = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).at(Step::Lifeline)?;
    Ok(Holder { room, lifeline, landlock: Landlock::find() })
}

/// The network and ipc namespaces of the next job, which the holder itself is in until then.
///
/// Making them costs as much as starting a program, so it is done while the job before runs: a job inherits them, and the holder
/// leaves for new ones. **Invariant.** No two jobs are given the same.
#[derive(Default)]
struct Spare {
    /// Listens in them, once they are made.
    resolver: Option<Resolver>,
}

impl Spare {
    fn prepare(&mut self) -> Result<(), Failure> {
        if self.resolver.is_none() {
            // SAFETY: the process has one thread and shares no descriptor table.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWIPC) }.at(Step::JobNamespaces)?;
            sys::raise_loopback().at(Step::Loopback)?;
            self.resolver = Some(Resolver::open()?);
        }
        Ok(())
    }

    /// The resolver in the prepared namespaces, which are the next job's from now on.
    fn take(&mut self) -> Result<Resolver, Failure> {
        self.prepare()?;
        self.resolver.take().ok_or_else(|| Failure::new(Step::Resolver, io::Error::from_raw_os_error(libc::ENOTCONN)))
    }
}

fn serve(holder: &Holder, kernel: &OwnedFd, filters: &Filters) -> io::Result<()> {
    let ended = sys::child_signal_fd()?;
    let mut running: HashMap<i32, Running> = HashMap::new();
    let mut spare = Spare::default();
    let result = loop {
        // A failure is told to the job that needs them.
        let _ = spare.prepare();
        let mut polled = vec![PollFd::new(kernel, PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
        polled.extend(running.values().map(|job| PollFd::new(&job.resolver, PollFlags::IN)));
        match rustix::event::poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => break Err(error.into()),
        }
        let is_ready = |at: usize| !polled[at].revents().is_empty();
        let (has_order, has_ended) = (is_ready(0), is_ready(1));
        // In the order in which they were polled.
        running.values().enumerate().filter(|(at, _)| is_ready(at + 2)).for_each(|(_, job)| job.resolver.answer());
        drop(polled);
        if has_ended {
            collect(kernel, &ended, &mut running)?;
        }
        if has_order {
            match packet::receive::<HolderOrder>(kernel) {
                Ok(Some((HolderOrder::Spawn(order), files))) => start(holder, kernel, filters, *order, files, &mut running, &mut spare)?,
                Ok(Some((HolderOrder::Mask { id, change }, _))) => {
                    let reply = match tree::remask(&holder.room.root, Path::new(tree::COVERS), &change) {
                        Ok(uncovered) => HolderReply::Masked { id, uncovered },
                        Err(failure) => HolderReply::NotMasked { id, failure },
                    };
                    packet::send(kernel, &reply, &[])?;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        }
    };
    for job in running.values() {
        let _ = rustix::process::pidfd_send_signal(&job.pidfd, Signal::KILL);
    }
    for pid in running.keys() {
        let _ = sys::reap(*pid, true);
    }
    result
}

fn start(
    holder: &Holder,
    kernel: &OwnedFd,
    filters: &Filters,
    order: JobOrder,
    mut files: Vec<OwnedFd>,
    running: &mut HashMap<i32, Running>,
    spare: &mut Spare,
) -> io::Result<()> {
    let id = order.id;
    let started = spare.take().and_then(|resolver| {
        let mut openings = door::open(&order.doors)?;
        openings.extend(inlet::open(order.inlets)?);
        if let Some(window) = order.terminal {
            let (ours, theirs) = terminal::open(window)?;
            terminal::streams(&theirs, &mut files)?;
            openings.push(ours);
        }
        let (pid, pidfd) = sys::clone_into(job::NAMESPACES, || job::main(holder, filters, &order, files)).at(Step::JobNamespaces)?;
        Ok((pid, pidfd, openings, resolver))
    });
    match started {
        Ok((pid, pidfd, openings, resolver)) => {
            let fds: Vec<BorrowedFd<'_>> = [pidfd.as_fd()].into_iter().chain(openings.iter().map(AsFd::as_fd)).collect();
            packet::send(kernel, &HolderReply::Started { id, pid }, &fds)?;
            running.insert(pid, Running { id, pidfd, resolver });
            Ok(())
        }
        Err(failure) => packet::send(kernel, &HolderReply::NotStarted { id, failure }, &[]),
    }
}

/// Buries ended jobs. One that exited well has reported for itself; for one that was killed this speaks.
fn collect(kernel: &OwnedFd, ended: &OwnedFd, running: &mut HashMap<i32, Running>) -> io::Result<()> {
    let mut drained = [0; 128];
    let _ = rustix::io::read(ended, &mut drained);
    loop {
        match sys::reap(-1, false) {
            Ok(Some((pid, status, usage))) => {
                if let Some(job) = running.remove(&pid)
                    && status != 0
                {
                    packet::send(kernel, &HolderReply::Unreported { id: job.id, status, usage }, &[])?;
                }
            }
            Ok(None) => return Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Whether the process behind a pidfd has ended.
pub(crate) fn has_ended(pidfd: &OwnedFd) -> io::Result<bool> {
    let mut polled = [PollFd::new(pidfd, PollFlags::IN)];
    Ok(rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
}
