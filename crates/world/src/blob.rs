//! Which blobs a record names.
//!
//! Read off the stored payload and not off an [`crate::Event`], because verification looks at records that may be no events any more.

use crate::{BrainSpec, MergeState, World};
use serde::Deserialize;

/// What a record says about blobs, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobNames {
    /// Blobs that must be there, unless they were forgotten.
    pub kept: Vec<String>,
    /// Blobs that nobody can read from here on.
    pub forgotten: Vec<String>,
}

/// The fields of any record that name blobs.
#[derive(Deserialize)]
struct Fields {
    #[serde(default)]
    blob: Option<String>,
    #[serde(default)]
    frozen: Option<String>,
    #[serde(default)]
    snapshot: Option<String>,
    #[serde(default)]
    brain: Option<String>,
    #[serde(default)]
    blobs: Vec<String>,
}

impl BlobNames {
    fn kept(blob: Option<String>) -> BlobNames {
        BlobNames { kept: blob.into_iter().collect(), forgotten: Vec::new() }
    }

    /// The blobs that a record of this kind names with this payload.
    pub fn of(kind: &str, payload: &str) -> BlobNames {
        let names_some = match kind {
            "policy.updated"
            | "policy.home_updated"
            | "workspace.based"
            | "work.kept"
            | "brain.remembered"
            | "brain.transcribed"
            | "merge.proposed"
            | "proc.snapshotted"
            | "artifact.stored"
            | "plan.received"
            | "plan.accepted"
            | "context.summarized"
            | "blob.forgotten" => true,
            "call.finished" | "planner.requested" | "brain.talked" | "artifact.kept" | "message.sent" => payload.contains("\"blob\":\""),
            "task.finished" | "task.failed" if payload.contains("\"blob\":\"") => return BlobNames::kept(result(payload)),
            "task.queued" if payload.contains("\"order\":") => return BlobNames::kept(context(payload)),
            "proc.exited" if payload.contains("\"blob\":\"") => return BlobNames::kept(partial(payload)),
            "merge.started" | "workflow.entered" => payload.contains("\"snapshot\":\""),
            "task.queued" => payload.contains("\"script:"),
            "step.finished" if payload.contains("\"kept\":") => return BlobNames::kept(increment(payload)),
            "merge.tested" => return BlobNames::kept(tested(payload)),
            "tests.ran" => return BlobNames { kept: ran(payload), forgotten: Vec::new() },
            "coverage.judged" => return BlobNames { kept: judged(payload), forgotten: Vec::new() },
            _ => false,
        };
        let fields = if names_some { serde_json::from_str::<Fields>(payload).ok() } else { None };
        let Some(Fields { blob, frozen, snapshot, brain, blobs }) = fields else { return BlobNames::default() };
        if kind == "blob.forgotten" {
            return BlobNames { kept: Vec::new(), forgotten: blobs };
        }
        // A field of this name in another kind of record is something else.
        let kept = match kind {
            "merge.proposed" => frozen,
            "merge.started" | "workflow.entered" => snapshot,
            "task.queued" => brain.as_deref().and_then(BrainSpec::script_blob),
            _ => blob,
        };
        BlobNames { kept: kept.into_iter().collect(), forgotten: Vec::new() }
    }
}

/// The whole output of a task of the tree.
fn result(payload: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Ended {
        result: Option<crate::ExecuteResult>,
    }
    serde_json::from_str::<Ended>(payload).ok()?.result?.blob
}

/// What was kept of a session's workspace at the end of a step.
fn increment(payload: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Ended {
        kept: Option<crate::StepIncrement>,
    }
    serde_json::from_str::<Ended>(payload).ok()?.kept.map(|kept| kept.blob)
}

/// The same of one that was cut short by the end of its process.
fn partial(payload: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Exited {
        exit: Option<crate::ProcessExit>,
    }
    serde_json::from_str::<Exited>(payload).ok()?.exit?.partial?.blob
}

/// What such a task is to know.
fn context(payload: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Queued {
        order: Option<crate::ExecuteOrder>,
    }
    serde_json::from_str::<Queued>(payload).ok()?.order?.context
}

/// What the runner wrote, and what was read of it.
fn ran(payload: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Ran {
        run: crate::TestEvidence,
    }
    serde_json::from_str::<Ran>(payload).map(|ran| ran.run.blobs().map(str::to_owned).collect()).unwrap_or_default()
}

/// The files of what was measured, and those of the baseline.
fn judged(payload: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Judged {
        now: crate::MeasuredCoverage,
        baseline_files: String,
    }
    serde_json::from_str::<Judged>(payload).map(|judged| vec![judged.now.files, judged.baseline_files]).unwrap_or_default()
}

/// The blob with the output of a merge's tests; in other records `output` is no name.
fn tested(payload: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Tested {
        output: String,
    }
    serde_json::from_str::<Tested>(payload).ok().map(|tested| tested.output)
}

impl World {
    /// Who cannot go on without this blob: the policy in force, or a task or merge that has not ended.
    pub fn needs_blob(&self, name: &str) -> Option<String> {
        if let Some(zone) = self.zones.values().find(|zone| zone.policy.as_deref() == Some(name)) {
            return Some(format!("the policy of {}", zone.id));
        }
        let is_measured = |zone: &&crate::Zone| zone.coverage.as_ref().is_some_and(|coverage| coverage.blobs().any(|blob| blob == name));
        if let Some(zone) = self.zones.values().find(is_measured) {
            return Some(format!("the coverage of {}", zone.id));
        }
        if self.home_policy.as_ref().is_some_and(|home| home.blob == name) {
            return Some("the operator's own policy".to_owned());
        }
        let merges =
            self.merges.values().filter(|merge| !matches!(merge.state, MergeState::Applied | MergeState::Undone | MergeState::Rejected));
        for merge in merges {
            if merge.frozen == name || merge.snapshot.as_deref() == Some(name) {
                return Some(merge.task.to_string());
            }
        }
        if let Some((who, _)) = self.tree_blobs().find(|(_, blob)| *blob == name) {
            return Some(who);
        }
        let is_kept = |task: &&crate::Task| !task.state.ended() && task.kept.as_ref().is_some_and(|kept| kept.blob == name);
        if let Some(task) = self.tasks.values().find(is_kept) {
            return Some(task.id.to_string());
        }
        if let Some(artifact) = self.artifacts.values().find(|artifact| artifact.blob == name) {
            return Some(artifact.id.to_string());
        }
        if let Some(message) = self.mail.messages.values().find(|message| message.blob.as_deref() == Some(name)) {
            return Some(message.id.to_string());
        }
        let is_back = |process: &&crate::Process| process.run.as_ref().is_some_and(|run| run.snapshot.as_deref() == Some(name));
        if let Some(process) = self.processes.values().filter(|process| process.state.alive()).find(is_back) {
            return Some(format!("process {}", process.pid));
        }
        let unended = self.tasks.values().filter(|task| !task.state.ended());
        let mut needing = unended.filter(|task| {
            let base = task.workspace.as_ref().and_then(|workspace| workspace.base.as_ref());
            BrainSpec::script_blob(&task.brain).as_deref() == Some(name)
                || base.is_some_and(|base| base.blob == name)
                || task.memory.iter().any(|blob| blob == name)
                || task.session.as_deref().is_some_and(|session| session.blobs().any(|blob| blob == name))
                || task.workflow.as_deref().is_some_and(|workflow| workflow.blobs().any(|blob| blob == name))
                || task.order.as_ref().is_some_and(|order| order.context.as_deref() == Some(name))
        });
        needing.next().map(|task| task.id.to_string())
    }
}

impl World {
    /// What the process tree needs, and who: messages on their way, artifacts, what programs want back, and tasks with what they are to know.
    pub fn tree_blobs(&self) -> impl Iterator<Item = (String, &str)> {
        let messages = self.mail.messages.values().filter_map(|message| Some((message.id.to_string(), message.blob.as_deref()?)));
        let artifacts = self.artifacts.values().map(|artifact| (artifact.id.to_string(), artifact.blob.as_str()));
        let snapshots = self.processes.values().filter_map(|process| {
            let snapshot = process.run.as_ref()?.snapshot.as_deref()?;
            Some((format!("process {}", process.pid), snapshot))
        });
        let tasks = self.tasks.values().filter(|task| !task.state.ended());
        let contexts = tasks.filter_map(|task| Some((task.id.to_string(), task.order.as_ref()?.context.as_deref()?)));
        messages.chain(artifacts).chain(snapshots).chain(contexts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_names_its_own_blobs() {
        let kept = |kind: &str, payload: &str| BlobNames::of(kind, payload).kept;
        assert_eq!(kept("call.finished", r#"{"pid":3,"blob":"aa","output":{"blob":"bb"}}"#), ["aa"]);
        assert_eq!(kept("call.finished", r#"{"pid":3,"blob":null,"output":{"blob":"bb"}}"#), [""; 0]);
        assert_eq!(kept("task.queued", r#"{"brain":"script:aa","prompt":"x"}"#), ["aa"]);
        assert_eq!(kept("task.queued", r#"{"brain":"model:m","prompt":"\"script:"}"#), [""; 0]);
        assert_eq!(kept("merge.proposed", r#"{"frozen":"aa","blob":"bb"}"#), ["aa"]);
        assert_eq!(kept("merge.tested", r#"{"output":"aa","digest":"bb"}"#), ["aa"]);
        assert_eq!(kept("merge.started", r#"{"snapshot":"aa"}"#), ["aa"]);
        assert_eq!(kept("workflow.entered", r#"{"from":"planning","snapshot":"aa"}"#), ["aa"]);
        assert_eq!(kept("work.kept", r#"{"blob":"aa","files":1,"bytes":3}"#), ["aa"]);
        assert_eq!(kept("step.finished", r#"{"plan":1,"step":"a","kept":{"blob":"aa","files":1,"bytes":3}}"#), ["aa"]);
        assert_eq!(kept("message.sent", r#"{"message":"msg-1","blob":"aa"}"#), ["aa"]);
        assert_eq!(kept("message.sent", r#"{"message":"msg-1","bytes":3}"#), [""; 0]);
        assert_eq!(kept("artifact.stored", r#"{"artifact":"art-1","blob":"aa"}"#), ["aa"]);
        assert_eq!(kept("proc.snapshotted", r#"{"blob":"aa","bytes":3}"#), ["aa"]);
        assert_eq!(kept("task.finished", r#"{"summary":"","result":{"exit_code":0,"blob":"aa"}}"#), ["aa"]);
        assert_eq!(kept("task.finished", r#"{"summary":"\"blob\":\"bb"}"#), [""; 0]);
        assert_eq!(kept("proc.exited", r#"{"killed":true,"reason":"","exit":{"partial":{"blob":"aa"}}}"#), ["aa"]);
        assert_eq!(kept("task.queued", r#"{"brain":"","prompt":"x","order":{"by":3,"context":"aa"}}"#), ["aa"]);
        assert_eq!(kept("brain.said", r#"{"blob":"aa"}"#), [""; 0]);
        assert_eq!(BlobNames::of("blob.forgotten", r#"{"blobs":["aa","bb"]}"#).forgotten, ["aa", "bb"]);
        assert_eq!(kept("policy.updated", "not json"), [""; 0]);
    }
}
