//! What several threads check in slices is told as one thread tells it, above all where two slices meet.

use std::ops::ControlFlow;
use std::path::Path;

use journal::{Filter, Finding, Flaw, Journal, Options, verify};
use proptest::prelude::*;
use rusqlite::Connection;

use crate::{filled, open};

/// Slices have a thousand records, and three of them are worth a thread.
const RECORDS: u64 = 4_500;

/// What a verification tells after `sql`, and what the walk of a start tells, which has one thread.
fn told(sql: &str) -> (Vec<Finding>, Vec<Finding>) {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), RECORDS);
    change(home.path(), sql);
    let report = verify(home.path()).unwrap();
    let walked = open(home.path()).0.examination().run(&|| true);
    assert_eq!(report.records, walked.records, "{sql}");
    (report.findings, walked.findings)
}

fn change(home: &Path, sql: &str) {
    Connection::open(home.join("journal.db")).unwrap().execute_batch(sql).unwrap();
}

fn edit(seq: u64) -> String {
    format!("UPDATE record SET line = replace(line, 'record {seq} ', 'record {} ') WHERE seq = {seq};", seq + 1)
}

#[test]
fn a_flaw_where_two_slices_meet_is_told_once_and_at_its_place() {
    let check = |sql: &str, expected: &[(u64, Flaw)]| {
        let (told, walked) = told(sql);
        let found: Vec<_> = told.iter().map(|finding| (finding.seq.unwrap(), finding.what)).collect();
        assert_eq!(found, expected, "{sql}\n{told:#?}");
        assert_eq!(told, walked, "{sql}");
    };
    check("", &[]);
    for last in [999, 1_000, 1_999, 3_000, 3_999, 4_000] {
        check(&edit(last), &[(last + 1, Flaw::ChainBroken)]);
        check(&format!("UPDATE record SET kind = 'x' WHERE seq = {last}"), &[(last, Flaw::ColumnLies)]);
        let gone = format!("DELETE FROM record WHERE seq = {last}");
        check(&gone, &[(last, Flaw::RecordMissing), (last + 1, Flaw::ChainBroken)]);
    }
    check(
        &(edit(999) + &edit(1_000) + &edit(2_500)),
        &[(1_000, Flaw::ChainBroken), (1_001, Flaw::ChainBroken), (2_501, Flaw::ChainBroken)],
    );
    let slices = "DELETE FROM record WHERE seq >= 900 AND seq < 3100";
    check(slices, &[(900, Flaw::RecordMissing), (3_100, Flaw::ChainBroken)]);
}

#[test]
fn whole_slices_that_change_places_are_found() {
    let sql = "UPDATE record SET seq = -seq - 1 WHERE seq >= 1000 AND seq < 3000; UPDATE record SET seq = 1000 + (-seq - 1 - 1000 + 1000) % 2000 WHERE seq < 0;";
    let (told, walked) = told(sql);
    assert_eq!(told, walked);
    // A thousand are listed, two for each record; the others are counted.
    assert_eq!(told.iter().filter(|finding| finding.what == Flaw::OutOfPlace).count(), 500, "{:#?}", &told[..3]);
    assert_eq!((told[0].seq, told[0].what), (Some(1_000), Flaw::OutOfPlace));
    assert_eq!((told[1].seq, told[1].what), (Some(1_000), Flaw::ChainBroken));
}

/// A row far behind the end must not be searched for place by place.
#[test]
fn a_row_beyond_all_others_is_told_at_once() {
    let far = i64::MAX - 1;
    let sql = format!("INSERT INTO record SELECT {far}, kind, at_ms, session, pid, task, line FROM record WHERE seq = 7");
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), RECORDS);
    change(home.path(), &sql);
    let found: Vec<_> = verify(home.path()).unwrap().findings.into_iter().map(|finding| (finding.seq, finding.what)).collect();
    assert!(found.contains(&(Some(RECORDS), Flaw::RecordMissing)), "{found:?}");
    assert!(found.contains(&(Some(far.unsigned_abs()), Flaw::OutOfPlace)), "{found:?}");
}

#[test]
fn replay_hands_over_every_record_in_order_and_tells_the_same_flaws() {
    for (sql, flaws) in [(String::new(), vec![]), (edit(999), vec![1_000]), (edit(2_000) + &edit(2_999), vec![2_001, 3_000])] {
        let home = tempfile::tempdir().unwrap();
        filled(home.path(), RECORDS);
        change(home.path(), &sql);
        let (journal, _) = open(home.path());
        for from in [0, 500, 1_000] {
            let mut seen = Vec::new();
            let make =
                |line: &journal::StoredLine<'_>| (line.seq, line.parts.as_ref().unwrap().1.contains(&format!("record {} ", line.seq)));
            let take = |(seq, is_own): (u64, bool)| {
                assert_eq!(is_own, !sql.contains(&format!("seq = {seq};")), "{seq}");
                seen.push(seq);
                ControlFlow::Continue(())
            };
            let findings = journal.replay(from, make, take).unwrap();
            assert_eq!(seen, (from..RECORDS).collect::<Vec<_>>());
            let found: Vec<_> = findings.iter().map(|finding| (finding.seq.unwrap(), finding.what)).collect();
            // The first record of a walk is trusted to follow on what was not read.
            let expected: Vec<_> = flaws.iter().filter(|seq| **seq > from).map(|seq| (*seq, Flaw::ChainBroken)).collect();
            assert_eq!(found, expected, "from {from}");
        }
    }
}

#[test]
fn a_replay_that_has_enough_stops() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), RECORDS);
    let (journal, _) = open(home.path());
    for last in [0, 998, 999, 1_000, 4_100] {
        let mut seen = 0;
        let take = |seq| {
            seen += 1;
            if seq == last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        assert_eq!(journal.replay(0, |line| line.seq, take).unwrap(), []);
        assert_eq!(seen, last + 1);
    }
}

#[test]
fn gathered_records_come_in_order_from_either_end_and_only_those_that_match() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), RECORDS);
    // One with an index and one without find the same, and so does one thread: the range of the last is too short for more.
    for (index_step, from, until) in [(u64::MAX, 0, RECORDS), (1, 0, RECORDS), (u64::MAX, 1_500, 3_000), (u64::MAX, 700, 4_499)] {
        let (journal, _) = Journal::open(home.path(), Options { index_step, ..Options::default() }).unwrap();
        for (kinds, step) in [(vec!["call.admitted".to_owned()], 2), (Vec::new(), 1)] {
            for reverse in [false, true] {
                let after_seq = u64::checked_sub(from, 1);
                let filter = Filter { kinds: kinds.clone(), after_seq, before_seq: Some(until), reverse, ..Filter::default() };
                let mut seen = Vec::new();
                let take = |made: Vec<u64>| {
                    seen.extend(made);
                    ControlFlow::Continue(())
                };
                journal.gather(&filter, |record| (record.seq % 10 < 8).then_some(record.seq), take).unwrap();
                let mut expected: Vec<u64> = (from..until).filter(|seq| seq % step == 0 && seq % 10 < 8).collect();
                if reverse {
                    expected.reverse();
                }
                assert_eq!(seen, expected, "{filter:?}");
            }
        }
        journal.close();
    }
}

#[test]
fn a_gathering_that_has_enough_stops_and_a_far_row_is_no_long_way() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), RECORDS);
    let far = i64::MAX - 1;
    let gathered = |reverse: bool| {
        let (journal, _) = open(home.path());
        let mut seen = Vec::new();
        let take = |made: Vec<u64>| {
            seen.extend(made);
            if seen.len() > 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        journal.gather(&Filter { reverse, ..Filter::default() }, |record| Some(record.seq), take).unwrap();
        journal.close();
        (seen[0], seen.len() < 4_000)
    };
    assert_eq!((gathered(false), gathered(true)), ((0, true), (RECORDS - 1, true)));
    change(home.path(), &format!("INSERT INTO record SELECT {far}, kind, at_ms, session, pid, task, line FROM record WHERE seq = 7"));
    assert_eq!((gathered(false), gathered(true)), ((0, true), (far.unsigned_abs(), true)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_changes_are_told_as_by_one_thread(
        changes in prop::collection::vec((0usize..5, prop::sample::select(vec![0u64, 1, 998, 999, 1_000, 1_001, 1_500, 2_000, 2_999, 3_000, 4_400])), 1..5),
    ) {
        let sql: String = changes.iter().map(|(what, seq)| match what {
            0 => edit(*seq),
            1 => format!("DELETE FROM record WHERE seq = {seq};"),
            2 => format!("UPDATE record SET line = x'00' WHERE seq = {seq};"),
            3 => format!("UPDATE record SET session = 's' WHERE seq = {seq};"),
            _ => format!("UPDATE record SET line = substr(line, 2) WHERE seq = {seq};"),
        }).collect();
        let (told, walked) = told(&sql);
        prop_assert_eq!(told, walked);
    }
}
