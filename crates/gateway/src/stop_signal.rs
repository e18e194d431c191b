//! How somebody else ends an admitted request: the operator cancelled the work it is for, or the kernel stops.
//!
//! **Invariant.** A request that was stopped is settled as that, whoever notices it first: the request itself, or whoever drops it.

use tokio::sync::watch;
use world::Ending;

/// Why a request was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopCause {
    pub ending: Ending,
    /// For the client.
    pub words: String,
}

/// Ends one request.
#[derive(Debug)]
pub struct StopHandle(watch::Sender<Option<StopCause>>);

impl StopHandle {
    pub fn stop(&self, why: StopCause) {
        self.0.send_if_modified(|stopped| stopped.is_none() && stopped.replace(why).is_none());
    }
}

/// The request's own side of it.
#[derive(Clone, Debug)]
pub struct StopSignal(watch::Receiver<Option<StopCause>>);

impl StopSignal {
    pub fn new() -> (StopHandle, StopSignal) {
        let (sender, receiver) = watch::channel(None);
        (StopHandle(sender), StopSignal(receiver))
    }

    pub(crate) fn now(&self) -> Option<StopCause> {
        self.0.borrow().clone()
    }

    /// Waits until it is stopped; `None` when nobody can stop it any more.
    pub(crate) async fn stopped(&mut self) -> Option<StopCause> {
        self.0.wait_for(Option::is_some).await.ok()?.clone()
    }
}
