//! The command as people run it. One program holds all these tests, because linking is what takes long.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod agents;
mod bad_input;
mod bill;
mod cancel;
mod cassette;
mod common;
mod containers;
mod crash;
mod decide;
mod demo;
mod doubt;
mod full_disk;
mod gate;
mod gateway;
mod homes;
mod hostile;
#[path = "../../../gateway/tests/it/http.rs"]
mod http;
mod inbox;
mod kernel;
mod lease;
mod merge;
mod models;
mod native;
#[path = "../../../gateway/tests/it/npm.rs"]
mod npm;
mod peers;
mod race;
mod sandbox;
mod spending;
mod terminal;
mod tools;
mod usage;
mod users;
mod vendors;
