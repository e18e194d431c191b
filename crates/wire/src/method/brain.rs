//! Brains: which there are, and what keeps one from working.

use serde::{Deserialize, Serialize};
use world::BrainReport;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BrainListParams {
    /// A folder of the project whose own names for brains count too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Only this one, by any name that a task could give it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brain: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrainListResult {
    pub brains: Vec<BrainReport>,
}
