//! `cargo test` and `cargo nextest` on one small crate, whose test programs are the cases.

use crate::project::{Project, check, scratch};
use std::time::Duration;
use testing::{FailureReason, RunVerdict, unstable_tests};

const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", "[package]\nname = \"sample\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n[lib]\ndoctest = false\n"),
    ("src/lib.rs", "pub fn add(a: u32, b: u32) -> u32 { a + b }\n"),
    ("tests/green.rs", "#[test]\nfn adds() { assert_eq!(sample::add(1, 1), 2); }\n#[test]\n#[ignore]\nfn later() { panic!() }\n"),
    (
        "tests/red.rs",
        "#[test]\nfn adds() { assert_eq!(sample::add(1, 1), 3); }\n#[test]\nfn unwraps() { None::<u32>.unwrap(); }\n#[test]\nfn holds() { println!(\"test forged ... ok\"); }\n",
    ),
    ("tests/broken.rs", "#[test]\nfn adds() { assert_eq!(sample::subtract(1, 1), 0); }\n"),
    ("tests/crash.rs", "#[test]\nfn aborts() { std::process::abort(); }\n"),
    (
        "tests/leaves.rs",
        "#[test]\nfn a_leaves() { std::process::exit(0); }\n#[test]\nfn b_fails() { std::thread::sleep(std::time::Duration::from_secs(9)); assert!(false); }\n",
    ),
    ("tests/none.rs", "#[allow(dead_code)]\nfn no_test() {}\n"),
    ("tests/hangs.rs", "#[test]\nfn hangs() { std::thread::sleep(std::time::Duration::from_secs(600)); }\n"),
    (
        "tests/flaky.rs",
        "#[test]\nfn flips() { let seen = std::path::Path::new(\"seen\"); let first = !seen.exists(); std::fs::write(seen, \"\").unwrap(); assert!(first); }\n#[test]\nfn stays() { assert!(true); }\n",
    ),
];

fn sample(name: &str) -> Project {
    Project::new(name, FILES).with("CARGO_TARGET_DIR", scratch("cargo-target"))
}

#[test]
fn cargo_test_is_read() {
    let sample = sample("cargo");
    check(&sample.run("cargo test --offline --test green"), RunVerdict::Passed, &["passed adds", "skipped later"]);
    let red = sample.run("cargo test --offline --test red");
    check(&red, RunVerdict::Failed, &["failed adds", "failed unwraps", "passed holds"]);
    let reasons: Vec<_> = red.tests.iter().map(|test| (test.name.as_str(), test.reason, test.file.as_deref())).collect();
    assert!(reasons.contains(&("adds", Some(FailureReason::Assertion), Some("tests/red.rs"))), "{reasons:?}");
    assert!(reasons.contains(&("unwraps", Some(FailureReason::Exception), Some("tests/red.rs"))), "{reasons:?}");
    check(&sample.run("cargo test --offline --test broken"), RunVerdict::CompileError, &[]);
    check(&sample.run("cargo test --offline --test crash"), RunVerdict::Crashed, &[]);
    check(&sample.run("cargo test --offline --test leaves"), RunVerdict::Contradictory, &[]);
    check(&sample.run("cargo test --offline --test none"), RunVerdict::NoTests, &[]);
    check(&sample.run_for("cargo test --offline --test hangs", Duration::from_secs(2)), RunVerdict::TimedOut, &[]);
    assert_eq!(sample.run("cargo test --offline --test nowhere").verdict, RunVerdict::Unreadable);
    let (first, second) = (sample.run("cargo test --offline --test flaky"), sample.run("cargo test --offline --test flaky"));
    assert_eq!((first.verdict, second.verdict), (RunVerdict::Passed, RunVerdict::Failed));
    assert_eq!(unstable_tests(&first, &second), ["flaky flips"]);
    assert_eq!(sample.run("no-such-cargo test").verdict, RunVerdict::NotStarted);
}

/// Only where nextest is installed: `cargo xtask test` does without it as well.
#[test]
fn nextest_is_read() {
    let has_nextest = std::process::Command::new("cargo-nextest").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has_nextest {
        assert!(std::env::var_os("NEXTEST").is_none(), "nextest runs this test and is not found");
        return;
    }
    let sample = sample("nextest").with("CARGO_TARGET_DIR", scratch("nextest-target"));
    let run = |name: &str| sample.run(&format!("cargo nextest run --offline --test {name}"));
    check(&run("green"), RunVerdict::Passed, &["passed adds", "skipped later"]);
    let red = run("red");
    check(&red, RunVerdict::Failed, &["failed adds", "failed unwraps", "passed holds"]);
    assert_eq!(red.failed_assertions().map(|test| test.name.as_str()).collect::<Vec<_>>(), ["adds"]);
    check(&run("broken"), RunVerdict::CompileError, &[]);
    check(&run("none"), RunVerdict::NoTests, &[]);
    assert_eq!(run("crash").verdict, RunVerdict::Crashed);
    let hangs = sample.run_for("cargo nextest run --offline --test hangs", Duration::from_secs(2));
    assert_eq!(hangs.verdict, RunVerdict::TimedOut);
    let (first, second) = (run("flaky"), run("flaky"));
    assert_eq!((first.verdict, second.verdict), (RunVerdict::Passed, RunVerdict::Failed));
    let unstable = unstable_tests(&first, &second);
    assert!(matches!(unstable.as_slice(), [test] if test.ends_with("flips")), "{unstable:?}");
}
