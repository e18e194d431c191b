//! A kernel killed at any point of a commit loses nothing that it acknowledged.
//!
//! The child is this test binary again, asked by an environment variable to append until the writer kills the process.

use std::path::Path;
use std::process::{Command, Stdio};

use journal::{Faults, Journal, Options, Point, verify};

use crate::{draft, open, security};

const HOME: &str = "JOURNAL_CRASH_HOME";
const FAULT: &str = "JOURNAL_CRASH_FAULT";
const COMMITS: u64 = 12;

/// Not a test of its own: what the child does. Without the variable there is nothing to do.
#[test]
fn child() {
    let (Ok(home), Ok(fault)) = (std::env::var(HOME), std::env::var(FAULT)) else { return };
    let (point, nth) = fault.split_once(' ').unwrap();
    let point = match point {
        "BeforeWrite" => Point::BeforeWrite,
        "BeforeSync" => Point::BeforeSync,
        "BeforeAck" => Point::BeforeAck,
        other => panic!("no point `{other}`"),
    };
    let faults = Faults { kill_at: Some((point, nth.parse().unwrap())), ..Faults::default() };
    let (journal, opened) = Journal::open(Path::new(&home), Options { faults, ..Options::default() }).unwrap();
    for n in opened.head.count..opened.head.count + 2 * COMMITS {
        let batch = if n % 3 == 2 { vec![security(n)] } else { vec![draft(n)] };
        let receipt = journal.append(batch).wait().unwrap();
        println!("acked {}", receipt.last_seq);
    }
}

/// Runs the child until it dies; returns the last record that it saw acknowledged, and whether it was killed.
fn crash(home: &Path, point: Point, nth: u64) -> (Option<u64>, bool) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["crash::child", "--exact", "--nocapture"])
        .env(HOME, home)
        .env(FAULT, format!("{point:?} {nth}"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let acked = text.lines().filter_map(|line| line.split_once("acked ")).filter_map(|(_, seq)| seq.parse().ok()).max();
    (acked, !output.status.success())
}

#[test]
fn nothing_acknowledged_is_lost_at_any_point() {
    for point in [Point::BeforeWrite, Point::BeforeSync, Point::BeforeAck] {
        let home = tempfile::tempdir().unwrap();
        let mut count = 0;
        for nth in [1, 2, 3, COMMITS] {
            let (acked, killed) = crash(home.path(), point, nth);
            assert!(killed, "the fault at {point:?} {nth} did not happen");
            let report = verify(home.path()).unwrap();
            assert!(report.is_intact(), "{point:?} {nth}: {:#?}", report.findings);
            let expected = acked.map_or(count, |seq| seq + 1);
            assert_eq!(expected, count + nth - 1, "all commits before the fatal one were acknowledged");
            // What was committed and not acknowledged may be there; what was not committed may not.
            let kept = expected + u64::from(point == Point::BeforeAck);
            assert_eq!(report.records, kept, "{point:?} {nth}");
            let (journal, opened) = open(home.path());
            assert_eq!((opened.head.count, opened.findings), (kept, vec![]));
            journal.close();
            count = kept;
        }
        let (acked, killed) = crash(home.path(), point, 100 * COMMITS);
        assert_eq!((acked, killed), (Some(count + 2 * COMMITS - 1), false), "control: without a fault the child ends well");
    }
}

/// The log is filled ahead with zeros, and a copy of the files as a crash would leave them has every record that was acknowledged.
#[test]
fn zeros_behind_the_last_frame_are_no_records() {
    let (home, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (journal, _) = open(home.path());
    // The answer to the second comes after the log was filled behind the first.
    for n in 0..2 {
        journal.append(vec![draft(n)]).wait().unwrap();
    }
    let log = std::fs::read(home.path().join("journal.db-wal")).unwrap();
    assert!(log.len() > 1 << 16 && log.ends_with(&[0; 8192]), "control: {} bytes", log.len());
    std::fs::create_dir(copy.path().join("keys")).unwrap();
    for file in ["journal.db", "journal.db-wal", "seal.0", "seal.1", "keys/seal.key", "keys/seal.pub"] {
        std::fs::copy(home.path().join(file), copy.path().join(file)).unwrap();
    }
    let (journal, opened) = open(copy.path());
    assert_eq!((opened.head.count, opened.findings), (2, vec![]));
    journal.append(vec![draft(2)]).wait().unwrap();
    journal.close();
    let report = verify(copy.path()).unwrap();
    assert_eq!((report.records, report.findings), (3, vec![]));
}
