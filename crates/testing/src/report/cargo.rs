//! `cargo test` as it prints for people, with the names of the test programs from its standard error.
//!
//! A section begins with `running N tests` and ends with `test result:`. Between them every test has a line. Output of tests that failed is
//! repeated behind `failures:`, where nothing is believed but what a failed test says of itself.

use super::{ParsedReport, reason_of};
use crate::run::{FailureReason, TestCaseOutcome, TestResult};
use std::collections::{BTreeMap, BTreeSet};

struct Section {
    planned: usize,
    tests: Vec<TestResult>,
    messages: BTreeMap<String, String>,
    /// Counts of passed, failed and ignored tests that its last line tells.
    told: Option<[u64; 3]>,
    is_in_failures: bool,
}

pub(super) fn parse(stdout: &str, stderr: &str) -> Result<ParsedReport, String> {
    let mut parsed = ParsedReport::default();
    let sections = sections(stdout);
    let programs = programs(stderr);
    notes(stderr, &mut parsed);
    if sections.is_empty() && parsed.broken.is_empty() && parsed.crashed.is_empty() {
        let error = stderr.lines().find(|line| line.starts_with("error"));
        return Err(error.map_or_else(|| "cargo ran no test program".to_owned(), |line| format!("cargo says: {line}")));
    }
    let is_named = programs.len() == sections.len();
    for (at, section) in sections.into_iter().enumerate() {
        let program = programs.get(at).filter(|_| is_named);
        finish(section, program, &mut parsed);
    }
    if stderr
        .lines()
        .any(|line| line.starts_with("error: test failed") || line.ends_with("targets failed:") || line.ends_with("target failed:"))
    {
        parsed.is_failed = true;
    }
    Ok(parsed)
}

fn sections(stdout: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut current: Option<String> = None;
    for line in stdout.lines() {
        let open = sections.last_mut().filter(|section| section.told.is_none());
        match open {
            Some(section) => {
                if let Some(told) = line.strip_prefix("test result: ").and_then(told) {
                    // Within repeated output only a line that fits what was seen is the real one.
                    if !section.is_in_failures || told == seen(section) {
                        section.told = Some(told);
                        current = None;
                        continue;
                    }
                }
                if line == "failures:" {
                    section.is_in_failures = true;
                    current = None;
                } else if section.is_in_failures {
                    repeated(section, &mut current, line);
                } else if let Some(test) = test_line(line) {
                    section.tests.push(test);
                }
            }
            None => {
                if let Some(planned) = planned(line) {
                    let (tests, messages) = (Vec::new(), BTreeMap::new());
                    sections.push(Section { planned, tests, messages, told: None, is_in_failures: false });
                }
            }
        }
    }
    sections
}

fn planned(line: &str) -> Option<usize> {
    let rest = line.strip_prefix("running ")?;
    rest.strip_suffix(" tests").or_else(|| rest.strip_suffix(" test"))?.parse().ok()
}

/// `test a::b ... ok`; the name may have ` - should panic` behind it.
fn test_line(line: &str) -> Option<TestResult> {
    let (name, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    let outcome = match outcome.trim_end() {
        "ok" => TestCaseOutcome::Passed,
        "FAILED" => TestCaseOutcome::Failed,
        "ignored" => TestCaseOutcome::Skipped,
        other if other.starts_with("ignored, ") => TestCaseOutcome::Skipped,
        other if other.starts_with("bench:") => TestCaseOutcome::Passed,
        _ => return None,
    };
    Some(TestResult::new("", name, outcome))
}

/// `ok. 3 passed; 0 failed; 1 ignored; …`
fn told(rest: &str) -> Option<[u64; 3]> {
    let (_, counts) = rest.split_once(". ")?;
    let mut told = [None; 3];
    for part in counts.split("; ") {
        let (number, word) = part.split_once(' ')?;
        let Some(at) = ["passed", "failed", "ignored"].iter().position(|name| *name == word) else {
            continue;
        };
        told[at] = Some(number.parse().ok()?);
    }
    Some([told[0]?, told[1]?, told[2]?])
}

fn seen(section: &Section) -> [u64; 3] {
    [TestCaseOutcome::Passed, TestCaseOutcome::Failed, TestCaseOutcome::Skipped]
        .map(|outcome| section.tests.iter().filter(|test| test.outcome == outcome).count() as u64)
}

/// A line behind `failures:`: the name of a test that failed, or something that it printed.
fn repeated(section: &mut Section, current: &mut Option<String>, line: &str) {
    if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
        *current = Some(name.to_owned());
        section.messages.entry(name.to_owned()).or_default();
    } else if let Some(name) = current
        && let Some(message) = section.messages.get_mut(name)
        && message.len() < 20_000
    {
        message.push_str(line);
        message.push('\n');
    }
}

/// File and program name of each test program, in the order in which cargo ran them.
fn programs(stderr: &str) -> Vec<(String, String)> {
    let program = |line: &str| {
        let line = line.trim_start();
        if let Some(name) = line.strip_prefix("Doc-tests ") {
            return Some((String::new(), format!("doc-tests of {name}")));
        }
        let (what, path) = line.strip_prefix("Running ")?.strip_suffix(')')?.rsplit_once(" (")?;
        let file = what.strip_prefix("unittests ").unwrap_or(what);
        let name = path.rsplit('/').next()?;
        let name = name.rsplit_once('-').map_or(name, |(name, _)| name);
        Some((file.to_owned(), name.to_owned()))
    };
    stderr.lines().filter_map(program).collect()
}

/// What cargo itself says went wrong.
fn notes(stderr: &str, parsed: &mut ParsedReport) {
    let is_broken = stderr.lines().any(|line| line.starts_with("error: could not compile"));
    if is_broken {
        let first =
            stderr.lines().find(|line| line.starts_with("error[") || (line.starts_with("error: ") && !line.contains("could not compile")));
        let first = first.or_else(|| stderr.lines().find(|line| line.starts_with("error: could not compile")));
        parsed.broken.extend(first.map(|line| format!("the code does not compile: {line}")));
    }
    let died = stderr.lines().find(|line| line.contains("(signal: ") && line.contains("process didn't exit successfully"));
    parsed.crashed.extend(died.map(|line| line.trim().to_owned()));
}

fn finish(mut section: Section, program: Option<&(String, String)>, parsed: &mut ParsedReport) {
    let where_ = program.map_or_else(|| "a test program".to_owned(), |(_, name)| format!("`{name}`"));
    let (counts, planned) = (seen(&section), section.planned);
    match section.told {
        None => parsed.crashed.push(format!("{where_} ended before it told its result ({} of {planned} tests)", section.tests.len())),
        Some(told) if told != counts => {
            let [passed, failed, ignored] = told;
            parsed.doubts.push(format!(
                "{where_} tells of {passed} passed, {failed} failed and {ignored} ignored tests, but lists {}, {} and {}",
                counts[0], counts[1], counts[2]
            ));
        }
        Some(_) if section.tests.len() != planned => {
            parsed.doubts.push(format!("{where_} announced {planned} tests and listed {}", section.tests.len()));
        }
        Some(_) => {}
    }
    let (mut names, mut examples) = (BTreeSet::new(), BTreeMap::<String, u32>::new());
    let tests = std::mem::take(&mut section.tests);
    for mut test in tests {
        // An example's name has its line in it, which moves with every change above it.
        if let Some((name, _)) = test.name.split_once(" (line ") {
            let name = name.to_owned();
            let nth = examples.entry(name.clone()).and_modify(|nth| *nth += 1).or_insert(1_u32);
            let name = format!("{name} #{nth}");
            if let Some(message) = section.messages.remove(&test.name) {
                section.messages.insert(name.clone(), message);
            }
            test.name = name;
        }
        if !names.insert(test.name.clone()) {
            parsed.doubts.push(format!("{where_} lists the test {} twice", test.name));
        }
        if test.outcome == TestCaseOutcome::Failed {
            let (reason, message) = message(section.messages.get(&test.name).map_or("", String::as_str));
            test = test.because(reason, &message);
        }
        if let Some((file, name)) = program {
            test.suite.clone_from(name);
            test = test.in_file(file);
        }
        parsed.tests.push(test);
    }
}

/// The panic's message, which stands below the line that says where.
fn message(printed: &str) -> (FailureReason, String) {
    let mut lines = printed.lines();
    let panicked = lines.by_ref().find(|line| line.starts_with("thread '") && line.contains(" panicked at "));
    if panicked.is_none() {
        let first = printed.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let reason = if first.starts_with("note: test did not panic") { FailureReason::Assertion } else { reason_of(first) };
        // `Error: …` is what a test that returns a result prints.
        return (if first.starts_with("Error: ") { FailureReason::Exception } else { reason }, first.to_owned());
    }
    let is_end = |line: &&str| !line.starts_with("note: ") && !line.starts_with("stack backtrace:");
    let rest: Vec<&str> = lines.take_while(is_end).take(12).collect();
    let text = rest.join("\n");
    let first = text.trim_start();
    let broke = ["called `", "not implemented", "not yet implemented", "index out of bounds", "attempt to ", "internal error: entered"];
    let reason = match first {
        _ if first.starts_with("assertion") => FailureReason::Assertion,
        _ if broke.iter().any(|start| first.starts_with(start)) => FailureReason::Exception,
        _ => FailureReason::Unknown,
    };
    (reason, text)
}
