//! How much each process writes: what is too much is counted instead of recorded.
//!
//! Lost with the kernel, like the limits' windows. **Invariant.** What a count stands for counts against the task's calls before the
//! task could make one more than it may.

use std::collections::HashMap;
use world::event::{CallRefused, RecordsDropped};
use world::{Event, Pid, TaskId, Weight, World, limits};

/// Kind of the count of refused connections, which are parts of a call and no calls of the task.
const PARTS: &str = "call.refused of a call";

#[derive(Default)]
pub(crate) struct Volume {
    of: HashMap<Pid, Written>,
}

/// What one process wrote in the present windows.
#[derive(Default)]
struct Written {
    progress_ms: i64,
    progress: u64,
    progress_dropped: u64,
    window_ms: i64,
    records: u64,
    refusals: u64,
    /// The refusal made last.
    last: Option<String>,
    /// Refusals that have no record, by task: its own, and those of parts of its calls.
    dropped: Vec<(Option<TaskId>, bool, u64)>,
}

/// What becomes of an event.
pub(crate) struct Counted {
    /// Counts that go in before it.
    pub due: Vec<Event>,
    pub is_dropped: bool,
}

/// Whether a commit has to wait while the disk is full: what brains do, unless it must not be lost or the operator ends it.
pub(crate) fn must_all_wait(events: &[Event]) -> bool {
    events.iter().any(must_wait) && !events.iter().any(|event| matches!(event, Event::TaskCancelled(_)))
}

/// Whether one event has to. Ends of work are few and small, and give space back.
pub(crate) fn must_wait(event: &Event) -> bool {
    let is_end = matches!(
        event,
        Event::TaskCancelled(_)
            | Event::TaskFailed(_)
            | Event::TaskStopped(_)
            | Event::TaskFinished(_)
            | Event::WorkKept(_)
            | Event::WorkspaceClosed(_)
            | Event::ProcExited(_)
    );
    !is_end && event.weight() != Weight::Security && event.pid() != Pid::OPERATOR && event.pid() != Pid::KERNEL
}

impl Volume {
    pub fn admit(&mut self, world: &World, event: &Event, now_ms: i64) -> Counted {
        let pid = event.pid();
        let written = self.of.entry(pid).or_default();
        written.turn(now_ms);
        let Event::CallRefused(refused) = event else {
            // What others send is not the receiver's flood, and an accepted plan has its own limits.
            let is_others = matches!(event, Event::MessageDelivered(_) | Event::MessageAnswered(_));
            written.records += u64::from(!is_others && !is_of_step(world, event));
            // What is said between two refusals does not part them, nor does the base, which is recorded whenever it is found.
            if event.weight() == Weight::Progress || matches!(event, Event::WorkspaceBased(_)) {
                return Counted { due: Vec::new(), is_dropped: false };
            }
            let due = written.owed(pid);
            written.last = None;
            return Counted { due, is_dropped: false };
        };
        let key = refusal_key(refused);
        let is_repeated = refused.of.is_none() && written.last.as_ref() == Some(&key);
        // The operator's own are few, and their own to read.
        let is_flood = written.refusals >= limits::REFUSALS_BURST_MAX && pid != Pid::OPERATOR;
        if !is_repeated && !is_flood {
            written.refusals += 1;
            written.records += 1;
            let due = written.owed(pid);
            written.last = refused.of.is_none().then_some(key);
            return Counted { due, is_dropped: false };
        }
        let is_part = refused.of.is_some();
        let count = written.count(refused.task, is_part);
        let left = world.calls_left(refused.task).filter(|_| !is_part);
        let due = if left.is_some_and(|left| left > 0 && count >= left) { written.owed(pid) } else { Vec::new() };
        Counted { due, is_dropped: true }
    }

    /// `None` when progress is dropped, else how much was dropped before it.
    pub fn admit_progress(&mut self, pid: Pid, now_ms: i64) -> Option<u64> {
        let written = self.of.entry(pid).or_default();
        if now_ms - written.progress_ms >= limits::PROGRESS_WINDOW_MS {
            written.progress_ms = now_ms;
            written.progress = 0;
        }
        written.progress += 1;
        if written.progress > limits::PROGRESS_BURST_MAX {
            written.progress_dropped += 1;
            return None;
        }
        Some(std::mem::take(&mut written.progress_dropped))
    }

    pub fn take_progress(&mut self, pid: Pid) -> u64 {
        self.of.get_mut(&pid).map_or(0, |written| std::mem::take(&mut written.progress_dropped))
    }

    pub fn is_flooded_by(&self, pid: Pid, now_ms: i64) -> bool {
        let of = self.of.get(&pid).filter(|_| pid != Pid::OPERATOR);
        of.is_some_and(|written| now_ms - written.window_ms < limits::RECORDS_WINDOW_MS && written.records >= limits::RECORDS_BURST_MAX)
    }

    pub fn owed_by_all(&mut self) -> Vec<Event> {
        self.of.iter_mut().flat_map(|(pid, written)| written.owed(*pid)).collect()
    }
}

impl Written {
    fn turn(&mut self, now_ms: i64) {
        if now_ms - self.window_ms >= limits::RECORDS_WINDOW_MS {
            (self.window_ms, self.records, self.refusals) = (now_ms, 0, 0);
        }
    }

    /// Counts one more and says how many there are.
    fn count(&mut self, task: Option<TaskId>, is_part: bool) -> u64 {
        match self.dropped.iter_mut().find(|(of, part, _)| *of == task && *part == is_part) {
            Some((_, _, count)) => {
                *count += 1;
                *count
            }
            None => {
                self.dropped.push((task, is_part, 1));
                1
            }
        }
    }

    fn owed(&mut self, pid: Pid) -> Vec<Event> {
        let counts = std::mem::take(&mut self.dropped).into_iter();
        let kind = |is_part| if is_part { PARTS } else { "call.refused" }.to_owned();
        counts.map(|(task, is_part, count)| RecordsDropped { pid, task, kind: kind(is_part), count }.into()).collect()
    }
}

/// Whether it is about a step of a session, of which there are no more than its terms allow.
fn is_of_step(world: &World, event: &Event) -> bool {
    match event {
        Event::StepStarted(_) | Event::StepFinished(_) => true,
        Event::CallAdmitted(call) => call.step.is_some(),
        Event::CallFinished(end) => world.calls.get(&end.call).is_some_and(|call| call.is_step),
        _ => false,
    }
}

fn refusal_key(refused: &CallRefused) -> String {
    format!("{}|{}|{:?}|{:?}", refused.tool, refused.digest, refused.code, refused.task)
}

#[cfg(test)]
mod tests {
    use super::*;
    use world::event::{BrainSaid, CallFinished, TaskCancelled, WorkspaceClosed};
    use world::{CallId, World};

    fn said(pid: Pid) -> Event {
        BrainSaid { pid, task: None, text: "so".into() }.into()
    }

    #[test]
    fn a_process_is_flooding_after_so_many_records_and_until_its_window_is_over() {
        let (world, mut volume) = (World::default(), Volume::default());
        let (brain, now_ms) = (Pid(7), 1_000_000);
        for pid in [brain, Pid::OPERATOR] {
            for _ in 1..limits::RECORDS_BURST_MAX {
                assert!(!volume.admit(&world, &said(pid), now_ms).is_dropped);
            }
            assert!(!volume.is_flooded_by(pid, now_ms), "one may follow");
            volume.admit(&world, &said(pid), now_ms);
        }
        let last_ms = now_ms + limits::RECORDS_WINDOW_MS - 1;
        assert!(volume.is_flooded_by(brain, now_ms) && volume.is_flooded_by(brain, last_ms));
        assert!(!volume.is_flooded_by(brain, last_ms + 1), "the window is over");
        assert!(!volume.is_flooded_by(Pid::OPERATOR, now_ms) && !volume.is_flooded_by(Pid(8), now_ms), "neither the operator nor another");
    }

    #[test]
    fn ends_of_work_need_no_space_and_the_rest_of_a_brain_does() {
        let (pid, task) = (Pid(7), None);
        let output = serde_json::Value::Null;
        let finished: Event = CallFinished { pid, task, call: CallId(1), ok: false, output, blob: None, blob_bytes: 0, ms: 0 }.into();
        let cancelled: Event = TaskCancelled { pid, task, by: "operator".into() }.into();
        assert!(must_all_wait(&[said(pid)]) && must_all_wait(std::slice::from_ref(&finished)));
        assert!(!must_all_wait(&[said(Pid::OPERATOR)]), "the operator's own");
        assert!(!must_all_wait(&[WorkspaceClosed { pid, task }.into()]) && !must_all_wait(&[finished, cancelled]));
    }
}
