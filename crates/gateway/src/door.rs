//! The gateway's side of the kernel's door: every request asks to pass, and says afterwards what it used.

use crate::cassette::Tape;
use crate::provider::Provider;
use crate::route::Tier;
use crate::settings::Names;
use crate::stop::Stop;
use dialect::{DenialKind, Metered, ParsedRequest};
use hyper::body::Bytes;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use world::Ending;

pub type Work<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Decides about the requests of one process.
pub trait Door: Send + Sync + 'static {
    /// Names for models that hold for this process alone.
    fn names(&self) -> Arc<Names>;

    /// The cassette that answers everything this process asks, in place of every provider.
    fn replay(&self) -> Option<Arc<Provider>>;

    /// May this request be made? Returns when it may, or when somebody said no; it may take a person's time.
    fn admit<'a>(&'a self, wish: &'a Wish<'a>) -> Work<'a, Result<Leave, Denial>>;

    /// Puts on record that the gateway itself refuses this request. Done when that is on disk.
    fn refused<'a>(&'a self, wish: &'a Wish<'a>, no: &'a Forbidden) -> Work<'a, ()>;
}

/// A request that somebody wants made, and where.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    pub ask: &'a ParsedRequest,
    pub provider: &'a str,
    /// The host that would be asked; empty for a script.
    pub host: &'a str,
    /// As the provider calls it.
    pub model: &'a str,
    pub tier: Tier,
    /// It costs nothing.
    pub free: bool,
    pub body: &'a Bytes,
}

/// Leave to make one request.
pub struct Leave {
    /// The most that may be answered, where the request itself asks for more or does not say.
    pub output_max: Option<u64>,
    /// Keep what is answered.
    pub record: bool,
    /// Take down the exchange.
    pub tape: Option<Arc<Tape>>,
    /// Ends it from outside.
    pub stop: Stop,
    pub pass: Box<dyn Pass>,
}

/// An admitted request on its way.
pub trait Pass: Send + 'static {
    /// Notes that it leaves now, so that a crash knows of it. Asked before each try; after a no it must not leave.
    fn leaves(&mut self) -> Work<'_, Result<(), Denial>>;

    /// Done when the admission is on disk; nothing of an answer is passed on before. A no takes the leave back.
    fn recorded(&mut self) -> Work<'_, Result<(), Denial>>;

    /// Says what came of it. Done when that is on disk.
    fn settle(self: Box<Self>, end: Ended) -> Work<'static, ()>;
}

/// What came of a request.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// What the provider answered; `None` when it never did.
    pub status: Option<u16>,
    /// What the answer cost, where there was one.
    pub metered: Option<Metered>,
    pub ending: Ending,
    /// The provider may have seen the request, so it may have to be paid for.
    pub sent: bool,
    /// Why it did not come to its end.
    pub why: Option<String>,
    pub first_byte: Option<Duration>,
    pub bytes: u64,
    /// What was answered, if it is recorded and not too long for that.
    pub answer: Option<Vec<u8>>,
}

impl Ended {
    /// The answer was passed on to its end.
    pub fn is_complete(&self) -> bool {
        self.ending == Ending::Complete
    }
}

/// Why the gateway itself refuses a request, and the way to a yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    pub reason: String,
    pub hint: String,
}

/// A no, for the provider's own client to understand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub kind: DenialKind,
    /// What, why, and the way to a yes.
    pub message: String,
    pub retry_after: Option<Duration>,
}
