//! The project's own chores: `cargo xtask`, and what it can do.
#![forbid(unsafe_code)]

mod bench;
mod deny;
mod facts;
mod fuzz;
mod lint;
mod run;
mod soak;
mod test;
mod tidy;

use anyhow::{Result, bail};
use std::process::ExitCode;

/// One thing that `cargo xtask` does.
struct Chore {
    name: &'static str,
    /// As the overview shows them.
    arguments: &'static str,
    flags: &'static [&'static str],
    about: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const CHORES: &[Chore] = &[
    Chore {
        name: "test",
        arguments: "[ARGS]",
        flags: &[],
        about: "install what the tests need, run them all (ARGS go to nextest)",
        run: test::test,
    },
    Chore {
        name: "lint",
        arguments: "",
        flags: &[],
        about: "formatting, tidy, clippy and documentation without warnings, dependencies, no stray unsafe, one maker of facts",
        run: lint::lint,
    },
    Chore {
        name: "tidy",
        arguments: "[--write]",
        flags: &["--write"],
        about: "names, lengths, layers and words; --write renews the list of what is known",
        run: tidy::tidy,
    },
    Chore {
        name: "soak",
        arguments: "[NAME]",
        flags: &[],
        about: "the long form of the tests that have a short one (kills, power, edits, rooms, …), or of those that are named",
        run: soak::soak,
    },
    Chore {
        name: "bench",
        arguments: "[PART]",
        flags: &[],
        about: "the promises of SPEC.md, each beside its reference (journal, history, gate, rivals, rooms, kernel, door, clients, gateway, tree, weight)",
        run: bench::bench,
    },
    Chore {
        name: "fuzz",
        arguments: "[NAME]",
        flags: &[],
        about: "each fuzz target, or those that are named, for a minute",
        run: fuzz::fuzz,
    },
];

fn help() -> String {
    let mut text = String::from("cargo xtask COMMAND\n\n");
    for chore in CHORES {
        text.push_str(&format!("  {:<16} {}\n", format!("{} {}", chore.name, chore.arguments).trim_end(), chore.about));
    }
    text
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next();
    let rest: Vec<String> = arguments.collect();
    let done = match command.as_deref() {
        None | Some("help" | "--help" | "-h") => {
            print!("{}", help());
            Ok(())
        }
        Some(name) => match CHORES.iter().find(|chore| chore.name == name) {
            Some(chore) => (chore.run)(&rest),
            None => (|| bail!("there is no chore `{name}`\n\n{}", help()))(),
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("✗ {error:#}");
            ExitCode::FAILURE
        }
    }
}
