//! The wire formats of the model vendors, in one place.
//!
//! Pure: bytes in, facts or bytes out. No IO, no clock, no async. The gateway parses, rewrites, meters and refuses requests with it; the
//! scripted model parses requests and renders answers; the built-in brain renders requests and decodes answers.
//!
//! Everybody goes through [`Dialect`]. What differs from vendor to vendor is the trait `format::WireFormat`, one folder per vendor; a new
//! vendor is one folder and one row in `format.rs`.
//!
//! **Invariant.** A rewritten request differs from the original in `model` and the output limit, and in no other byte.
//! *Does not know* sockets, keys, prices, who may ask for what, or where an answer goes.
#![forbid(unsafe_code)]

mod answer;
mod anthropic;
mod chat;
mod client_request;
mod conversation;
pub mod count;
mod decoder;
mod denial;
mod duration;
mod format;
mod gemini;
mod image;
mod members;
mod meter;
pub mod provider_tools;
mod request;
mod responses;
#[cfg(test)]
mod round_trip;
mod scan;
mod service_mode;
pub mod sse;
#[cfg(test)]
mod tests;
mod thinking;
pub mod unsupported;
mod usage;

pub use answer::{AnswerCall, AnswerPart, CallInput, ModelAnswer, RenderedAnswer, TimedChunk};
pub use client_request::{ClientRequest, ClientTurn, OfferedTool, ToolOutcome};
pub use conversation::{ChatRequest, ServerQuirks, Speaker, ToolSpec, Turn, TurnPart, estimate_tokens, vendor_name};
pub use decoder::{DecodeError, DecodedAnswer, StopReason, StreamDecoder, error_message};
pub use denial::{DenialKind, PlainResponse, RequestError};
pub use duration::parse_duration;
pub use format::{Dialect, Endpoint, KeyHeader};
pub use image::IMAGE_TOKENS;
pub use meter::{Meter, Metered};
pub use request::ParsedRequest;
pub use service_mode::{Pace, ServiceMode};
pub use usage::{TokenUsage, UsageSource};
