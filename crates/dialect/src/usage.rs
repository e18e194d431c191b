//! The tokens that one request used.

use crate::service_mode::ServiceMode;
use serde::{Deserialize, Serialize};

/// Who counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageSource {
    /// The provider's own usage fields.
    Reported,
    /// Nobody but us: the answer carried no usage.
    #[default]
    Estimated,
}

/// Tokens of one request. `input` is what was neither read from nor written to a cache; `output` includes `reasoning`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    /// The part of `cache_write` that is kept for an hour and costs more.
    #[serde(default)]
    pub cache_write_1h: u64,
    pub reasoning: u64,
    /// Searches that the provider made and charges for one by one.
    #[serde(default)]
    pub searches: u64,
    #[serde(default)]
    pub mode: ServiceMode,
    pub source: UsageSource,
}
