//! Which program runs a project's tests, and how it is asked for a report that a machine can read.
//!
//! **Invariant.** Only options are added to a command that a person trusted: what it tests stays what it was. The report goes to a file that the
//! caller names, or to the standard output; the formats are in [`crate::report`].

mod detect;
mod script;

use crate::project::ProjectFiles;
use serde::{Deserialize, Serialize};

pub use detect::detect;
pub use script::{RunnerScript, runner_scripts};

/// A program that runs tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunnerKind {
    CargoTest,
    Nextest,
    Pytest,
    Unittest,
    Vitest,
    Jest,
    GoTest,
    NodeTest,
    Make,
    /// Anything else. Its report is JUnit XML, TAP or a count in what it prints.
    Command,
}

impl RunnerKind {
    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            RunnerKind::CargoTest => "cargo test",
            RunnerKind::Nextest => "cargo nextest",
            RunnerKind::Pytest => "pytest",
            RunnerKind::Unittest => "unittest",
            RunnerKind::Vitest => "vitest",
            RunnerKind::Jest => "jest",
            RunnerKind::GoTest => "go test",
            RunnerKind::NodeTest => "node:test",
            RunnerKind::Make => "make",
            RunnerKind::Command => "command",
        }
    }

    /// Exit codes by which it says that tests failed. None: any but 0.
    pub(crate) fn failure_exits(self) -> &'static [i32] {
        match self {
            RunnerKind::CargoTest => &[101],
            RunnerKind::Nextest => &[100],
            RunnerKind::Pytest | RunnerKind::Unittest | RunnerKind::Vitest | RunnerKind::NodeTest => &[1],
            // `go` counts the packages that did not build as well.
            RunnerKind::GoTest => &[1, 2],
            RunnerKind::Jest | RunnerKind::Make | RunnerKind::Command => &[],
        }
    }
}

/// How a project's tests are run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestRunner {
    pub kind: RunnerKind,
    /// Program and arguments, as `skep.yml` has them.
    pub command: Vec<String>,
    /// The file or the word that gave it away, for people.
    pub reason: String,
    /// The script's own words, where the command only names a script of `package.json`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub script: Vec<String>,
    /// Where the command leaves its report by itself, if a person said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

/// In which form a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportFormat {
    /// What `cargo test` prints for people: its JSON is not stable.
    CargoText,
    /// libtest's JSON lines, as nextest prints them.
    LibtestJson,
    /// `go test -json`.
    GoJson,
    /// The JSON of jest, which vitest writes too.
    JestJson,
    Junit,
    Tap,
    /// A count somewhere in the output.
    Text,
    /// JUnit XML, TAP or JSON: its first bytes tell.
    Any,
}

/// Where a report is found after the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportPlace {
    Stdout,
    File(String),
}

/// A command that leaves a report, and where. Whoever runs it removes what is at that place before: an older report is no report of this run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportingCommand {
    pub command: Vec<String>,
    /// Variables that it needs beside those of the sandbox.
    pub environment: Vec<(String, String)>,
    pub format: ReportFormat,
    pub place: ReportPlace,
}

impl TestRunner {
    /// The runner behind a command that a person trusted. A script of `package.json` is looked up; what is not known is a command.
    pub fn recognise(command: &[String], files: &dyn ProjectFiles) -> TestRunner {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let mut runner =
            TestRunner { kind: RunnerKind::Command, command: command.to_vec(), reason: String::new(), script: Vec::new(), report: None };
        let script = match words.as_slice() {
            ["npm" | "pnpm" | "yarn", "test" | "t"] | ["npm" | "pnpm" | "yarn", "run", "test"] => detect::test_script(files),
            _ => None,
        };
        match script {
            Some(script) => {
                let words: Vec<&str> = script.iter().map(String::as_str).collect();
                if let Some((kind, why)) = known(&words) {
                    (runner.kind, runner.reason) = (kind, format!("the script `test` of package.json runs {why}"));
                    runner.script = script;
                }
            }
            None => {
                if let Some((kind, why)) = known(&words) {
                    (runner.kind, runner.reason) = (kind, format!("the command runs {why}"));
                }
            }
        }
        if runner.kind == RunnerKind::Command {
            runner.reason = "the command is none of a runner that is known by name".to_owned();
        }
        runner
    }

    /// The command with a reporter that a machine can read. `report` is a path that the caller owns; a runner that has no reporter ignores it.
    pub fn reporting(&self, report: &str) -> ReportingCommand {
        let file = ReportPlace::File(report.to_owned());
        let (mut command, mut environment) = (self.command.clone(), Vec::new());
        let (format, place) = match self.kind {
            RunnerKind::CargoTest => {
                command.retain(|word| word != "-q" && word != "--quiet");
                insert_after(&mut command, "test", &["--no-fail-fast"]);
                environment.push(("CARGO_TERM_COLOR", "never"));
                (ReportFormat::CargoText, ReportPlace::Stdout)
            }
            RunnerKind::Nextest => {
                let options = ["--no-fail-fast", "--retries", "0", "--message-format", "libtest-json"];
                let verb = if command.iter().any(|word| word == "run") { "run" } else { "r" };
                insert_after(&mut command, verb, &options);
                environment.extend([("NEXTEST_EXPERIMENTAL_LIBTEST_JSON", "1"), ("CARGO_TERM_COLOR", "never")]);
                (ReportFormat::LibtestJson, ReportPlace::Stdout)
            }
            RunnerKind::Pytest => {
                let file = format!("--junitxml={report}");
                command.extend(["-p", "no:cacheprovider", "-o", "junit_family=xunit1", "--color=no", &file].map(str::to_owned));
                environment.push(("PYTHONDONTWRITEBYTECODE", "1"));
                (ReportFormat::Junit, ReportPlace::File(report.to_owned()))
            }
            RunnerKind::Vitest => {
                self.add_options(&mut command, &["--run", "--reporter=json", &format!("--outputFile={report}")]);
                environment.push(("CI", "1"));
                (ReportFormat::JestJson, file)
            }
            RunnerKind::Jest => {
                self.add_options(&mut command, &["--ci", "--json", &format!("--outputFile={report}")]);
                environment.push(("CI", "1"));
                (ReportFormat::JestJson, file)
            }
            RunnerKind::GoTest => {
                insert_after(&mut command, "test", &["-json", "-count=1"]);
                (ReportFormat::GoJson, ReportPlace::Stdout)
            }
            RunnerKind::NodeTest => {
                if !self.script.is_empty() {
                    command.clone_from(&self.script);
                }
                insert_after(&mut command, "node", &["--test-reporter=tap", &format!("--test-reporter-destination={report}")]);
                environment.push(("NO_COLOR", "1"));
                (ReportFormat::Tap, file)
            }
            RunnerKind::Unittest | RunnerKind::Make | RunnerKind::Command => match &self.report {
                Some(report) => (ReportFormat::Any, ReportPlace::File(report.clone())),
                None => (ReportFormat::Text, ReportPlace::Stdout),
            },
        };
        let environment = environment.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        ReportingCommand { command, environment, format, place }
    }

    /// Options for the program behind a script go after `--` with npm, and straight with the others.
    fn add_options(&self, command: &mut Vec<String>, options: &[&str]) {
        if !self.script.is_empty() && command.first().is_some_and(|word| word == "npm") {
            command.push("--".to_owned());
        }
        command.extend(options.iter().map(|option| (*option).to_owned()));
    }
}

/// Puts words behind the first `word`, so that they stand before what a `--` sets apart.
fn insert_after(command: &mut Vec<String>, word: &str, added: &[&str]) {
    let at = command.iter().position(|found| found.rsplit('/').next() == Some(word)).map_or(command.len(), |at| at + 1);
    command.splice(at..at, added.iter().map(|word| (*word).to_owned()));
}

/// The runner that a plain command line starts, and the word that says so.
fn known(words: &[&str]) -> Option<(RunnerKind, String)> {
    let mut rest = words;
    loop {
        match rest {
            [first, tail @ ..] if first.contains('=') && !first.starts_with('-') => rest = tail,
            [
                "cross-env" | "env" | "npx" | "bunx" | "poetry" | "uv" | "pdm" | "hatch",
                "run" | "exec" | "--no-install" | "--yes",
                tail @ ..,
            ] => rest = tail,
            ["cross-env" | "env" | "npx" | "bunx", tail @ ..] | ["npm" | "pnpm" | "yarn", "exec", "--", tail @ ..] => rest = tail,
            ["npm", "exec", tail @ ..] | ["pnpm" | "yarn", tail @ ..] => rest = tail,
            _ => break,
        }
    }
    let program = rest.first()?.rsplit('/').next()?;
    let is_python = program == "python" || program.starts_with("python3") || program.starts_with("python2");
    let kind = match (program, &rest[1..]) {
        ("cargo", ["nextest", ..]) => RunnerKind::Nextest,
        ("cargo", ["test" | "t", ..]) => RunnerKind::CargoTest,
        ("cargo", [toolchain, "test", ..]) if toolchain.starts_with('+') => RunnerKind::CargoTest,
        ("go", ["test", ..]) => RunnerKind::GoTest,
        ("pytest" | "py.test", _) => RunnerKind::Pytest,
        (_, ["-m", "pytest", ..]) if is_python => RunnerKind::Pytest,
        (_, ["-m", "unittest", ..]) if is_python => RunnerKind::Unittest,
        ("vitest", _) => RunnerKind::Vitest,
        ("jest", _) => RunnerKind::Jest,
        ("node", options) if options.contains(&"--test") => RunnerKind::NodeTest,
        ("make" | "gmake", _) => RunnerKind::Make,
        _ => return None,
    };
    Some((kind, format!("`{program}`")))
}

#[cfg(test)]
mod tests;
