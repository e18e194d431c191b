//! The steward of a workspace whose jobs run in containers: what a holder does besides holding mounts and starting jobs.
//!
//! It answers the lookups of its containers, and while it lives its room has a share of the user's inotify. **Invariant.** It has one thread
//! and the job's user, can gain no rights, and lives no longer than the launcher or the kernel's end of its socket.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{DumpableBehavior, Pid, Signal};

use crate::fault::{At, Failure, Step};
use crate::holder;
use crate::namespace::{self, User};
use crate::packet;
use crate::process;
use crate::resolver::Resolver;
use crate::seccomp::Filters;
use crate::spec::Profile;
use crate::sys;

/// Serves one room until the kernel hangs up. The exit code is for the launcher, which ignores it.
pub(crate) fn main(kernel: &OwnedFd, launcher: Pid, filters: &Filters) -> i32 {
    i32::from(enter(launcher, filters).is_err() || Steward::default().serve(kernel).is_err())
}

fn enter(launcher: Pid, filters: &Filters) -> Result<(), Failure> {
    // Names are for people who look at the process list.
    let _ = rustix::thread::set_name(c"skep-steward");
    let _ = process::wipe_memory_of_start("skep: steward");
    rustix::process::setsid().at(Step::Privileges)?;
    namespace::become_user(User::of_jobs()).at(Step::Credentials)?;
    namespace::forswear().at(Step::Privileges)?;
    sys::drop_capabilities().at(Step::Privileges)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).at(Step::Privileges)?;
    // The last change of credentials is behind us; an earlier request would have been forgotten.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).at(Step::Lifeline)?;
    if rustix::process::getppid() != Some(launcher) {
        return Err(Failure::new(Step::Lifeline, io::Error::from_raw_os_error(libc::ESRCH)));
    }
    filters.load(Profile::Standard).at(Step::Seccomp)
}

/// A container whose lookups are answered.
struct Asker {
    resolver: Resolver,
    /// Of its pid 1.
    pidfd: OwnedFd,
}

#[derive(Default)]
pub(crate) struct Steward {
    askers: Vec<Asker>,
}

impl Steward {
    fn serve(mut self, kernel: &OwnedFd) -> io::Result<()> {
        loop {
            let mut polled = vec![PollFd::new(kernel, PollFlags::IN)];
            for Asker { resolver, pidfd } in &self.askers {
                polled.extend([PollFd::new(resolver, PollFlags::IN), PollFd::new(pidfd, PollFlags::IN)]);
            }
            match rustix::event::poll(&mut polled, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let is_ready = |at: usize| !polled[at].revents().is_empty();
            let told = is_ready(0);
            // Each has two places, after the kernel's.
            self.askers.iter().enumerate().filter(|(at, _)| is_ready(2 * at + 1)).for_each(|(_, asker)| asker.resolver.answer());
            drop(polled);
            // Its socket would keep the network of a container that is no more.
            self.askers.retain(|asker| matches!(holder::has_ended(&asker.pidfd), Ok(false)));
            if told {
                let Some(((), mut fds)) = packet::receive(kernel)? else { return Ok(()) };
                if let (Some(pidfd), Some(socket)) = (fds.pop(), fds.pop()) {
                    self.askers.push(Asker { resolver: Resolver::of(socket)?, pidfd });
                }
            }
        }
    }
}
