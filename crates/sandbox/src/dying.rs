//! Jobs that were killed and may still be on their way out.
//!
//! **Invariant.** A job that nobody stands for is killed, and [`Dying`] knows of it until nothing of it lives any more.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::Signal;

use crate::fault::SandboxError;
use crate::sys;

/// Of one workspace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dying(Arc<Mutex<Vec<Arc<OwnedFd>>>>);

impl Dying {
    pub(crate) fn note(&self, pidfd: Arc<OwnedFd>) {
        self.0.lock().push(pidfd);
    }

    /// Waits until all that were noted have ended. Who gives up waiting leaves the rest noted.
    pub(crate) async fn gone(&self) -> Result<(), SandboxError> {
        loop {
            let Some(pidfd) = self.0.lock().last().cloned() else { return Ok(()) };
            let watched = pidfd.try_clone().and_then(sys::watch).map_err(SandboxError::io("watching a job"))?;
            watched.readable().await.map(drop).map_err(SandboxError::io("watching a job"))?;
            self.0.lock().retain(|noted| !Arc::ptr_eq(noted, &pidfd));
        }
    }
}

/// A job that has started and that no value stands for yet. Dropped, it is killed, wherever it is at that moment: also in a channel
/// whose receiver is gone.
#[derive(Debug)]
pub(crate) struct UnclaimedJob {
    pidfd: Option<Arc<OwnedFd>>,
    dying: Dying,
}

impl UnclaimedJob {
    pub(crate) fn new(pidfd: OwnedFd, dying: &Dying) -> UnclaimedJob {
        UnclaimedJob { pidfd: Some(Arc::new(pidfd)), dying: dying.clone() }
    }

    pub(crate) fn pidfd(&self) -> Option<Arc<OwnedFd>> {
        self.pidfd.clone()
    }

    /// Somebody stands for it from now on.
    pub(crate) fn claim(mut self) {
        self.pidfd = None;
    }
}

impl Drop for UnclaimedJob {
    fn drop(&mut self) {
        if let Some(pidfd) = self.pidfd.take() {
            let _ = rustix::process::pidfd_send_signal(&*pidfd, Signal::KILL);
            self.dying.note(pidfd);
        }
    }
}
