//! Records that need no sync of their own: written when their ticket resolves, durable soon after, in order with all others.

use std::time::{Duration, Instant};

use journal::{Filter, Journal};

fn read(journal: &Journal) -> Vec<u64> {
    journal.read(&Filter::default()).unwrap().into_iter().map(|record| record.seq).collect()
}

#[track_caller]
fn becomes_durable(journal: &Journal, count: u64) {
    let began = Instant::now();
    while journal.head().count < count {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", journal.head());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_late_record_is_written_at_once_and_durable_by_itself() {
    let home = tempfile::tempdir().unwrap();
    let (journal, _) = crate::open(home.path());
    let follow = journal.follow();
    let place = journal.append_late(vec![crate::draft(0), crate::draft(1)]).wait().unwrap();
    assert_eq!((place.first_seq, place.last_seq), (0, 1));
    assert_eq!(read(&journal), [0, 1], "readers see it");
    // Nobody appends anything more.
    becomes_durable(&journal, 2);
    while *follow.borrow() < 1 {
        std::thread::sleep(Duration::from_millis(5));
    }
    journal.close();
    let report = journal::verify(home.path()).unwrap();
    assert!(report.is_intact() && report.records == 2, "{report:?}");
}

#[test]
fn a_later_record_or_a_barrier_makes_it_durable() {
    let home = tempfile::tempdir().unwrap();
    let (journal, _) = crate::open(home.path());
    for n in 0..20 {
        let late = journal.append_late(vec![crate::draft(n * 2)]);
        let then =
            if n % 2 == 0 { journal.append(vec![crate::draft(n * 2 + 1)]) } else { journal.append(vec![crate::security(n * 2 + 1)]) };
        then.wait().unwrap();
        assert_eq!(journal.head().count, n * 2 + 2);
        assert_eq!(late.wait().unwrap().last_seq, n * 2);
    }
    journal.append_late(vec![crate::draft(40)]).wait().unwrap();
    journal.barrier().wait().unwrap();
    assert_eq!(journal.head().count, 41, "a barrier stands for all before it");
    journal.close();
    let (journal, opened) = crate::open(home.path());
    assert_eq!((opened.head.count, opened.unsealed, opened.findings.len()), (41, 0, 0));
    journal.close();
}

/// A stop in the middle seals what was late: nothing is doubted at the next start.
#[test]
fn a_close_syncs_and_seals_it() {
    let home = tempfile::tempdir().unwrap();
    let (journal, _) = crate::open(home.path());
    drop(journal.append_late((0..50).map(crate::draft).collect()));
    journal.close();
    let (journal, opened) = crate::open(home.path());
    assert_eq!((opened.head.count, opened.unsealed, opened.findings.len()), (50, 0, 0));
    journal.close();
}

/// Who waits for a late record writes it, and those of others that stand before it; between them others wait for the disk.
#[test]
fn many_write_late_records_in_their_order() {
    const WRITERS: u64 = 8;
    const EACH: u64 = 200;
    let home = tempfile::tempdir().unwrap();
    let (journal, _) = crate::open(home.path());
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let journal = journal.clone();
            scope.spawn(move || {
                let mut last = None;
                for n in 0..EACH {
                    let draft = vec![crate::draft(writer * EACH + n)];
                    let ticket = if (writer + n) % 16 == 0 { journal.append(draft) } else { journal.append_late(draft) };
                    // One that nobody waits for is written all the same.
                    if (writer + n) % 7 == 0 {
                        drop(ticket);
                        continue;
                    }
                    let place = ticket.wait().unwrap();
                    assert!(last < Some(place.first_seq), "{last:?} {place:?}");
                    last = Some(place.first_seq);
                }
            });
        }
    });
    becomes_durable(&journal, WRITERS * EACH);
    assert_eq!(read(&journal), (0..WRITERS * EACH).collect::<Vec<_>>());
    journal.close();
    let report = journal::verify(home.path()).unwrap();
    assert!(report.is_intact() && report.records == WRITERS * EACH, "{report:?}");
}

#[test]
fn a_late_record_that_nobody_waits_for_becomes_durable() {
    let home = tempfile::tempdir().unwrap();
    let (journal, _) = crate::open(home.path());
    drop(journal.append_late(vec![crate::draft(0)]));
    becomes_durable(&journal, 1);
    journal.clone().close();
    assert!(journal.append_late(vec![crate::draft(1)]).wait().is_err() && journal.recover().is_err(), "a closed journal says so");
}

#[test]
#[should_panic(expected = "a security event is never late")]
fn a_security_event_is_never_late() {
    let home = tempfile::tempdir().unwrap();
    let (journal, _) = crate::open(home.path());
    drop(journal.append_late(vec![crate::security(0)]));
}

/// Somebody who appends alone writes the record on its own thread; many at once leave it to the writer's, and nothing is lost in between.
#[test]
fn some_come_alone_and_some_together() {
    const ROUNDS: u64 = 40;
    let home = tempfile::tempdir().unwrap();
    let (journal, _) = crate::open(home.path());
    for round in 0..ROUNDS {
        let first = round * 5;
        assert_eq!(journal.append(vec![crate::draft(first)]).wait().unwrap().last_seq, first);
        assert_eq!(journal.head().count, first + 1, "it is durable when its ticket says so");
        std::thread::scope(|scope| {
            for n in 1..5 {
                let journal = &journal;
                scope.spawn(move || match (round + n) % 3 {
                    // Nobody waits for it: the thread writes it all the same.
                    0 => drop(journal.append(vec![crate::draft(first + n)])),
                    1 => drop(journal.append(vec![crate::security(first + n)]).wait().unwrap()),
                    _ => drop(journal.append_late(vec![crate::draft(first + n)]).wait().unwrap()),
                });
            }
        });
        journal.barrier().wait().unwrap();
        assert_eq!(journal.head().count, first + 5);
    }
    journal.close();
    let report = journal::verify(home.path()).unwrap();
    assert!(report.is_intact() && report.records == ROUNDS * 5, "{report:?}");
}

/// Memory is given back by the thread, with the writer in its hands: who waits for a late record meanwhile finds it taken and is written all the same.
#[test]
fn records_are_written_while_memory_is_given_back() {
    const EACH: u64 = 300;
    let home = tempfile::tempdir().unwrap();
    let (journal, _) = crate::open(home.path());
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
                journal.release_memory();
                std::thread::yield_now();
            }
        });
        for n in 0..EACH {
            let place = journal.append_late(vec![crate::draft(n)]).wait().unwrap();
            assert_eq!(place.last_seq, n);
        }
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    assert_eq!(read(&journal).len() as u64, EACH);
    let other = journal.clone();
    journal.close();
    // Nobody takes orders any more.
    other.release_memory();
    let report = journal::verify(home.path()).unwrap();
    assert!(report.is_intact() && report.records == EACH, "{report:?}");
}
