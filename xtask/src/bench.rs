//! The promises of SPEC.md, each beside its reference measured in the same run.
//!
//! Ratios, because machines differ and this one is noisy. A promise that does not hold is printed as failed and is no error; a part that
//! cannot be measured is one, at the end: the other parts are measured all the same.
//!
//! **Invariant.** Everything is built by the release profile into the workspace's target folder, so that a release build that is there is
//! used and not made again.

use crate::run::{cargo, output, root, run};
use crate::test::install;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::process::Command;

mod clients;
mod door;
mod gate;
mod gateway;
mod history;
mod home;
mod journal;
mod kernel;
mod phase;
mod plan;
mod room_work;
mod rooms;
mod table;
mod tree;
mod weight;

use table::Table;

/// One part of the table.
struct Part {
    name: &'static str,
    /// The programs of `xtask/benches` that it runs.
    programs: &'static [&'static str],
    /// Does it run `skep`?
    needs_skep: bool,
    measure: fn(&mut Table) -> Result<()>,
}

const PARTS: [Part; 13] = [
    Part { name: "journal", programs: &["journal"], needs_skep: false, measure: journal::measure },
    Part { name: "history", programs: &["history"], needs_skep: true, measure: history::measure },
    Part { name: "gate", programs: &["policy"], needs_skep: false, measure: gate::measure },
    Part { name: "rivals", programs: &[], needs_skep: false, measure: gate::measure_rivals },
    Part { name: "rooms", programs: &["sandbox"], needs_skep: true, measure: rooms::measure },
    Part { name: "kernel", programs: &["wire"], needs_skep: true, measure: kernel::measure },
    Part { name: "door", programs: &["embedded"], needs_skep: true, measure: door::measure },
    Part { name: "clients", programs: &["keystroke"], needs_skep: true, measure: clients::measure },
    Part { name: "gateway", programs: &["gateway"], needs_skep: true, measure: gateway::measure },
    Part { name: "plan", programs: &["embedded"], needs_skep: false, measure: plan::measure },
    Part { name: "phase", programs: &["embedded"], needs_skep: false, measure: phase::measure },
    Part { name: "tree", programs: &["tree", "embedded"], needs_skep: true, measure: tree::measure },
    Part { name: "weight", programs: &[], needs_skep: true, measure: weight::measure },
];

/// The parts, as help shows them.
pub const NAMES: &str = "journal, history, gate, rivals, rooms, kernel, door, clients, gateway, plan, phase, tree, weight";

/// All parts, or those that are named.
pub fn bench(names: &[String]) -> Result<()> {
    for name in names {
        ensure!(PARTS.iter().any(|part| part.name == name), "there is no part `{name}` of the bench\n  there are: {NAMES}");
    }
    install(&[("bwrap", "bubblewrap"), ("gcc", "gcc"), ("git", "git"), ("python3", "python3"), ("setsid", "util-linux")])?;
    let mut table = Table::new();
    let mut failed = Vec::new();
    for part in PARTS.iter().filter(|part| names.is_empty() || names.iter().any(|name| name == part.name)) {
        eprintln!("measuring {}", part.name);
        if let Err(error) = part.build().and_then(|()| (part.measure)(&mut table)) {
            table.failed(part.name, &error);
            failed.push(part.name);
        }
    }
    if !failed.is_empty() {
        bail!("could not be measured: {}", failed.join(", "));
    }
    Ok(())
}

impl Part {
    fn build(&self) -> Result<()> {
        // `cli` is always among the packages: the features of what is built are then those of the release build.
        let mut build = cargo();
        build.args(["build", "--release", "--quiet", "-p", "cli", "-p", "benches"]);
        if self.needs_skep {
            build.args(["--bin", "skep"]);
        }
        for program in self.programs {
            build.arg("--bin").arg(format!("bench-{program}"));
        }
        if self.needs_skep || !self.programs.is_empty() { run(&mut build) } else { Ok(()) }
    }
}

/// Runs a bench program, which prints one JSON object a line.
fn figures(program: &str, arguments: &[&str]) -> Result<Vec<Value>> {
    let path = root().join("target/release").join(format!("bench-{program}"));
    objects(&output(Command::new(path).args(arguments).current_dir(root()))?)
}

fn objects(text: &str) -> Result<Vec<Value>> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).with_context(|| format!("`{line}` is no JSON"))).collect()
}

fn number(value: &Value, key: impl serde_json::value::Index + std::fmt::Display) -> Result<f64> {
    value.get(&key).and_then(Value::as_f64).with_context(|| format!("`{key}` is missing in {value}"))
}

#[cfg(test)]
mod tests {
    use super::{NAMES, PARTS};

    #[test]
    fn help_names_every_part() {
        assert_eq!(PARTS.map(|part| part.name).join(", "), NAMES);
    }
}
