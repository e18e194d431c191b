//! What a process tells those above it, and what it asks of them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use world::{Pid, Severity};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EscalationRaiseParams {
    pub issue: String,
    #[serde(default)]
    pub severity: Severity,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, String>,
    /// Whoever cannot deal with it passes it on without being asked.
    #[serde(default)]
    pub auto: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscalationRaiseResult {
    /// Who dealt with it, or has it now.
    pub handled_by: Pid,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub response: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceUsageParams {
    /// Whose; the caller's own without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<Pid>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceUsageResult {
    pub tokens_used: u64,
    /// `None` is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_left: Option<u64>,
    pub children: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children_max: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_permille: Option<u32>,
    pub up_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceRequestParams {
    /// Such as `tokens`.
    pub what: String,
    pub amount: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceRequestResult {
    pub granted: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogWriteParams {
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricReportParams {
    pub name: String,
    pub value: f64,
}
