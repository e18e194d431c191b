//! The contract against clients and agents that are not ours, and against hostile ones.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod bed;
mod contract;
mod generated;
mod hostile_agent;
mod hostile_client;
mod identity;
mod python;
mod ready;
mod stop;
