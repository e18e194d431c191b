//! The books for people: who used what, and budgets.

use crate::Ledger;
use std::collections::BTreeMap;
use world::Stop;
use world::budget::{ALL_TIERS, held};
use world::event::{BudgetGranted, BudgetReconciled, BudgetSet};
use world::{Account, Budget, By, Cap, Code, Held, Pid, Refusal, Spend, UsageTotals, World};

/// Millionths of a dollar as people write them.
pub fn dollars(micros: u64) -> String {
    format!("${}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// What is known of one process's spending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessAccount {
    pub pid: Pid,
    pub name: String,
    pub account: Account,
    /// What of its own spending is only an estimate.
    pub guessed: Spend,
    /// The same of it and everything below it, as the account counts.
    pub guessed_in_tree: Spend,
    /// What its own requests may have cost beyond that.
    pub held: Spend,
}

impl Ledger {
    /// Usage of models, summed; and the sum of it all.
    pub fn usage(&self, by: By) -> (Vec<(String, UsageTotals)>, UsageTotals) {
        self.look(|world| {
            let mut sums: BTreeMap<(u64, String), UsageTotals> = BTreeMap::new();
            let mut total = UsageTotals::default();
            for (row, figures) in &world.books.usage {
                total.add(figures);
                for key in keys(world, by, row) {
                    sums.entry(key).or_default().add(figures);
                }
            }
            // What was reconciled leaves nothing behind.
            sums.retain(|_, figures| *figures != UsageTotals::default());
            (sums.into_iter().map(|((_, name), figures)| (name, figures)).collect(), total)
        })
    }

    /// Models that were used without a price: what that cost, nobody here knows.
    pub fn unpriced(&self) -> Vec<String> {
        self.look(|world| {
            let unknown = world.books.usage.iter().filter(|(_, figures)| figures.unpriced > 0);
            let names: std::collections::BTreeSet<String> = unknown.map(|(row, _)| format!("{}/{}", row.provider, row.model)).collect();
            names.into_iter().collect()
        })
    }

    /// Processes with a budget or with spending, by pid.
    pub fn accounts(&self) -> Vec<ProcessAccount> {
        self.look(|world| {
            let mut in_tree = BTreeMap::<Pid, Spend>::new();
            for (row, guess) in &world.books.guesses {
                for pid in world.lineage(row.pid) {
                    in_tree.entry(pid).or_default().add(&row.tier, guess.tokens, guess.micros);
                }
            }
            let known = |(pid, account): (&Pid, &Account)| ProcessAccount {
                pid: *pid,
                name: name(world, *pid),
                account: account.clone(),
                guessed: world.books.guessed(*pid),
                guessed_in_tree: in_tree.get(pid).cloned().unwrap_or_default(),
                held: world.books.held_of(*pid),
            };
            world.books.accounts.iter().map(known).collect()
        })
    }

    /// What is held, summed as usage is; and the sum of it all.
    pub fn usage_held(&self, by: By) -> (BTreeMap<String, Spend>, Spend) {
        self.look(|world| {
            let (mut sums, mut total) = (BTreeMap::<String, Spend>::new(), Spend::default());
            for held in world.books.held.values() {
                let Held { pid, provider, model, tier, tokens, micros, day, task, .. } = held.clone();
                total.add(&tier, tokens, micros);
                let row = world::Row { day, pid, provider, model, tier, task };
                for (_, name) in keys(world, by, &row) {
                    sums.entry(name).or_default().add(&row.tier, tokens, micros);
                }
            }
            (sums, total)
        })
    }

    /// What is only an estimate of the usage, summed as usage is.
    pub fn usage_guessed(&self, by: By) -> BTreeMap<String, Spend> {
        self.look(|world| {
            let mut sums = BTreeMap::<String, Spend>::new();
            for (row, guess) in &world.books.guesses {
                for (_, name) in keys(world, by, row) {
                    sums.entry(name).or_default().add(&row.tier, guess.tokens, guess.micros);
                }
            }
            sums
        })
    }

    /// Sets the caps of a process and everything below it, or takes them away.
    pub async fn set_budget(&self, pid: Pid, budget: Option<Budget>, by: &str) -> Result<(), Stop> {
        if let Some(budget) = &budget {
            check_budget(budget)?;
        }
        self.alive(pid)?;
        Ok(self.record(BudgetSet { pid, task: None, budget, by: by.to_owned() }).await?)
    }

    /// Raises caps that are there.
    pub async fn grant_budget(&self, pid: Pid, more: Budget, by: &str) -> Result<(), Stop> {
        if more.amounts().all(|(_, amount)| amount == 0) {
            let remedy = world::Remedy::GrantBudget { pid, what: world::Cap::Money.to_string(), missing: 5_000_000 };
            return Err(Refusal::new(Code::BadInput, "that grants nothing").remedy(remedy).into());
        }
        let budget = self.look(|world| world.books.accounts.get(&pid).and_then(|account| account.budget.clone()));
        if budget.is_none() {
            self.alive(pid)?;
        }
        let none = || Refusal::new(Code::WrongState, format!("process {pid} has no budget")).remedy(world::Remedy::SetBudget { pid });
        let budget = budget.ok_or_else(none)?;
        let is_uncapped = |(what, amount): &(Cap, u64)| budget.amount(what).is_none() && (*amount > 0 || !what.is_money());
        if let Some((what, _)) = more.amounts().find(is_uncapped) {
            return Err(Refusal::new(Code::BadInput, format!("the budget of process {pid} does not cap {what}"))
                .hint("what is not capped needs no grant")
                .remedy(world::Remedy::List { what: world::Listing::Budgets })
                .into());
        }
        Ok(self.record(BudgetGranted::of(pid, more, by)).await?)
    }

    /// Puts what a bill says in the place of what was only estimated of a process: tokens of these tiers, and money.
    pub async fn reconcile(&self, pid: Pid, tokens: BTreeMap<String, u64>, micros: Option<u64>, by: &str) -> Result<(), Stop> {
        let (guessed, held) = self.look(|world| (world.books.guessed(pid), world.books.held_of(pid)));
        if !self.look(|world| world.processes.contains_key(&pid)) {
            return Err(nobody(pid).into());
        }
        if tokens.contains_key(ALL_TIERS) {
            return Err(Refusal::new(Code::BadInput, "what was used is known by tier, so `all` cannot be reconciled")
                .hint("name each tier with its tokens: strategic, tactical, operational")
                .into());
        }
        let unknown = tokens.keys().find(|tier| guessed.of(tier) == 0 && held.of(tier) == 0).map(|tier| format!("`{tier}` tokens"));
        let unknown = unknown.or_else(|| (micros.is_some() && guessed.micros == 0 && held.micros == 0).then(|| "money".to_owned()));
        if let Some(what) = unknown {
            return Err(Refusal::new(Code::WrongState, format!("no {what} that process {pid} has spent is an estimate, and none is held"))
                .remedy(world::Remedy::List { what: world::Listing::Budgets })
                .into());
        }
        let pending = self.commit(|world, _| {
            let released = held::reconciled(world, pid, &tokens, micros);
            let reconciled = BudgetReconciled { pid, task: None, tokens, micros, by: by.to_owned() };
            (std::iter::once(reconciled.into()).chain(released).collect(), ())
        })?;
        Ok(pending.durable().await?)
    }

    fn alive(&self, pid: Pid) -> Result<(), Refusal> {
        let alive = self.look(|world| world.processes.get(&pid).is_some_and(|process| process.state.alive()));
        if alive { Ok(()) } else { Err(nobody(pid)) }
    }
}

fn nobody(pid: Pid) -> Refusal {
    Refusal::new(Code::NotFound, format!("there is no process {pid}")).remedy(world::Remedy::List { what: world::Listing::Processes })
}

/// A budget names tiers that there are, caps something, and lets something through.
pub fn check_budget(budget: &Budget) -> Result<(), Refusal> {
    let mut tiers = budget.tokens.keys().chain(budget.tokens_per_day.keys()).chain(budget.tokens_per_hour.keys());
    let unknown = tiers.find(|tier| *tier != ALL_TIERS && world::Tier::parse(tier).is_none());
    if let Some(tier) = unknown {
        return Err(Refusal::new(Code::BadInput, format!("`{tier}` is no tier")).hint("strategic, tactical, operational or all"));
    }
    let Budget { requests_per_minute, context, .. } = budget;
    if budget.amounts().next().is_none() && requests_per_minute.is_none() && context.is_none() {
        return Err(Refusal::new(Code::BadInput, "that budget caps nothing")
            .hint("name a cap of money, tokens, context or requests a minute, or take the budget away"));
    }
    let zero = [("requests a minute", requests_per_minute.map(u64::from)), ("tokens of context", *context)];
    match zero.into_iter().find(|(_, cap)| *cap == Some(0)) {
        Some((what, _)) => {
            Err(Refusal::new(Code::BadInput, format!("0 {what} let no request through"))
                .hint("a cap of no money stops all that costs some"))
        }
        None => Ok(()),
    }
}

/// A process by its number and its name, also one that has left the table.
fn name(world: &World, pid: Pid) -> String {
    let named = world.processes.get(&pid).map(|process| &process.name);
    let named = named.or_else(|| world.departed.get(&pid).map(|process| &process.name));
    named.map_or_else(|| pid.to_string(), |name| format!("{pid} {name}"))
}

/// Where nobody says on which machine it ran, it was this one.
const THIS_MACHINE: &str = "this machine";

/// Under which names a row is counted, in the order in which they are shown.
fn keys(world: &World, by: By, row: &world::Row) -> Vec<(u64, String)> {
    let process = world.processes.get(&row.pid);
    let departed = world.departed.get(&row.pid);
    match by {
        By::Process => vec![(row.pid.0, name(world, row.pid))],
        By::Tree => {
            let own = departed.map(|_| row.pid);
            let above = departed.map_or(Some(row.pid), |process| process.parent);
            let line = own.into_iter().chain(above.into_iter().flat_map(|pid| world.lineage(pid)));
            line.map(|pid| (pid.0, name(world, pid))).collect()
        }
        By::User => {
            let user = process.map(|process| &process.user).or_else(|| departed.map(|process| &process.user));
            vec![(0, user.cloned().unwrap_or_default())]
        }
        By::Node => {
            let node = process.and_then(|process| Some(&process.program.as_ref()?.node)).or_else(|| departed.map(|process| &process.node));
            vec![(0, node.filter(|node| !node.is_empty()).cloned().unwrap_or_else(|| THIS_MACHINE.to_owned()))]
        }
        By::Zone => {
            let zone = process.and_then(|process| process.zone).and_then(|zone| world.zones.get(&zone));
            vec![(0, zone.map_or_else(|| "-".to_owned(), |zone| zone.path.clone()))]
        }
        By::Model => vec![(0, format!("{}/{}", row.provider, row.model))],
        By::Tier => vec![(0, row.tier.clone())],
        By::Day => vec![(0, date(row.day))],
        By::Task => vec![row.task.map_or_else(|| (u64::MAX, "no task".to_owned()), |task| (task.0, task.to_string()))],
    }
}

fn date(day: i64) -> String {
    let moment = jiff::Timestamp::from_second(day.saturating_mul(86_400)).unwrap_or_default();
    moment.strftime("%Y-%m-%d").to_string()
}
