use super::*;
use std::collections::BTreeMap;

fn project(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

/// The runners that are found, each as its command.
#[track_caller]
fn check(files: &[(&str, &str)], expected: &[&str]) {
    let found: Vec<String> = detect(&project(files)).iter().map(|runner| runner.command.join(" ")).collect();
    assert_eq!(found, expected, "{files:?}");
}

#[test]
fn the_command_of_each_ecosystem_is_found() {
    check(&[], &[]);
    check(&[("Cargo.toml", ""), ("Makefile", "test:\n"), ("package.json", "{}")], &["cargo test", "make test"]);
    check(&[("Cargo.toml", ""), (".config/nextest.toml", "")], &["cargo test", "cargo nextest run"]);
    check(&[("go.mod", "")], &["go test ./..."]);
    check(&[("tests/run.sh", "")], &["sh tests/run.sh"]);
}

#[test]
fn node_runs_its_script_its_runner_or_its_own_tests() {
    check(&[("package.json", r#"{"scripts": {"test": "vitest run"}}"#)], &["npm test"]);
    check(&[("package.json", r#"{"scripts": {"test": "jest"}}"#), ("pnpm-lock.yaml", "")], &["pnpm test"]);
    check(&[("package.json", r#"{"scripts": {"test": "jest"}}"#), ("yarn.lock", "")], &["yarn test"]);
    let unsaid = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}, "devDependencies": {"vitest": "1"}}"#;
    check(&[("package.json", unsaid)], &["npx vitest run"]);
    check(&[("package.json", r#"{"devDependencies": {"jest": "29"}}"#)], &["npx jest"]);
    check(&[("package.json", "{}"), ("test/a.js", "")], &["node --test"]);
    check(&[("package.json", "{}"), ("src/a.test.mjs", "")], &["node --test"]);
    check(&[("package.json", "{}")], &[]);
    check(&[("package.json", "not json")], &[]);
}

#[test]
fn python_runs_pytest_or_unittest() {
    check(&[("pyproject.toml", "[tool.pytest.ini_options]\n"), ("tests/test_a.py", "import unittest\n")], &["python3 -m pytest"]);
    check(&[("pyproject.toml", "[project]\n")], &["python3 -m pytest"]);
    check(&[("requirements-dev.txt", "pytest==8\n")], &["python3 -m pytest"]);
    check(&[("test_a.py", "def test(): pass\n")], &["python3 -m pytest"]);
    check(&[("test_a.py", "import unittest\n")], &["python3 -m unittest"]);
    check(&[("setup.py", ""), ("tests/__init__.py", ""), ("tests/test_a.py", "import unittest\n")], &["python3 -m unittest"]);
    check(&[("tests/test_a.py", "from unittest import TestCase\n")], &["python3 -m unittest discover -s tests"]);
    check(&[("tests/test_a.py", "import unittest\n"), ("tests/conftest.py", "")], &["python3 -m pytest"]);
}

#[test]
fn make_is_asked_only_for_a_target_that_it_has() {
    check(&[("Makefile", "all:\n\tcc x.c\ntest: all\n\t./x\n")], &["make test"]);
    check(&[("Makefile", ".PHONY: all test\ncheck test:\n\t./x\n")], &["make test"]);
    check(&[("Makefile", "test := 3\nall:\n\ttest: x\n")], &[]);
}

#[test]
fn what_is_found_says_why() {
    let reasons = |files: &[(&str, &str)]| detect(&project(files)).into_iter().map(|runner| runner.reason).collect::<Vec<_>>();
    assert_eq!(reasons(&[("Cargo.toml", "")]), ["Cargo.toml"]);
    assert_eq!(reasons(&[("package.json", r#"{"scripts": {"test": "vitest"}}"#)]), ["the script `test` of package.json runs `vitest`"]);
    assert_eq!(reasons(&[("package.json", r#"{"scripts": {"test": "a && b"}}"#)]), ["the script `test` of package.json"]);
    assert_eq!(reasons(&[("setup.cfg", "[tool:pytest]")]), ["setup.cfg names pytest"]);
}

/// A trusted command, the project's `test` script, the kind that is recognised, and the command with its reporter.
#[track_caller]
fn reports(command: &str, script: &str, kind: RunnerKind, expected: &str) {
    let package = serde_json::json!({"scripts": {"test": script}}).to_string();
    let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
    let runner = TestRunner::recognise(&words, &project(&[("package.json", &package)]));
    assert_eq!(runner.kind, kind, "{command}");
    assert_eq!(runner.reporting("R").command.join(" "), expected, "{command}");
}

#[test]
fn each_runner_is_asked_for_its_report() {
    use RunnerKind::*;
    reports("cargo test", "", CargoTest, "cargo test --no-fail-fast");
    reports("cargo test -q -p a -- --skip x", "", CargoTest, "cargo test --no-fail-fast -p a -- --skip x");
    reports("cargo +nightly test", "", CargoTest, "cargo +nightly test --no-fail-fast");
    reports("cargo nextest run -p a", "", Nextest, "cargo nextest run --no-fail-fast --retries 0 --message-format libtest-json -p a");
    let pytest = "-p no:cacheprovider -o junit_family=xunit1 --color=no --junitxml=R";
    reports("python3 -m pytest tests", "", Pytest, &format!("python3 -m pytest tests {pytest}"));
    reports("uv run pytest", "", Pytest, &format!("uv run pytest {pytest}"));
    reports(".venv/bin/pytest -x", "", Pytest, &format!(".venv/bin/pytest -x {pytest}"));
    reports("go test ./...", "", GoTest, "go test -json -count=1 ./...");
    reports("npx vitest run", "", Vitest, "npx vitest run --run --reporter=json --outputFile=R");
    reports("npm test", "vitest", Vitest, "npm test -- --run --reporter=json --outputFile=R");
    reports("pnpm test", "NODE_ENV=test vitest run", Vitest, "pnpm test --run --reporter=json --outputFile=R");
    reports("npm run test", "cross-env CI=1 jest src", Jest, "npm run test -- --ci --json --outputFile=R");
    reports("npm test", "node --test test/", NodeTest, "node --test-reporter=tap --test-reporter-destination=R --test test/");
    reports("node --test", "", NodeTest, "node --test-reporter=tap --test-reporter-destination=R --test");
    reports("make test", "", Make, "make test");
    reports("npm test", "vitest run && echo done", Command, "npm test");
    reports("npm test", "mocha", Command, "npm test");
    reports("sh tests/run.sh", "", Command, "sh tests/run.sh");
}

#[test]
fn a_command_with_a_report_of_its_own_is_read_from_there() {
    let mut runner = TestRunner::recognise(&["./run".to_owned()], &project(&[]));
    assert_eq!(runner.reporting("R").place, ReportPlace::Stdout);
    runner.report = Some("build/junit.xml".to_owned());
    let reporting = runner.reporting("R");
    assert_eq!((reporting.format, reporting.place), (ReportFormat::Any, ReportPlace::File("build/junit.xml".to_owned())));
}
