//! Attempts to break out of a room, kept as data in `escape/attempts`, each made inside and, to prove that it works, outside.
//!
//! `SKEP_ESCAPES=folder` runs the attempts of another folder; `escape/attempts/README.md` says how they are written.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a suite with its own main is a test, but does not look like one")]

mod escape {
    pub mod attempt;
    pub mod child;
    pub mod rooms;
    pub mod runner;
    pub mod runtime;
    pub mod scene;
    pub mod shared;
}

fn main() -> std::process::ExitCode {
    escape::runner::main()
}
