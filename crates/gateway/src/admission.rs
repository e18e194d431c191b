//! The gateway's side of the kernel's door: every request asks to be admitted, and reports afterwards what it used.

use crate::cassette::CassetteWriter;
use crate::provider::Provider;
use crate::settings::ModelNames;
use crate::stop_signal::StopSignal;
use dialect::{DenialKind, Metered, ParsedRequest};
use hyper::body::Bytes;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use world::{Ending, Tier};

pub type BoxedFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Decides about the requests of one process.
pub trait Admission: Send + Sync + 'static {
    /// Names for models that hold for this process alone.
    fn names(&self) -> Arc<ModelNames>;

    /// The cassette that answers every request of this process, in place of every provider.
    fn replay(&self) -> Option<Arc<Provider>>;

    /// Returns when the request may be made, or when it was refused. That may take as long as a person takes to answer.
    fn admit<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxedFuture<'a, Result<Admitted, Denial>>;

    /// Records that the gateway itself refuses this request. Done when that is on disk.
    fn record_refusal<'a>(&'a self, request: &'a ModelRequest<'a>, refusal: &'a GatewayRefusal) -> BoxedFuture<'a, ()>;
}

/// A request to a model, and where it would go.
#[derive(Clone, Copy, Debug)]
pub struct ModelRequest<'a> {
    pub parsed: &'a ParsedRequest,
    pub provider: &'a str,
    /// The host that would be asked; empty for a script.
    pub host: &'a str,
    /// As the provider calls it.
    pub model: &'a str,
    pub tier: Tier,
    /// It costs nothing.
    pub is_free: bool,
    pub body: &'a Bytes,
}

/// The answer to a request that may be made.
pub struct Admitted {
    /// The output limit to set, where the request has none and a budget needs one.
    pub output_max: Option<u64>,
    /// Keep what is answered.
    pub record: bool,
    /// The cassette that records the exchange.
    pub cassette: Option<Arc<CassetteWriter>>,
    /// Ends the request from outside.
    pub stop: StopSignal,
    pub settlement: Box<dyn Settlement>,
}

/// What the kernel must hear of an admitted request.
pub trait Settlement: Send + 'static {
    /// Records that the request is sent now, so that a crash knows of it. Called before each try; after an error it must not be sent.
    fn note_sent(&mut self) -> BoxedFuture<'_, Result<(), Denial>>;

    /// Waits until the admission is on disk; nothing of an answer is passed on before. An error takes the admission back.
    fn recorded(&mut self) -> BoxedFuture<'_, Result<(), Denial>>;

    /// Records what came of the request. Done when that is on disk.
    fn settle(self: Box<Self>, outcome: ExchangeOutcome) -> BoxedFuture<'static, ()>;
}

/// What came of a request.
#[derive(Clone, Debug, Default)]
pub struct ExchangeOutcome {
    /// What the provider answered; `None` when it never did.
    pub status: Option<u16>,
    /// What the answer used, where there was one.
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

impl ExchangeOutcome {
    /// The answer was passed on to its end.
    pub fn is_complete(&self) -> bool {
        self.ending == Ending::Complete
    }
}

/// Why the gateway itself refuses a request, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayRefusal {
    pub reason: String,
    pub hint: String,
}

/// A refusal for the provider's own client to understand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub kind: DenialKind,
    /// What happened, why, and the remedy.
    pub message: String,
    pub retry_after: Option<Duration>,
    /// The provider's host took no connection.
    pub is_unreachable: bool,
}

impl Denial {
    pub fn new(kind: DenialKind, message: impl Into<String>) -> Denial {
        Denial { kind, message: message.into(), retry_after: None, is_unreachable: false }
    }
}
