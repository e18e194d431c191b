//! What requests may have cost beyond what is known, held against the caps until somebody knows better or a day has passed.
//!
//! **Invariant.** What is held was reserved before, so no cap is passed by it; and it is released once.

use super::{Accounts, Spend};
use crate::event::ModelReleased;
use crate::{CallId, Event, Pid, TaskId, World};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why a request came to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The answer was passed on to its end, or refused by its provider.
    Complete,
    /// Whoever asked went away.
    #[default]
    HungUp,
    /// The provider or the way to it failed.
    Broken,
    /// The operator cancelled the work that it was for.
    Cancelled,
    /// The operator stopped the kernel.
    Stopped,
}

impl Ending {
    /// Nobody wanted the rest of the answer: the operator ended it.
    pub fn by_operator(self) -> bool {
        matches!(self, Ending::Cancelled | Ending::Stopped)
    }
}

/// What one request may have cost beyond what is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub pid: Pid,
    pub provider: String,
    pub model: String,
    pub tier: String,
    pub tokens: u64,
    pub micros: u64,
    pub until_ms: i64,
    /// The day of the request, since 1970.
    pub day: i64,
    /// What it was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
}

impl Accounts {
    /// What is held of this process's own requests.
    pub fn held_of(&self, pid: Pid) -> Spend {
        let mut sum = Spend::default();
        self.held.values().filter(|held| held.pid == pid).for_each(|held| sum.add(&held.tier, held.tokens, held.micros));
        sum
    }

    pub(crate) fn hold(&mut self, line: &[Pid], call: CallId, held: Held) {
        if held.tokens == 0 && held.micros == 0 {
            return;
        }
        for pid in line {
            self.accounts.entry(*pid).or_default().held.add(&held.tier, held.tokens, held.micros);
        }
        self.held.insert(call, held);
    }

    /// Gives back so much of what is held for a call.
    pub(crate) fn release(&mut self, line: &[Pid], call: CallId, (tokens, micros): (u64, u64)) {
        let Some(held) = self.held.get_mut(&call) else { return };
        let (tokens, micros) = (tokens.min(held.tokens), micros.min(held.micros));
        held.tokens -= tokens;
        held.micros -= micros;
        for pid in line {
            self.accounts.entry(*pid).or_default().held.take(&held.tier, tokens, micros);
        }
        if held.tokens == 0 && held.micros == 0 {
            self.held.remove(&call);
        }
    }
}

fn released(call: CallId, held: &Held, (tokens, micros): (u64, u64), why: &str) -> Event {
    ModelReleased { pid: held.pid, task: None, call, tokens, micros, why: why.to_owned() }.into()
}

/// Releases everything that was held for long enough.
pub fn expired(world: &World, now_ms: i64) -> Vec<Event> {
    let over = world.books.held.iter().filter(|(_, held)| held.until_ms <= now_ms);
    over.map(|(call, held)| released(*call, held, (held.tokens, held.micros), "nobody reconciled it within a day")).collect()
}

/// When the next one is over.
pub fn next_expiry_ms(world: &World) -> Option<i64> {
    world.books.held.values().map(|held| held.until_ms).min()
}

/// Releases what somebody has read off a bill: tokens of these tiers, and money.
pub fn reconciled(world: &World, pid: Pid, tokens: &BTreeMap<String, u64>, micros: Option<u64>) -> Vec<Event> {
    let own = world.books.held.iter().filter(|(_, held)| held.pid == pid);
    let known = own.map(|(call, held)| {
        let tokens = if tokens.contains_key(&held.tier) { held.tokens } else { 0 };
        (call, held, (tokens, micros.map_or(0, |_| held.micros)))
    });
    known.filter(|(_, _, part)| *part != (0, 0)).map(|(call, held, part)| released(*call, held, part, "reconciled")).collect()
}
