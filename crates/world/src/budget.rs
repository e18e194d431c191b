//! What processes may spend on models, what they have spent, and who used what.
//!
//! A reservation is taken from the caller and all its ancestors, in the commit that admits the call, or before it from a [`Lease`]; so
//! whoever looks sees a tree in which no cap is passed by spent, reserved and leased together. What nobody settled counts as spent.

pub mod lease;

use crate::{CallId, Pid};
pub use lease::Lease;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The key for tokens of every tier.
pub const ALL_TIERS: &str = "all";
/// The provider in figures of what a crash left no record of.
pub const UNRECORDED: &str = "unrecorded";
/// The provider in figures that a person said afterwards.
pub const RECONCILED: &str = "reconciled";
/// From here on a person is told that a budget comes to its end, in percent.
pub const WARN_PERCENT: u64 = 80;

/// Tokens or millionths of a dollar that one request counts for at most. A request may ask for any number; what is taken off again must
/// be what was added, and sums that can overflow forget that.
const AMOUNT_MAX: u64 = 1 << 40;

/// Caps of one process and everything below it. What is absent is not capped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Tokens by tier; `all` is for the sum.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tokens: BTreeMap<String, u64>,
    /// Millionths of a dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micros: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Input tokens of one request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    pub at_cap: AtCap,
}

/// What happens to a request that does not fit any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtCap {
    #[default]
    Refuse,
    /// It waits for a person to grant more.
    Ask,
}

/// Tokens by tier, and money.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spend {
    pub tokens: BTreeMap<String, u64>,
    pub micros: u64,
}

impl Spend {
    fn add(&mut self, tier: &str, tokens: u64, micros: u64) {
        let sum = self.tokens.entry(tier.to_owned()).or_default();
        *sum = sum.saturating_add(tokens);
        self.micros = self.micros.saturating_add(micros);
    }

    fn take(&mut self, tier: &str, tokens: u64, micros: u64) {
        if let Some(sum) = self.tokens.get_mut(tier) {
            *sum = sum.saturating_sub(tokens);
        }
        self.micros = self.micros.saturating_sub(micros);
    }

    /// Tokens of one tier, or of all.
    pub fn of(&self, tier: &str) -> u64 {
        if tier == ALL_TIERS {
            self.tokens.values().fold(0, |sum, n| sum.saturating_add(*n))
        } else {
            self.tokens.get(tier).copied().unwrap_or(0)
        }
    }
}

/// What one process and everything below it may spend and has spent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    pub budget: Option<Budget>,
    pub spent: Spend,
    /// Of requests on their way.
    pub reserved: Spend,
    /// Set aside for requests to come.
    #[serde(default)]
    pub leased: Spend,
    /// The minute that `requests` counts, since 1970.
    pub minute: i64,
    pub requests: u32,
    /// Caps whose end was announced.
    pub warned: BTreeSet<String>,
    /// What a request waits for, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
}

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

/// What a request needs of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need<'a> {
    pub tier: &'a str,
    /// Input and output together.
    pub tokens: u64,
    /// Input alone.
    pub context: u64,
    pub micros: u64,
}

/// A cap that a request does not fit under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Short {
    /// Whose cap it is: the caller or one of its ancestors.
    pub pid: Pid,
    pub what: Cap,
    pub cap: u64,
    pub used: u64,
    pub need: u64,
    pub at_cap: AtCap,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cap {
    Tokens(String),
    Money,
    Rate,
    Context,
}

impl std::fmt::Display for Cap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cap::Tokens(tier) if tier == ALL_TIERS => f.write_str("tokens"),
            Cap::Tokens(tier) => write!(f, "{tier} tokens"),
            Cap::Money => f.write_str("money"),
            Cap::Rate => f.write_str("requests per minute"),
            Cap::Context => f.write_str("context"),
        }
    }
}

impl Account {
    /// The first cap that `need` does not fit under.
    pub fn short(&self, pid: Pid, need: &Need<'_>, now_ms: i64) -> Option<Short> {
        let budget = self.budget.as_ref()?;
        let short = |what, cap, used: u64, need: u64| {
            (used.saturating_add(need) > cap).then_some(Short { pid, what, cap, used, need, at_cap: budget.at_cap })
        };
        let rate = budget.requests_per_minute.and_then(|cap| {
            let made = if self.minute == minute(now_ms) { self.requests } else { 0 };
            short(Cap::Rate, cap.into(), made.into(), 1)
        });
        let context = || budget.context.and_then(|cap| short(Cap::Context, cap, 0, need.context));
        let money = || budget.micros.and_then(|cap| short(Cap::Money, cap, self.used_micros(), need.micros));
        let tokens = || {
            let mut caps = budget.tokens.iter().filter(|(tier, _)| *tier == need.tier || *tier == ALL_TIERS);
            caps.find_map(|(tier, cap)| short(Cap::Tokens(tier.clone()), *cap, self.used(tier), need.tokens))
        };
        context().or_else(money).or_else(tokens).or(rate)
    }

    /// Tokens of a tier and money that nobody has spent, reserved or leased.
    pub fn left(&self, tier: &str) -> (u64, u64) {
        let Some(budget) = &self.budget else { return (u64::MAX, u64::MAX) };
        let caps = budget.tokens.iter().filter(|(of, _)| *of == tier || *of == ALL_TIERS);
        let tokens = caps.map(|(of, cap)| cap.saturating_sub(self.used(of))).min();
        (tokens.unwrap_or(u64::MAX), budget.micros.map_or(u64::MAX, |cap| cap.saturating_sub(self.used_micros())))
    }

    fn used(&self, tier: &str) -> u64 {
        [&self.spent, &self.reserved, &self.leased].into_iter().fold(0, |sum, spend| sum.saturating_add(spend.of(tier)))
    }

    fn used_micros(&self) -> u64 {
        [&self.spent, &self.reserved, &self.leased].into_iter().fold(0, |sum, spend| sum.saturating_add(spend.micros))
    }

    /// Caps of which most is spent and nobody was told: its name, what is spent, and the cap.
    pub fn nearly(&self) -> Vec<(String, u64, u64)> {
        let Some(budget) = &self.budget else { return Vec::new() };
        let money = budget.micros.map(|cap| (Cap::Money.to_string(), self.spent.micros, cap));
        let tokens = budget.tokens.iter().map(|(tier, cap)| (Cap::Tokens(tier.clone()).to_string(), self.spent.of(tier), *cap));
        money
            .into_iter()
            .chain(tokens)
            .filter(|(name, used, cap)| {
                !self.warned.contains(name) && u128::from(*used) * 100 >= u128::from(*cap) * u128::from(WARN_PERCENT)
            })
            .collect()
    }
}

fn minute(at_ms: i64) -> i64 {
    at_ms.div_euclid(60_000)
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
            account.waits = None;
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
