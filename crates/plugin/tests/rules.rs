//! Rules in a real child in a real room.

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
