use super::*;
use crate::runner::ReportPlace;

fn runner(kind: RunnerKind) -> TestRunner {
    TestRunner { kind, command: vec!["x".to_owned()], reason: String::new(), script: Vec::new(), report: None }
}

/// A report in TAP with so many tests that passed and failed, an exit code, and the verdict.
#[track_caller]
fn check(kind: RunnerKind, report: Option<&str>, end: CommandEnd, stderr: &str, expected: RunVerdict) {
    let reporting = ReportingCommand {
        command: Vec::new(),
        environment: Vec::new(),
        format: ReportFormat::Tap,
        place: ReportPlace::File("r".to_owned()),
    };
    let output = RunOutput { end, stdout: b"", stderr: stderr.as_bytes(), report: report.map(str::as_bytes), is_cut: false, root: "/p" };
    let run = read_run(&runner(kind), &reporting, &output);
    assert_eq!(run.verdict, expected, "{:?}", run.remarks);
    assert_eq!(run.remarks.is_empty(), matches!(expected, RunVerdict::Passed | RunVerdict::Failed), "{:?}", run.remarks);
}

#[test]
fn exit_code_and_report_must_agree() {
    use CommandEnd::{Exited, Signalled};
    use RunVerdict::*;
    let (green, red, none) = ("1..1\nok 1 - a\n", "1..2\nok 1 - a\nnot ok 2 - b\n", "1..0\n");
    let node = RunnerKind::NodeTest;
    check(node, Some(green), Exited(0), "", Passed);
    check(node, Some(red), Exited(1), "", Failed);
    check(node, Some(red), Exited(0), "", Contradictory);
    check(node, Some(green), Exited(1), "", Contradictory);
    check(node, Some(red), Exited(7), "", Contradictory);
    check(RunnerKind::Command, Some(red), Exited(7), "", Failed);
    check(node, Some(none), Exited(0), "", NoTests);
    check(node, Some("1..1\nok 1 - a # SKIP\n"), Exited(0), "", NoTests);
    check(RunnerKind::Pytest, Some(none), Exited(5), "", NoTests);
    check(RunnerKind::Pytest, Some(none), Exited(4), "", Contradictory);
    check(node, Some("1..3\nok 1 - a\n"), Exited(0), "", Contradictory);
    check(node, Some("ok 1 - a\n"), Exited(0), "", Contradictory);
    check(node, Some("ok 1 - a\n"), Exited(1), "", Crashed);
    check(node, Some(green), Signalled(11), "", Crashed);
    check(node, Some(green), CommandEnd::TimedOut, "", RunVerdict::TimedOut);
    check(node, Some(green), CommandEnd::NotStarted("no such program".to_owned()), "", RunVerdict::NotStarted);
}

#[test]
fn no_report_is_never_a_pass() {
    use CommandEnd::{Exited, Signalled};
    use RunVerdict::*;
    let pytest = RunnerKind::Pytest;
    check(pytest, None, Exited(0), "", Unreadable);
    check(pytest, None, Exited(1), "", Unreadable);
    check(pytest, None, Exited(134), "Fatal Python error: Aborted", Crashed);
    check(pytest, None, Exited(1), "/usr/bin/python3: No module named pytest\n", RunVerdict::NotStarted);
    check(pytest, None, Exited(127), "", RunVerdict::NotStarted);
    check(RunnerKind::Vitest, None, Exited(1), "Error: Channel closed\n", Crashed);
    check(pytest, None, Signalled(9), "", Crashed);
    check(pytest, None, CommandEnd::TimedOut, "", RunVerdict::TimedOut);
    check(pytest, Some("not tap"), Exited(0), "", Unreadable);
}

#[test]
fn output_that_was_cut_is_not_read_as_a_report() {
    let reporting =
        ReportingCommand { command: Vec::new(), environment: Vec::new(), format: ReportFormat::CargoText, place: ReportPlace::Stdout };
    let stdout = b"\nrunning 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n";
    let output = |is_cut| RunOutput { end: CommandEnd::Exited(0), stdout, stderr: b"", report: None, is_cut, root: "" };
    assert_eq!(read_run(&runner(RunnerKind::CargoTest), &reporting, &output(false)).verdict, RunVerdict::Passed);
    assert_eq!(read_run(&runner(RunnerKind::CargoTest), &reporting, &output(true)).verdict, RunVerdict::Unreadable);
}

#[test]
fn paths_below_the_project_become_relative() {
    let reporting = ReportingCommand {
        command: Vec::new(),
        environment: Vec::new(),
        format: ReportFormat::Junit,
        place: ReportPlace::File("r".to_owned()),
    };
    let report = b"<testsuite><testcase name='a' file='/p/tests/a.py'/><testcase name='b' file='/q/b.py'/></testsuite>";
    let output = RunOutput { end: CommandEnd::Exited(0), stdout: b"", stderr: b"", report: Some(report), is_cut: false, root: "/p/" };
    let run = read_run(&runner(RunnerKind::Command), &reporting, &output);
    let files: Vec<Option<&str>> = run.tests.iter().map(|test| test.file.as_deref()).collect();
    assert_eq!(files, [Some("tests/a.py"), Some("/q/b.py")]);
    assert_eq!(run.summary(), "passed: 2 passed, 0 failed");
}

#[test]
fn a_test_that_does_otherwise_the_second_time_is_unstable() {
    let run = |tests: &[(&str, TestCaseOutcome)]| TestRun {
        kind: RunnerKind::Command,
        verdict: RunVerdict::Passed,
        remarks: Vec::new(),
        totals: TestTotals::default(),
        tests: tests.iter().map(|(name, outcome)| TestResult::new("s", name, *outcome)).collect(),
    };
    let first = run(&[("a", TestCaseOutcome::Passed), ("b", TestCaseOutcome::Passed), ("c", TestCaseOutcome::Passed)]);
    let second = run(&[("a", TestCaseOutcome::Passed), ("b", TestCaseOutcome::Failed)]);
    assert_eq!(unstable_tests(&first, &second), ["s b", "s c"]);
    assert_eq!(unstable_tests(&first, &first), Vec::<String>::new());
}
