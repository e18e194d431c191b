//! The only way to a model: what a request asks for, what an answer cost, and the road between them.
//!
//! *Does not know* policy, the journal, or who may spend what: the kernel decides that through [`ask`](Ask)s and usage.
#![forbid(unsafe_code)]

pub mod cassette;
pub mod dialect;
pub mod price;
pub mod script;

pub use dialect::{Ask, BadRequest, Dialect, Endpoint, Meter, Metered, Reply, Source, Trouble, Usage};
