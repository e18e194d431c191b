//! Snapshots are used only where they are ours and of this history.

use std::fs;
use std::path::Path;

use journal::{Flaw, JournalError, Snapshot};
use rusqlite::Connection;

use crate::{filled, open};

fn saved(home: &Path) {
    filled(home, 10);
    let (journal, _) = open(home);
    journal.save_snapshot(4, b"world at 4".to_vec()).unwrap();
    journal.save_snapshot(8, b"world at 8".to_vec()).unwrap();
    let refused = journal.save_snapshot(10, Vec::new());
    assert!(matches!(refused, Err(JournalError::NotDurable { seq: 10, head: 9 })), "{refused:?}");
}

fn world(seq: u64) -> Option<Snapshot> {
    Some(Snapshot { seq, bytes: format!("world at {seq}").into_bytes() })
}

#[test]
fn the_newest_is_loaded_and_the_oldest_replaced() {
    let home = tempfile::tempdir().unwrap();
    saved(home.path());
    let (journal, opened) = open(home.path());
    assert_eq!(opened.snapshot, world(8));
    journal.save_snapshot(9, b"world at 9".to_vec()).unwrap();
    journal.close();
    fs::remove_file(home.path().join("snapshot.0")).unwrap();
    assert_eq!(open(home.path()).1.snapshot, world(8), "8 was kept in the other slot");
}

#[test]
fn a_changed_snapshot_is_ignored_reported_and_kept() {
    for (old, new) in [("world at 8", "World at 8"), ("\"seq\":8", "\"seq\":7")] {
        let home = tempfile::tempdir().unwrap();
        saved(home.path());
        let slot = home.path().join("snapshot.1");
        let text = fs::read_to_string(&slot).unwrap();
        fs::write(&slot, text.replace(old, new)).unwrap();
        let opened = open(home.path()).1;
        assert_eq!(opened.snapshot, world(4));
        assert_eq!(opened.findings.iter().map(|f| f.what).collect::<Vec<_>>(), [Flaw::BadSnapshot]);
        assert_eq!(fs::read_dir(home.path().join("evidence")).unwrap().count(), 1);
    }
}

#[test]
fn a_snapshot_of_another_history_is_ignored() {
    let home = tempfile::tempdir().unwrap();
    saved(home.path());
    let db = Connection::open(home.path().join("journal.db")).unwrap();
    db.execute_batch("DELETE FROM record WHERE seq >= 6").unwrap();
    drop(db);
    let opened = open(home.path()).1;
    assert_eq!(opened.snapshot, world(4));
    assert_eq!(opened.findings.iter().map(|f| f.what).collect::<Vec<_>>(), [Flaw::CutTail, Flaw::BadSnapshot]);
}
