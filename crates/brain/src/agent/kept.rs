//! What a checkpoint of a vendor's brain holds.

use crate::Checkpoint;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptTurn {
    pub series: Option<String>,
    /// How much of what a person said after the prompt it has heard.
    pub heard: usize,
    /// The last turn has not come to its end.
    pub open: bool,
    /// When it came to its end, by the clock that stamps files.
    #[serde(default)]
    pub over_us: Option<i64>,
    /// The state of the files when the turn began: of the project.
    #[serde(default)]
    pub base: Option<String>,
    /// The same when it was interrupted, with what lies over the project.
    #[serde(default)]
    pub state: Option<String>,
}

/// What a checkpoint says of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptState {
    /// When its last turn was over; `None` where it was interrupted.
    pub over_us: Option<i64>,
    pub base: Option<String>,
    pub state: Option<String>,
}

/// A checkpoint that says nothing: whatever wrote it, it is none of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableCheckpoint(pub String);

impl UnreadableCheckpoint {
    /// What the person is told.
    pub fn notice(&self) -> String {
        format!("(what it kept of its last conversation cannot be read: {}; a new one begins)", self.0)
    }
}

pub(super) fn read(checkpoint: &[u8]) -> Result<KeptTurn, UnreadableCheckpoint> {
    serde_json::from_slice(checkpoint).map_err(|error| UnreadableCheckpoint(error.to_string()))
}

/// What a checkpoint says of the files.
pub fn state_in(checkpoint: &[u8]) -> Option<KeptState> {
    let kept = read(checkpoint).ok()?;
    Some(KeptState { over_us: kept.over_us.filter(|_| !kept.open), base: kept.base, state: kept.state })
}

/// The conversation that a checkpoint names; none where its brain cannot go on with one.
pub fn series_in(checkpoint: &[u8]) -> Result<Option<String>, UnreadableCheckpoint> {
    read(checkpoint).map(|kept| kept.series)
}

/// A checkpoint of a conversation whose last turn is over.
pub fn checkpoint_of(series: &str) -> Option<Checkpoint> {
    let kept = KeptTurn { series: Some(series.to_owned()), ..KeptTurn::default() };
    Some(Checkpoint { replaces_all: true, bytes: serde_json::to_vec(&kept).ok()? })
}
