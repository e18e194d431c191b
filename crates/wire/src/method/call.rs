//! Tools, and calls of the operator's own.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use world::{CallId, Refusal, TaskId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallCancelParams {
    pub call: CallId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolListResult {
    pub tools: Vec<ToolView>,
    /// Manifests that were found and cannot be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<ToolLeftOut>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolLeftOut {
    pub file: String,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolView {
    pub name: String,
    pub description: String,
    pub read_only: bool,
    /// Does it run in a sandbox?
    pub room: bool,
    pub input_schema: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallRunParams {
    pub tool: String,
    pub input: Value,
    /// A folder inside the zone.
    pub path: String,
    /// In the workspace of this task; in a new one without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// `live` without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<CallMode>,
    /// A capability token of the process at this end of the socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// What a call does with its tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallMode {
    /// Runs it.
    #[default]
    #[serde(alias = "real")]
    Live,
    /// Says what it would do.
    DryRun,
    /// Gives the example of its manifest.
    Mock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallDecision {
    Allowed,
    Refused,
    /// A person must answer first; the refusal names the review.
    Pending,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRunResult {
    /// `None` for a question: the call exists once it is answered and asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    pub decision: CallDecision,
    /// Rules that decided, by name.
    pub rules: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// Did the tool do what was asked? False for everything but an allowed call that worked.
    pub ok: bool,
    /// The tool's answer; `null` when it did not run.
    #[serde(default)]
    pub output: Value,
    pub gate_us: u64,
    pub run_us: u64,
    pub total_us: u64,
    /// Where its writes are kept until they are merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// What was dropped of its writes, as it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<DroppedPaths>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedPaths {
    pub count: u64,
    /// The first [`DROPPED_MAX`] of them.
    pub paths: Vec<String>,
}

/// Nobody reads more of what is gone.
pub const DROPPED_MAX: usize = 100;
