//! The project's own chores: `cargo xtask test`, `lint`, `bench`, `fuzz`.
#![forbid(unsafe_code)]

mod bench;
mod facts;
mod fuzz;
mod run;
mod test;

use anyhow::bail;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test [ARGS]   install what the tests need, run them all (ARGS go to nextest)
  lint          formatting, clippy with every warning an error, no stray unsafe, one maker of facts
  bench [PART]  the promises of SPEC.md, each beside its reference from the same run (journal, gate, rooms, kernel)
  fuzz [NAME]   each fuzz target, or those that are named, for a minute
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next();
    let rest: Vec<String> = arguments.collect();
    let done = match command.as_deref() {
        Some("test") => test::test(&rest),
        Some("lint") => test::lint(),
        Some("bench") => bench::bench(&rest),
        Some("fuzz") => fuzz::fuzz(&rest),
        None | Some("help" | "--help" | "-h") => {
            print!("{HELP}");
            Ok(())
        }
        Some(other) => (|| bail!("there is no chore `{other}`\n\n{HELP}"))(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("✗ {error:#}");
            ExitCode::FAILURE
        }
    }
}
