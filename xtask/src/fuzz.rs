//! Every fuzz target for a minute. They are plain tests, so they also run, for a moment, whenever the tests do.

use crate::run::{cargo, output};
use anyhow::{Result, ensure};

/// Name of the target and the crate that has it.
const TARGETS: &[(&str, &str)] = &[
    ("policy_yaml", "policy"),
    ("globs", "policy"),
    ("units", "policy"),
    ("paths", "tool"),
    ("manifests", "tool"),
    ("proxy_heads", "sandbox"),
    ("tls_hellos", "sandbox"),
    ("frames", "wire"),
    ("jsonrpc", "wire"),
    ("requests", "gateway"),
    ("answers", "gateway"),
    ("scripts", "gateway"),
    ("cassettes", "gateway"),
    ("prices", "gateway"),
    ("git_files", "workspace"),
    ("speeches", "brain"),
    ("memories", "brain"),
];

/// Targets that need what no crate shows to others: tests of the library itself, by their whole names.
const INSIDE: &[(&str, &str, &str)] =
    &[("links", "workspace", "tests::fuzzed::links"), ("merge_sets", "workspace", "tests::fuzzed::merge_sets")];

const SECONDS: &str = "60";

pub fn fuzz(names: &[String]) -> Result<()> {
    for name in names {
        let known: Vec<&str> = TARGETS.iter().map(|(target, _)| *target).chain(INSIDE.iter().map(|(target, ..)| *target)).collect();
        ensure!(known.contains(&name.as_str()), "there is no fuzz target `{name}`\n  there are: {}", known.join(", "));
    }
    let seconds = std::env::var("SKEP_FUZZ_SECONDS").unwrap_or_else(|_| SECONDS.to_owned());
    let apart = TARGETS.iter().map(|(target, package)| (*target, *package, ["--test", "fuzz"].as_slice(), *target));
    let inside = INSIDE.iter().map(|(target, package, test)| (*target, *package, ["--lib"].as_slice(), *test));
    let wanted = |(target, ..): &(&str, &str, &[&str], &str)| names.is_empty() || names.iter().any(|name| name == target);
    for (target, package, place, test) in apart.chain(inside).filter(wanted) {
        let mut command = cargo();
        command.args(["test", "--quiet", "-p", package]).args(place).args(["--", "--exact", test, "--nocapture"]);
        let text = output(command.env("SKEP_FUZZ_SECONDS", &seconds))?;
        // A filter that finds no test succeeds too; only a count is proof of a run.
        let counted = text.lines().find(|line| line.starts_with("fuzz "));
        ensure!(counted.is_some(), "`{target}` did not run:\n{text}");
        println!("{}", counted.unwrap_or_default());
    }
    Ok(())
}
