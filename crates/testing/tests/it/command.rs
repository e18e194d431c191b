//! Commands that are no runner known by name: a target of make, and a script that leaves a report.

use crate::project::{Project, check};
use testing::{RunVerdict, TestTotals};

const MAKEFILE: &str = "green:\n\t@printf 'TAP version 13\\n1..2\\nok 1 - a\\nok 2 - b # SKIP\\n'\n\
    red:\n\t@printf 'TAP version 13\\n1..1\\nnot ok 1 - a\\n'; exit 1\n\
    liar:\n\t-@printf 'TAP version 13\\n1..1\\nnot ok 1 - a\\n'; false\n\
    counts:\n\t@echo '3 passed in 0.10s'\n\
    silent:\n\t@echo all is well\n\
    broken:\n\tno-such-program\n";

#[test]
fn a_target_of_make_is_read() {
    let sample = Project::new("make", &[("Makefile", MAKEFILE)]);
    check(&sample.run("make green"), RunVerdict::Passed, &["passed a", "skipped b"]);
    check(&sample.run("make red"), RunVerdict::Failed, &["failed a"]);
    check(&sample.run("make liar"), RunVerdict::Contradictory, &["failed a"]);
    let counted = sample.run("make counts");
    assert_eq!((counted.verdict, counted.totals), (RunVerdict::Passed, TestTotals { passed: 3, ..TestTotals::default() }));
    assert_eq!(sample.run("make silent").verdict, RunVerdict::Unreadable);
    assert_eq!(sample.run("make broken").verdict, RunVerdict::Unreadable);
    assert_eq!(sample.run("make nowhere").verdict, RunVerdict::NotStarted);
}

#[test]
fn a_command_with_a_junit_report_is_read() {
    let script = "mkdir -p build\ncase $1 in\n\
        green) echo '<testsuite tests=\"1\"><testcase name=\"a\"/></testsuite>' > build/junit.xml;;\n\
        red) echo '<testsuite tests=\"1\" failures=\"1\"><testcase name=\"a\"><failure message=\"assert 1 == 2\"/></testcase></testsuite>' > build/junit.xml; exit 3;;\n\
        cut) echo '<testsuite tests=\"1\"><testcase' > build/junit.xml;;\n\
        none) echo 5 passed in 1s;;\n\
        esac\n";
    let mut sample = Project::new("junit", &[("run.sh", script)]);
    sample.report = Some("build/junit.xml");
    check(&sample.run("sh run.sh green"), RunVerdict::Passed, &["passed a"]);
    check(&sample.run("sh run.sh red"), RunVerdict::Failed, &["failed a"]);
    assert_eq!(sample.run("sh run.sh cut").verdict, RunVerdict::Unreadable);
    assert_eq!(sample.run("sh run.sh none").verdict, RunVerdict::Unreadable);
}
