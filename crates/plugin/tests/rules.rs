//! Rules in a real child in a real room.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a suite with its own main is a test, but does not look like one")]

mod rules {
    pub mod answers;
    pub mod host;
    pub mod hostile;
    pub mod life;
    pub mod load;
    pub mod lock;
}

use std::process::ExitCode;

fn main() -> ExitCode {
    let suites = [rules::answers::TESTS, rules::load::TESTS, rules::hostile::TESTS, rules::life::TESTS, rules::lock::TESTS];
    rules::host::main(&suites.concat())
}
