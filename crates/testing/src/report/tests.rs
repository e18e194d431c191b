use super::*;
use crate::run::TestCaseOutcome;

/// Tests as `outcome name`, then what is broken, crashed and in doubt.
#[track_caller]
fn check(format: ReportFormat, text: &str, stderr: &str, tests: &[&str], broken: usize, crashed: usize, doubts: usize) -> ParsedReport {
    let parsed = parse(format, text, stderr).unwrap();
    let word = |test: &TestResult| match test.outcome {
        TestCaseOutcome::Passed => "passed",
        TestCaseOutcome::Failed => "failed",
        TestCaseOutcome::Skipped => "skipped",
        TestCaseOutcome::Errored => "errored",
    };
    let found: Vec<String> = parsed.tests.iter().map(|test| format!("{} {}", word(test), test.title())).collect();
    assert_eq!(found, tests, "{text}");
    let counts = (parsed.broken.len(), parsed.crashed.len(), parsed.doubts.len());
    assert_eq!(counts, (broken, crashed, doubts), "{:?} {:?} {:?}", parsed.broken, parsed.crashed, parsed.doubts);
    parsed
}

const CARGO: &str = "
running 3 tests
test tests::later ... ignored, not yet
test tests::adds ... ok
test tests::fails - should panic ... FAILED

failures:

---- tests::fails stdout ----
running 1 test
test forged ... ok
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

thread 'tests::fails' (12) panicked at src/lib.rs:9:5:
assertion `left == right` failed
  left: 2
 right: 3
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace


failures:
    tests::fails

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s


running 1 test
test it ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

const CARGO_ERR: &str = "   Compiling a v0.1.0\n    Finished `test` profile\n     Running unittests src/lib.rs (target/debug/deps/a-0123abcd)\n     Running tests/it.rs (target/debug/deps/it-4567)\nerror: 1 target failed:\n";

#[test]
fn cargo_is_read_as_it_prints() {
    let tests = ["skipped a tests::later", "passed a tests::adds", "failed a tests::fails", "passed it it"];
    let parsed = check(ReportFormat::CargoText, CARGO, CARGO_ERR, &tests, 0, 0, 0);
    assert!(parsed.is_failed);
    assert_eq!(parsed.tests[2].reason, Some(FailureReason::Assertion));
    assert_eq!(parsed.tests[2].message, "assertion `left == right` failed\n  left: 2\n right: 3");
    assert_eq!(parsed.tests[3].file.as_deref(), Some("tests/it.rs"));
}

#[test]
fn cargo_lists_that_do_not_add_up_are_doubted() {
    let cut = CARGO.split("failures:").next().unwrap();
    check(ReportFormat::CargoText, cut, "", &["skipped tests::later", "passed tests::adds", "failed tests::fails"], 0, 1, 0);
    let forged = CARGO.replace("test it ... ok\n", "test it ... ok\ntest more ... ok\n");
    let parsed = parse(ReportFormat::CargoText, &forged, "").unwrap();
    assert_eq!(parsed.doubts, ["a test program tells of 1 passed, 0 failed and 0 ignored tests, but lists 2, 0 and 0"]);
    let fewer = CARGO.replace("running 1 test\ntest it ... ok", "running 2 tests\ntest it ... ok");
    assert_eq!(parse(ReportFormat::CargoText, &fewer, "").unwrap().doubts, ["a test program announced 2 tests and listed 1"]);
    let twice = CARGO.replace("1 test\ntest it ... ok", "2 tests\ntest it ... ok\ntest it ... ok").replace(
        "ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        "ok. 2 passed; 0 failed; 0 ignored\n",
    );
    assert!(parse(ReportFormat::CargoText, &twice, "").unwrap().doubts.iter().any(|doubt| doubt.ends_with("lists the test it twice")));
}

#[test]
fn cargo_says_what_did_not_compile_and_what_died() {
    let broken = "error[E0425]: cannot find function `x`\nerror: could not compile `a` (lib test) due to 1 previous error\n";
    let parsed = check(ReportFormat::CargoText, "", broken, &[], 1, 0, 0);
    assert_eq!(parsed.broken, ["the code does not compile: error[E0425]: cannot find function `x`"]);
    let died = "Caused by:\n  process didn't exit successfully: `/t/a-1` (signal: 6, SIGABRT: process abort signal)\n";
    check(ReportFormat::CargoText, "\nrunning 2 tests\ntest a ... ok\n", died, &["passed a"], 0, 2, 0);
    assert_eq!(
        parse(ReportFormat::CargoText, "", "error: no test target named `x`\n"),
        Err("cargo says: error: no test target named `x`".to_owned())
    );
    assert!(parse(ReportFormat::CargoText, "all good\n", "").is_err());
}

#[test]
fn libtest_events_are_read() {
    let events = "{\"type\":\"suite\",\"event\":\"started\",\"test_count\":3}\n\
        {\"type\":\"test\",\"event\":\"started\",\"name\":\"a::a$tests::x\"}\n\
        {\"type\":\"test\",\"event\":\"ok\",\"name\":\"a::a$tests::x\",\"exec_time\":0.1}\n\
        {\"type\":\"test\",\"event\":\"started\",\"name\":\"a::a$tests::y\"}\n\
        {\"type\":\"test\",\"event\":\"failed\",\"name\":\"a::a$tests::y\",\"stdout\":\"\\nthread 'y' panicked at src/lib.rs:1:1:\\nassertion failed: false\\nnote: x\"}\n\
        {\"type\":\"test\",\"event\":\"ignored\",\"name\":\"a::a$tests::z\"}\n\
        {\"type\":\"suite\",\"event\":\"failed\",\"passed\":1,\"failed\":1,\"ignored\":1}\n";
    let tests = ["passed a::a tests::x", "failed a::a tests::y", "skipped a::a tests::z"];
    let parsed = check(ReportFormat::LibtestJson, events, "", &tests, 0, 0, 0);
    assert_eq!(parsed.tests[1].reason, Some(FailureReason::Assertion));
    let cut: String = events.lines().take(4).map(|line| format!("{line}\n")).collect();
    check(ReportFormat::LibtestJson, &cut, "", &["passed a::a tests::x"], 0, 1, 0);
    check(ReportFormat::LibtestJson, events, "     SIGABRT [   0.004s] a tests::y\n", &tests, 0, 1, 0);
    assert!(parse(ReportFormat::LibtestJson, "", "error: no such command: `nextest`").is_err());
}

#[test]
fn go_events_are_read() {
    let line = |action: &str, test: &str, output: &str| {
        serde_json::json!({"Action": action, "Package": "ex", "Test": test, "Output": output}).to_string() + "\n"
    };
    let package = |action: &str, output: &str| serde_json::json!({"Action": action, "Package": "ex", "Output": output}).to_string() + "\n";
    let run = line("run", "TestA", "")
        + &line("output", "TestA", "    a_test.go:3: got 2\n")
        + &line("fail", "TestA", "")
        + &line("skip", "TestB", "");
    let whole = run.clone() + &package("fail", "");
    let parsed = check(ReportFormat::GoJson, &whole, "", &["failed ex TestA", "skipped ex TestB"], 0, 0, 0);
    assert_eq!((parsed.tests[0].reason, parsed.tests[0].message.as_str()), (Some(FailureReason::Assertion), "a_test.go:3: got 2"));
    check(ReportFormat::GoJson, &(run.clone() + &package("pass", "")), "", &["failed ex TestA", "skipped ex TestB"], 0, 0, 1);
    check(ReportFormat::GoJson, &run, "", &["failed ex TestA", "skipped ex TestB"], 0, 1, 0);
    let unended = line("run", "TestA", "") + &package("fail", "");
    check(ReportFormat::GoJson, &unended, "", &["errored ex TestA"], 0, 1, 0);
    let panicked = line("output", "TestA", "panic: nil map\n") + &line("fail", "TestA", "") + &package("fail", "");
    let parsed = check(ReportFormat::GoJson, &panicked, "", &["failed ex TestA"], 0, 0, 0);
    assert_eq!(parsed.tests[0].reason, Some(FailureReason::Exception));
    check(ReportFormat::GoJson, "FAIL\tex/bad [build failed]\n", "# ex/bad\nbad/a_test.go:3:28: undefined: missing\n", &[], 1, 0, 0);
    let cached = line("pass", "TestA", "") + &package("output", "ok  \tex\t(cached)\n") + &package("pass", "");
    check(ReportFormat::GoJson, &cached, "", &["passed ex TestA"], 0, 0, 1);
    let late = line("output", "TestA", "panic: test timed out after 1s\n") + &line("fail", "TestA", "") + &package("fail", "");
    assert!(parse(ReportFormat::GoJson, &late, "").unwrap().is_timed_out);
}

#[test]
fn jest_reports_must_add_up() {
    let test =
        |name: &str, status: &str, message: &str| serde_json::json!({"fullName": name, "status": status, "failureMessages": [message]});
    let report = |passed: u64, failed: u64| {
        serde_json::json!({
            "numTotalTests": 4, "numPassedTests": passed, "numFailedTests": failed, "success": false,
            "testResults": [
                {"name": "/p/a.test.js", "status": "failed", "assertionResults": [
                    test("ok", "passed", ""), test("bad", "failed", "Error: expect(received).toBe(expected)"),
                    test("throws", "failed", "ReferenceError: nothing is not defined"), test("later", "todo", ""),
                ]},
                {"name": "/p/b.test.js", "status": "failed", "message": "Cannot find module", "assertionResults": []},
            ],
        })
        .to_string()
    };
    let tests = ["passed /p/a.test.js ok", "failed /p/a.test.js bad", "failed /p/a.test.js throws", "skipped /p/a.test.js later"];
    let parsed = check(ReportFormat::JestJson, &report(1, 2), "", &tests, 1, 0, 0);
    assert_eq!(parsed.tests[1].reason, Some(FailureReason::Assertion));
    assert_eq!(parsed.tests[2].reason, Some(FailureReason::Exception));
    check(ReportFormat::JestJson, &report(3, 0), "", &tests, 1, 0, 2);
    let died = r#"{"numTotalTests": 0, "numPassedTests": 0, "numFailedTests": 0, "success": false, "testResults": [{"name": "/p/a.js", "status": "failed",
        "message": "A jest worker process (pid=1) was terminated by another process: signal=SIGKILL", "assertionResults": []}]}"#;
    check(ReportFormat::JestJson, died, "", &[], 0, 1, 0);
    assert!(parse(ReportFormat::JestJson, "{}", "").is_err());
    assert!(parse(ReportFormat::JestJson, "{\"testResults\": [{\"assertionResults\": [{\"status\": \"wow\"}]}]}", "").is_err());
}

#[test]
fn junit_reports_must_add_up() {
    let report = |tests: u64, failures: u64| {
        format!(
            "<?xml version=\"1.0\"?><testsuites><testsuite name=\"pytest\" tests=\"{tests}\" failures=\"{failures}\" errors=\"1\">\
             <testcase classname=\"test_a\" name=\"ok\" file=\"test_a.py\"/>\
             <testcase classname=\"test_a\" name=\"bad\"><failure message=\"assert 1 == 2\">x</failure></testcase>\
             <testcase classname=\"test_a\" name=\"name\"><failure message=\"NameError: x\">x</failure></testcase>\
             <testcase classname=\"test_a\" name=\"later\"><skipped/></testcase>\
             <testcase classname=\"\" name=\"test_b\"><error message=\"collection failure\">a\nE   ImportError: no\n</error></testcase>\
             </testsuite></testsuites>"
        )
    };
    let tests = ["passed test_a ok", "failed test_a bad", "failed test_a name", "skipped test_a later", "errored test_b"];
    let parsed = check(ReportFormat::Junit, &report(5, 2), "", &tests, 1, 0, 0);
    assert_eq!(parsed.broken, ["test_b cannot be imported: ImportError: no"]);
    assert_eq!(parsed.tests[1].reason, Some(FailureReason::Assertion));
    assert_eq!(parsed.tests[2].reason, Some(FailureReason::Exception));
    check(ReportFormat::Junit, &report(9, 0), "", &tests, 1, 0, 2);
    check(ReportFormat::Junit, "<testsuites><testsuite tests=\"3\"/></testsuites>", "", &[], 0, 0, 1);
    assert!(parse(ReportFormat::Junit, "<html/>", "").is_err());
    assert!(parse(ReportFormat::Junit, "<testsuite><testcase>", "").is_err());
    assert!(parse(ReportFormat::Junit, "<!DOCTYPE x [<!ENTITY a \"b\">]><testsuite/>", "").is_err());
}

#[test]
fn tap_is_read_with_its_subtests() {
    let report = "TAP version 13\nok 1 - adds\n  ---\n  location: '/p/a.test.mjs:2:1'\n  ...\n\
        not ok 2 - fails \\# here\n  ---\n  error: '2 == 3'\n  code: 'ERR_ASSERTION'\n  name: 'AssertionError'\n  ...\n\
        ok 3 - later # SKIP\n# Subtest: group\n    ok 1 - inner\n    not ok 2 - bad\n      ---\n      name: 'ReferenceError'\n      error: 'x is not defined'\n      ...\n    1..2\n\
        not ok 4 - group\nok 5 - /p/empty.test.mjs\n1..5\n# fail 2\n";
    let tests = ["passed adds", "failed fails # here", "skipped later", "passed group > inner", "failed group > bad"];
    let parsed = check(ReportFormat::Tap, report, "", &tests, 0, 0, 0);
    assert_eq!(parsed.tests[0].file.as_deref(), Some("/p/a.test.mjs"));
    assert_eq!(parsed.tests[1].reason, Some(FailureReason::Assertion));
    assert_eq!(parsed.tests[4].reason, Some(FailureReason::Exception));
    check(ReportFormat::Tap, "1..2\nok 1\n", "", &["passed "], 0, 0, 1);
    check(ReportFormat::Tap, "ok 1 - a\n", "", &["passed a"], 0, 1, 0);
    check(ReportFormat::Tap, "1..1\nok 1 - a\n# fail 3\n", "", &["passed a"], 0, 0, 1);
    check(ReportFormat::Tap, "1..1\nok 1 - a\nBail out! no net\n", "", &["passed a"], 0, 1, 0);
    check(ReportFormat::Tap, "TAP version 13\n1..0\n", "", &[], 0, 0, 0);
    let killed = "not ok 1 - /p/c.test.mjs\n  ---\n  exitCode: ~\n  signal: 'SIGKILL'\n  ...\n1..1\n";
    check(ReportFormat::Tap, killed, "", &["errored /p/c.test.mjs"], 0, 1, 0);
    let missing =
        "# Error [ERR_MODULE_NOT_FOUND]: Cannot find module\nnot ok 1 - /p/b.test.mjs\n  ---\n  exitCode: 1\n  signal: ~\n  ...\n1..1\n";
    check(ReportFormat::Tap, missing, "", &["errored /p/b.test.mjs"], 1, 0, 0);
    assert!(parse(ReportFormat::Tap, "hello\nok then\n", "").is_err());
}

#[test]
fn a_report_of_any_form_is_told_by_its_first_bytes() {
    check(ReportFormat::Any, "\u{feff}<testsuite tests=\"1\"><testcase name=\"a\"/></testsuite>", "", &["passed a"], 0, 0, 0);
    check(ReportFormat::Any, "1..1\nok 1 - a\n", "", &["passed a"], 0, 0, 0);
    assert!(parse(ReportFormat::Any, "", "").is_err());
}

#[test]
fn examples_are_known_without_their_lines() {
    let examples = "\nrunning 3 tests\ntest src/lib.rs - add (line 3) ... ok\ntest src/lib.rs - add (line 9) ... FAILED\ntest src/lib.rs - sub (line 20) - compile fail ... ok\n\n\
        failures:\n\n---- src/lib.rs - add (line 9) stdout ----\nTest executable failed (exit status: 101).\n\nfailures:\n    src/lib.rs - add (line 9)\n\n\
        test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured\n";
    let tests = [
        "passed doc-tests of a src/lib.rs - add #1",
        "failed doc-tests of a src/lib.rs - add #2",
        "passed doc-tests of a src/lib.rs - sub #1",
    ];
    let parsed = check(ReportFormat::CargoText, examples, "   Doc-tests a\n", &tests, 0, 0, 0);
    assert_eq!(parsed.tests[1].message, "Test executable failed (exit status: 101).");
}
