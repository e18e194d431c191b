//! The journal on a disk that loses power, at every operation in turn.
#![expect(clippy::unwrap_used, reason = "what a test can't do, it fails at")]

use std::path::Path;

use journal::{Class, Draft, Flaw, Journal, Options, verify};
use serde_json::value::RawValue;
use testkit::vfs::{Loss, PowerVfs};

const BATCHES: u64 = 6;

fn draft(n: u64) -> Draft {
    Draft {
        kind: "test.happened",
        session: "s-1".into(),
        pid: None,
        task: None,
        // Large enough that some batches need new pages.
        payload: RawValue::from_string(format!(r#"{{"n":{n},"text":"{}"}}"#, "x".repeat(700))).unwrap(),
        at_ms: 1_794_000_000_000 + n.cast_signed(),
        class: if n.is_multiple_of(3) { Class::Security } else { Class::Fact },
    }
}

/// What a journal is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sync {
    /// That every batch is synced before it is acknowledged.
    Each,
    /// That every second one may be late.
    SomeLate,
    /// Nothing: the control.
    None,
}

/// Appends until done or dark; returns how many records were acknowledged as durable.
fn run(home: &Path, vfs: &PowerVfs, sync: Sync) -> u64 {
    let options = Options { vfs: Some(vfs.name()), unsafe_no_sync: sync == Sync::None, reserve_bytes: 0, ..Options::default() };
    let Ok((journal, _)) = Journal::open(home, options) else { return 0 };
    let mut acked = 0;
    for n in 0..BATCHES {
        let batch = vec![draft(2 * n), draft(2 * n + 1)];
        let is_late = sync == Sync::SomeLate && n % 2 == 0;
        let ticket = match is_late {
            true => journal.append_late(batch.into_iter().map(|draft| Draft { class: Class::Fact, ..draft }).collect()),
            false => journal.append(batch),
        };
        match ticket.wait() {
            Ok(_) if is_late => {}
            Ok(receipt) => acked = receipt.last_seq + 1,
            Err(_) => break,
        }
    }
    journal.close();
    acked
}

struct After {
    acked: u64,
    kept: u64,
    flaws: Vec<Flaw>,
}

/// Cuts the power at the nth operation, starts again on an ordinary disk; `None` when the run ended before.
fn cut_at(nth: u64, loss: Loss, sync: Sync) -> Option<After> {
    let home = tempfile::tempdir().unwrap();
    let vfs = PowerVfs::register(Some(nth));
    let acked = run(home.path(), &vfs, sync);
    if !vfs.is_cut() {
        assert_eq!(acked, 2 * BATCHES, "without a cut all is acknowledged");
        return None;
    }
    vfs.settle(loss).unwrap();
    let (journal, opened) = Journal::open(home.path(), Options { reserve_bytes: 0, ..Options::default() }).unwrap();
    let kept = opened.head.count;
    assert_eq!(journal.append(vec![draft(99)]).wait().unwrap().first_seq, kept, "the journal goes on");
    journal.close();
    let report = verify(home.path()).unwrap();
    let flaws = opened.findings.iter().chain(&report.findings).map(|finding| finding.what).collect();
    Some(After { acked, kept, flaws })
}

/// Every operation in `cargo xtask soak`, every so many in the tests; they start at another one for each kind of loss.
fn stride() -> u64 {
    if std::env::var_os("SKEP_SOAK").is_some() { 1 } else { 7 }
}

#[test]
fn nothing_acknowledged_is_lost_wherever_the_power_goes() {
    nothing_is_lost(Sync::Each);
}

/// Late records may go with the power; what came after them and was acknowledged stands on them, and no seal is ahead of the disk.
#[test]
fn nothing_behind_a_late_record_is_lost() {
    nothing_is_lost(Sync::SomeLate);
}

fn nothing_is_lost(sync: Sync) {
    for (number, loss) in [Loss::All, Loss::Torn(1), Loss::Torn(2)].into_iter().enumerate() {
        let mut nth = number as u64;
        let mut largest = 0;
        loop {
            nth += stride();
            let Some(after) = cut_at(nth, loss, sync) else { break };
            assert_eq!(after.flaws, [], "{loss:?} at operation {nth}");
            assert!(after.kept >= after.acked, "{loss:?} at operation {nth}: {} acknowledged, {} kept", after.acked, after.kept);
            assert!(after.kept.is_multiple_of(2), "half a batch was kept at operation {nth}");
            largest = largest.max(after.acked);
        }
        assert!(nth > 30, "only {nth} operations, so the disk was hardly used");
        assert_eq!(largest, 2 * BATCHES, "some cuts came after the last acknowledgement, in the closing checkpoint");
    }
}

/// The control: a journal that does not sync is caught by the same test.
#[test]
fn a_journal_without_sync_loses_acknowledged_records() {
    let afters: Vec<After> = (1..).step_by(stride() as usize).map_while(|nth| cut_at(nth, Loss::All, Sync::None)).collect();
    assert!(afters.iter().any(|after| after.kept < after.acked), "nothing was lost, so the disk does not lose power");
    assert!(afters.iter().any(|after| !after.flaws.is_empty()), "the seal did not show the loss");
}
