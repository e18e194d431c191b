//! What an event changes, without what it only tells: all that folding the past needs.
//!
//! Most records are calls and words, and most of their bytes say what was asked and answered. **Invariant.** An effect is applied by the code
//! that applies its event, and what is no event has no effect: the same fields are wanted, and no others are taken.

use crate::event::{CallAdmitted, CallFinished};
use crate::{CallId, Deadline, Event, GrantId, Hands, Pid, StepRef, TaskId, TokenId, UsedRoom, World};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// One step of the past.
#[derive(Debug)]
pub enum FoldStep {
    Admitted(AdmissionEffect),
    Finished(EndEffect),
    /// Words of a brain.
    Said,
    /// Every other event.
    Whole(Box<Event>),
}

impl FoldStep {
    /// Reads the effect of an event of this kind off its payload.
    pub fn parse(kind: &str, payload: &str) -> serde_json::Result<FoldStep> {
        match kind {
            "call.admitted" => serde_json::from_str(payload).map(FoldStep::Admitted),
            "call.finished" => serde_json::from_str(payload).map(FoldStep::Finished),
            "brain.said" => serde_json::from_str::<SaidEffect>(payload).map(|_| FoldStep::Said),
            _ => Event::parse(kind, payload).map(FoldStep::from),
        }
    }
}

impl From<Event> for FoldStep {
    fn from(event: Event) -> FoldStep {
        FoldStep::Whole(Box::new(event))
    }
}

impl World {
    /// Folds the effect of an event that happened at `at_ms`, as [`World::apply`] folds the event.
    pub fn fold(&mut self, step: FoldStep, at_ms: i64) {
        match step {
            FoldStep::Whole(event) => return self.apply(&event, at_ms),
            FoldStep::Admitted(admission) => admission.apply(self, at_ms),
            FoldStep::Finished(end) => end.apply(self),
            FoldStep::Said => {}
        }
        self.now_ms = self.now_ms.max(at_ms);
    }
}

/// Of [`CallAdmitted`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionEffect {
    pub(crate) pid: Pid,
    #[serde(default)]
    pub(crate) task: Option<TaskId>,
    pub(crate) call: CallId,
    pub(crate) tool: String,
    pub(crate) bind: String,
    pub(crate) hands: Hands,
    pub(crate) read_only: bool,
    pub(crate) grant: Option<GrantId>,
    pub(crate) token: Option<TokenId>,
    pub(crate) of: Option<CallId>,
    pub(crate) up: Option<Deadline>,
    #[serde(default)]
    pub(crate) rooms: Option<Vec<UsedRoom>>,
    #[serde(default)]
    pub(crate) step: Option<StepRef>,
    #[serde(rename = "input")]
    _input: IgnoredAny,
    #[serde(rename = "digest")]
    _digest: IgnoredAny,
    #[serde(rename = "rules")]
    _rules: IgnoredAny,
    #[serde(rename = "paths")]
    _paths: IgnoredAny,
    #[serde(default, rename = "size")]
    _size: IgnoredAny,
    #[serde(default, rename = "run_mode")]
    _run_mode: IgnoredAny,
    #[serde(default, rename = "workflow")]
    _workflow: IgnoredAny,
}

impl From<&CallAdmitted> for AdmissionEffect {
    fn from(event: &CallAdmitted) -> AdmissionEffect {
        AdmissionEffect {
            pid: event.pid,
            task: event.task,
            call: event.call,
            tool: event.tool.clone(),
            bind: event.bind.clone(),
            hands: event.hands,
            read_only: event.read_only,
            grant: event.grant,
            token: event.token,
            of: event.of,
            up: event.up.clone(),
            rooms: event.rooms.clone(),
            step: event.step.clone(),
            _input: IgnoredAny,
            _digest: IgnoredAny,
            _rules: IgnoredAny,
            _paths: IgnoredAny,
            _size: IgnoredAny,
            _run_mode: IgnoredAny,
            _workflow: IgnoredAny,
        }
    }
}

/// Of [`CallFinished`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndEffect {
    pub(crate) pid: Pid,
    #[serde(default)]
    pub(crate) task: Option<TaskId>,
    pub(crate) call: CallId,
    pub(crate) blob_bytes: u64,
    #[serde(rename = "ok")]
    _ok: IgnoredAny,
    #[serde(rename = "output")]
    _output: IgnoredAny,
    #[serde(default, rename = "blob")]
    _blob: IgnoredAny,
    #[serde(rename = "ms")]
    _ms: IgnoredAny,
}

impl From<&CallFinished> for EndEffect {
    fn from(event: &CallFinished) -> EndEffect {
        let CallFinished { pid, task, call, blob_bytes, .. } = *event;
        EndEffect { pid, task, call, blob_bytes, _ok: IgnoredAny, _output: IgnoredAny, _blob: IgnoredAny, _ms: IgnoredAny }
    }
}

/// Of what a brain said.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidEffect {
    #[serde(rename = "pid")]
    _pid: Pid,
    #[serde(default, rename = "task")]
    _task: Option<TaskId>,
    #[serde(rename = "text")]
    _text: IgnoredAny,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn past() -> Vec<(&'static str, Value)> {
        let admitted = |call: &str, more: Value| {
            let mut event = json!({"pid": 3, "task": "task-1", "call": call, "tool": "fs.write", "input": {"path": "a", "x": [1, {"y": null}]}, "digest": "d",
                "bind": format!("bind of {call}"), "hands": "kernel", "read_only": false, "rules": ["r"], "grant": null, "token": null, "paths": ["a"],
                "size": 4, "of": null, "up": null, "rooms": [{"template": "default", "network": "none"}]});
            for (key, value) in more.as_object().unwrap() {
                event[key] = value.clone();
            }
            ("call.admitted", event)
        };
        let finished = |call: &str, bytes: u64| {
            let end = json!({"pid": 3, "task": "task-1", "call": call, "ok": true, "output": {"content": "text"}, "blob": null, "blob_bytes": bytes, "ms": 2});
            ("call.finished", end)
        };
        vec![
            ("proc.spawned", json!({"pid": 1, "parent": null, "name": "kernel", "role": "kernel", "zone": null, "user": "u"})),
            ("proc.spawned", json!({"pid": 3, "parent": 1, "name": "worker.1", "role": "foreman", "zone": "zone-1", "user": "u"})),
            ("proc.spawned", json!({"pid": 4, "parent": 3, "name": "job.1", "role": "job", "zone": "zone-1", "user": "u"})),
            (
                "task.queued",
                json!({"pid": 3, "task": "task-1", "zone": "zone-1", "mode": "act", "prompt": "", "brain": "", "priority": 0, "calls_max": 9, "original": null}),
            ),
            (
                "grant.given",
                json!({"pid": 3, "grant": "g-1", "scope": {"of": "process", "pid": 3}, "what": {"is": "exact", "tool": "fs.write", "bind": "b"},
                    "terms": {"uses_left": 2}, "review": null, "by": "operator"}),
            ),
            admitted("call-1", json!({})),
            ("brain.said", json!({"pid": 3, "task": "task-1", "text": "words"})),
            admitted(
                "call-2",
                json!({"pid": 4, "of": "call-1", "run_mode": "dry_run", "size": null, "workflow": {"mode": "strict", "state": "planning"}}),
            ),
            admitted("call-3", json!({"grant": "g-1", "up": {"boot": "b", "boottime_ms": 5}, "hands": "caller", "read_only": true})),
            finished("call-2", 0),
            finished("call-1", 70),
            admitted("call-4", json!({"task": null})),
        ]
    }

    #[test]
    fn effects_fold_to_the_same_world_as_their_events() {
        let (mut by_events, mut by_effects) = (World::default(), World::default());
        for (at_ms, (kind, payload)) in (1_000..).zip(past()) {
            let text = payload.to_string();
            by_events.apply(&Event::parse(kind, &text).unwrap(), at_ms);
            by_effects.fold(FoldStep::parse(kind, &text).unwrap(), at_ms);
            assert_eq!(by_effects, by_events, "{text}");
        }
        assert_eq!((by_events.calls.len(), by_events.now_ms), (2, 1_011), "control: something happened");
    }

    #[test]
    fn what_is_no_event_has_no_effect() {
        for (kind, payload) in past() {
            assert!(FoldStep::parse(kind, &payload.to_string()).is_ok(), "control: {payload}");
            let mut more = payload.clone();
            more["unknown"] = json!(1);
            assert!(Event::parse(kind, &more.to_string()).is_err() && FoldStep::parse(kind, &more.to_string()).is_err(), "{more}");
            for key in payload.as_object().unwrap().keys() {
                let mut less = payload.clone();
                less.as_object_mut().unwrap().remove(key);
                let text = less.to_string();
                assert_eq!(FoldStep::parse(kind, &text).is_ok(), Event::parse(kind, &text).is_ok(), "without {key}: {text}");
            }
        }
        assert!(FoldStep::parse("brain.sang", "{}").is_err());
    }
}
