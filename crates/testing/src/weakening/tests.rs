use super::*;
use crate::run::TestTotals;
use crate::runner::RunnerKind;

/// What changes from one text to another, as `kind test`.
#[track_caller]
fn check(path: &str, before: &str, after: &str, expected: &[&str]) {
    let change = ChangedFile { path, before: Some(before.as_bytes()), after: Some(after.as_bytes()) };
    assert_eq!(shown(&compare_tests(&[change])), expected, "{after}");
}

fn shown(findings: &[TestFinding]) -> Vec<String> {
    assert!(findings.iter().all(|finding| finding.sentence.len() > 10 && finding.blocks == finding.kind.blocks()));
    findings.iter().map(|finding| format!("{:?} {}", finding.kind, finding.test).trim_end().to_owned()).collect()
}

const RUST: &str = "#[test]\nfn one() { assert_eq!(add(1, 1), 2); assert!(ok()); }\n#[test]\nfn two() { assert!(ok()); }\n";

#[test]
fn comments_blanks_and_new_tests_are_no_weakening() {
    check("tests/a.rs", RUST, RUST, &[]);
    check("tests/a.rs", RUST, &RUST.replace("assert!(ok());", "// so it is\n    assert!( ok( ) );"), &[]);
    check("tests/a.rs", RUST, &format!("{RUST}#[test]\nfn three() {{ assert!(ok()); }}\n"), &[]);
    check("src/a.rs", "fn a() { 1 }", "fn a() { 2 }", &[]);
}

#[test]
fn each_weakening_of_rust_is_found() {
    check("tests/a.rs", RUST, &RUST.replace("#[test]\nfn two() { assert!(ok()); }\n", ""), &["TestDeleted two"]);
    check("tests/a.rs", RUST, &RUST.replace("#[test]\nfn two", "fn two"), &["SupportChanged", "TestDeleted two"]);
    check("tests/a.rs", RUST, &RUST.replace("#[test]\nfn two", "#[test]\n#[ignore]\nfn two"), &["TestSkipped two"]);
    check("tests/a.rs", RUST, &RUST.replace("#[test]\nfn two", "#[test]\n#[should_panic]\nfn two"), &["FailureExpected two"]);
    check("tests/a.rs", RUST, &RUST.replace("assert_eq!(add(1, 1), 2); ", ""), &["FewerAssertions one"]);
    check("tests/a.rs", RUST, &RUST.replace("assert_eq!(add(1, 1), 2)", "assert!(true)"), &["ConstantAssertion one"]);
    check("tests/a.rs", RUST, &RUST.replace("fn one() {", "fn one() { if ok() { return; }"), &["TestChanged one"]);
    check("tests/a.rs", RUST, &RUST.replace("fn one() {", "fn one() { return;"), &["EarlyReturn one"]);
    check("tests/a.rs", RUST, &RUST.replace("add(1, 1), 2", "add(1, 1), 3"), &["TestChanged one"]);
    check("tests/a.rs", RUST, &format!("#![cfg(any())]\n{RUST}"), &["TestSkipped", "SupportChanged"]);
    check("tests/a.rs", RUST, &RUST.replace("{ assert!(ok()); }", "{}"), &["EmptyTest two", "FewerAssertions two"]);
    check("tests/a.rs", RUST, "#[test] fn one() { \"", &["FileChanged", "FewerAssertions one", "TestDeleted two"]);
}

#[test]
fn tests_inside_a_source_are_looked_at_and_its_code_is_not() {
    let source = |body: &str, inside: &str| format!("fn a() {{ {body} }}\n#[cfg(test)]\nmod tests {{ use super::*;\n{inside} }}\n");
    let test = "fn check() { assert!(a()) }\n#[test] fn one() { check() }";
    check("src/a.rs", &source("1", test), &source("2", test), &[]);
    check(
        "src/a.rs",
        &source("1", test),
        &source("1", &test.replace("assert!(a())", "a();")),
        &["SupportChanged", "FewerAssertions tests::one"],
    );
    check("src/a.rs", &source("1", test), "fn a() {}", &["SupportChanged", "TestDeleted tests::one"]);
}

#[test]
fn each_weakening_of_the_other_languages_is_found() {
    let python = "def test_a():\n    assert f() == 1\n    assert g()\n";
    check("test_a.py", python, &python.replace("def", "@pytest.mark.skip\ndef"), &["TestSkipped test_a"]);
    check("test_a.py", python, &python.replace("def", "@pytest.mark.xfail\ndef"), &["FailureExpected test_a"]);
    check("test_a.py", python, &python.replace("assert f() == 1", "assert True"), &["ConstantAssertion test_a"]);
    check("test_a.py", python, &python.replace("    assert g()\n", ""), &["FewerAssertions test_a"]);
    check("test_a.py", python, &python.replace("test_a", "skip_test_a"), &["SupportChanged", "TestDeleted test_a"]);
    check("test_a.py", python, &format!("pytestmark = pytest.mark.skip\n{python}"), &["TestSkipped", "SupportChanged"]);
    check("test_a.py", python, &python.replace(":\n", ":\n    return\n"), &["EarlyReturn test_a"]);
    let script = "it('a', () => { expect(f()).toBe(1); });\nit('b', () => { expect(g()).toBe(2); });\n";
    check("a.test.ts", script, &script.replace("it('a'", "it.skip('a'"), &["TestSkipped a"]);
    check("a.test.ts", script, &script.replace("it('a'", "it.only('a'"), &["TestChanged a", "TestsNarrowed a"]);
    check("a.test.ts", script, &script.replace("f()).toBe(1)", "true).toBe(true)"), &["ConstantAssertion a"]);
    check("a.test.ts", script, &script.replace("it('b'", "it('c'"), &["TestDeleted b"]);
    let go = "package a\nfunc TestA(t *testing.T) {\n\tif f() != 1 {\n\t\tt.Fatal(1)\n\t}\n}\n";
    check("a_test.go", go, &go.replace("\tif", "\tt.Skip(1)\n\tif"), &["TestSkipped TestA"]);
    check("a_test.go", go, &go.replace("f() != 1", "false"), &["ConstantAssertion TestA"]);
    check("a_test.go", go, &format!("//go:build never\n{go}"), &["TestSkipped"]);
}

#[test]
fn files_around_the_tests_are_looked_at() {
    let file = |path, before: Option<&'static str>, after: Option<&'static str>| {
        shown(&compare_tests(&[ChangedFile { path, before: before.map(str::as_bytes), after: after.map(str::as_bytes) }]))
    };
    assert_eq!(file("tests/a.rs", Some(RUST), None), ["FileDeleted", "TestDeleted one", "TestDeleted two"]);
    assert_eq!(file("tests/a.rs", None, Some(RUST)), Vec::<String>::new());
    assert_eq!(file("tests/__snapshots__/a.snap", Some("1"), Some("2")), ["SnapshotAccepted"]);
    assert_eq!(file("tests/__snapshots__/a.snap", None, Some("2")), Vec::<String>::new());
    assert_eq!(file("tests/data/a.json", Some("1"), Some("2")), ["FixtureChanged"]);
    assert_eq!(file("pytest.ini", None, Some("[pytest]\naddopts = -k no\n")), ["ConfigChanged"]);
    assert_eq!(file("Cargo.toml", Some("[dependencies]\na = 1\n"), Some("[dependencies]\na = 2\n")), Vec::<String>::new());
    assert_eq!(file("tests/conftest.py", Some("x = 1\n"), Some("x = 2\n")), ["ConfigChanged", "SupportChanged"]);
    let moved = [
        ChangedFile { path: "tests/a.rs", before: Some(RUST.as_bytes()), after: None },
        ChangedFile { path: "tests/b.rs", before: None, after: Some(RUST.as_bytes()) },
    ];
    assert_eq!(shown(&compare_tests(&moved)), ["FileDeleted", "TestMoved one", "TestMoved two"]);
}

#[test]
fn tests_that_test_nothing_are_named() {
    let check = |path: &str, text: &str, expected: &[&str]| assert_eq!(shown(&inspect_tests(path, text)), expected, "{text}");
    check("tests/a.rs", RUST, &[]);
    check("tests/a.rs", "#[test] fn a() {}", &["EmptyTest a"]);
    check("tests/a.rs", "#[test] fn a() { run(); }", &["NoAssertion a"]);
    check("tests/a.rs", "#[test] fn a() { assert!(true); }", &["OnlyConstantAssertions a"]);
    check("test_a.py", "def test_a():\n    pass\n", &["EmptyTest test_a"]);
    check("test_a.py", "def test_a():\n    f()\n", &["NoAssertion test_a"]);
    check("a.test.js", "test('a', () => {})", &["EmptyTest a"]);
    check("a.test.js", "test('a', () => { expect(f()) })", &["OnlyConstantAssertions a"]);
    check("a.test.js", "test.todo('a')", &[]);
    check("a_test.go", "package a\nfunc TestA(t *testing.T) {\n\tf()\n}\n", &["NoAssertion TestA"]);
    check("a_test.go", "package a\nfunc TestA(t *testing.T) {\n\tos.Exit(0)\n}\n", &["NoAssertion TestA", "Habit TestA"]);
}

#[test]
fn tests_that_do_not_run_any_more_are_found() {
    let run = |tests: &[(&str, TestCaseOutcome)], passed: u64| TestRun {
        kind: RunnerKind::Command,
        verdict: crate::run::RunVerdict::Passed,
        remarks: Vec::new(),
        totals: TestTotals { passed, ..TestTotals::default() },
        tests: tests.iter().map(|(name, outcome)| TestResult::new("", name, *outcome)).collect(),
    };
    let red = run(&[("a", TestCaseOutcome::Failed), ("b", TestCaseOutcome::Passed), ("c", TestCaseOutcome::Skipped)], 1);
    let green = run(&[("a", TestCaseOutcome::Skipped), ("d", TestCaseOutcome::Passed)], 1);
    assert_eq!(shown(&compare_runs(&red, &green)), ["TestSkipped a", "TestNotRun b"]);
    assert_eq!(shown(&compare_runs(&red, &red)), Vec::<String>::new());
    assert_eq!(shown(&compare_runs(&run(&[], 3), &run(&[], 2))), ["TestNotRun"]);
    assert_eq!(shown(&compare_runs(&run(&[], 3), &run(&[], 3))), Vec::<String>::new());
}

#[test]
fn tests_that_never_were_red_are_named() {
    let run = |tests: &[(&str, TestCaseOutcome)]| TestRun {
        kind: RunnerKind::Command,
        verdict: crate::run::RunVerdict::Failed,
        remarks: Vec::new(),
        totals: TestTotals::default(),
        tests: tests.iter().map(|(name, outcome)| TestResult::new("s", name, *outcome)).collect(),
    };
    let base = run(&[("old", TestCaseOutcome::Passed)]);
    let red = run(&[("old", TestCaseOutcome::Passed), ("new", TestCaseOutcome::Failed), ("easy", TestCaseOutcome::Passed)]);
    assert_eq!(never_red(&base, &red), ["s easy"]);
    assert_eq!(never_red(&red, &red), Vec::<String>::new());
}
