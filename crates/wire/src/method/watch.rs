//! Looking on: what a worker, a task or everybody does, as it is recorded.
//!
//! While `proc.watch` runs the kernel sends the recent past as `journal.record`, then [`LIVE`], then records as they become durable. Who
//! watches sends [`BEAT`] at least every [`BEAT_MS`]; one that is silent for a minute is dropped, and told so by the answer.

use serde::{Deserialize, Serialize};
use world::TaskId;

/// From the kernel: the past is told.
pub const LIVE: &str = "watch.live";
/// From the client: it is still there.
pub const BEAT: &str = "watch.beat";
/// How often a client says so.
pub const BEAT_MS: u64 = 30_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcWatchParams {
    /// The worker, as `[role][.n][@brain]`, with `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// A folder inside the worker's zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// One task alone; its worker is watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// What is known already: the past is not told, and the rest begins behind this record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<u64>,
    /// Records of the past that are told.
    #[serde(default)]
    pub past: u64,
}
