//! The contract as Rust, made of `proto/` by tonic's generator. A test makes it again and compares; `SKEP_UPDATE=1` writes it.

#[rustfmt::skip]
#[expect(clippy::allow_attributes_without_reason, reason = "the generator writes its attributes so")]
pub mod agent;
#[rustfmt::skip]
#[expect(clippy::allow_attributes_without_reason, reason = "the generator writes its attributes so")]
pub mod core;
