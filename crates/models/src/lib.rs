//! Requests to models as calls: each passes the gate, is paid from the caller's budget and all above it, and is settled once.
//!
//! The gateway knows the way to a model; this says who may take it, what that may cost, and what came of it. It also lends the built-in brain
//! its model. It knows no room: whoever has one opens a door there and serves it with a [`RoomModels`].
//!
//! **Invariant.** What a request may cost at most is reserved, on disk or from a lease that is, before it leaves.
#![forbid(unsafe_code)]

mod admission;
mod cassette;
mod exhaustion;
mod flight;
mod lease;
mod models;
mod native;
mod permit;
mod room;
mod settle;
mod setup;
mod trial;
mod wait;

pub use cassette::{CassetteView, ExchangeView, Traffic, file_of};
pub use exhaustion::Exhaustion;
pub use flight::RequestOwner;
pub use gate::CLIENT;
pub use models::{GatewayAccess, Models};
pub use room::RoomModels;
pub use setup::{CheckedSettings, UnusableSettings};
pub use trial::ModelTrial;
pub use wait::Wait;
