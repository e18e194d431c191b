//! The books: reservations, leases, and who used what.

use super::lease::Lease;
use super::{AMOUNT_MAX, Account, RECONCILED, Spend, UNRECORDED, minute};
use crate::{CallId, Pid};
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
}

/// Whose figures these are: one row for each process, model and day.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Row {
    /// Days since 1970, UTC.
    pub day: i64,
    pub pid: Pid,
    pub provider: String,
    pub model: String,
    pub tier: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
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
}

impl Figures {
    /// Takes tokens off again, and that they were guessed. Requests were made all the same.
    fn take_tokens(&mut self, other: &Figures) {
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

    pub fn add(&mut self, other: &Figures) {
        let pairs = [
            (&mut self.requests, other.requests),
            (&mut self.input, other.input),
            (&mut self.output, other.output),
            (&mut self.cache_read, other.cache_read),
            (&mut self.cache_write, other.cache_write),
            (&mut self.reasoning, other.reasoning),
            (&mut self.micros, other.micros),
            (&mut self.estimated, other.estimated),
        ];
        for (sum, more) in pairs {
            *sum = sum.saturating_add(more);
        }
    }
}

/// The part of a row that nobody reported: what the figures say of it, and what was charged for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guess {
    pub figures: Figures,
    pub tokens: u64,
    pub micros: u64,
}

/// All that is known about spending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Books {
    pub accounts: BTreeMap<Pid, Account>,
    pub reserved: BTreeMap<CallId, Reserved>,
    #[serde(default)]
    pub leases: BTreeMap<Pid, Vec<Lease>>,
    #[serde(with = "pairs")]
    pub usage: BTreeMap<Row, Figures>,
    #[serde(default, with = "pairs")]
    pub guesses: BTreeMap<Row, Guess>,
}

impl Books {
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

    /// Ends a reservation. What was charged is spent, whatever was reserved.
    pub(crate) fn settle(&mut self, line: &[Pid], call: CallId, charged: (u64, u64), figures: &Figures, at_ms: i64) {
        let Some(reserved) = self.reserved.remove(&call) else { return };
        let Reserved { pid, provider, model, tier, tokens, micros, lease } = reserved;
        let charged = (charged.0.min(AMOUNT_MAX), charged.1.min(AMOUNT_MAX));
        let back = lease.and_then(|id| self.lease_mut(pid, id)).map(|lease| {
            let back = (tokens.saturating_sub(charged.0), micros.saturating_sub(charged.1));
            lease.tokens = lease.tokens.saturating_add(back.0);
            lease.micros = lease.micros.saturating_add(back.1);
            back
        });
        for pid in line {
            let account = self.accounts.entry(*pid).or_default();
            account.reserved.take(&tier, tokens, micros);
            account.spent.add(&tier, charged.0, charged.1);
            if let Some(back) = back {
                account.leased.add(&tier, back.0, back.1);
            }
        }
        self.enter(Row { day: day(at_ms), pid, provider, model, tier }, figures, charged);
    }

    fn enter(&mut self, row: Row, figures: &Figures, charged: (u64, u64)) {
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
        for (row, guess) in self.guesses.iter_mut().filter(|(row, _)| row.pid == pid) {
            let Some(known) = self.usage.get_mut(row) else { continue };
            if tokens.contains_key(&row.tier) {
                known.take_tokens(&guess.figures);
                *guess = Guess { figures: Figures { micros: guess.figures.micros, ..Figures::default() }, tokens: 0, ..*guess };
            }
            if micros.is_some() {
                known.micros = known.micros.saturating_sub(guess.figures.micros);
                *guess = Guess { figures: Figures { micros: 0, ..guess.figures }, micros: 0, ..*guess };
            }
        }
        for of in line {
            let spent = &mut self.accounts.entry(*of).or_default().spent;
            for (tier, real) in tokens {
                spent.take(tier, guessed.of(tier), 0);
                spent.add(tier, *real, 0);
            }
            if let Some(real) = micros {
                spent.micros = spent.micros.saturating_sub(guessed.micros).saturating_add(real);
            }
        }
        self.guesses.retain(|_, guess| *guess != Guess::default());
        let of_tier = |tier: &str| Row { day: day(at_ms), pid, provider: RECONCILED.into(), model: "bill".into(), tier: tier.to_owned() };
        for (tier, real) in tokens {
            self.usage.entry(of_tier(tier)).or_default().input += real;
        }
        // Money is not told by tier; it stands where the first tokens do.
        if let Some((real, tier)) = micros.zip(guessed.tokens.keys().next()) {
            self.usage.entry(of_tier(tier)).or_default().micros += real;
        }
    }

    /// Nobody knows what became of it: what was reserved is spent.
    pub(crate) fn lose(&mut self, line: &[Pid], call: CallId, at_ms: i64) {
        let Some(reserved) = self.reserved.get(&call) else { return };
        let (tokens, micros) = (reserved.tokens, reserved.micros);
        let figures = Figures { requests: 1, input: tokens, micros, estimated: 1, ..Figures::default() };
        self.settle(line, call, (tokens, micros), &figures, at_ms);
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
                self.accounts.entry(*of).or_default().spent.add(&tier, tokens, micros);
            }
            let figures = Figures { input: tokens, micros, estimated: 1, ..Figures::default() };
            let row = Row { day: day(at_ms), pid, provider: UNRECORDED.into(), model: "lease".into(), tier };
            self.enter(row, &figures, (tokens, micros));
        }
    }

    fn lease_mut(&mut self, pid: Pid, id: CallId) -> Option<&mut Lease> {
        self.leases.get_mut(&pid)?.iter_mut().find(|lease| lease.id == id)
    }
}

fn day(at_ms: i64) -> i64 {
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
