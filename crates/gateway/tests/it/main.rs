//! The gateway over real sockets. One program holds all these tests, because linking is what takes long.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

#[path = "bed/bed.rs"]
mod bed;
mod clis;
mod fixtures;
mod hostile;
mod http;
mod keyring;
mod limits;
mod npm;
mod odd;
mod runs;
mod upstream;
mod ways;
