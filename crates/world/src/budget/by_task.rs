//! What each task used of models, and whether its own budget holds one request more.
//!
//! Nothing is kept for it: rows, reservations and what is held name their task. **Invariant.** A task's cap is passed by no request, for
//! what it spent, has reserved and has held counts together, as with a process's.

use super::{Account, CapExceeded, Need, Spend, UsageTotals};
use crate::{AtCap, TaskId, World};
use std::collections::BTreeMap;

/// What one task used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskUsage {
    pub totals: UsageTotals,
    /// The part of it that nobody reported.
    pub guessed: Spend,
    /// What its requests may have cost beyond that.
    pub held: Spend,
}

impl World {
    /// What tasks used that asked a model at all.
    pub fn usage_by_task(&self) -> BTreeMap<TaskId, TaskUsage> {
        let mut all: BTreeMap<TaskId, TaskUsage> = BTreeMap::new();
        for (row, totals) in &self.books.usage {
            if let Some(task) = row.task {
                all.entry(task).or_default().totals.add(totals);
            }
        }
        for (row, guess) in &self.books.guesses {
            if let Some(task) = row.task {
                all.entry(task).or_default().guessed.add(&row.tier, guess.tokens, guess.micros);
            }
        }
        for held in self.books.held.values() {
            if let Some(task) = held.task {
                all.entry(task).or_default().held.add(&held.tier, held.tokens, held.micros);
            }
        }
        all
    }

    /// The cap of the task itself that a request does not fit under.
    pub fn short_of_task(&self, id: TaskId, need: &Need<'_>) -> Option<CapExceeded> {
        let task = self.tasks.get(&id)?;
        let mut account = Account { budget: Some(task.budget.clone()?), ..Account::default() };
        let is_own = |of: Option<TaskId>| of == Some(id);
        for (row, totals) in self.books.usage.iter().filter(|(row, _)| is_own(row.task)) {
            account.spent.add(&row.tier, totals.tokens(), totals.micros);
        }
        for reserved in self.books.reserved.values().filter(|reserved| is_own(reserved.task)) {
            account.reserved.add(&reserved.tier, reserved.tokens, reserved.micros);
        }
        for held in self.books.held.values().filter(|held| is_own(held.task)) {
            account.held.add(&held.tier, held.tokens, held.micros);
        }
        let short = account.short(task.pid, need, 0)?;
        // Nobody can grant a task more while it runs.
        Some(CapExceeded { task: Some(id), at_cap: AtCap::Refuse, ..short })
    }

    /// Does the task cap what its requests may use?
    pub fn is_task_capped(&self, id: Option<TaskId>) -> bool {
        id.and_then(|id| self.tasks.get(&id)).is_some_and(|task| task.budget.is_some())
    }

    /// Does the task cap money, while neither it nor its process caps the tokens of a request?
    pub fn is_unbounded_task(&self, id: Option<TaskId>, tier: &str) -> bool {
        let Some(task) = id.and_then(|id| self.tasks.get(&id)) else { return false };
        let caps_tokens = |budget: &super::Budget| budget.amounts().any(|(what, _)| !what.is_money() && what.counts(tier));
        let above = self.lineage(task.pid);
        let above = above.iter().filter_map(|pid| self.books.accounts.get(pid)?.budget.as_ref());
        task.budget.as_ref().is_some_and(|budget| budget.micros.is_some() && !above.chain([budget]).any(caps_tokens))
    }
}
