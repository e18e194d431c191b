//! Real projects in four languages: their runners are run, and what they print is read. And the cheats that need no kernel.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod cargo;
mod cheats;
mod command;
mod go;
mod node;
mod project;
mod python;
