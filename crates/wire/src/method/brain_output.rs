//! What came of one prompt, in the shape that seed 001 gives a brain's output. Figures are of that prompt alone.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrainOutputView {
    /// What the brain answered, or why there is no answer; `None` while it works.
    pub output: Option<String>,
    pub metrics: OutputMetrics,
    /// The stretch of work that it was in last.
    pub episode: String,
    /// The conversation that a next prompt goes on with; `None` where the brain has none.
    pub series: Option<String>,
    /// The brain can go on with no conversation: whatever it is given next, it begins anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starts_afresh: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputMetrics {
    pub size: OutputSize,
    pub cost: OutputCost,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputSize {
    pub tokens: SizeCounts,
    /// Of the prompt and of the answer. No provider counts a cache in characters.
    pub chars: SizeCounts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeCounts {
    pub input: u64,
    pub output: u64,
    pub cache: CacheCounts,
}

/// Read from a cache, and written to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheCounts {
    pub get: u64,
    pub set: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputCost {
    /// How long it was worked on, by ISO 8601: `PT1M4.5S`.
    pub time: String,
    /// `None` where the price of any of its requests is not known.
    pub cash: Option<OutputCash>,
}

/// Money as text: `$0.042`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputCash {
    pub total: String,
    /// `None` where the record does not tell the parts apart.
    pub deets: Option<CashDetails>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CashDetails {
    pub input: String,
    pub output: String,
    pub cache: String,
}
