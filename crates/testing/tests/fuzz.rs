//! No text makes a reader of reports, sources or settings panic, and no noise is a pass.

#[path = "../../testkit/fuzz/fuzz.rs"]
mod fuzz;

use testing::{
    ChangedFile, CommandEnd, ReportFormat, ReportPlace, ReportingCommand, RunOutput, RunVerdict, RunnerKind, TestRunner, TypeOnly,
    compare_coverage, compare_tests, count_tests, file_role, inspect_tests, mutants, read_coverage, read_run, type_only_change,
};

const REPORTS: &[&str] = &[
    "\nrunning 1 test\n",
    "running 2 tests\n",
    "test a ... ok\n",
    "test b ... FAILED\n",
    "failures:\n",
    "---- b stdout ----\n",
    "thread 'b' panicked at src/lib.rs:1:1:\nassertion failed\n",
    "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n",
    "test result: FAILED. 1 passed; 1 failed; 0 ignored\n",
    "{\"type\":\"suite\",\"event\":\"started\"}\n",
    "{\"type\":\"test\",\"event\":\"ok\",\"name\":\"a$b\"}\n",
    "{\"type\":\"suite\",\"event\":\"ok\"}\n",
    "{\"Action\":\"run\",\"Package\":\"p\",\"Test\":\"T\"}\n",
    "{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"T\"}\n",
    "{\"Action\":\"pass\",\"Package\":\"p\"}\n",
    "FAIL\tp [build failed]\n",
    "{\"numTotalTests\":1,\"numPassedTests\":1,\"numFailedTests\":0,\"testResults\":[",
    "{\"name\":\"/a\",\"assertionResults\":[{\"status\":\"passed\"}]}",
    "]}",
    "<testsuite tests=\"1\">",
    "<testcase name=\"a\" classname=\"b\"/>",
    "<testcase name=\"a\"><failure message=\"x\">",
    "</failure></testcase>",
    "</testsuite>",
    "<!DOCTYPE x [<!ENTITY a \"b\">]>",
    "&#x0;",
    "TAP version 13\n",
    "1..1\n",
    "1..99999999999\n",
    "ok 1 - a\n",
    "    ok 1 - a\n",
    "        not ok 2 - b # SKIP\n",
    "not ok 2 - b \\# c\n",
    "  ---\n  exitCode: 1\n  signal: 'SIGKILL'\n  ...\n",
    "  ---\n",
    "Bail out!\n",
    "Ran 3 tests in 0.1s\n",
    "FAILED (failures=99999999999999999999)\n",
    "\u{1b}[31m",
    "===== 18446744073709551615 passed, 1 failed in 1s =====\n",
    "\n",
    " ",
    "ä",
];

const FORMATS: [ReportFormat; 8] = [
    ReportFormat::CargoText,
    ReportFormat::LibtestJson,
    ReportFormat::GoJson,
    ReportFormat::JestJson,
    ReportFormat::Junit,
    ReportFormat::Tap,
    ReportFormat::Text,
    ReportFormat::Any,
];

#[test]
fn reports() {
    let runner = TestRunner { kind: RunnerKind::Command, command: Vec::new(), reason: String::new(), script: Vec::new(), report: None };
    fuzz::text("reports", REPORTS, |text| {
        let _ = count_tests(text);
        for format in FORMATS {
            for place in [ReportPlace::Stdout, ReportPlace::File("r".to_owned())] {
                let reporting = ReportingCommand { command: Vec::new(), environment: Vec::new(), format, place };
                let run = |end: CommandEnd| {
                    let (stdout, stderr) = (text.as_bytes(), text.as_bytes());
                    let output = RunOutput { end, stdout, stderr, report: Some(text.as_bytes()), is_cut: false, root: "/" };
                    read_run(&runner, &reporting, &output)
                };
                let green = run(CommandEnd::Exited(0));
                assert_ne!(green.verdict, RunVerdict::Failed, "{format:?}");
                if green.verdict == RunVerdict::Passed {
                    assert!(green.totals.passed > 0 && green.totals.failed == 0 && green.totals.errored == 0, "{format:?}: {green:?}");
                }
                let red = run(CommandEnd::Exited(1));
                assert_ne!(red.verdict, RunVerdict::Passed, "{format:?}");
                if red.verdict == RunVerdict::Failed {
                    assert!(red.totals.failed + red.totals.errored > 0, "{format:?}: {red:?}");
                }
                assert_eq!(run(CommandEnd::TimedOut).verdict, RunVerdict::TimedOut);
                assert!(run(CommandEnd::Signalled(9)).tests.iter().all(|test| test.message.len() < 1_000 && test.name.len() < 2_000));
            }
        }
    });
}

const SOURCES: &[&str] = &[
    "#[test]\n",
    "#[ignore]\n",
    "#![cfg(x)]\n",
    "#[cfg(test)]\nmod tests {\n",
    "fn a() {",
    "}\n",
    "assert!(true);",
    "assert_eq!(a, b);",
    "r#\"",
    "\"#",
    "'a",
    "'x'",
    "/*",
    "*/",
    "//",
    "def test_a():\n",
    "    assert x == 1\n",
    "    return\n",
    "@pytest.mark.skip\n",
    "class TestA:\n",
    "'''",
    "\"",
    "\\",
    "`",
    "${",
    "test('a', () => {",
    "it.each([1])('b', function () {",
    "describe.skip('c', () => {",
    "expect(a).toBe(b);",
    "})",
    "package a\n",
    "func TestA(t *testing.T) {\n",
    "t.Fatal(1)\n",
    "t.Skip()",
    "//go:build x\n",
    "(",
    ")",
    "[",
    "]",
    "{",
    "1.5e-3",
    "/a[/]/g",
    "\n",
    "  ",
    "ä",
    "[dependencies]\n",
    "\"\"\"",
    "{\"scripts\":{\"test\":\"jest\"}}",
];

const PATHS: [&str; 9] =
    ["src/a.rs", "tests/a.rs", "test_a.py", "a.test.ts", "a_test.go", "Cargo.toml", "package.json", "tests/a.json", "__snapshots__/a.snap"];

#[test]
fn sources() {
    fuzz::text("sources", SOURCES, |text| {
        let half = &text[..text.floor_char_boundary(text.len() / 2)];
        for path in PATHS {
            let _ = (file_role(path), inspect_tests(path, text));
            let change = |before, after| compare_tests(&[ChangedFile { path, before, after }]);
            assert!(change(Some(text.as_bytes()), Some(text.as_bytes())).is_empty(), "{path}");
            let findings = change(Some(text.as_bytes()), Some(half.as_bytes()));
            assert!(findings.iter().all(|finding| finding.path == path && !finding.sentence.is_empty()));
            let _ = (change(None, Some(text.as_bytes())), change(Some(text.as_bytes()), None));
        }
    });
}

const COVERAGE: &[&str] = &[
    "SF:a.js\n",
    "DA:1,1\n",
    "DA:2,-1\n",
    "DA:99999999999999999999,1\n",
    "end_of_record\n",
    "{",
    "}",
    "\"total\": {\"lines\": {\"total\": 1, \"covered\": 1}},",
    "\"a.js\": {\"lines\": {\"total\": 18446744073709551615, \"covered\": 18446744073709551615}}",
    "\"b.js\": {\"statementMap\": {\"0\": {\"start\": {\"line\": 1}}}, \"s\": {\"0\": 1}}",
    "{\"type\": \"llvm.coverage.json.export\", \"data\": [{\"files\": [{\"filename\": \"a\", \"summary\": {\"lines\": {\"count\": 2, \"covered\": 1}}}]}]}",
    ",",
    "<coverage>",
    "<!DOCTYPE coverage SYSTEM 'x'>",
    "<class filename=\"a\"><lines>",
    "<line number=\"1\" hits=\"1\"/>",
    "</lines></class>",
    "</coverage>",
    "\n",
    " ",
];

#[test]
fn coverage() {
    fuzz::text("coverage", COVERAGE, |text| {
        let Ok((_, coverage)) = read_coverage(text, "/p") else { return };
        let total = coverage.total();
        assert!(total.total > 0 && total.covered <= total.total && total.hundredths() <= 10_000, "{coverage:?}");
        assert!(compare_coverage(&coverage, &coverage).is_empty());
    });
}

#[test]
fn type_changes() {
    fuzz::text("type_changes", SOURCES, |text| {
        for path in ["a.rs", "a.py", "a.ts", "a.js", "a.go"] {
            assert_eq!(type_only_change(path, text, text), TypeOnly::Proven);
            // A name more is never a change of types alone.
            let longer = format!("{text}\nzzz_added(1)\n");
            assert_ne!(type_only_change(path, text, &longer), TypeOnly::Proven, "{path}: {text}");
        }
    });
}

#[test]
fn mutations() {
    fuzz::text("mutations", SOURCES, |text| {
        for path in ["a.rs", "a.py", "a.ts", "a.js", "a.go"] {
            let found = mutants(path, text, &[2..=5], 7);
            assert!(found.len() <= 7);
            for mutant in found {
                assert!(mutant.text != text && (2..=5).contains(&mutant.line), "{path}: {mutant:?}");
                assert_eq!(mutant.text.lines().next(), text.lines().next(), "{path}");
            }
        }
    });
}
