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
    ("speeches", "brain"),
    ("memories", "brain"),
];

const SECONDS: &str = "60";

pub fn fuzz(names: &[String]) -> Result<()> {
    for name in names {
        let known: Vec<&str> = TARGETS.iter().map(|(target, _)| *target).collect();
        ensure!(known.contains(&name.as_str()), "there is no fuzz target `{name}`\n  there are: {}", known.join(", "));
    }
    let seconds = std::env::var("SKEP_FUZZ_SECONDS").unwrap_or_else(|_| SECONDS.to_owned());
    for (target, package) in TARGETS.iter().filter(|(target, _)| names.is_empty() || names.iter().any(|name| name == target)) {
        let mut command = cargo();
        command.args(["test", "--quiet", "-p", package, "--test", "fuzz", "--", "--exact", target, "--nocapture"]);
        let text = output(command.env("SKEP_FUZZ_SECONDS", &seconds))?;
        // A filter that finds no test succeeds too; only a count is proof of a run.
        let counted = text.lines().find(|line| line.starts_with("fuzz "));
        ensure!(counted.is_some(), "`{target}` did not run:\n{text}");
        println!("{}", counted.unwrap_or_default());
    }
    Ok(())
}
