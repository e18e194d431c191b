//! Allotments: what of one account is set aside for a process below it.
//!
//! Every request counts in the accounts of its caller and of all above. A cap that is allotted to a child is taken from the nearest account above
//! that caps the same, and what the child has not used of it is kept free there: nobody else can use it, and it is whole again when the child ends.
//! Nothing is stored of that but who has an allotment from whom; the sums are worked out when somebody asks. The account of a process that ended
//! goes on above those whom it left, until the last of them has ended: so nobody gets more by the end of one above it.
//! **Invariant.** What is used under a cap and what is kept free under it are together no more than the cap, unless a person lowered it or an
//! agent claimed more than it had.

use super::{Account, Accounts, Cap, CapExceeded, Need, Row, Spend, UsageTotals, day};
use crate::event::{BudgetGranted, ResourceGiven};
use crate::{Budget, Event, Pid, World};
use std::collections::BTreeMap;

/// The provider in figures that agents said of themselves.
pub const CLAIMED: &str = "claimed";

impl Budget {
    /// What it caps for good or for a while, each with its figure. Rates and contexts are no amounts that can be divided.
    pub fn amounts(&self) -> impl Iterator<Item = (Cap, u64)> {
        let lasting = self.tokens.iter().map(|(tier, cap)| (Cap::Tokens(tier.clone()), *cap));
        let daily = self.tokens_per_day.iter().map(|(tier, cap)| (Cap::PerDay(tier.clone()), *cap));
        let hourly = self.tokens_per_hour.iter().map(|(tier, cap)| (Cap::PerHour(tier.clone()), *cap));
        let money = self.micros.map(|cap| (Cap::Money, cap));
        lasting.chain(daily).chain(hourly).chain(money).chain(self.micros_per_day.map(|cap| (Cap::MoneyPerDay, cap)))
    }

    pub fn amount(&self, what: &Cap) -> Option<u64> {
        match what {
            Cap::Tokens(tier) => self.tokens.get(tier).copied(),
            Cap::PerDay(tier) => self.tokens_per_day.get(tier).copied(),
            Cap::PerHour(tier) => self.tokens_per_hour.get(tier).copied(),
            Cap::Money => self.micros,
            Cap::MoneyPerDay => self.micros_per_day,
            Cap::Rate | Cap::Context => None,
        }
    }

    /// Raises a cap that is there.
    pub fn raise(&mut self, what: &Cap, by: u64) {
        if let Some(cap) = self.amount_mut(what) {
            *cap = cap.saturating_add(by);
        }
    }

    fn amount_mut(&mut self, what: &Cap) -> Option<&mut u64> {
        match what {
            Cap::Tokens(tier) => self.tokens.get_mut(tier),
            Cap::PerDay(tier) => self.tokens_per_day.get_mut(tier),
            Cap::PerHour(tier) => self.tokens_per_hour.get_mut(tier),
            Cap::Money => self.micros.as_mut(),
            Cap::MoneyPerDay => self.micros_per_day.as_mut(),
            Cap::Rate | Cap::Context => None,
        }
    }
}

impl BudgetGranted {
    /// The record by which the caps of a process are raised by what `more` says of each.
    pub fn of(pid: Pid, more: Budget, by: &str) -> BudgetGranted {
        let Budget { tokens, tokens_per_day, tokens_per_hour, micros, micros_per_day, .. } = more;
        let micros_per_day = micros_per_day.filter(|micros| *micros > 0);
        let timed = Budget { tokens_per_day, tokens_per_hour, micros_per_day, ..Budget::default() };
        let timed = (timed != Budget::default()).then(|| Box::new(timed));
        BudgetGranted { pid, task: None, tokens, micros: micros.unwrap_or(0), by: by.to_owned(), timed }
    }

    /// What is added to each cap.
    pub fn more(&self) -> Budget {
        let timed = self.timed.as_deref().cloned().unwrap_or_default();
        Budget { tokens: self.tokens.clone(), micros: Some(self.micros).filter(|micros| *micros > 0), ..timed }
    }
}

/// Which part of what an account has used counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub now_ms: i64,
    /// Leases count; without them it is as if all were given back.
    pub leases: bool,
}

impl Accounts {
    fn amount(&self, pid: Pid, what: &Cap) -> Option<u64> {
        self.accounts.get(&pid)?.budget.as_ref()?.amount(what)
    }

    /// What an allotment still has.
    fn outstanding(&self, pid: Pid, what: &Cap, view: View) -> u64 {
        let Some(account) = self.accounts.get(&pid) else { return 0 };
        let cap = account.budget.as_ref().and_then(|budget| budget.amount(what)).unwrap_or(0);
        cap.saturating_sub(account.used_of(what, view))
    }

    /// What is kept free in this account for others, and of that for those on `path`.
    fn kept_free(&self, pid: Pid, what: &Cap, path: &[Pid], view: View) -> (u64, u64) {
        let Some(account) = self.accounts.get(&pid).filter(|account| !account.allotted.is_empty()) else { return (0, 0) };
        let name = what.to_string();
        let mut sums = (0u64, 0u64);
        for child in &account.allotted {
            let is_from_here = self.accounts.get(child).is_some_and(|account| account.allotted_from.get(&name) == Some(&pid));
            if is_from_here {
                let left = self.outstanding(*child, what, view);
                sums.0 = sums.0.saturating_add(left);
                sums.1 = sums.1.saturating_add(if path.contains(child) { left } else { 0 });
            }
        }
        sums
    }

    /// What a request of somebody on `path` below may still take under this cap: what is his allotment's, and what is nobody's.
    fn room(&self, pid: Pid, what: &Cap, path: &[Pid], view: View) -> Option<u64> {
        let cap = self.amount(pid, what)?;
        let unused = cap.saturating_sub(self.accounts.get(&pid)?.used_of(what, view));
        let (all, own) = self.kept_free(pid, what, path, view);
        Some(unused.min(own.saturating_add(unused.saturating_sub(all))))
    }

    /// What can be allotted under a cap. Of a day's or an hour's it is what is not allotted already, whatever is used of it now: the next day
    /// and hour are whole again.
    fn unallotted(&self, pid: Pid, what: &Cap, view: View) -> u64 {
        if !what.passes() {
            return self.room(pid, what, &[], view).unwrap_or(u64::MAX);
        }
        let Some(account) = self.accounts.get(&pid) else { return u64::MAX };
        let name = what.to_string();
        let is_from_here = |child: &&Pid| self.accounts.get(child).is_some_and(|account| account.allotted_from.get(&name) == Some(&pid));
        let given = account.allotted.iter().filter(is_from_here).filter_map(|child| self.amount(*child, what));
        self.amount(pid, what).unwrap_or(u64::MAX).saturating_sub(given.fold(0, u64::saturating_add))
    }

    fn unlink(&mut self, pid: Pid) {
        let Some(from) = self.accounts.get_mut(&pid).map(|account| std::mem::take(&mut account.allotted_from)) else { return };
        for above in from.values() {
            if let Some(account) = self.accounts.get_mut(above) {
                account.allotted.remove(&pid);
            }
        }
    }

    fn link(&mut self, pid: Pid, what: &Cap, from: Option<Pid>) {
        let account = self.accounts.entry(pid).or_default();
        match from {
            Some(from) => {
                account.allotted_from.insert(what.to_string(), from);
                self.accounts.entry(from).or_default().allotted.insert(pid);
            }
            None => drop(account.allotted_from.remove(&what.to_string())),
        }
    }
}

impl World {
    /// The cap of `pid` or an ancestor that a request does not fit under. What a person has to grant comes before what passes by itself.
    pub fn short(&self, pid: Pid, need: &Need<'_>, now_ms: i64) -> Option<CapExceeded> {
        self.shorts(pid, need, View { now_ms, leases: true }).into_iter().min_by_key(|short| short.what.passes())
    }

    /// One for each account of the line that it does not fit into.
    pub(super) fn shorts(&self, pid: Pid, need: &Need<'_>, view: View) -> Vec<CapExceeded> {
        let line = self.lineage(pid);
        let short = |(at, of): (usize, &Pid)| {
            let account = self.books.accounts.get(of)?;
            account.short_with(*of, need, view, |what| self.books.room(*of, what, &line[..at], view).unwrap_or(u64::MAX))
        };
        line.iter().enumerate().filter_map(short).chain(self.beyond_limits(&line, need, view)).collect()
    }

    /// Tokens of a tier and money that a process can have set aside for its requests. Without a time the caps of a day and an hour do not count.
    pub fn left(&self, pid: Pid, tier: &str, now_ms: Option<i64>) -> (u64, u64) {
        let line = self.lineage(pid);
        let view = View { now_ms: now_ms.unwrap_or(self.now_ms), leases: true };
        let mut left = (u64::MAX, u64::MAX);
        for (at, of) in line.iter().enumerate() {
            let Some(budget) = self.books.accounts.get(of).and_then(|account| account.budget.as_ref()) else { continue };
            for (what, _) in budget.amounts().filter(|(what, _)| what.counts(tier) && (now_ms.is_some() || !what.passes())) {
                let room = self.books.room(*of, &what, &line[..at], view).unwrap_or(u64::MAX);
                let side = if what.is_money() { &mut left.1 } else { &mut left.0 };
                *side = room.min(*side);
            }
        }
        left
    }

    /// What a request of `by` may take under a cap of `of`, who is above it or itself, when all leases are given back.
    pub fn room(&self, of: Pid, by: Pid, what: &Cap, now_ms: i64) -> Option<u64> {
        let path: Vec<Pid> = self.lineage(by).into_iter().take_while(|pid| *pid != of).collect();
        self.books.room(of, what, &path, View { now_ms, leases: false })
    }

    /// What a process could give to a child under this cap, and from whose account; `None` where nothing above caps it.
    pub fn free(&self, pid: Pid, what: &Cap, now_ms: i64) -> Option<(Pid, u64)> {
        let from = self.capped_from(pid, what)?;
        let view = View { now_ms, leases: true };
        let unused = self.books.room(from, what, &[], view).unwrap_or(u64::MAX);
        Some((from, unused.min(self.books.unallotted(from, what, view))))
    }

    /// The nearest account from `pid` up that caps it.
    fn capped_from(&self, pid: Pid, what: &Cap) -> Option<Pid> {
        self.lineage(pid).into_iter().find(|of| self.books.amount(*of, what).is_some())
    }

    /// The first cap of a parent that a child's budget does not fit into.
    pub fn allotment_short(&self, parent: Pid, budget: &Budget, now_ms: i64) -> Option<CapExceeded> {
        let amounts = budget.amounts().find_map(|(what, need)| {
            let (from, free) = self.free(parent, &what, now_ms).filter(|(_, free)| need > *free)?;
            let cap = self.books.amount(from, &what).unwrap_or(0);
            let at_cap =
                self.books.accounts.get(&from).and_then(|account| account.budget.as_ref()).map(|budget| budget.at_cap).unwrap_or_default();
            Some(CapExceeded { pid: from, task: None, what, cap, used: cap.saturating_sub(free), need, at_cap })
        });
        amounts.or_else(|| self.beyond_rates(parent, budget))
    }

    /// A rate or a context that is more than one above has.
    fn beyond_rates(&self, parent: Pid, budget: &Budget) -> Option<CapExceeded> {
        let mut above = self.lineage(parent).into_iter().filter_map(|pid| Some((pid, self.books.accounts.get(&pid)?.budget.as_ref()?)));
        above.find_map(|(pid, bound)| {
            let rate = (Cap::Rate, budget.requests_per_minute.map(u64::from), bound.requests_per_minute.map(u64::from));
            let context = (Cap::Context, budget.context, bound.context);
            let beyond = |(what, own, bound): (Cap, Option<u64>, Option<u64>)| {
                own.zip(bound).filter(|(own, bound)| own > bound).map(|(need, cap)| (what, need, cap))
            };
            let at_cap = bound.at_cap;
            beyond(rate).or_else(|| beyond(context)).map(|(what, need, cap)| CapExceeded {
                pid,
                task: None,
                what,
                cap,
                used: 0,
                need,
                at_cap,
            })
        })
    }

    pub(crate) fn check_allotment(&self, parent: Pid, budget: &Budget) -> Result<(), String> {
        let view = View { now_ms: self.now_ms, leases: true };
        for (what, need) in budget.amounts() {
            let Some(from) = self.capped_from(parent, &what) else { continue };
            if need > self.books.unallotted(from, &what, view) {
                return Err(format!("process {from} has not {need} of its {what} left"));
            }
        }
        match self.beyond_rates(parent, budget) {
            Some(CapExceeded { pid, what, need, .. }) => Err(format!("process {pid} has no {what} of {need}")),
            None => Ok(()),
        }
    }

    /// Sets a new process's budget aside.
    pub(crate) fn allot(&mut self, pid: Pid, budget: &Budget) {
        let parent = self.processes.get(&pid).and_then(|process| process.parent);
        let from: Vec<(Cap, Option<Pid>)> =
            budget.amounts().map(|(what, _)| (what.clone(), parent.and_then(|parent| self.capped_from(parent, &what)))).collect();
        self.books.accounts.entry(pid).or_default().budget = Some(budget.clone());
        from.into_iter().for_each(|(what, from)| self.books.link(pid, &what, from));
    }

    /// A person's word took the place of what was allotted to it.
    pub(crate) fn return_allotment(&mut self, pid: Pid) {
        self.books.unlink(pid);
    }

    /// `pid` ended: what it has not used of its allotment is free again, and what those before it left, unless somebody lives who has his part
    /// of that. What a dead process may have spent goes on as the account of those whom it left.
    pub(crate) fn return_allotments(&mut self, pid: Pid) {
        let is_over = |of: &Pid| !self.processes.get(of).is_some_and(|process| process.state.alive()) && !self.has_heirs(*of);
        let over: Vec<Pid> = self.lineage(pid).into_iter().filter(is_over).collect();
        over.into_iter().for_each(|of| self.books.unlink(of));
    }

    /// A process leaves the table: what requests of it may have cost beyond what is known is the next one's above it.
    pub(crate) fn forget_account(&mut self, pid: Pid, above: Option<Pid>) {
        self.books.unlink(pid);
        for held in self.books.held.values_mut().filter(|held| held.pid == pid) {
            held.pid = above.unwrap_or(Pid::KERNEL);
        }
    }

    /// What an agent says that it used: it counts as spent, and can only be more. In its own account all of it counts; in those above no more
    /// than it could have used, so that a word of one takes nothing from others.
    pub(crate) fn claim(&mut self, pid: Pid, tokens: u64, at_ms: i64) {
        let Some(program) = self.processes.get(&pid).and_then(|process| process.program.as_deref()) else { return };
        let (tier, model) = (program.tier.as_str().to_owned(), program.model.clone());
        let tokens = tokens.min(super::AMOUNT_MAX);
        let line = self.lineage(pid);
        let view = View { now_ms: at_ms, leases: true };
        let rooms: Vec<u64> = (0..line.len()).map(|at| self.claimable(line[at], &line[..at], &tier, view)).collect();
        let mut carried = tokens;
        for (of, room) in line.into_iter().zip(rooms) {
            let counted = if of == pid { tokens } else { carried.min(room) };
            carried = carried.min(room);
            self.books.accounts.entry(of).or_default().spend(&tier, counted, 0, at_ms);
        }
        let figures = UsageTotals { input: tokens, ..UsageTotals::default() };
        let row = Row { day: day(at_ms), pid, provider: CLAIMED.into(), model, tier, task: None };
        self.books.usage.entry(row).or_default().add(&figures);
    }

    /// Tokens that somebody on `path` below could still use under all caps of one account.
    fn claimable(&self, of: Pid, path: &[Pid], tier: &str, view: View) -> u64 {
        let budget = self.books.accounts.get(&of).and_then(|account| account.budget.as_ref());
        let caps = budget.into_iter().flat_map(Budget::amounts).map(|(what, _)| what);
        let rooms = caps.filter(|what| !what.is_money() && what.counts(tier)).filter_map(|what| self.books.room(of, &what, path, view));
        rooms.chain(self.left_of_limits(of, view)).min().unwrap_or(u64::MAX)
    }

    /// The records by which a process gets more of what its allotment caps: each account above that has not enough gets the rest from the next,
    /// up to one that has. The account that has not, where none has.
    pub fn resource_path(&self, pid: Pid, what: &Cap, amount: u64, now_ms: i64) -> Result<Vec<Event>, CapExceeded> {
        let name = what.to_string();
        let mut steps: Vec<Event> = Vec::new();
        let (mut at, mut need) = (pid, amount);
        while need > 0 {
            let from = self.books.accounts.get(&at).and_then(|account| account.allotted_from.get(&name)).copied();
            let Some(from) = from else {
                let cap = self.books.amount(at, what).unwrap_or(0);
                return Err(CapExceeded { pid: at, task: None, what: what.clone(), cap, used: cap, need, at_cap: super::AtCap::Ask });
            };
            steps.push(ResourceGiven { pid: at, task: None, from, what: name.clone(), amount: need }.into());
            // Where an agent claimed more than it had, that is made up for first.
            let cap = self.books.amount(from, what).unwrap_or(0);
            let (used, kept) = self.allotted(from, what, now_ms);
            need = need.saturating_add(used).saturating_add(kept).saturating_sub(cap);
            at = from;
        }
        steps.reverse();
        Ok(steps)
    }

    pub(crate) fn check_given(&self, given: &ResourceGiven) -> Result<(), String> {
        let what = Cap::parse(&given.what).ok_or_else(|| format!("`{}` is no cap", given.what))?;
        let from = self.books.accounts.get(&given.pid).and_then(|account| account.allotted_from.get(&given.what)).copied();
        if from != Some(given.from) {
            return Err(format!("process {} has its {what} not from {}", given.pid, given.from));
        }
        let free = self.books.unallotted(given.from, &what, View { now_ms: self.now_ms, leases: true });
        if given.amount > free { Err(format!("process {} has {free} left of its {what}", given.from)) } else { Ok(()) }
    }

    pub(crate) fn give(&mut self, given: &ResourceGiven) {
        let Some(what) = Cap::parse(&given.what) else { return };
        let Some(account) = self.books.accounts.get_mut(&given.pid) else { return };
        account.warned.clear();
        if let Some(budget) = &mut account.budget {
            budget.raise(&what, given.amount);
        }
    }

    /// What of a cap is used and what is kept free for those below, for whoever adds them up.
    pub fn allotted(&self, pid: Pid, what: &Cap, now_ms: i64) -> (u64, u64) {
        let view = View { now_ms, leases: true };
        let used = self.books.accounts.get(&pid).map_or(0, |account| account.used_of(what, view));
        (used, self.books.kept_free(pid, what, &[], view).0)
    }

    /// The caps of an account by name.
    pub fn caps(&self, pid: Pid) -> BTreeMap<String, u64> {
        let budget = self.books.accounts.get(&pid).and_then(|account| account.budget.as_ref());
        budget.into_iter().flat_map(Budget::amounts).map(|(what, cap)| (what.to_string(), cap)).collect()
    }
}

impl Cap {
    /// Does it pass by itself?
    pub fn passes(&self) -> bool {
        matches!(self, Cap::Rate | Cap::PerDay(_) | Cap::PerHour(_) | Cap::MoneyPerDay)
    }

    pub fn is_money(&self) -> bool {
        matches!(self, Cap::Money | Cap::MoneyPerDay)
    }

    /// How long what it counts lasts, for one that passes by itself.
    pub fn span_ms(&self) -> i64 {
        match self {
            Cap::PerDay(_) | Cap::MoneyPerDay => 86_400_000,
            Cap::PerHour(_) => 3_600_000,
            _ => 60_000,
        }
    }

    /// Is it about tokens of this tier, or about money?
    pub(crate) fn counts(&self, tier: &str) -> bool {
        match self {
            Cap::Tokens(of) | Cap::PerDay(of) | Cap::PerHour(of) => of == tier || of == super::ALL_TIERS,
            Cap::Money | Cap::MoneyPerDay => true,
            Cap::Rate | Cap::Context => false,
        }
    }

    pub fn amount_of(&self, spend: &Spend) -> u64 {
        match self {
            Cap::Tokens(tier) | Cap::PerDay(tier) | Cap::PerHour(tier) => spend.of(tier),
            Cap::Money | Cap::MoneyPerDay => spend.micros,
            Cap::Rate | Cap::Context => 0,
        }
    }
}

impl Account {
    /// What counts under a cap.
    pub(super) fn used_of(&self, what: &Cap, view: View) -> u64 {
        let leased = if view.leases { what.amount_of(&self.leased) } else { 0 };
        let spent = match what {
            Cap::PerDay(_) | Cap::MoneyPerDay if self.day != day(view.now_ms) => 0,
            Cap::PerDay(_) | Cap::MoneyPerDay => what.amount_of(&self.spent_day),
            Cap::PerHour(_) if self.hour != super::hour(view.now_ms) => 0,
            Cap::PerHour(tier) => self.spent_hour.of(tier),
            _ => what.amount_of(&self.spent),
        };
        [leased, what.amount_of(&self.reserved), what.amount_of(&self.held)].into_iter().fold(spent, u64::saturating_add)
    }

    /// Takes note of what was spent, also for the day and the hour.
    pub(super) fn spend(&mut self, tier: &str, tokens: u64, micros: u64, at_ms: i64) {
        self.spent.add(tier, tokens, micros);
        // Also where nothing caps them: a cap that is set at noon counts the morning.
        roll(&mut self.hour, &mut self.spent_hour, super::hour(at_ms)).add(tier, tokens, micros);
        roll(&mut self.day, &mut self.spent_day, day(at_ms)).add(tier, tokens, micros);
    }

    /// What counts under one of its caps now, for whoever shows it.
    pub fn used(&self, what: &Cap, now_ms: i64) -> u64 {
        self.used_of(what, View { now_ms, leases: true })
    }
}

/// Begins a new sum when the time that it is for is over.
fn roll<'a>(of: &mut i64, sum: &'a mut Spend, now: i64) -> &'a mut Spend {
    if *of != now {
        *of = now;
        *sum = Spend::default();
    }
    sum
}
