//! What came of each prompt that a task was given: the answer, and what it took. Seed 001 calls this BrainOutput.
//!
//! Folded from the task's records each time somebody asks. **Invariant.** Figures are of one prompt alone and never add up over several;
//! what nobody knows is none and not zero.

use brain::BrainSpec;
use brain::agent::series_in;
use journal::Filter;
use ledger::{Ledger, event_of};
use world::{CostParts, Event, Pid, Stop, Task, TaskId, UsageTotals};

/// Records that it is made from.
const KINDS: [&str; 10] = [
    "task.queued",
    "task.continued",
    "task.started",
    "task.parked",
    "task.finished",
    "task.failed",
    "task.stopped",
    "task.cancelled",
    "model.used",
    "brain.remembered",
];

/// One prompt, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrainOutput {
    pub prompt: String,
    /// What the brain said at the end, or why there was none; `None` before.
    pub output: Option<String>,
    pub figures: UsageTotals,
    /// What of the cost is which; `None` where a record does not say.
    pub parts: Option<CostParts>,
    /// How long it was worked on; waiting for a person does not count.
    pub time_ms: u64,
    /// The stretch of work that it was in last.
    pub episode: u32,
    /// The conversation that a next prompt goes on with.
    pub series: Option<String>,
    /// It kept that there is none to go on with.
    pub starts_afresh: bool,
    /// The blob of its brain's last checkpoint.
    pub memory: Option<String>,
}

/// What came of each prompt of a task, in their order.
pub fn brain_outputs(ledger: &Ledger, id: TaskId, now_ms: i64) -> Result<Vec<BrainOutput>, Stop> {
    let kinds = KINDS.map(str::to_owned).to_vec();
    let records = ledger.read(&Filter { task: Some(id.to_string()), kinds, ..Filter::default() })?;
    let mut fold = OutputFold::default();
    for record in &records {
        fold.add(record.at_ms, event_of(record)?);
    }
    let mut outputs = fold.end(now_ms);
    for output in &mut outputs {
        let checkpoint = output.memory.as_deref().map(|blob| ledger.blob_if_kept(blob)).transpose()?.flatten();
        // The built-in brain's own are none of these.
        let Some(Ok(series)) = checkpoint.map(|bytes| series_in(&bytes)) else { continue };
        (output.starts_afresh, output.series) = (series.is_none(), series);
    }
    Ok(outputs)
}

/// Has the brain that a worker had last kept that there is no conversation to go on with?
pub fn starts_afresh(ledger: &Ledger, pid: Pid) -> Result<bool, Stop> {
    let last = ledger.look(|world| {
        let is_client = |task: &&Task| matches!(BrainSpec::parse(&task.brain), Ok(BrainSpec::Vendor { .. } | BrainSpec::Acp(_)));
        let own = world.tasks.values().filter(|task| task.pid == pid && !task.memory.is_empty());
        own.max_by_key(|task| task.id).filter(is_client).and_then(|task| task.memory.last().cloned())
    });
    let checkpoint = last.map(|blob| ledger.blob_if_kept(&blob)).transpose()?.flatten();
    Ok(checkpoint.is_some_and(|bytes| series_in(&bytes) == Ok(None)))
}

#[derive(Default)]
struct OutputFold {
    outputs: Vec<BrainOutput>,
    /// Since when it is worked on, and when anything was last heard of it.
    running_ms: Option<i64>,
    heard_ms: i64,
}

impl OutputFold {
    fn add(&mut self, at_ms: i64, event: Event) {
        match event {
            Event::TaskQueued(e) => self.begin(e.prompt),
            // Without a word of its own it goes on with the last.
            Event::TaskContinued(e) => e.prompt.into_iter().for_each(|prompt| self.begin(prompt)),
            Event::TaskStarted(e) => {
                // Where a crash left no end, what was heard last is the end.
                self.stop(self.heard_ms);
                self.running_ms = Some(at_ms);
                self.last(|output| output.episode = e.episode);
            }
            Event::TaskParked(_) => self.stop(at_ms),
            Event::TaskFinished(e) => self.answer(at_ms, e.summary),
            Event::TaskFailed(e) => self.answer(at_ms, e.reason),
            Event::TaskStopped(e) => self.answer(at_ms, e.reason),
            Event::TaskCancelled(e) => self.answer(at_ms, format!("cancelled by {}", e.by)),
            Event::BrainRemembered(e) => self.last(|output| output.memory = Some(e.blob)),
            Event::ModelUsed(e) => self.last(|output| {
                let before = (output.figures.requests > 0).then_some(output.parts);
                output.parts = match (before, e.parts) {
                    (None, parts) => parts,
                    (Some(Some(sum)), Some(parts)) => Some(sum.plus(parts)),
                    _ => None,
                };
                output.figures.add(&e.figures);
            }),
            _ => {}
        }
        self.heard_ms = at_ms;
    }

    fn begin(&mut self, prompt: String) {
        let before = self.outputs.last();
        // The conversation goes on, whoever speaks.
        let (episode, memory) = before.map_or((0, None), |before| (before.episode, before.memory.clone()));
        self.outputs.push(BrainOutput { prompt, episode, memory, ..BrainOutput::default() });
    }

    fn last(&mut self, change: impl FnOnce(&mut BrainOutput)) {
        if let Some(output) = self.outputs.last_mut() {
            change(output);
        }
    }

    fn stop(&mut self, at_ms: i64) {
        if let Some(since_ms) = self.running_ms.take() {
            let took = u64::try_from(at_ms.saturating_sub(since_ms)).unwrap_or(0);
            self.last(|output| output.time_ms += took);
        }
    }

    fn answer(&mut self, at_ms: i64, text: String) {
        self.stop(at_ms);
        self.last(|output| output.output = Some(text));
    }

    fn end(mut self, now_ms: i64) -> Vec<BrainOutput> {
        self.stop(now_ms);
        self.outputs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn folded(events: Vec<(i64, &str, Value)>, now_ms: i64) -> Vec<BrainOutput> {
        let mut fold = OutputFold::default();
        for (at_ms, kind, mut payload) in events {
            payload["pid"] = json!(3);
            payload["task"] = json!("task-1");
            fold.add(at_ms, Event::parse(kind, &payload.to_string()).unwrap());
        }
        fold.end(now_ms)
    }

    fn queued(prompt: &str) -> Value {
        json!({"zone": "zone-1", "mode": "act", "prompt": prompt, "brain": "", "priority": 0, "calls_max": null, "original": null})
    }

    fn used(input: u64, parts: Value, unpriced: u64) -> Value {
        let figures = json!({"requests": 1, "input": input, "output": 5, "cache_read": 2, "cache_write": 1, "reasoning": 0, "micros": 70,
            "estimated": 0, "unpriced": unpriced});
        let mut used = json!({"call": "call-1", "provider": "p", "model": "m", "tier": "t", "figures": figures, "charged_tokens": 0,
            "charged_micros": 70, "status": 200, "first_byte_ms": null, "asked": null, "answered": null, "notes": []});
        if !parts.is_null() {
            used["parts"] = parts;
        }
        used
    }

    #[test]
    fn each_prompt_has_figures_of_its_own() {
        let parts = json!({"input": 40, "output": 20, "cache": 10});
        let outputs = folded(
            vec![
                (1_000, "task.queued", queued("add a flag")),
                (2_000, "task.started", json!({"episode": 1})),
                (3_000, "model.used", used(100, parts.clone(), 0)),
                (4_000, "task.parked", json!({"review": "r-1"})),
                // A person thinks for a minute; that is nobody's time.
                (64_000, "task.started", json!({"episode": 2})),
                (65_000, "model.used", used(50, parts.clone(), 0)),
                (65_500, "brain.remembered", json!({"blob": "b1", "anew": true})),
                (66_000, "task.finished", json!({"summary": "added"})),
                (70_000, "task.continued", json!({"by": "operator", "prompt": "and a test"})),
                (71_000, "task.started", json!({"episode": 3})),
                (71_500, "model.used", used(7, Value::Null, 1)),
            ],
            72_000,
        );
        let [first, second] = &outputs[..] else { panic!("{outputs:?}") };
        assert_eq!((first.prompt.as_str(), first.output.as_deref(), first.time_ms, first.episode), ("add a flag", Some("added"), 4_000, 2));
        assert_eq!((first.figures.requests, first.figures.input, first.figures.micros), (2, 150, 140));
        assert_eq!(first.parts, Some(CostParts { input: 80, output: 40, cache: 20 }));
        assert_eq!((second.output.as_deref(), second.time_ms, second.figures.input), (None, 1_000, 7), "it is still worked on");
        assert_eq!((second.parts, second.figures.unpriced, second.memory.as_deref()), (None, 1, Some("b1")), "the conversation goes on");
    }

    #[test]
    fn a_crash_counts_until_anything_was_heard_last() {
        let outputs = folded(
            vec![
                (0, "task.queued", queued("x")),
                (1_000, "task.started", json!({"episode": 1})),
                (3_000, "model.used", used(1, Value::Null, 0)),
                (900_000, "task.started", json!({"episode": 2})),
                (901_000, "task.failed", json!({"reason": "it broke"})),
            ],
            2_000_000,
        );
        assert_eq!((outputs.len(), outputs[0].time_ms, outputs[0].output.as_deref()), (1, 3_000, Some("it broke")));
    }
}
