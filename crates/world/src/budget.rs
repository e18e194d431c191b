//! What processes may spend on models, what they have spent, and who used what.
//!
//! A reservation is taken from the caller and all its ancestors, in the commit that admits the call, or before it from a [`Lease`]; so
//! whoever looks sees a tree in which no cap is passed by spent, reserved, leased and held together. *Spent* is what was reported, or
//! counted where nothing was; what a request may have cost beyond that is *held* for a day, or until somebody reads it off a bill.

mod accounts;
pub mod allot;
mod by_task;
pub mod crash;
pub mod held;
pub mod lease;
mod program_limits;

use crate::{Pid, Remedy, TaskId};
pub(crate) use accounts::day;
pub use accounts::{Accounts, By, CostParts, Guess, Reserved, Row, UsageTotals};
use allot::View;
pub use by_task::TaskUsage;
pub use held::{Ending, Held};
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
pub(crate) const AMOUNT_MAX: u64 = 1 << 40;

/// Caps of one process and everything below it. What is absent is not capped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Tokens by tier; `all` is for the sum.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tokens: BTreeMap<String, u64>,
    /// The same for each day and each hour, by UTC.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tokens_per_day: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tokens_per_hour: BTreeMap<String, u64>,
    /// Millionths of a dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micros: Option<u64>,
    /// The same for each day, by UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micros_per_day: Option<u64>,
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
    pub fn add(&mut self, tier: &str, tokens: u64, micros: u64) {
        let sum = self.tokens.entry(tier.to_owned()).or_default();
        *sum = sum.saturating_add(tokens);
        self.micros = self.micros.saturating_add(micros);
    }

    fn is_empty(&self) -> bool {
        *self == Spend::default()
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
    /// What requests may have cost beyond what is known.
    #[serde(default)]
    pub held: Spend,
    /// The minute that `requests` counts, since 1970.
    pub minute: i64,
    pub requests: u32,
    /// Caps whose end was announced.
    pub warned: BTreeSet<String>,
    /// The day and the hour that the next sums count, since 1970.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub day: i64,
    #[serde(default, skip_serializing_if = "Spend::is_empty")]
    pub spent_day: Spend,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hour: i64,
    #[serde(default, skip_serializing_if = "Spend::is_empty")]
    pub spent_hour: Spend,
    /// Who has an allotment from this account.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub allotted: BTreeSet<Pid>,
    /// Whose account each of its own caps is an allotment from.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allotted_from: BTreeMap<String, Pid>,
}

fn is_zero(n: &i64) -> bool {
    *n == 0
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
pub struct CapExceeded {
    /// Whose cap it is: the caller or one of its ancestors.
    pub pid: Pid,
    /// The task whose own cap it is; then `pid` is its process.
    pub task: Option<TaskId>,
    pub what: Cap,
    pub cap: u64,
    pub used: u64,
    pub need: u64,
    pub at_cap: AtCap,
}

impl CapExceeded {
    /// What must be granted before it fits.
    pub fn missing(&self) -> u64 {
        self.used.saturating_add(self.need).saturating_sub(self.cap)
    }

    /// How the operator lets it fit, where it is a process's cap.
    pub fn remedy(&self) -> Remedy {
        Remedy::GrantBudget { pid: self.pid, what: self.what.to_string(), missing: self.missing() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cap {
    Tokens(String),
    /// Tokens of a day, and of an hour.
    PerDay(String),
    PerHour(String),
    Money,
    /// Of a day.
    MoneyPerDay,
    Rate,
    Context,
}

impl std::fmt::Display for Cap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cap::Tokens(tier) if tier == ALL_TIERS => f.write_str("tokens"),
            Cap::Tokens(tier) => write!(f, "{tier} tokens"),
            Cap::PerDay(tier) => write!(f, "{} a day", Cap::Tokens(tier.clone())),
            Cap::PerHour(tier) => write!(f, "{} an hour", Cap::Tokens(tier.clone())),
            Cap::Money => f.write_str("money"),
            Cap::MoneyPerDay => f.write_str("money a day"),
            Cap::Rate => f.write_str("requests per minute"),
            Cap::Context => f.write_str("context"),
        }
    }
}

impl Cap {
    /// Reads what [`Cap`]'s `Display` wrote into a record.
    pub fn parse(text: &str) -> Option<Cap> {
        let of_time = [(" a day", Cap::PerDay as fn(String) -> Cap), (" an hour", Cap::PerHour)];
        for (ending, cap) in of_time {
            if let Some(Cap::Tokens(tier)) = text.strip_suffix(ending).and_then(Cap::parse) {
                return Some(cap(tier));
            }
        }
        match text {
            "money" => Some(Cap::Money),
            "money a day" => Some(Cap::MoneyPerDay),
            "requests per minute" => Some(Cap::Rate),
            "context" => Some(Cap::Context),
            "tokens" => Some(Cap::Tokens(ALL_TIERS.to_owned())),
            other => other.strip_suffix(" tokens").map(|tier| Cap::Tokens(tier.to_owned())),
        }
    }
}

impl Account {
    /// The first cap that `need` does not fit under.
    pub fn short(&self, pid: Pid, need: &Need<'_>, now_ms: i64) -> Option<CapExceeded> {
        let view = View { now_ms, leases: true };
        let unused = |what: &Cap| {
            let cap = self.budget.as_ref().and_then(|budget| budget.amount(what)).unwrap_or(u64::MAX);
            cap.saturating_sub(self.used_of(what, view))
        };
        self.short_with(pid, need, view, unused)
    }

    /// The same where `room` says what may still be taken under a cap.
    fn short_with(&self, pid: Pid, need: &Need<'_>, view: View, room: impl Fn(&Cap) -> u64) -> Option<CapExceeded> {
        let budget = self.budget.as_ref()?;
        let short = |what, cap: u64, used: u64, room: u64, need: u64| {
            // What is kept free for others counts as used.
            let used = used.max(cap.saturating_sub(room));
            // What needs nothing fits even where all is spent.
            (need > 0 && need > room).then_some(CapExceeded { pid, task: None, what, cap, used, need, at_cap: budget.at_cap })
        };
        let rate = budget.requests_per_minute.and_then(|cap| {
            let made = if self.minute == minute(view.now_ms) { self.requests } else { 0 };
            short(Cap::Rate, cap.into(), made.into(), u64::from(cap.saturating_sub(made)), 1)
        });
        let context = || budget.context.and_then(|cap| short(Cap::Context, cap, 0, cap, need.context));
        let amount = |(what, cap): (Cap, u64)| {
            let (used, room) = (self.used_of(&what, view), room(&what));
            let need = if what.is_money() { need.micros } else { need.tokens };
            short(what, cap, used, room, need)
        };
        let of = |is_money: bool, passes: bool| {
            let is_meant = |what: &Cap| what.is_money() == is_money && what.counts(need.tier) && what.passes() == passes;
            budget.amounts().filter(|(what, _)| is_meant(what)).find_map(amount)
        };
        let lasting = || of(true, false).or_else(|| of(false, false));
        let passing = || of(true, true).or_else(|| of(false, true));
        context().or_else(lasting).or_else(passing).or(rate)
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

fn hour(at_ms: i64) -> i64 {
    at_ms.div_euclid(3_600_000)
}

fn minute(at_ms: i64) -> i64 {
    at_ms.div_euclid(60_000)
}
