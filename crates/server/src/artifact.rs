//! What a task was asked for at its end, and what its project's roles know.

use crate::rpc_error::{fault_error, rpc_error};
use crate::view;
use kernel::{Kernel, SkillWork};
use std::collections::BTreeMap;
use std::path::Path;
use wire::RpcError;
use wire::method::skill::{SkillListResult, SkillView};
use wire::method::task::{TaskUsageView, TaskView};
use world::{Artifact, Task, TaskId};

/// Artifacts by name, a long one as its record has it. Where there are any, what the task used stands beside them.
pub(crate) fn kept(task: &Task, usage: Option<&TaskUsageView>) -> BTreeMap<String, String> {
    let text = |(name, artifact): (&String, &Artifact)| match artifact {
        Artifact::Kept { text, .. } => Some((name.clone(), text.clone())),
        Artifact::Failed { .. } => None,
    };
    let mut kept: BTreeMap<String, String> = task.artifacts.iter().filter_map(text).collect();
    if let (Some(usage), false) = (usage, task.artifacts.is_empty()) {
        kept.insert("tokens".to_owned(), usage.figures.tokens().to_string());
        // What no price is known for has none.
        if usage.figures.unpriced == 0 {
            let micros = usage.figures.micros;
            kept.insert("cost".to_owned(), format!("${}.{:06}", micros / 1_000_000, micros % 1_000_000));
        }
    }
    kept
}

pub(crate) fn failed(task: &Task) -> BTreeMap<String, String> {
    let reason = |(name, artifact): (&String, &Artifact)| match artifact {
        Artifact::Failed { reason } => Some((name.clone(), reason.clone())),
        Artifact::Kept { .. } => None,
    };
    task.artifacts.iter().filter_map(reason).collect()
}

/// One task, with its artifacts whole.
pub(crate) fn whole_task(kernel: &Kernel, id: TaskId) -> Result<TaskView, RpcError> {
    let mut view = view::task(kernel, id)?;
    let task = kernel.ledger.task(id).map_err(rpc_error)?;
    for (name, artifact) in &task.artifacts {
        if let Artifact::Kept { blob: Some(blob), .. } = artifact
            && let Some(bytes) = kernel.ledger.blob_if_kept(blob).map_err(fault_error)?
        {
            view.artifacts.insert(name.clone(), String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    Ok(view)
}

/// The skills that the roles of the project at `path` know, as its trusted files have them.
pub(crate) async fn skills(kernel: &Kernel, path: &str) -> Result<SkillListResult, RpcError> {
    let top = kernel::locate(Path::new(path)).await.map_err(rpc_error)?;
    let zone = kernel.gate.policies.zone(&top).map_err(rpc_error)?.id;
    let trusted = kernel.gate.policies.in_force(zone).map_err(rpc_error)?;
    let view = |known: &kernel::KnownSkill<'_>| SkillView {
        skill: known.skill.name.clone(),
        role: known.role.map(str::to_owned),
        kind: if matches!(known.skill.work, SkillWork::Command(_)) { "command" } else { "prompt" }.to_owned(),
        about: known.skill.about.clone(),
        takes: known.skill.takes(),
    };
    let roles = trusted.role_names().into_iter().map(str::to_owned).collect();
    Ok(SkillListResult { skills: trusted.skills().iter().map(view).collect(), roles })
}
