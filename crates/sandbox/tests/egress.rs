//! The proxy of a restricted network, against real servers and hostile clients.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "egress/heads.rs"]
mod heads;
#[path = "egress/judge.rs"]
mod judge;
#[path = "egress/plain.rs"]
mod plain;
#[path = "egress/tunnel.rs"]
mod tunnel;
