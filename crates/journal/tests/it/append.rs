//! Order, atomicity, classes, readers.

use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use journal::{BodyChanges, Class, Draft, Filter, Journal, JournalError, Options, Receipt};

use crate::{draft, filled, open, security};

#[test]
fn the_order_of_calls_is_the_order_of_records() {
    let home = tempfile::tempdir().unwrap();
    let (journal, opened) = open(home.path());
    assert_eq!((opened.head.count, opened.unsealed, opened.findings), (0, 0, vec![]));
    let first = journal.append(vec![draft(0), draft(1)]);
    assert_eq!(first.place(), Some(Receipt { first_seq: 0, last_seq: 1 }));
    let second = journal.append(vec![draft(2)]);
    assert_eq!(second.wait().unwrap(), Receipt { first_seq: 2, last_seq: 2 });
    assert_eq!(first.wait().unwrap(), Receipt { first_seq: 0, last_seq: 1 });
    assert_eq!((journal.head().seq, journal.head().count), (2, 3));
    let records = journal.read(&Filter::default()).unwrap();
    assert_eq!(records.iter().map(|r| r.seq).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(records[1].kind, "task.queued");
    assert!(records[1].payload().unwrap().contains("record 1 é"));
    assert!(journal.verify().unwrap().is_intact());
    journal.close();

    let (journal, opened) = open(home.path());
    assert_eq!((opened.head.count, opened.unsealed, opened.findings), (3, 0, vec![]), "close seals");
    assert_eq!(journal.append(vec![draft(3)]).wait().unwrap().first_seq, 3);
}

#[test]
fn many_writers_make_one_chain() {
    let home = tempfile::tempdir().unwrap();
    let (journal, _) = open(home.path());
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let journal = journal.clone();
            scope.spawn(move || {
                let mut last = None;
                for n in 0..50 {
                    let class = if n % 10 == 9 { Class::Security } else { Class::Fact };
                    let batch = vec![Draft { class, ..draft(writer) }, draft(n)];
                    let receipt = journal.append(batch).wait().unwrap();
                    assert_eq!(receipt.last_seq, receipt.first_seq + 1);
                    assert!(last < Some(receipt.first_seq), "a writer's own order holds");
                    last = Some(receipt.first_seq);
                }
            });
        }
    });
    let report = journal.verify().unwrap();
    assert_eq!((report.records, report.findings), (800, vec![]));
}

#[tokio::test]
async fn a_ticket_can_be_awaited_and_a_tail_followed() {
    let home = tempfile::tempdir().unwrap();
    let (journal, _) = open(home.path());
    let mut tail = journal.follow();
    for n in 0..3 {
        let receipt = journal.append(vec![security(n)]).durable().await.unwrap();
        assert_eq!(receipt.first_seq, n);
        tail.wait_for(|seq| *seq >= n).await.unwrap();
    }
}

#[test]
fn progress_resolves_at_once_and_is_written_within_half_a_second() {
    let home = tempfile::tempdir().unwrap();
    let (journal, _) = open(home.path());
    let start = Instant::now();
    let receipt = journal.append(vec![Draft { class: Class::Progress, ..draft(0) }]).wait().unwrap();
    assert_eq!(receipt.first_seq, 0);
    while journal.head().count == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "progress was never written");
        std::thread::yield_now();
    }
    drop(journal.append(vec![Draft { class: Class::Progress, ..draft(1) }]));
    journal.close();
    assert_eq!(open(home.path()).1.head.count, 2, "close writes what waits");
}

#[test]
fn a_barrier_waits_for_all_before_it_and_adds_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (journal, _) = open(home.path());
    journal.barrier().wait().unwrap();
    assert_eq!(journal.head().count, 0);
    drop(journal.append(vec![Draft { class: Class::Progress, ..draft(0) }]));
    assert_eq!(journal.barrier().wait().unwrap().last_seq, 0);
    assert_eq!(journal.head().count, 1, "even progress is durable behind a barrier");
    assert_eq!(journal.snapshot().unwrap(), None);
    journal.save_snapshot(0, b"world".to_vec()).unwrap();
    assert_eq!(journal.snapshot().unwrap().unwrap().bytes, b"world");
}

#[test]
fn a_security_batch_is_sealed_before_its_ticket() {
    let home = tempfile::tempdir().unwrap();
    let (journal, _) = open(home.path());
    journal.append(vec![draft(0)]).wait().unwrap();
    journal.append(vec![security(1)]).wait().unwrap();
    assert_eq!(journal.verify().unwrap().unsealed, 0);
    let start = Instant::now();
    journal.append(vec![draft(2)]).wait().unwrap();
    while journal.verify().unwrap().unsealed > 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "the seal never came");
    }
}

#[test]
fn filters_select() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), 24);
    let (journal, _) = open(home.path());
    let check = |filter: Filter, expected: &[u64]| {
        let seqs: Vec<u64> = journal.read(&filter).unwrap().iter().map(|record| record.seq).collect();
        assert_eq!(seqs, expected, "{filter:?}");
    };
    let all = Filter::default;
    check(Filter { after_seq: Some(20), ..all() }, &[21, 22, 23]);
    check(Filter { before_seq: Some(2), ..all() }, &[0, 1]);
    check(Filter { limit: Some(2), reverse: true, ..all() }, &[23, 22]);
    check(Filter { pid: Some(1), limit: Some(3), ..all() }, &[1, 4, 7]);
    check(Filter { task: Some("task-1".into()), limit: Some(2), ..all() }, &[1, 3]);
    check(Filter { session: Some("s-3".into()), limit: Some(2), ..all() }, &[3, 7]);
    check(Filter { kinds: vec!["task.queued".into()], limit: Some(2), ..all() }, &[1, 3]);
    check(Filter { kinds: vec!["call.".into()], limit: Some(2), ..all() }, &[0, 2]);
    check(Filter { kinds: vec!["call.*".into(), "task.queued".into()], limit: Some(3), ..all() }, &[0, 1, 2]);
    check(Filter { kinds: vec!["call".into()], ..all() }, &[]);
    check(Filter { since_ms: Some(1_794_000_003_000), until_ms: Some(1_794_000_005_000), ..all() }, &[3, 4]);
}

#[test]
fn replay_streams_from_a_place_and_can_stop() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), 10);
    let (journal, _) = open(home.path());
    let mut seen = Vec::new();
    let take = |seq| {
        seen.push(seq);
        if seq == 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let findings = journal.replay(4, |line| line.seq, take);
    assert_eq!((seen, findings.unwrap()), (vec![4, 5, 6, 7], vec![]));
}

#[test]
fn one_writer_per_chain() {
    let home = tempfile::tempdir().unwrap();
    let (journal, _) = open(home.path());
    assert!(matches!(Journal::open(home.path(), Options::default()), Err(JournalError::Locked { .. })));
    let clone = journal.clone();
    journal.close();
    assert!(matches!(clone.append(vec![draft(0)]).wait(), Err(JournalError::Closed)));
    drop(clone);
    open(home.path());
}

#[test]
fn files_are_private() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().join("home");
    let (journal, _) = open(&home);
    journal.append(vec![security(0)]).wait().unwrap();
    let name = journal.blobs().put(b"x").unwrap();
    journal.vault().put("call-1", b"x").unwrap();
    let mode = |path: &str| home.join(path).metadata().unwrap().permissions().mode() & 0o777;
    for file in [
        "journal.db",
        "journal.db-wal",
        "seal.0",
        "keys/seal.key",
        "keys/vault.key",
        "keys/blobs.db",
        &format!("blobs/{}/{}", &name[..2], &name[2..]),
    ] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
    for dir in ["", "keys", "blobs", "vault"] {
        assert_eq!(mode(dir), 0o700, "{dir}");
    }
}

#[test]
fn a_body_stands_beside_its_record_until_it_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let (journal, _) = open(home.path());
    let text: std::sync::Arc<[u8]> = b"a body in the clear".as_slice().into();
    let put = BodyChanges { put: vec![(7, text.clone()), (8, text.clone())], remove: Vec::new() };
    journal.append_with(vec![draft(0)], put).wait().unwrap();
    assert_eq!(journal.bodies(&[7, 9]).unwrap(), [Some(text.to_vec()), None]);
    journal.append_with(vec![draft(1)], BodyChanges { put: Vec::new(), remove: vec![7] }).wait().unwrap();
    assert_eq!(journal.body_ids().unwrap(), [8]);
    assert!(journal.verify().unwrap().is_intact());
    journal.close();
    for file in ["journal.db", "journal.db-wal"] {
        let bytes = std::fs::read(home.path().join(file)).unwrap_or_default();
        assert!(!bytes.windows(text.len()).any(|window| window == &*text), "{file} has it in the clear");
    }
    let (journal, opened) = open(home.path());
    assert_eq!(opened.findings, vec![]);
    assert_eq!(journal.bodies(&[7, 8]).unwrap(), [None, Some(text.to_vec())]);
    journal.close();
    let db = rusqlite::Connection::open(home.path().join("journal.db")).unwrap();
    db.execute("UPDATE body SET id = 9 WHERE id = 8", []).unwrap();
    drop(db);
    let (journal, _) = open(home.path());
    assert!(matches!(journal.bodies(&[9]), Err(JournalError::BadFile { .. })), "a body belongs to its number");
}

#[test]
fn a_journal_from_before_bodies_gets_their_table() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), 3);
    rusqlite::Connection::open(home.path().join("journal.db")).unwrap().execute_batch("DROP TABLE body").unwrap();
    assert!(journal::verify(home.path()).unwrap().is_intact());
    let (journal, opened) = open(home.path());
    assert_eq!(opened.findings, vec![]);
    let put = BodyChanges { put: vec![(1, b"x".as_slice().into())], remove: Vec::new() };
    journal.append_with(vec![draft(3)], put).wait().unwrap();
    assert_eq!(journal.body_ids().unwrap(), [1]);
}
