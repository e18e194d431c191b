//! What happens at set times.

use serde::{Deserialize, Serialize};
use world::{CronEntry, CronId, CronSpec};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CronAddParams {
    pub spec: CronSpec,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CronAddResult {
    pub cron: CronId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CronIdParams {
    pub cron: CronId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CronListResult {
    pub entries: Vec<CronEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CronNextParams {
    pub expression: String,
    /// By its name; the machine's own without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub timezone: String,
    /// From now on without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<i64>,
    pub count: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CronNextResult {
    pub at_ms: Vec<i64>,
}
