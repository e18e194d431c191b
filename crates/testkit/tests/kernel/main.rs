//! Whole kernels in this process, each test with one of its own. One program holds all these tests, because linking is what takes long.

mod blobs;
mod brains;
mod builds;
mod door;
mod egress;
mod fields;
mod mail;
mod overlays;
mod own_calls;
mod rights;
mod sessions;
mod stall;

use std::process::ExitCode;
use testkit::harness::{self, Test};

fn main() -> ExitCode {
    if let Some(ended) = harness::child() {
        return ended;
    }
    if let Some(ended) = sessions::child().or_else(builds::killed::child) {
        return ended;
    }
    let rooms = [
        ("blobs", blobs::tests()),
        ("brains", brains::tests()),
        ("builds", builds::tests()),
        ("door", door::tests()),
        ("egress", egress::tests()),
        ("fields", fields::tests()),
        ("mail", mail::tests()),
        ("overlays", overlays::tests()),
        ("own_calls", own_calls::tests()),
        ("rights", rights::tests()),
        ("sessions", sessions::tests()),
        ("stall", stall::tests()),
    ];
    let named = |room: &str, test: Test| Test { name: format!("{room}::{}", test.name), ..test };
    let tests: Vec<Test> = rooms.into_iter().flat_map(|(room, tests)| tests.into_iter().map(move |test| named(room, test))).collect();
    harness::main(&tests)
}
