//! Models: the gateway, budgets, and who used what.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use world::{Account, Budget, By, Pid, Remedy, Spend, UsageTotals};

/// From the kernel to whoever holds the gateway open: it is closed, and why.
pub const CLOSED: &str = "model.closed";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayClosedNote {
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayOpenParams {
    pub path: String,
    /// The vendor's client that it is, for a subscription login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<LoginClient>,
    /// An absolute path: the traffic is taken down there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// An absolute path: a cassette answers in place of every provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
    /// With the pauses that were recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timing: bool,
}

/// A vendor's program whose subscription login the gateway can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginClient {
    Claude,
    Codex,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayOpenResult {
    pub pid: Pid,
    /// `http://127.0.0.1:PORT`, without a path.
    pub url: String,
    pub key: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelTryParams {
    /// A tier, an alias or `provider/model`; without it, what the built-in brain would take.
    pub model: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTryResult {
    pub provider: String,
    pub model: String,
    pub answer: String,
    pub ms: u64,
    /// What it used, as it is on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageTotals>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelUsageParams {
    pub by: By,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsageResult {
    pub rows: Vec<UsageRow>,
    pub total: UsageTotals,
    /// When the built-in prices were true.
    pub prices_as_of: String,
    /// Models that were used and whose price nobody knows. What they cost is in no figure.
    #[serde(default)]
    pub unpriced: Vec<String>,
    /// What requests may have cost beyond that, which counts against the caps until it is reconciled or a day has passed.
    #[serde(default)]
    pub held: Spend,
    /// What of the total is only an estimate.
    #[serde(default)]
    pub guessed: Spend,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRow {
    pub name: String,
    #[serde(flatten)]
    pub figures: UsageTotals,
    #[serde(default)]
    pub held: Spend,
    /// What of the figures is only an estimate.
    #[serde(default)]
    pub guessed: Spend,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetListResult {
    pub accounts: Vec<AccountView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountView {
    pub pid: Pid,
    pub name: String,
    #[serde(flatten)]
    pub account: Account,
    /// What of its own spending is only an estimate.
    #[serde(default)]
    pub guessed: Spend,
    /// What of the account's spending, with everything below it, is only an estimate.
    #[serde(default)]
    pub guessed_in_tree: Spend,
    /// What its own requests may have cost beyond that; `held` of the account is with everything below it.
    #[serde(default)]
    pub held_of_its_own: Spend,
    /// Requests that wait at its cap for a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitView>,
}

/// A request that waits for more of a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitView {
    /// Whose request it is, and whose cap.
    pub pid: Pid,
    pub of: Pid,
    /// `money`, `tokens` or `tactical tokens`.
    pub what: String,
    /// What lets it go on.
    pub remedy: Remedy,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetSetParams {
    pub pid: Pid,
    /// `None` takes the budget away.
    #[serde(default)]
    pub budget: Option<Budget>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetGrantParams {
    pub pid: Pid,
    #[serde(default)]
    pub tokens: BTreeMap<String, u64>,
    #[serde(default)]
    pub micros: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tokens_per_day: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tokens_per_hour: BTreeMap<String, u64>,
    #[serde(default)]
    pub micros_per_day: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetReconcileParams {
    pub pid: Pid,
    /// What tiers that are absent have used stays an estimate.
    #[serde(default)]
    pub tokens: BTreeMap<String, u64>,
    #[serde(default)]
    pub micros: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CassetteListParams {
    /// Only this one, by task, process or absolute path; all that the kernel keeps without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CassetteListResult {
    pub cassettes: Vec<CassetteEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CassetteEntry {
    /// `task-3`, `process-7`, or a path.
    pub name: String,
    pub path: String,
    pub bytes: u64,
    pub exchanges: Vec<ExchangeEntry>,
    /// Exchanges that a crash cut off.
    pub torn: usize,
    /// Why it can't be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangeEntry {
    pub n: u64,
    pub dialect: String,
    pub path: String,
    pub model: String,
    pub status: u16,
    /// Of the answer, and how long it took.
    pub bytes: u64,
    pub ms: u64,
    pub complete: bool,
}
