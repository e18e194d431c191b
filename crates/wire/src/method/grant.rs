//! Grants, bans and tokens.

use super::call::CallRunResult;
use serde::{Deserialize, Serialize};
use world::{Alternative, BanId, CallPattern, GrantId, Pid, ReviewId, Scope, TaskId, Terms, TokenId};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrantListResult {
    pub grants: Vec<GrantView>,
    pub bans: Vec<BanView>,
    pub tokens: Vec<TokenView>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrantView {
    pub grant: GrantId,
    pub pid: Pid,
    pub process: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    pub scope: Scope,
    pub what: CallPattern,
    pub terms: Terms,
    /// Can it be used now?
    pub live: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BanView {
    pub ban: BanId,
    pub pid: Pid,
    pub process: String,
    pub scope: Scope,
    pub what: CallPattern,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternative: Option<Alternative>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenView {
    pub token: TokenId,
    pub pid: Pid,
    pub ops_left: u32,
    pub live: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantRevokeParams {
    pub id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenIssueParams {
    /// A folder inside the zone.
    pub path: String,
    /// The syscall it is for: exact, `fs.*` or `*`.
    pub tool: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ops: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenIssueResult {
    /// The token, when one was issued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// How the call went.
    pub call: CallRunResult,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewId>,
}
