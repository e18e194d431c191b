//! The queue of each worker.

use super::task::TaskView;
use serde::{Deserialize, Serialize};
use world::{Pid, TaskId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueListParams {
    /// A folder inside the zone.
    pub path: String,
    /// `[role][.n][@brain]`; all workers without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueChangeParams {
    /// A folder inside the zone.
    pub path: String,
    /// `[role][.n][@brain]`; the project's own worker without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueRemoveParams {
    /// All of them are queued, or none is taken out.
    pub tasks: Vec<TaskId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerPinParams {
    /// A folder inside the zone.
    pub path: String,
    /// `[role][.n][@brain]`; the project's own worker without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// A text that is to stay in sight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<String>,
    /// The number of one that is given up, from 1 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerPinResult {
    /// What is pinned now, in the order of its numbers.
    pub pins: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueListResult {
    pub branch: String,
    pub queues: Vec<QueueView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueView {
    pub worker: String,
    pub pid: Pid,
    pub paused: bool,
    /// What it works on, then what is queued, first things first.
    pub tasks: Vec<TaskView>,
}
