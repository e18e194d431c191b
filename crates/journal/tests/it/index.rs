//! The index gives the answers that a scan gives, and is made again when it does not fit.

use std::path::Path;
use std::time::{Duration, Instant};

use journal::{Filter, Journal, Options};
use rusqlite::Connection;

const STEP: u64 = 50;
const COUNT: u64 = 730;

fn open(home: &Path) -> Journal {
    Journal::open(home, Options { index_step: STEP, ..Options::default() }).unwrap().0
}

/// Waits until at most a step is missing.
#[track_caller]
fn caught_up(journal: &Journal, count: u64) {
    let began = Instant::now();
    while journal.indexed() + STEP < count {
        assert!(began.elapsed() < Duration::from_secs(60), "{} of {count}: {:?}", journal.indexed(), journal.take_index_trouble());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Records of which the clock stepped back in the middle, with an index of nearly all.
fn indexed(home: &Path) -> Journal {
    let journal = open(home);
    for n in 0..COUNT {
        let draft = crate::draft(n);
        let at_ms = if n > 400 { draft.at_ms - 100_000 } else { draft.at_ms };
        drop(journal.append(vec![journal::Draft { at_ms, ..draft }]));
    }
    journal.barrier().wait().unwrap();
    caught_up(&journal, COUNT);
    journal
}

fn places(journal: &Journal, filter: &Filter) -> Vec<u64> {
    journal.read(filter).unwrap().into_iter().map(|record| record.seq).collect()
}

/// Filters of every sort.
fn filters() -> Vec<Filter> {
    let kinds = [vec![], vec!["call.admitted"], vec!["call."], vec!["task.*", "call.admitted"], vec!["none"]];
    let pids = [None, Some(1), Some(77)];
    let tasks = [None, Some("task-1"), Some("task-9")];
    let spans = [(None, None), (Some(300), Some(420)), (Some(700), None), (None, Some(10))];
    let mut all = Vec::new();
    for kinds in &kinds {
        for (pid, task) in pids.iter().flat_map(|pid| tasks.iter().map(move |task| (pid, task))) {
            for (number, (since, until)) in spans.iter().enumerate() {
                let time = |n: &Option<i64>| n.map(|n| 1_794_000_000_000 + n * 1000);
                let plain = Filter {
                    kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
                    pid: *pid,
                    task: task.map(str::to_owned),
                    since_ms: time(since),
                    until_ms: time(until),
                    ..Filter::default()
                };
                let some = Filter { limit: Some(7), after_seq: Some(100), session: Some("s-1".into()), ..plain.clone() };
                let limits = [Filter { limit: Some(3), ..plain.clone() }, Filter { before_seq: Some(725), ..plain.clone() }, some];
                let reversed = limits.clone().map(|filter| Filter { reverse: true, ..filter });
                all.extend(limits);
                all.extend(reversed);
                all.extend([Filter { limit: Some(0), reverse: number == 0, ..plain.clone() }, plain]);
            }
        }
    }
    all
}

#[track_caller]
fn agrees(journal: &Journal) {
    assert!(journal.indexed() > 0, "there is an index to compare with");
    for filter in filters() {
        let scanned = places(journal, &Filter { scans: true, ..filter.clone() });
        assert_eq!(places(journal, &filter), scanned, "{filter:?}");
        let mut exported = Vec::new();
        let count = journal.export(&mut exported, &filter).unwrap();
        assert_eq!(count, scanned.len() as u64, "{filter:?}");
    }
    assert!(journal.take_index_trouble().is_none());
}

#[test]
fn it_finds_what_a_scan_finds() {
    let home = tempfile::tempdir().unwrap();
    let journal = indexed(home.path());
    agrees(&journal);
    // More than are asked of the index at once.
    for n in COUNT..COUNT + 3_000 {
        drop(journal.append(vec![crate::draft(n)]));
    }
    journal.barrier().wait().unwrap();
    caught_up(&journal, COUNT + 3_000);
    agrees(&journal);
}

/// The control: what the index leaves out is not found, so it is what is asked. Whoever destroys something looks at every record.
#[test]
fn a_scan_does_not_ask_it() {
    let home = tempfile::tempdir().unwrap();
    indexed(home.path()).close();
    let db = Connection::open(home.path().join("index.db")).unwrap();
    let gone = db.execute("DELETE FROM entry WHERE key = (SELECT id FROM key WHERE name = 'pid 1') AND seq = 301", []).unwrap();
    assert_eq!(gone, 1);
    drop(db);
    let journal = open(home.path());
    caught_up(&journal, COUNT);
    let filter = Filter { pid: Some(1), after_seq: Some(290), limit: Some(5), ..Filter::default() };
    assert_eq!(places(&journal, &filter), [292, 295, 298, 304, 307]);
    assert_eq!(places(&journal, &Filter { scans: true, ..filter }), [292, 295, 298, 301, 304]);
}

#[test]
fn one_that_does_not_fit_is_made_again() {
    let other = tempfile::tempdir().unwrap();
    indexed(other.path()).close();
    let whole = std::fs::read(other.path().join("index.db")).unwrap();
    for spoilt in [b"no database at all".to_vec(), Vec::new(), whole[..whole.len() / 2].to_vec(), whole] {
        let home = tempfile::tempdir().unwrap();
        indexed(home.path()).close();
        std::fs::write(home.path().join("index.db"), &spoilt).unwrap();
        let journal = open(home.path());
        caught_up(&journal, COUNT);
        agrees(&journal);
    }
}

/// A page in the middle is not what it was: the reader scans, says so once, and the next start makes the index anew.
#[test]
fn a_damaged_one_is_told_and_scanned() {
    let home = tempfile::tempdir().unwrap();
    indexed(home.path()).close();
    let file = home.path().join("index.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let meta = bytes.len().min(4096 * 2);
    bytes[meta..].fill(0xff);
    std::fs::write(&file, bytes).unwrap();
    let journal = open(home.path());
    let began = Instant::now();
    let told = loop {
        for filter in filters() {
            assert_eq!(places(&journal, &filter), places(&journal, &Filter { scans: true, ..filter.clone() }), "{filter:?}");
        }
        if let Some(told) = journal.take_index_trouble() {
            break told;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nothing was noticed");
    };
    assert!(told.to_string().contains("the index"), "{told}");
    assert!(journal.take_index_trouble().is_none() && journal.indexed() == 0);
    journal.close();
    let journal = open(home.path());
    caught_up(&journal, COUNT);
    agrees(&journal);
}

#[test]
fn a_small_journal_has_none() {
    let home = tempfile::tempdir().unwrap();
    let journal = open(home.path());
    drop(journal.append(vec![crate::draft(0)]));
    journal.barrier().wait().unwrap();
    assert_eq!((journal.indexed(), home.path().join("index.db").exists()), (0, false));
    assert_eq!(places(&journal, &Filter { pid: Some(0), ..Filter::default() }), [0]);
}
