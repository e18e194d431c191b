//! The only way to a model: what a request asks for, what an answer cost, and the road between them.
//!
//! *Does not know* policy, the journal, or who may spend what: each request asks at a [`Door`], and says afterwards what it used.
#![forbid(unsafe_code)]

pub mod cassette;
mod door;
mod gateway;
mod header;
mod inside;
mod intake;
mod limiter;
mod login;
mod mask;
pub mod price;
mod provider;
mod route;
pub mod script;
mod secret;
mod serve;
mod settings;
mod space;
mod stop;
mod tee;
mod trip;
mod upstream;

pub use dialect::{
    DenialKind, Dialect, Endpoint, IMAGE_TOKENS, KeyHeader, Meter, Metered, Pace, ParsedRequest, PlainResponse, RenderedAnswer,
    RequestError, ServiceMode, TimedChunk, TokenUsage, UsageSource,
};
pub use door::{Denial, Door, Ended, Forbidden, Leave, Pass, Wish, Work};
pub use gateway::{Gateway, Learn, Session};
pub use hyper::body::Bytes;
pub use inside::{Answer, Unheard};
pub use intake::REQUEST_BYTES_MAX;
pub use limiter::{Busy, Entrant, Limiter, Slot};
pub use provider::{BadSettings, Provider};
pub use route::{NoRoute, Routes, Target, Tier};
pub use secret::{NoKey, Secret};
pub use serve::listen;
pub use settings::{Client, Dialects, GatewaySettings, KeySettings, LoginSettings, Names, ProviderSettings, Runs, Settings, Targets};
pub use stop::{Stop, Stopped, Stopper};
pub use tee::{Broken, Tee};
pub use upstream::Upstream;
