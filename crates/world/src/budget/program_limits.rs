//! The limits of programs, as far as they bound what is asked of models. They hold for a process and everything below it, like a budget.

use super::allot::View;
use super::{ALL_TIERS, Account, AtCap, Budget, Cap, CapExceeded, Need};
use crate::{Pid, Process, World};

impl World {
    /// Tokens that a program may use in all: what it was spawned with, and what its account was given since.
    pub fn tokens_total(&self, pid: Pid) -> Option<u64> {
        let program = self.processes.get(&pid)?.program.as_deref()?;
        let total = program.limits.tokens_total?;
        let all = |budget: &Option<Budget>| budget.as_ref().and_then(|budget| budget.tokens.get(ALL_TIERS).copied());
        let at_spawn = all(&program.budget);
        let now = self.books.accounts.get(&pid).and_then(|account| all(&account.budget));
        let given = at_spawn.zip(now).map_or(0, |(at_spawn, now)| now.saturating_sub(at_spawn));
        Some(total.saturating_add(given))
    }

    /// What a process and everything below it may use, and uses now: the caps of its account, and the limits of its program that no cap repeats.
    pub fn cap_figures(&self, pid: Pid, now_ms: i64) -> Vec<(Cap, u64, u64)> {
        let unused = Account::default();
        let account = self.books.accounts.get(&pid).unwrap_or(&unused);
        let limits = self.processes.get(&pid).and_then(Process::limits);
        let all = || ALL_TIERS.to_owned();
        let limited = [
            self.tokens_total(pid).map(|cap| (Cap::Tokens(all()), cap)),
            limits.and_then(|limits| limits.tokens_per_hour).map(|cap| (Cap::PerHour(all()), cap)),
        ];
        let mut caps: Vec<(Cap, u64)> = account.budget.iter().flat_map(Budget::amounts).collect();
        for (what, cap) in limited.into_iter().flatten() {
            match caps.iter_mut().find(|(of, _)| *of == what) {
                Some((_, least)) => *least = cap.min(*least),
                None => caps.push((what, cap)),
            }
        }
        caps.into_iter().map(|(what, cap)| (what.clone(), account.used(&what, now_ms), cap)).collect()
    }

    /// Tokens that the limits of one process leave.
    pub(super) fn left_of_limits(&self, of: Pid, view: View) -> Option<u64> {
        let unused = Account::default();
        let account = self.books.accounts.get(&of).unwrap_or(&unused);
        let all = || ALL_TIERS.to_owned();
        let total = self.tokens_total(of).map(|cap| cap.saturating_sub(account.used_of(&Cap::Tokens(all()), view)));
        let hour = self.processes.get(&of).and_then(Process::limits).and_then(|limits| limits.tokens_per_hour);
        let hour = hour.map(|cap| cap.saturating_sub(account.used_of(&Cap::PerHour(all()), view)));
        total.into_iter().chain(hour).min()
    }

    /// A cap for good, of `pid` or one above it, of which all is spent: who lives on it can do nothing more with a model.
    pub fn used_up(&self, pid: Pid) -> Option<CapExceeded> {
        let tier = self.processes.get(&pid).and_then(Process::tree_tier)?.as_str();
        self.lineage(pid).into_iter().find_map(|of| {
            let account = self.books.accounts.get(&of)?;
            let own = account.budget.iter().flat_map(Budget::amounts).filter(|(what, _)| !what.passes() && what.counts(tier));
            let all = self.tokens_total(of).map(|cap| (Cap::Tokens(ALL_TIERS.to_owned()), cap));
            own.chain(all).find_map(|(what, cap)| {
                let used = what.amount_of(&account.spent);
                let at_cap = account.budget.as_ref().map(|budget| budget.at_cap).unwrap_or_default();
                (used > 0 && used >= cap).then_some(CapExceeded { pid: of, task: None, what, cap, used, need: 1, at_cap })
            })
        })
    }

    /// What a process that says itself what it uses has used up: nobody else keeps it from using more.
    pub fn claimed_up(&self, pid: Pid) -> Option<CapExceeded> {
        let run = self.processes.get(&pid)?.run.as_deref()?;
        if run.uses_gateway { None } else { self.used_up(pid) }
    }

    /// The limits of programs from a process up that a request does not fit under.
    pub(super) fn beyond_limits(&self, line: &[Pid], need: &Need<'_>, view: View) -> Vec<CapExceeded> {
        let unused = Account::default();
        let beyond = |pid: &Pid| {
            let limits = self.processes.get(pid).and_then(Process::limits)?;
            let account = self.books.accounts.get(pid).unwrap_or(&unused);
            let all = ALL_TIERS.to_owned();
            let amount = |what: Cap, cap: u64| {
                let used = account.used_of(&what, view);
                let is_short = need.tokens > 0 && used.saturating_add(need.tokens) > cap;
                is_short.then_some(CapExceeded { pid: *pid, task: None, what, cap, used, need: need.tokens, at_cap: AtCap::default() })
            };
            let context = limits.context.filter(|cap| need.context > *cap).map(|cap| CapExceeded {
                pid: *pid,
                task: None,
                what: Cap::Context,
                cap,
                used: 0,
                need: need.context,
                at_cap: AtCap::default(),
            });
            let total = || self.tokens_total(*pid).and_then(|cap| amount(Cap::Tokens(all.clone()), cap));
            let hour = || limits.tokens_per_hour.and_then(|cap| amount(Cap::PerHour(all.clone()), cap));
            context.or_else(total).or_else(hour)
        };
        line.iter().filter_map(beyond).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ProcReported, ProcSpawned};
    use crate::{Event, ProcessRole, Program, ProgramLimits, Tier};

    fn world(limits: ProgramLimits) -> World {
        let mut world = World::default();
        let spawned = |pid, parent, name: &str, program: Option<Box<Program>>| ProcSpawned {
            pid,
            task: None,
            parent,
            name: name.into(),
            role: name.into(),
            zone: None,
            user: "u".into(),
            program,
        };
        let own = Program { limits, ..Program::new(ProcessRole::Agent, Tier::Operational) };
        let child = Program { limits, ..Program::new(ProcessRole::Worker, Tier::Operational) };
        for event in [
            spawned(Pid(1), None, "kernel", None),
            spawned(Pid(2), Some(Pid(1)), "operator", None),
            spawned(Pid(3), Some(Pid(1)), "agent", Some(Box::new(own))),
            spawned(Pid(4), Some(Pid(3)), "worker", Some(Box::new(child))),
        ] {
            world.apply(&Event::from(event), 1_000);
        }
        world
    }

    fn short(world: &World, tokens: u64, context: u64, now_ms: i64) -> Option<String> {
        let need = Need { tier: "operational", tokens, context, micros: 0 };
        world.short(Pid(4), &need, now_ms).map(|short| format!("{} of {}", short.what, short.pid))
    }

    #[test]
    fn tokens_of_an_hour_pass_with_it_and_count_for_those_above() {
        let mut world = world(ProgramLimits { tokens_per_hour: Some(100), ..ProgramLimits::default() });
        assert_eq!(short(&world, 100, 1, 1_000), None);
        let claim = ProcReported { pid: Pid(4), task: None, state: None, context_permille: None, tokens: Some(60) };
        world.apply(&Event::from(claim), 2_000);
        assert_eq!(short(&world, 40, 1, 3_000), None);
        assert_eq!(short(&world, 41, 1, 3_000).as_deref(), Some("tokens an hour of 4"));
        assert_eq!(short(&world, 100, 1, 3_600_001), None, "another hour");
        let of_agent = Need { tier: "operational", tokens: 41, context: 1, micros: 0 };
        assert_eq!(world.short(Pid(3), &of_agent, 3_000).map(|short| short.pid), Some(Pid(3)), "what is below counts");
    }

    #[test]
    fn tokens_in_all_and_a_context_are_bounded() {
        let mut world = world(ProgramLimits { tokens_total: Some(100), context: Some(50), ..ProgramLimits::default() });
        assert_eq!(short(&world, 100, 50, 1_000), None);
        assert_eq!(short(&world, 1, 51, 1_000).as_deref(), Some("context of 4"));
        let claim = ProcReported { pid: Pid(4), task: None, state: None, context_permille: None, tokens: Some(60) };
        world.apply(&Event::from(claim), 2_000);
        assert_eq!(short(&world, 41, 1, 9_000_000).as_deref(), Some("tokens of 4"), "no hour brings them back");
        assert_eq!(short(&world, 40, 1, 9_000_000), None);
    }

    #[test]
    fn what_an_account_is_given_raises_the_limit_of_its_program() {
        let mut world = world(ProgramLimits { tokens_total: Some(100), ..ProgramLimits::default() });
        let all = |tokens| Some(Budget { tokens: [(ALL_TIERS.to_owned(), tokens)].into(), ..Budget::default() });
        for pid in [Pid(3), Pid(4)] {
            let program = world.processes.get_mut(&pid).and_then(|process| process.program.as_mut());
            program.expect("it has one").budget = all(100);
            world.books.accounts.entry(pid).or_default().budget = all(100);
        }
        assert_eq!(short(&world, 101, 1, 1_000).as_deref(), Some("tokens of 4"));
        world.books.accounts.entry(Pid(4)).or_default().budget = all(150);
        assert_eq!(world.tokens_total(Pid(4)), Some(150));
        assert_eq!(short(&world, 101, 1, 1_000).as_deref(), Some("tokens of 3"), "who is above was given nothing");
        world.books.accounts.entry(Pid(3)).or_default().budget = all(150);
        assert_eq!((short(&world, 150, 1, 1_000), short(&world, 151, 1, 1_000).is_some()), (None, true));
    }
}
