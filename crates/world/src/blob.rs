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
            | "blob.forgotten" => true,
            "call.finished" | "brain.talked" | "artifact.kept" => payload.contains("\"blob\":\""),
            "merge.started" => payload.contains("\"snapshot\":\""),
            "task.queued" => payload.contains("\"script:"),
            "merge.tested" => return BlobNames { kept: tested(payload).into_iter().collect(), forgotten: Vec::new() },
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
            "merge.started" => snapshot,
            "task.queued" => brain.as_deref().and_then(BrainSpec::script_blob),
            _ => blob,
        };
        BlobNames { kept: kept.into_iter().collect(), forgotten: Vec::new() }
    }
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
        let is_kept = |task: &&crate::Task| !task.state.ended() && task.kept.as_ref().is_some_and(|kept| kept.blob == name);
        if let Some(task) = self.tasks.values().find(is_kept) {
            return Some(task.id.to_string());
        }
        let unended = self.tasks.values().filter(|task| !task.state.ended());
        let mut needing = unended.filter(|task| {
            let base = task.workspace.as_ref().and_then(|workspace| workspace.base.as_ref());
            BrainSpec::script_blob(&task.brain).as_deref() == Some(name)
                || base.is_some_and(|base| base.blob == name)
                || task.memory.iter().any(|blob| blob == name)
        });
        needing.next().map(|task| task.id.to_string())
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
        assert_eq!(kept("work.kept", r#"{"blob":"aa","files":1,"bytes":3}"#), ["aa"]);
        assert_eq!(kept("brain.said", r#"{"blob":"aa"}"#), [""; 0]);
        assert_eq!(BlobNames::of("blob.forgotten", r#"{"blobs":["aa","bb"]}"#).forgotten, ["aa", "bb"]);
        assert_eq!(kept("policy.updated", "not json"), [""; 0]);
    }
}
