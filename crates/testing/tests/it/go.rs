//! `go test` on one module, whose packages are the cases.

use crate::project::{Project, check, scratch};
use std::time::Duration;
use testing::{FailureReason, RunVerdict, unstable_tests};

const FILES: &[(&str, &str)] = &[
    ("go.mod", "module sample\n\ngo 1.18\n"),
    ("green/a.go", "package green\n\nfunc Add(a, b int) int { return a + b }\n"),
    (
        "green/a_test.go",
        "package green\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 1) != 2 {\n\t\tt.Fatal(1)\n\t}\n}\n\nfunc TestLater(t *testing.T) { t.Skip(\"later\") }\n",
    ),
    (
        "red/a_test.go",
        "package red\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tt.Run(\"small\", func(t *testing.T) {\n\t\tif 1+1 != 3 {\n\t\t\tt.Errorf(\"got %d\", 2)\n\t\t}\n\t})\n}\n\nfunc TestHolds(t *testing.T) {}\n",
    ),
    (
        "panics/a_test.go",
        "package panics\n\nimport \"testing\"\n\nfunc TestMap(t *testing.T) {\n\tvar m map[string]int\n\tm[\"a\"] = 1\n}\n",
    ),
    ("broken/a_test.go", "package broken\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) { missing() }\n"),
    ("crash/a_test.go", "package crash\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestExit(t *testing.T) { os.Exit(3) }\n"),
    ("none/a.go", "package none\n"),
    (
        "hangs/a_test.go",
        "package hangs\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestHang(t *testing.T) { time.Sleep(time.Hour) }\n",
    ),
    (
        "flaky/a_test.go",
        "package flaky\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestFlips(t *testing.T) {\n\tif _, err := os.Stat(\"seen\"); err == nil {\n\t\tt.Fatal(\"again\")\n\t}\n\tos.WriteFile(\"seen\", nil, 0o600)\n}\n",
    ),
];

#[test]
fn go_test_is_read() {
    let sample = Project::new("go", FILES).with("GOCACHE", scratch("go-cache")).with("GOPROXY", "off").with("GOFLAGS", "-mod=mod");
    check(&sample.run("go test ./green"), RunVerdict::Passed, &["passed testadd", "skipped testlater"]);
    let red = sample.run("go test ./red ./green ./none");
    check(&red, RunVerdict::Failed, &["failed testadd", "failed testadd/small", "passed testadd", "passed testholds", "skipped testlater"]);
    assert!(red.tests.iter().any(|test| test.name == "TestAdd/small" && test.message == "a_test.go:8: got 2"), "{:?}", red.tests);
    let panics = sample.run("go test ./panics");
    check(&panics, RunVerdict::Failed, &["failed testmap"]);
    assert_eq!(panics.tests[0].reason, Some(FailureReason::Exception));
    check(&sample.run("go test ./broken ./green"), RunVerdict::CompileError, &["passed testadd", "skipped testlater"]);
    check(&sample.run("go test ./crash"), RunVerdict::Crashed, &["errored testexit"]);
    check(&sample.run("go test ./none"), RunVerdict::NoTests, &[]);
    assert_eq!(sample.run_for("go test ./hangs", Duration::from_secs(2)).verdict, RunVerdict::TimedOut);
    assert_eq!(sample.run("go test -timeout 1s ./hangs").verdict, RunVerdict::TimedOut);
    let (first, second) = (sample.run("go test ./flaky"), sample.run("go test ./flaky"));
    assert_eq!((first.verdict, second.verdict), (RunVerdict::Passed, RunVerdict::Failed));
    assert_eq!(unstable_tests(&first, &second), ["sample/flaky TestFlips"]);
}
