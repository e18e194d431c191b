//! The process tree with real programs: Python agents in rooms, each test with a kernel of its own.
#![expect(clippy::unwrap_used, reason = "a test with a main of its own is no test to the lint")]

mod attacks;
mod brains;
mod branches;
mod cheap_agent;
mod deciders;
mod first_tasks;
mod ground;
mod letters;
mod lives;
mod random;
mod rooms;
mod rules;
mod runtimes;

use std::process::ExitCode;
use testkit::harness::{self, Test};

fn main() -> ExitCode {
    if let Some(ended) = harness::child().or_else(cheap_agent::child).or_else(first_tasks::child) {
        return ended;
    }
    if std::env::args().nth(1).is_some_and(|first| first == rules::VICTIM) {
        return match rules::victim() {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{why}");
                ExitCode::FAILURE
            }
        };
    }
    let named = |room: &str, test: Test| Test { name: format!("{room}::{}", test.name), ..test };
    let attacks = attacks::tests().into_iter().map(|test| named("attacks", test));
    let brains = brains::tests().into_iter().map(|test| named("brains", test));
    let branches = branches::tests().into_iter().map(|test| named("branches", test));
    let deciders = deciders::tests().into_iter().map(|test| named("deciders", test));
    let first_tasks = first_tasks::tests().into_iter().map(|test| named("first_tasks", test));
    let letters = letters::tests().into_iter().map(|test| named("letters", test));
    let lives = lives::tests().into_iter().map(|test| named("lives", test));
    let random = random::tests().into_iter().map(|test| named("random", test));
    let rooms = rooms::tests().into_iter().map(|test| named("rooms", test));
    let rules = rules::tests().into_iter().map(|test| named("rules", test));
    let runtimes = runtimes::tests().into_iter().map(|test| named("runtimes", test));
    harness::main(
        &attacks
            .chain(brains)
            .chain(branches)
            .chain(deciders)
            .chain(first_tasks)
            .chain(letters)
            .chain(lives)
            .chain(random)
            .chain(rooms)
            .chain(rules)
            .chain(runtimes)
            .collect::<Vec<_>>(),
    )
}
