//! The books: reservations, leases, and who used what.

use super::held::Held;
use super::lease::Lease;
use super::{AMOUNT_MAX, Account, RECONCILED, Spend, UNRECORDED, minute};
use crate::{CallId, Pid, TaskId, limits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One request's share, until it is settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    pub pid: Pid,
    pub provider: String,
    pub model: String,
    pub tier: String,
    pub tokens: u64,
    pub micros: u64,
    /// What it was drawn from. What it does not cost goes back there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<CallId>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
}

/// What figures are summed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    Process,
    Tree,
    User,
    Zone,
    #[default]
    Model,
    Tier,
    Day,
    Task,
    /// The machine that the process ran on.
    Node,
}

/// Whose figures these are: one row for each process, task, model and day.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Row {
    /// Days since 1970, UTC.
    pub day: i64,
    pub pid: Pid,
    pub provider: String,
    pub model: String,
    pub tier: String,
    /// What it was for. `None` also of what a snapshot of an earlier version summed up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageTotals {
    pub requests: u64,
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: u64,
    /// Millionths of a dollar.
    pub micros: u64,
    /// Requests whose figures nobody reported.
    pub estimated: u64,
    /// Requests to models without a price. What they cost is not in `micros`, and nobody here knows it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced: u64,
}

/// What of a request's cost is its input, its output and the cache, in millionths of a dollar. Searches are in none of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostParts {
    pub input: u64,
    pub output: u64,
    pub cache: u64,
}

impl CostParts {
    #[must_use]
    pub fn plus(self, other: CostParts) -> CostParts {
        CostParts {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache: self.cache.saturating_add(other.cache),
        }
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl UsageTotals {
    /// Of every kind.
    pub fn tokens(&self) -> u64 {
        [self.input, self.output, self.cache_read, self.cache_write].into_iter().fold(0, u64::saturating_add)
    }

    /// Takes tokens off again, and that they were guessed. Requests were made all the same.
    fn take_tokens(&mut self, other: &UsageTotals) {
        let pairs = [
            (&mut self.input, other.input),
            (&mut self.output, other.output),
            (&mut self.cache_read, other.cache_read),
            (&mut self.cache_write, other.cache_write),
            (&mut self.reasoning, other.reasoning),
            (&mut self.estimated, other.estimated),
        ];
        for (sum, less) in pairs {
            *sum = sum.saturating_sub(less);
        }
    }

    pub fn add(&mut self, other: &UsageTotals) {
        let pairs = [
            (&mut self.requests, other.requests),
            (&mut self.input, other.input),
            (&mut self.output, other.output),
            (&mut self.cache_read, other.cache_read),
            (&mut self.cache_write, other.cache_write),
            (&mut self.reasoning, other.reasoning),
            (&mut self.micros, other.micros),
            (&mut self.estimated, other.estimated),
            (&mut self.unpriced, other.unpriced),
        ];
        for (sum, more) in pairs {
            *sum = sum.saturating_add(more);
        }
    }
}

/// The part of a row that nobody reported: what the figures say of it, and what was charged for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guess {
    pub figures: UsageTotals,
    pub tokens: u64,
    pub micros: u64,
}

/// All that is known about spending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounts {
    pub accounts: BTreeMap<Pid, Account>,
    pub reserved: BTreeMap<CallId, Reserved>,
    #[serde(default)]
    pub leases: BTreeMap<Pid, Vec<Lease>>,
    /// What requests may have cost beyond what is known, until somebody knows better.
    #[serde(default)]
    pub held: BTreeMap<CallId, Held>,
    #[serde(with = "pairs")]
    pub usage: BTreeMap<Row, UsageTotals>,
    #[serde(default, with = "pairs")]
    pub guesses: BTreeMap<Row, Guess>,
}

impl Accounts {
    pub(crate) fn reserve(&mut self, line: &[Pid], call: CallId, mut reserved: Reserved, at_ms: i64) {
        reserved.tokens = reserved.tokens.min(AMOUNT_MAX);
        reserved.micros = reserved.micros.min(AMOUNT_MAX);
        let Reserved { tokens, micros, .. } = reserved;
        let lease = reserved.lease.and_then(|id| self.lease_mut(reserved.pid, id));
        let drawn = lease.map(|lease| {
            lease.tokens = lease.tokens.saturating_sub(tokens);
            lease.micros = lease.micros.saturating_sub(micros);
        });
        for pid in line {
            let account = self.accounts.entry(*pid).or_default();
            if drawn.is_some() {
                account.leased.take(&reserved.tier, tokens, micros);
            }
            account.reserved.add(&reserved.tier, tokens, micros);
            if account.minute != minute(at_ms) {
                account.minute = minute(at_ms);
                account.requests = 0;
            }
            account.requests = account.requests.saturating_add(1);
        }
        self.reserved.insert(call, reserved);
    }

    /// Ends a reservation. What was charged is spent, whatever was reserved; what is held of the rest stays taken, and only what is left
    /// then goes back.
    pub(crate) fn settle(&mut self, line: &[Pid], call: CallId, charged: (u64, u64), held: (u64, u64), figures: &UsageTotals, at_ms: i64) {
        let charged = (charged.0.min(AMOUNT_MAX), charged.1.min(AMOUNT_MAX));
        let Some(reserved) = self.unreserve(line, call, charged, held, at_ms) else { return };
        for pid in line {
            self.accounts.entry(*pid).or_default().spend(&reserved.tier, charged.0, charged.1, at_ms);
        }
        let Reserved { pid, provider, model, tier, task, .. } = reserved;
        self.enter(Row { day: day(at_ms), pid, provider, model, tier, task }, figures, charged);
    }

    /// Ends a reservation of which nothing is known to be spent.
    pub(crate) fn unsettled(&mut self, line: &[Pid], call: CallId, held: (u64, u64), at_ms: i64) {
        self.unreserve(line, call, (0, 0), held, at_ms);
    }

    fn unreserve(&mut self, line: &[Pid], call: CallId, charged: (u64, u64), held: (u64, u64), at_ms: i64) -> Option<Reserved> {
        let reserved = self.reserved.remove(&call)?;
        let Reserved { pid, tokens, micros, lease, task, .. } = reserved;
        let unspent = (tokens.saturating_sub(charged.0), micros.saturating_sub(charged.1));
        let held = (held.0.min(unspent.0), held.1.min(unspent.1));
        let back = (unspent.0 - held.0, unspent.1 - held.1);
        let leased = lease.and_then(|id| self.lease_mut(pid, id)).map(|lease| {
            lease.tokens = lease.tokens.saturating_add(back.0);
            lease.micros = lease.micros.saturating_add(back.1);
        });
        for pid in line {
            let account = self.accounts.entry(*pid).or_default();
            account.reserved.take(&reserved.tier, tokens, micros);
            if leased.is_some() {
                account.leased.add(&reserved.tier, back.0, back.1);
            }
        }
        let (provider, model, tier) = (reserved.provider.clone(), reserved.model.clone(), reserved.tier.clone());
        self.hold(
            line,
            call,
            Held { pid, provider, model, tier, tokens: held.0, micros: held.1, until_ms: at_ms + limits::HELD_MS, day: day(at_ms), task },
        );
        Some(reserved)
    }

    /// Takes what a request cost that left no other record from the lease that paid for it, and holds it.
    pub(crate) fn hold_leased(&mut self, line: &[Pid], call: CallId, lease: CallId, held: Held) {
        let Some(lease) = self.lease_mut(held.pid, lease) else { return };
        let (tokens, micros) = (held.tokens.min(lease.tokens), held.micros.min(lease.micros));
        lease.tokens -= tokens;
        lease.micros -= micros;
        for pid in line {
            self.accounts.entry(*pid).or_default().leased.take(&held.tier, tokens, micros);
        }
        self.hold(line, call, Held { tokens, micros, ..held });
    }

    fn enter(&mut self, row: Row, figures: &UsageTotals, charged: (u64, u64)) {
        if figures.estimated > 0 {
            let guess = self.guesses.entry(row.clone()).or_default();
            guess.figures.add(figures);
            guess.tokens = guess.tokens.saturating_add(charged.0);
            guess.micros = guess.micros.saturating_add(charged.1);
        }
        self.usage.entry(row).or_default().add(figures);
    }

    /// What counts as spent by this process because nobody knows better.
    pub fn guessed(&self, pid: Pid) -> Spend {
        let mut sum = Spend::default();
        let own = self.guesses.iter().filter(|(row, _)| row.pid == pid);
        own.for_each(|(row, guess)| sum.add(&row.tier, guess.tokens, guess.micros));
        sum
    }

    /// Puts what really was in the place of what was guessed: tokens of these tiers, and money.
    pub(crate) fn reconcile(&mut self, line: &[Pid], pid: Pid, tokens: &BTreeMap<String, u64>, micros: Option<u64>, at_ms: i64) {
        let guessed = self.guessed(pid);
        // A bill names no day: it corrects that of today only where every guess is of today.
        let is_today = self.guesses.keys().filter(|row| row.pid == pid).all(|row| row.day == day(at_ms));
        for (row, guess) in self.guesses.iter_mut().filter(|(row, _)| row.pid == pid) {
            let Some(known) = self.usage.get_mut(row) else { continue };
            if tokens.contains_key(&row.tier) {
                known.take_tokens(&guess.figures);
                *guess = Guess { figures: UsageTotals { micros: guess.figures.micros, ..UsageTotals::default() }, tokens: 0, ..*guess };
            }
            if micros.is_some() {
                known.micros = known.micros.saturating_sub(guess.figures.micros);
                *guess = Guess { figures: UsageTotals { micros: 0, ..guess.figures }, micros: 0, ..*guess };
            }
        }
        for of in line {
            let account = self.accounts.entry(*of).or_default();
            let of_day = (is_today && account.day == day(at_ms)).then_some(&mut account.spent_day);
            for spent in std::iter::once(&mut account.spent).chain(of_day) {
                for (tier, real) in tokens {
                    spent.take(tier, guessed.of(tier), 0);
                    spent.add(tier, *real, 0);
                }
                if let Some(real) = micros {
                    spent.micros = spent.micros.saturating_sub(guessed.micros).saturating_add(real);
                }
            }
        }
        self.guesses.retain(|_, guess| *guess != Guess::default());
        let (provider, model, day) = (RECONCILED.to_owned(), "bill".to_owned(), day(at_ms));
        let of_tier = |tier: &str| Row { day, pid, provider: provider.clone(), model: model.clone(), tier: tier.to_owned(), task: None };
        for (tier, real) in tokens {
            self.usage.entry(of_tier(tier)).or_default().input += real;
        }
        // Money is not told by tier; it stands where the first tokens do.
        let held = self.held_of(pid);
        if let Some((real, tier)) = micros.zip(guessed.tokens.keys().chain(held.tokens.keys()).next()) {
            self.usage.entry(of_tier(tier)).or_default().micros += real;
        }
    }

    /// Nobody knows what became of it: what was reserved is spent. Versions that hold it say so before.
    pub(crate) fn lose(&mut self, line: &[Pid], call: CallId, at_ms: i64) {
        let Some(reserved) = self.reserved.get(&call) else { return };
        let (tokens, micros) = (reserved.tokens, reserved.micros);
        let figures = UsageTotals { requests: 1, input: tokens, micros, estimated: 1, ..UsageTotals::default() };
        self.settle(line, call, (tokens, micros), (0, 0), &figures, at_ms);
    }

    /// Opens a lease, or adds to it.
    pub(crate) fn carve(&mut self, line: &[Pid], pid: Pid, more: &Lease) {
        for pid in line {
            self.accounts.entry(*pid).or_default().leased.add(&more.tier, more.tokens, more.micros);
        }
        match self.lease_mut(pid, more.id) {
            Some(lease) => {
                lease.tokens = lease.tokens.saturating_add(more.tokens);
                lease.micros = lease.micros.saturating_add(more.micros);
            }
            None => self.leases.entry(pid).or_default().push(more.clone()),
        }
    }

    /// Ends the leases of a process that `which` names, and gives them.
    pub(crate) fn end_leases(&mut self, line: &[Pid], pid: Pid, which: impl Fn(&Lease) -> bool) -> Vec<Lease> {
        let Some(leases) = self.leases.get_mut(&pid) else { return Vec::new() };
        let ended: Vec<Lease> = leases.extract_if(.., |lease| which(lease)).collect();
        if leases.is_empty() {
            self.leases.remove(&pid);
        }
        for of in line {
            let account = self.accounts.entry(*of).or_default();
            ended.iter().for_each(|lease| account.leased.take(&lease.tier, lease.tokens, lease.micros));
        }
        ended
    }

    /// What is left of a lease may have been spent by requests that are not on record.
    pub(crate) fn lose_lease(&mut self, line: &[Pid], pid: Pid, id: CallId, at_ms: i64) {
        for Lease { tier, tokens, micros, .. } in self.end_leases(line, pid, |lease| lease.id == id) {
            for of in line {
                self.accounts.entry(*of).or_default().spend(&tier, tokens, micros, at_ms);
            }
            let figures = UsageTotals { input: tokens, micros, estimated: 1, ..UsageTotals::default() };
            let row = Row { day: day(at_ms), pid, provider: UNRECORDED.into(), model: "lease".into(), tier, task: None };
            self.enter(row, &figures, (tokens, micros));
        }
    }

    fn lease_mut(&mut self, pid: Pid, id: CallId) -> Option<&mut Lease> {
        self.leases.get_mut(&pid)?.iter_mut().find(|lease| lease.id == id)
    }
}

pub(crate) fn day(at_ms: i64) -> i64 {
    at_ms.div_euclid(86_400_000)
}

/// A map whose keys are no strings, as a list.
mod pairs {
    use super::Row;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    pub fn serialize<S: Serializer, V: Serialize>(map: &BTreeMap<Row, V>, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(map.iter())
    }

    pub fn deserialize<'de, D: Deserializer<'de>, V: Deserialize<'de>>(d: D) -> Result<BTreeMap<Row, V>, D::Error> {
        Ok(Vec::<(Row, V)>::deserialize(d)?.into_iter().collect())
    }
}
