//! Failed batches, full disks, recovery.

use journal::{Faults, Filter, Journal, JournalError, Options};

use crate::{draft, security};

#[test]
fn a_failed_batch_fails_all_after_it_until_recovery() {
    let home = tempfile::tempdir().unwrap();
    let faults = Faults { fail_at: Some(2), ..Faults::default() };
    let (journal, _) = Journal::open(home.path(), Options { faults, ..Options::default() }).unwrap();
    journal.append(vec![draft(0)]).wait().unwrap();
    let failed = journal.append(vec![draft(1), draft(2)]).wait();
    assert!(matches!(failed, Err(JournalError::Database { .. })), "{failed:?}");
    let later = journal.append(vec![draft(3)]).wait();
    assert!(matches!(later, Err(JournalError::Stopped { .. })), "{later:?}");
    let later = journal.append(vec![security(4)]).wait();
    assert!(matches!(later, Err(JournalError::Stopped { .. })), "{later:?}");
    assert!(journal.barrier().wait().is_err());
    assert_eq!(journal.head().count, 1);
    assert_eq!(journal.recover().unwrap().count, 1);
    assert_eq!(journal.append(vec![draft(5)]).wait().unwrap().first_seq, 1, "nothing of the failed batch is there");
    assert!(journal.verify().unwrap().is_intact());
}

#[test]
fn a_full_disk_takes_only_security_events_from_the_reserve() {
    let home = tempfile::tempdir().unwrap();
    let faults = Faults { full_at: Some(2), ..Faults::default() };
    let (journal, _) = Journal::open(home.path(), Options { faults, ..Options::default() }).unwrap();
    journal.append(vec![draft(0)]).wait().unwrap();
    assert!(journal.has_reserve());
    // More than the free space in the pages that are there.
    let big = || (0..100).map(draft).collect::<Vec<_>>();
    let failed = journal.append(big()).wait().unwrap_err();
    assert!(matches!(failed, JournalError::DiskFull { records: 100, .. }), "{failed:?}");
    assert!(failed.hint().is_some());
    assert!(journal.append(vec![draft(1)]).wait().unwrap_err().is_disk_full());
    assert!(journal.has_reserve(), "a fact does not touch the reserve");

    assert_eq!(journal.recover().unwrap().count, 1);
    let mut batch = big();
    batch.push(security(1));
    assert_eq!(journal.append(batch).wait().unwrap().first_seq, 1);
    assert!(!journal.has_reserve());
    assert!(journal.verify().unwrap().is_intact());
    journal.recover().unwrap();
    assert!(journal.has_reserve(), "space allows it again");
    assert_eq!(journal.read(&Filter::default()).unwrap().len(), 102);
}
