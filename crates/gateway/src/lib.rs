//! The only way to a model: routes, admits, sends and meters requests.
//!
//! *Does not know* policy, the journal, or who may spend what: each request asks an [`Admission`], and reports afterwards what it used.
#![forbid(unsafe_code)]

mod admission;
mod aside;
mod attempt;
pub mod cassette;
mod gateway;
mod header;
mod in_process;
mod limiter;
mod login;
mod mask;
mod memory_quota;
pub mod price;
mod provider;
mod read_body;
mod route;
pub mod script;
mod secret;
mod serve;
mod settings;
mod stop_signal;
mod tee;
mod upstream;

pub use admission::{Admission, Admitted, BoxedFuture, Denial, ExchangeOutcome, GatewayRefusal, ModelRequest, Settlement};
pub use attempt::AskedProvider;
pub use dialect::{
    DenialKind, Dialect, Endpoint, IMAGE_TOKENS, KeyHeader, Meter, Metered, Pace, ParsedRequest, PlainResponse, RenderedAnswer,
    RequestError, ServiceMode, TimedChunk, TokenUsage, UsageSource,
};
pub use gateway::{ClientSession, Gateway, SecretObserver};
pub use hyper::body::Bytes;
pub use in_process::{InProcessResponse, NoResponse};
pub use limiter::{Busy, Limiter, Slot, SlotRequest};
pub use provider::{BadSettings, KeyState, Provider};
pub use read_body::REQUEST_BYTES_MAX;
pub use route::{NoRoute, RouteTarget, Routes};
pub use secret::{NoKey, Secret};
pub use serve::listen;
pub use settings::{
    Dialects, GatewaySettings, KeySettings, LoginSettings, ModelNames, ModelSettings, ProviderSettings, Runs, Targets, VendorClient,
};
pub use stop_signal::{StopCause, StopHandle, StopSignal};
pub use tee::{ResponseBroken, Tee};
pub use upstream::Upstream;
