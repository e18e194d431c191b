//! What a start notices: the verification beside the work, rows after an orderly stop, blobs.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use journal::{Class, Draft, Examined, Flaw, Journal, Options, verify, verify_with};
use rusqlite::Connection;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::{draft, filled, open};

fn database(home: &Path) -> Connection {
    Connection::open(home.join("journal.db")).unwrap()
}

/// What the start after `tamper` finds beside its work.
fn examined(records: u64, tamper: impl FnOnce(&Path)) -> Examined {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), records);
    tamper(home.path());
    open(home.path()).0.examination().run(&|| true)
}

fn flaws(examined: &Examined) -> Vec<(Option<u64>, Flaw)> {
    examined.findings.iter().map(|finding| (finding.seq, finding.what)).collect()
}

#[test]
fn a_start_examines_the_whole_chain() {
    let clean = examined(5_000, |_| ());
    assert_eq!((clean.records, clean.complete, flaws(&clean)), (5_000, true, vec![]), "control");
    let edited = examined(5_000, |home| {
        let sql = "UPDATE record SET line = replace(line, 'record 70 ', 'record 71 ') WHERE seq = 70";
        assert_eq!(database(home).execute(sql, []).unwrap(), 1);
    });
    assert_eq!(flaws(&edited), [(Some(71), Flaw::ChainBroken)]);
    let columns = examined(5_000, |home| database(home).execute_batch("UPDATE record SET pid = 9 WHERE seq = 2500").unwrap());
    assert_eq!(flaws(&columns), [(Some(2_500), Flaw::ColumnLies)]);
}

/// Fills one page of the file, counted from its end.
fn destroy_page(home: &Path, from_end: usize) {
    database(home).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let path = home.join("journal.db");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - from_end * 8192;
    bytes[at..at + 8192].fill(0xff);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_destroyed_page_is_stepped_over_and_told_with_what_lies_behind_it() {
    let found = examined(5_000, |home| {
        database(home).execute_batch("UPDATE record SET line = replace(line, 'record 4000 ', 'record 4001 ') WHERE seq = 4000").unwrap();
        destroy_page(home, 60);
    });
    assert!(found.complete);
    let kinds: Vec<Flaw> = found.findings.iter().map(|finding| finding.what).collect();
    assert_eq!(kinds.iter().filter(|what| **what == Flaw::FileDamaged).count(), 1, "{:#?}", found.findings);
    assert!(kinds.contains(&Flaw::RecordMissing), "{:#?}", found.findings);
    assert!(flaws(&found).contains(&(Some(4_001), Flaw::ChainBroken)), "{:#?}", found.findings);
    assert!(found.records > 4_900, "only the page is lost: {}", found.records);
}

#[test]
fn an_examination_stops_between_two_slices_and_keeps_what_it_found() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), 9_000);
    database(home.path()).execute_batch("UPDATE record SET pid = 9 WHERE seq = 5").unwrap();
    let asked = Cell::new(0);
    let examination = open(home.path()).0.examination();
    let found = examination.run(&|| asked.replace(asked.get() + 1) < 2);
    assert_eq!((found.complete, flaws(&found)), (false, vec![(Some(5), Flaw::ColumnLies)]));
    assert!(found.records < 9_000);
    // It holds neither lock nor writer: another journal opens beside it.
    assert!(Journal::open(home.path(), Options::default()).is_ok());
}

fn stopped() -> Draft {
    let payload = RawValue::from_string(r#"{"pid":1,"reason":"kernel.stop"}"#.into()).unwrap();
    Draft {
        kind: "kernel.stopped",
        session: "s-1".into(),
        pid: Some(1),
        task: None,
        payload,
        at_ms: 1_794_000_900_000,
        class: Class::Security,
    }
}

/// A journal whose kernel stopped in order: records 0 to 9 and the stop.
fn rested(home: &Path) {
    let (journal, _) = open(home);
    (0..10).for_each(|n| drop(journal.append(vec![draft(n)])));
    journal.append(vec![stopped()]).wait().unwrap();
    journal.close();
}

/// Adds a row after the last one with everything right that can be had without the seal's key.
fn forge(home: &Path) {
    let db = database(home);
    let (seq, last): (i64, String) =
        db.query_row("SELECT seq, line FROM record ORDER BY seq DESC LIMIT 1", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let nonce: Vec<u8> = db.query_row("SELECT value FROM meta WHERE key = 'nonce'", [], |row| row.get(0)).unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let seq = seq + 1;
    let mut id: [u8; 32] = Sha256::new().chain_update(&nonce).chain_update(seq.to_be_bytes()).finalize().into();
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    let id = hex(&id[..16]);
    let id = format!("{}-{}-{}-{}-{}", &id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]);
    let line = format!(
        r#"{{"event_id":"{id}","timestamp":"2026-11-06T21:40:00.000Z","session_id":"s-1","type":"grant.given","payload":{{"pid":1}},"hash_prev":"{}","seq":{seq},"v":1}}"#,
        hex(&Sha256::digest(last.as_bytes()))
    );
    db.execute("INSERT INTO record VALUES (?1, 'grant.given', 1794001200000, 's-1', 1, NULL, ?2)", (seq, line)).unwrap();
}

fn kept(home: &Path, what: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.join("evidence")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(what)).collect()
}

#[test]
fn rows_after_a_sealed_stop_are_evidence_and_never_records() {
    let home = tempfile::tempdir().unwrap();
    rested(home.path());
    assert_eq!(open(home.path()).1.findings, [], "control: a rested journal is in order");
    assert_eq!(verify(home.path()).unwrap().findings, []);
    forge(home.path());
    forge(home.path());
    let report = verify(home.path()).unwrap();
    assert_eq!(report.findings.iter().map(|f| (f.seq, f.what)).collect::<Vec<_>>(), [(Some(11), Flaw::RowsAfterStop)], "{report:#?}");

    let (journal, opened) = open(home.path());
    assert_eq!(opened.findings.iter().map(|f| (f.seq, f.what)).collect::<Vec<_>>(), [(Some(11), Flaw::RowsAfterStop)]);
    assert_eq!((opened.head.count, opened.unsealed), (11, 0), "they are not there when the journal is folded");
    let files = kept(home.path(), "rows-");
    let text = fs::read_to_string(&files[0]).unwrap();
    assert_eq!((files.len(), text.lines().count(), text.matches("grant.given").count()), (1, 2, 4), "{text}");
    journal.append(vec![draft(11)]).wait().unwrap();
    journal.close();
    assert_eq!(open(home.path()).1.findings, [], "told once");
}

#[test]
fn rows_of_any_kind_after_a_stop_or_below_zero_are_taken_out() {
    for sql in [
        "INSERT INTO record VALUES (500, 'x', 1, 's', NULL, NULL, 'no line at all')",
        "INSERT INTO record VALUES (11, x'00', 'y', 2.5, 'z', x'ff', x'fe')",
        "INSERT INTO record SELECT 11, kind, at_ms, session, pid, task, line FROM record WHERE seq = 10",
        "INSERT INTO record SELECT -7, kind, at_ms, session, pid, task, line FROM record WHERE seq = 3",
    ] {
        let home = tempfile::tempdir().unwrap();
        rested(home.path());
        database(home.path()).execute_batch(sql).unwrap();
        let (journal, opened) = open(home.path());
        assert_eq!((opened.findings.len(), opened.head.count, kept(home.path(), "rows-").len()), (1, 11, 1), "{sql}: {opened:?}");
        assert_eq!(journal.examination().run(&|| true).findings, [], "{sql}");
    }
}

#[test]
fn rows_after_a_stop_that_was_changed_or_lost_its_seal_are_taken_out() {
    let change = "UPDATE record SET line = replace(line, 'kernel.stopped', 'kernel.stepped') WHERE seq = 10";
    for is_changed in [true, false] {
        let home = tempfile::tempdir().unwrap();
        rested(home.path());
        assert_eq!(open(home.path()).1.findings, [], "control: a rested journal is in order");
        if is_changed {
            assert_eq!(database(home.path()).execute(change, []).unwrap(), 1);
        } else {
            let newest = ["seal.0", "seal.1"].map(|slot| home.path().join(slot));
            let newest = newest.iter().find(|slot| fs::read_to_string(slot).is_ok_and(|text| text.contains("\"count\":11"))).unwrap();
            fs::write(newest, "").unwrap();
        }
        forge(home.path());
        let opened = open(home.path()).1;
        assert!(opened.findings.iter().any(|f| (f.seq, f.what) == (Some(11), Flaw::RowsAfterStop)), "{is_changed}: {opened:?}");
        assert_eq!((opened.head.count, kept(home.path(), "rows-").len()), (11, 1), "{is_changed}: they are not there to be folded");
    }
}

#[test]
fn rows_after_a_stop_are_taken_out_without_any_seal_too() {
    for is_forged in [true, false] {
        let home = tempfile::tempdir().unwrap();
        rested(home.path());
        for slot in ["seal.0", "seal.1"].map(|slot| home.path().join(slot)) {
            if is_forged { fs::write(slot, "no seal").unwrap() } else { fs::remove_file(slot).unwrap() }
        }
        forge(home.path());
        let opened = open(home.path()).1;
        let what = opened.findings.iter().map(|finding| finding.what).collect::<Vec<_>>();
        assert!(what.contains(&Flaw::RowsAfterStop), "{is_forged}: {what:?}");
        assert!(what.contains(if is_forged { &Flaw::SealForged } else { &Flaw::SealMissing }), "{is_forged}: {what:?}");
        assert_eq!((opened.head.count, kept(home.path(), "rows-").len()), (11, 1), "{is_forged}: they are not there to be folded");
    }
    // Control: a journal without a stop keeps its rows, and says that it has no seal.
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), 10);
    ["seal.0", "seal.1"].iter().for_each(|slot| fs::remove_file(home.path().join(slot)).unwrap());
    forge(home.path());
    let opened = open(home.path()).1;
    assert_eq!((opened.findings.iter().map(|f| f.what).collect::<Vec<_>>(), opened.head.count), (vec![Flaw::SealMissing], 11));
}

#[test]
fn rows_after_a_crash_are_not_a_stop() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), 10);
    forge(home.path());
    let opened = open(home.path()).1;
    assert_eq!((opened.findings, opened.unsealed, opened.head.count), (vec![], 1, 11));
}

#[test]
fn a_trigger_that_somebody_left_does_not_run() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), 5);
    database(home.path()).execute_batch("CREATE TRIGGER t AFTER INSERT ON record BEGIN DELETE FROM record WHERE seq = 2; END").unwrap();
    let (journal, opened) = open(home.path());
    assert_eq!(opened.findings.iter().map(|f| f.what).collect::<Vec<_>>(), [Flaw::ForeignSchema]);
    journal.append(vec![draft(5)]).wait().unwrap();
    assert_eq!(journal.verify().unwrap().records, 6);
}

/// The records of these tests name blobs in a field of their own.
fn names(kind: &str, payload: &str) -> (Vec<String>, Vec<String>) {
    let fields: serde_json::Value = serde_json::from_str(payload).unwrap();
    let named =
        fields["blobs"].as_array().map(|names| names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()).unwrap_or_default();
    if kind == "blob.forgotten" { (Vec::new(), named) } else { (named, Vec::new()) }
}

fn naming(kind: &'static str, blobs: &[&String]) -> Draft {
    let payload = serde_json::value::to_raw_value(&serde_json::json!({"pid": 1, "blobs": blobs})).unwrap();
    Draft { kind, session: "s-1".into(), pid: Some(1), task: None, payload, at_ms: 1_794_000_000_000, class: Class::Fact }
}

#[test]
fn a_blob_that_is_missing_or_changed_is_told_and_a_forgotten_one_is_not() {
    let file = |home: &Path, name: &str| home.join("blobs").join(&name[..2]).join(&name[2..]);
    let keys = |home: &Path, sql: &str| Connection::open(home.join("keys/blobs.db")).unwrap().execute_batch(sql).unwrap();
    let check = |tamper: &dyn Fn(&Path, &Journal, &str), whole: &[Flaw], beside: &[Flaw]| {
        let home = tempfile::tempdir().unwrap();
        let options = || Options { names, ..Options::default() };
        let (journal, _) = Journal::open(home.path(), options()).unwrap();
        let (one, two) = (journal.blobs().put(&[1; 100_000]).unwrap(), journal.blobs().put(b"two").unwrap());
        journal.append(vec![naming("call.finished", &[&one, &two])]).wait().unwrap();
        tamper(home.path(), &journal, &one);
        journal.close();
        let found: Vec<Flaw> = verify_with(home.path(), names).unwrap().findings.iter().map(|f| f.what).collect();
        assert_eq!(found, whole);
        let (journal, _) = Journal::open(home.path(), options()).unwrap();
        assert_eq!(journal.verify().unwrap().findings.iter().map(|f| f.what).collect::<Vec<_>>(), whole);
        let found: Vec<Flaw> = journal.examination().run(&|| true).findings.iter().map(|f| f.what).collect();
        assert_eq!(found, beside);
    };
    check(&|_, _, _| (), &[], &[]);
    check(&|home, _, one| fs::remove_file(file(home, one)).unwrap(), &[Flaw::BlobMissing], &[Flaw::BlobMissing]);
    let flip = |home: &Path, _: &Journal, one: &str| {
        let mut bytes = fs::read(file(home, one)).unwrap();
        bytes[70_000] ^= 1;
        fs::write(file(home, one), bytes).unwrap();
    };
    // Every byte is looked at when somebody asks for it, and not at every start.
    check(&flip, &[Flaw::BlobChanged], &[]);
    check(&|home, _, one| keys(home, &format!("DELETE FROM key WHERE name = x'{one}'")), &[Flaw::BlobMissing], &[Flaw::BlobMissing]);
    check(
        &|home, _, one| keys(home, &format!("UPDATE key SET key = NULL WHERE name = x'{one}'")),
        &[Flaw::BlobMissing],
        &[Flaw::BlobMissing],
    );
    let forget = |_: &Path, journal: &Journal, one: &str| {
        let one = one.to_owned();
        journal.append(vec![naming("blob.forgotten", &[&one])]).wait().unwrap();
        assert_eq!(journal.blobs().forget(&[one], None).unwrap(), 1);
    };
    check(&forget, &[], &[]);
    let again = |home: &Path, journal: &Journal, one: &str| {
        forget(home, journal, one);
        assert_eq!(journal.blobs().put(&[1; 100_000]).unwrap(), one);
    };
    check(&again, &[], &[]);
}
