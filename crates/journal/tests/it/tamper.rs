//! Every kind of tampering is found, and an untouched journal is not accused.

use std::fs;
use std::path::Path;

use journal::{Flaw, Report, SealState, verify};
use proptest::prelude::*;
use rusqlite::Connection;

use crate::{draft, filled, open};

/// Fills a journal, changes it with `tamper`, and returns what verify says.
fn after(tamper: impl FnOnce(&Path, &Connection)) -> Report {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), 20);
    assert!(verify(home.path()).unwrap().is_intact(), "control: untouched it is intact");
    let db = Connection::open(home.path().join("journal.db")).unwrap();
    tamper(home.path(), &db);
    drop(db);
    verify(home.path()).unwrap()
}

fn check(sql: &'static str, expected: &[(Option<u64>, Flaw)]) {
    let report = after(|_, db| db.execute_batch(sql).unwrap());
    let found: Vec<(Option<u64>, Flaw)> = report.findings.iter().map(|f| (f.seq, f.what)).collect();
    assert_eq!(found, expected, "{sql}\n{:#?}", report.findings);
}

#[test]
fn an_edit_breaks_the_line_after_it() {
    check("UPDATE record SET line = replace(line, 'record 5', 'record 6') WHERE seq = 5", &[(Some(6), Flaw::ChainBroken)]);
}

#[test]
fn an_edit_of_the_last_line_breaks_the_seal() {
    check("UPDATE record SET line = replace(line, 'record 19', 'record 18') WHERE seq = 19", &[(Some(19), Flaw::ChainBroken)]);
}

#[test]
fn a_deleted_record_is_missing() {
    check("DELETE FROM record WHERE seq = 5", &[(Some(5), Flaw::RecordMissing), (Some(6), Flaw::ChainBroken)]);
    check("DELETE FROM record WHERE seq = 0", &[(Some(0), Flaw::RecordMissing), (Some(1), Flaw::ChainBroken)]);
}

#[test]
fn a_deletion_that_closes_the_gap_is_out_of_place() {
    let report =
        after(|_, db| db.execute_batch("DELETE FROM record WHERE seq = 5; UPDATE record SET seq = seq - 1 WHERE seq > 5").unwrap());
    assert_eq!(report.findings.iter().filter(|f| f.what == Flaw::OutOfPlace).count(), 14);
    assert!(report.findings.iter().any(|f| f.what == Flaw::CutTail));
}

#[test]
fn an_inserted_record_is_out_of_place() {
    let sql = "UPDATE record SET seq = -seq WHERE seq > 5; UPDATE record SET seq = 1 - seq WHERE seq < 0;
               INSERT INTO record SELECT 6, kind, at_ms, session, pid, task, line FROM record WHERE seq = 5";
    let report = after(|_, db| db.execute_batch(sql).unwrap());
    assert_eq!(report.records, 21);
    assert!(report.findings.iter().any(|f| (f.seq, f.what) == (Some(6), Flaw::OutOfPlace)), "{:#?}", report.findings);
}

#[test]
fn swapped_records_are_out_of_place() {
    let sql =
        "UPDATE record SET seq = 100 WHERE seq = 5; UPDATE record SET seq = 5 WHERE seq = 6; UPDATE record SET seq = 6 WHERE seq = 100";
    let report = after(|_, db| db.execute_batch(sql).unwrap());
    let out: Vec<_> = report.findings.iter().filter(|f| f.what == Flaw::OutOfPlace).map(|f| f.seq).collect();
    assert_eq!(out, [Some(5), Some(6)]);
}

#[test]
fn a_cut_tail_is_below_the_seal() {
    check("DELETE FROM record WHERE seq >= 15", &[(Some(15), Flaw::CutTail)]);
    check("DELETE FROM record", &[(Some(0), Flaw::CutTail)]);
}

#[test]
fn every_column_that_lies_is_found() {
    for (column, value) in [
        ("kind", "'task.done'"),
        ("at_ms", "at_ms + 1"),
        ("session", "'s-9'"),
        ("pid", "pid + 1"),
        ("task", "'task-9'"),
        ("pid", "NULL"),
        ("task", "x'00'"),
        ("at_ms", "-1"),
    ] {
        let report = after(|_, db| db.execute_batch(&format!("UPDATE record SET {column} = {value} WHERE seq = 5")).unwrap());
        let found: Vec<_> = report.findings.iter().map(|f| (f.seq, f.what, f.why.as_str())).collect();
        let why = format!("column {column} is not what the line says");
        assert_eq!(found, [(Some(5), Flaw::ColumnLies, why.as_str())]);
    }
}

#[test]
fn a_trigger_is_foreign() {
    check("CREATE TRIGGER t AFTER INSERT ON record BEGIN DELETE FROM record WHERE seq = new.seq - 1; END", &[(None, Flaw::ForeignSchema)]);
}

#[test]
fn a_swapped_database_is_found() {
    let report = after(|home, _| {
        let other = tempfile::tempdir().unwrap();
        filled(other.path(), 30);
        fs::remove_file(home.join("journal.db")).unwrap();
        fs::copy(other.path().join("journal.db"), home.join("journal.db")).unwrap();
    });
    assert_eq!(report.findings.iter().map(|f| f.what).collect::<Vec<_>>(), [Flaw::SwappedFile]);
    assert_eq!(report.seal, SealState::Broken);
}

#[test]
fn a_missing_or_forged_seal_is_found() {
    let report = after(|home, _| ["seal.0", "seal.1"].iter().for_each(|slot| fs::remove_file(home.join(slot)).unwrap()));
    assert_eq!((report.seal, report.findings[0].what), (SealState::Missing, Flaw::SealMissing));
    let report = after(|home, _| {
        for slot in ["seal.0", "seal.1"] {
            let text = fs::read_to_string(home.join(slot)).unwrap();
            fs::write(home.join(slot), text.replace("\"count\":20", "\"count\":19").replace("\"count\":0", "\"count\":1")).unwrap();
        }
    });
    assert_eq!((report.seal, report.findings[0].what), (SealState::Forged, Flaw::SealForged));
}

#[test]
fn a_damaged_file_is_found() {
    let report = after(|home, db| {
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        let mut bytes = fs::read(home.join("journal.db")).unwrap();
        let end = bytes.len();
        bytes[end - 8192..end - 8092].fill(0xff);
        fs::write(home.join("journal.db"), bytes).unwrap();
    });
    assert!(report.findings.iter().any(|f| f.what == Flaw::FileDamaged), "{:#?}", report.findings);
}

#[test]
fn a_cut_tail_is_reported_at_open_and_stays_provable() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), 20);
    let db = Connection::open(home.path().join("journal.db")).unwrap();
    db.execute_batch("DELETE FROM record WHERE seq >= 15").unwrap();
    drop(db);
    let (journal, opened) = open(home.path());
    assert_eq!(opened.findings.iter().map(|f| f.what).collect::<Vec<_>>(), [Flaw::CutTail]);
    assert_eq!(opened.head.count, 15, "what is left is kept");
    journal.append(vec![draft(15)]).wait().unwrap();
    journal.close();
    let report = verify(home.path()).unwrap();
    assert!(report.findings.iter().all(|f| f.what == Flaw::Evidence) && !report.is_intact(), "{:#?}", report.findings);
}

#[test]
fn a_removed_seal_is_remembered() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), 5);
    ["seal.0", "seal.1"].iter().for_each(|slot| fs::remove_file(home.path().join(slot)).unwrap());
    let opened = open(home.path()).1;
    assert_eq!(opened.findings.iter().map(|f| f.what).collect::<Vec<_>>(), [Flaw::SealMissing]);
    assert_eq!(open(home.path()).1.findings, [], "it is sealed again");
    assert_eq!(verify(home.path()).unwrap().findings.iter().map(|f| f.what).collect::<Vec<_>>(), [Flaw::Evidence]);
}

#[test]
fn a_journal_whose_database_was_removed_is_noticed() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), 5);
    fs::remove_file(home.path().join("journal.db")).unwrap();
    let opened = open(home.path()).1;
    assert_eq!(opened.findings.iter().map(|f| f.what).collect::<Vec<_>>(), [Flaw::SwappedFile]);
}

#[test]
fn records_after_the_seal_are_counted_and_checked_at_open() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), 10);
    let seals = ["seal.0", "seal.1"].map(|slot| (home.path().join(slot), fs::read(home.path().join(slot)).unwrap()));
    {
        let (journal, _) = open(home.path());
        (10..15).for_each(|n| drop(journal.append(vec![draft(n)])));
    }
    let restore = || seals.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    restore();
    let report = verify(home.path()).unwrap();
    assert_eq!((report.unsealed, report.seal, report.findings), (5, SealState::Good, vec![]));
    let opened = open(home.path()).1;
    assert_eq!((opened.unsealed, opened.findings), (5, vec![]));
    restore();
    let db = Connection::open(home.path().join("journal.db")).unwrap();
    db.execute_batch("UPDATE record SET line = replace(line, 'record 12', 'record 13') WHERE seq = 12").unwrap();
    drop(db);
    let opened = open(home.path()).1;
    assert_eq!(opened.findings.iter().map(|f| (f.seq, f.what)).collect::<Vec<_>>(), [(Some(13), Flaw::ChainBroken)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_changed_byte_breaks_verify(seq in 0u64..20, at: prop::sample::Index, with in 1u8..=255) {
        let report = after(|_, db| {
            let mut line: Vec<u8> = db.query_row("SELECT CAST(line AS BLOB) FROM record WHERE seq = ?1", [seq.cast_signed()], |row| row.get(0)).unwrap();
            let at = at.index(line.len());
            line[at] ^= with;
            db.execute("UPDATE record SET line = CAST(?1 AS TEXT) WHERE seq = ?2", (line, seq.cast_signed())).unwrap();
        });
        prop_assert!(!report.is_intact());
    }
}

#[test]
fn fluffy_07_a_long_honest_journal_verifies() {
    for count in [1_000, 1_001, 2_500] {
        let home = tempfile::tempdir().unwrap();
        filled(home.path(), count);
        let report = verify(home.path()).unwrap();
        assert!(report.is_intact() && report.records == count, "{count}: {report:?}");
    }
}
