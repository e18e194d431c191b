//! How many calls of a task had their outcome at some record, as the world counted them then.

use journal::Filter;
use ledger::{Ledger, event_of};
use std::collections::HashSet;
use world::{CallId, Event, Pid, Stop, TaskId};

const KINDS: [&str; 4] = ["call.admitted", "call.finished", "call.refused", "records.dropped"];
/// Records that are read at a time.
const PAGE_RECORDS: u64 = 1_000;

/// Calls of the task's own process up to and with a record: neither parts of a call nor what a person did in the task.
pub fn calls_settled_until(ledger: &Ledger, task: TaskId, until_seq: u64) -> Result<u64, Stop> {
    let mut count = SettledCalls { pid: ledger.task(task)?.pid, settled: 0, parts: HashSet::new() };
    let mut filter = Filter {
        task: Some(task.to_string()),
        kinds: KINDS.map(str::to_owned).to_vec(),
        before_seq: until_seq.checked_add(1),
        limit: Some(PAGE_RECORDS),
        ..Filter::default()
    };
    loop {
        let records = ledger.read(&filter)?;
        for record in &records {
            count.add(event_of(record)?);
        }
        match records.last() {
            Some(last) if records.len() as u64 == PAGE_RECORDS => filter.after_seq = Some(last.seq),
            _ => return Ok(count.settled),
        }
    }
}

struct SettledCalls {
    pid: Pid,
    settled: u64,
    /// Open calls that another call made.
    parts: HashSet<CallId>,
}

impl SettledCalls {
    fn add(&mut self, event: Event) {
        match event {
            Event::CallAdmitted(e) if e.of.is_some() => drop(self.parts.insert(e.call)),
            Event::CallFinished(e) => self.settled += u64::from(!self.parts.remove(&e.call) && e.pid == self.pid),
            Event::CallRefused(e) => self.settled += u64::from(e.of.is_none() && e.pid == self.pid),
            // Refusals that were not written down one by one.
            Event::RecordsDropped(e) if e.kind == "call.refused" && e.pid == self.pid => self.settled += e.count,
            _ => {}
        }
    }
}
