//! What happens at set times.
//!
//! The expression is text here: whoever adds an entry has checked it, and works out when it is due. **Invariant.** When an entry ran last and
//! when it is due next follows from the records, so a restart changes neither.

use crate::{CronId, Pid, Program};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is to happen, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CronSpec {
    pub name: String,
    /// Five or six fields.
    pub expression: String,
    /// Time zone by its name; empty is the machine's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub timezone: String,
    pub action: CronAction,
    /// Whom it concerns: who executes, gets the message, is woken, or is the parent of what is spawned.
    pub target: Pid,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// What is spawned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Box<Program>>,
    pub enabled: bool,
    #[serde(default)]
    pub overlap: OverlapRule,
    #[serde(default)]
    pub missed: MissedRule,
    /// It starts up to so much later than it is due.
    #[serde(default)]
    pub jitter_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CronAction {
    Execute,
    Message,
    Spawn,
    Wake,
}

impl CronAction {
    pub const ALL: [CronAction; 4] = [CronAction::Execute, CronAction::Message, CronAction::Spawn, CronAction::Wake];

    pub fn as_str(self) -> &'static str {
        match self {
            CronAction::Execute => "execute",
            CronAction::Message => "message",
            CronAction::Spawn => "spawn",
            CronAction::Wake => "wake",
        }
    }

    pub fn parse(name: &str) -> Option<CronAction> {
        CronAction::ALL.into_iter().find(|action| action.as_str() == name)
    }
}

/// What happens when it is due while its last run goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverlapRule {
    #[default]
    Skip,
    /// It runs once more when that run is over.
    Queue,
    /// Both run.
    Allow,
}

/// What happens with runs that were due while no kernel ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedRule {
    #[default]
    Skip,
    /// One run for all of them.
    Once,
    /// Each of them, up to a bound.
    All,
}

/// An entry with what became of its runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CronEntry {
    pub id: CronId,
    /// Who added it.
    pub owner: Pid,
    pub spec: CronSpec,
    pub added_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<CronRun>,
    /// Runs that have not ended.
    #[serde(default)]
    pub running: u32,
}

/// Its last run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CronRun {
    pub due_ms: i64,
    pub started_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output: String,
}

impl CronEntry {
    /// Is it due, and may it run now?
    pub fn may_fire(&self, now_ms: i64) -> bool {
        let is_due = self.spec.enabled && self.next_ms.is_some_and(|next| next <= now_ms);
        is_due && (self.running == 0 || self.spec.overlap == OverlapRule::Allow)
    }
}
