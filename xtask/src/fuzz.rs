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
    ("ready_lines", "hive"),
    ("pid_headers", "hive"),
    ("git_files", "workspace"),
    ("dialects", "brain"),
    ("memories", "brain"),
    ("codex_lines", "brain"),
    ("codex_exec_lines", "brain"),
    ("acp_lines", "brain"),
    ("claude_lines", "brain"),
    ("plans", "workflow"),
    ("expressions", "workflow"),
    ("reports", "testing"),
    ("sources", "testing"),
    ("coverage", "testing"),
    ("type_changes", "testing"),
    ("mutations", "testing"),
];

/// Targets that need what no crate shows to others: tests of the library itself, by their whole names.
const INSIDE: &[(&str, &str, &str)] = &[
    ("links", "workspace", "tests::fuzzed::links"),
    ("merge_sets", "workspace", "tests::fuzzed::merge_sets"),
    ("tools_door", "agent", "fuzzed::tools_door"),
    ("hook_door", "agent", "fuzzed::hook_door"),
];

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs::read_to_string;

    /// The tests that a file has, in order of their names.
    fn tests_of(path: &str) -> BTreeSet<String> {
        let text = read_to_string(format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap_or_else(|error| panic!("{path}: {error}"));
        let name = |part: &str| part.trim_start().strip_prefix("fn ").and_then(|rest| rest.split('(').next()).map(str::to_owned);
        text.split("#[test]\n").skip(1).filter_map(name).collect()
    }

    #[test]
    fn every_row_names_a_target_and_every_target_has_its_row() {
        let packages: BTreeSet<&str> = TARGETS.iter().map(|(_, package)| *package).collect();
        for package in packages {
            let rows: BTreeSet<String> = TARGETS.iter().filter(|(_, of)| *of == package).map(|(target, _)| (*target).to_owned()).collect();
            assert_eq!(rows, tests_of(&format!("crates/{package}/tests/fuzz.rs")), "{package}");
        }
        for (target, package, test) in INSIDE {
            let (file, name) = test.rsplit_once("::").unwrap_or_else(|| panic!("{test}"));
            let found = tests_of(&format!("crates/{package}/src/{}.rs", file.replace("::", "/")));
            assert!(name == *target && found.contains(name), "{test}: {found:?}");
        }
    }
}
