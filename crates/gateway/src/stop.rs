//! How somebody else ends an admitted request: the operator cancelled the work it is for, or the kernel stops.
//!
//! **Invariant.** A request that was stopped is settled as that, whoever notices it first: the request itself, or whoever drops it.

use tokio::sync::watch;
use world::Ending;

/// Why a request was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    pub ending: Ending,
    /// For the client.
    pub words: String,
}

/// Ends one request.
#[derive(Debug)]
pub struct Stopper(watch::Sender<Option<Stopped>>);

impl Stopper {
    pub fn stop(&self, why: Stopped) {
        self.0.send_if_modified(|stopped| stopped.is_none() && stopped.replace(why).is_none());
    }
}

/// The request's own side of it.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<Option<Stopped>>);

impl Stop {
    pub fn new() -> (Stopper, Stop) {
        let (sender, receiver) = watch::channel(None);
        (Stopper(sender), Stop(receiver))
    }

    pub(crate) fn now(&self) -> Option<Stopped> {
        self.0.borrow().clone()
    }

    /// Waits until it is stopped; `None` when nobody can stop it any more.
    pub(crate) async fn stopped(&mut self) -> Option<Stopped> {
        self.0.wait_for(Option::is_some).await.ok()?.clone()
    }
}
