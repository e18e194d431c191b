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
