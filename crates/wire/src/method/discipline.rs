//! Test-first: in which mode and state a task is.

use serde::{Deserialize, Serialize};
use world::{Discipline, Exemption, TaskId, TestEvidence, WorkflowState};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisciplineShowParams {
    pub task: TaskId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisciplineSwitchParams {
    pub task: TaskId,
    pub mode: Discipline,
}

/// How a task is held to tests first, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisciplineView {
    pub task: TaskId,
    /// `None` where tests need not come first.
    pub mode: Option<Discipline>,
    pub state: WorkflowState,
    /// What its brain is told of that.
    pub prompt: String,
    pub available_tools: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exemption: Option<Exemption>,
    /// Runs of the tests by the kernel: before the task, with the new tests alone, and with all of its changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<TestEvidence>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub red: Option<TestEvidence>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub green: Option<TestEvidence>,
    /// Paths that were put back at the ends of phases.
    pub put_back: u64,
    /// Some of its work was done when tests did not come first.
    pub unverified: bool,
    /// Why it has this mode, where it was switched just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
