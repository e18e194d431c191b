//! Laws of budgets, held against random histories: requests that race, settle for less, go missing, leave before they are on record,
//! and kernels that die.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cases;
mod history;

use crate::history::*;
use ::world::{Pid, limits};
use proptest::prelude::*;
use std::collections::BTreeMap;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("SKEP_SOAK").is_some() { 5_000 } else { 64 }))]

    /// Whatever order things happen in and wherever the kernel dies: the books never say less than what really went out, a parent's
    /// account is its own and all its children's, and no cap that stood when a request was made is passed by it.
    #[test]
    fn nobody_overspends_and_parents_include_children(steps in prop::collection::vec(any_step(), 0..160)) {
        let mut run = Run::new();
        // A cap set below what is already spent lets nothing more through; until then it is passed by nobody.
        let mut over: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for step in &steps {
            let before = run.made.len();
            run.step(step);
            for (pid, _) in PARENTS {
                let Some(account) = run.world.books.accounts.get(&Pid(pid)) else { continue };
                let sum = |parts: [u64; 3]| parts.into_iter().fold(0, u64::saturating_add);
                let booked = |tier: &str| sum([account.spent.of(tier), account.reserved.of(tier), account.held.of(tier)]);
                for tier in TIERS {
                    let out = run.real(pid, tier).0.saturating_add(run.doubt(pid, tier).0);
                    prop_assert!(out <= booked(tier), "{pid} has spent {tier} tokens that nobody knows of, after {step:?}");
                }
                let booked_micros = sum([account.spent.micros, account.reserved.micros, account.held.micros]);
                let out = run.real(pid, ALL_TIERS).1.saturating_add(run.doubt(pid, ALL_TIERS).1);
                prop_assert!(out <= booked_micros, "{pid} has spent money that nobody knows of, after {step:?}");
                let holds = || run.world.books.held.values().filter(|held| run.world.ancestry(held.pid).any(|process| process.pid == Pid(pid)));
                for tier in TIERS {
                    prop_assert_eq!(account.held.of(tier), holds().filter(|held| held.tier == tier).map(|held| held.tokens).sum::<u64>());
                }
                prop_assert_eq!(account.held.micros, holds().map(|held| held.micros).sum::<u64>(), "after {:?}", step);
                prop_assert!(holds().all(|held| held.until_ms <= run.now_ms + limits::HELD_MS));
                let leases = || run.world.leases().filter(|(of, _)| run.world.ancestry(*of).any(|process| process.pid == Pid(pid)));
                for tier in TIERS {
                    let sum: u64 = leases().filter(|(_, lease)| lease.tier == tier).map(|(_, lease)| lease.tokens).sum();
                    prop_assert_eq!(account.leased.of(tier), sum);
                }
                prop_assert_eq!(account.leased.micros, leases().map(|(_, lease)| lease.micros).sum::<u64>());
                let Some(budget) = &account.budget else { continue };
                let used = |tier: &str| booked(tier).saturating_add(account.leased.of(tier));
                let excess = budget.tokens.iter().map(|(tier, cap)| used(tier).saturating_sub(*cap)).max().unwrap_or(0);
                let money = booked_micros.saturating_add(account.leased.micros);
                let excess = (excess, budget.micros.map_or(0, |cap| money.saturating_sub(cap)));
                let known = over.entry(pid).or_default();
                if matches!(step, Step::Cap { pid: of, .. } | Step::Grant { pid: of, .. } if *of == pid) {
                    *known = excess;
                }
                prop_assert!(excess.0 <= known.0 && excess.1 <= known.1, "{pid} passes its cap by {excess:?} after {step:?}");
                // Who is over, or has an ancestor that is, made no request in this step that needs any of it.
                if run.made.len() > before && excess != (0, 0) {
                    let made = run.made.last().unwrap();
                    let tokens = excess.0 > 0 && made.tokens > 0 && budget.tokens.keys().any(|tier| tier == made.tier || tier == ALL_TIERS);
                    let capped = tokens || (excess.1 > 0 && made.micros > 0);
                    let below = run.world.ancestry(Pid(made.pid)).any(|process| process.pid == Pid(pid));
                    prop_assert!(!(capped && below), "{pid} is over its cap, and {made:?} was let through");
                }
            }
            prop_assert_eq!(run.world.books.reserved.len(), run.made.iter().filter(|made| made.open).count());
            if matches!(step, Step::Crash { .. } | Step::Rest) {
                let idle = |account: &::world::Account| [&account.reserved, &account.leased].iter().all(|held| held.of(ALL_TIERS) == 0 && held.micros == 0);
                prop_assert!(run.world.books.accounts.values().all(idle));
            }
        }
    }

    /// Without a crash nothing is charged that did not go out: leases come and go and leave no trace.
    #[test]
    fn without_a_crash_the_books_say_what_went_out(steps in prop::collection::vec(any_step(), 0..160)) {
        let mut run = Run::new();
        for step in steps.iter().filter(|step| !matches!(step, Step::Crash { .. } | Step::Fail)) {
            run.step(step);
            for (pid, _) in PARENTS {
                let Some(account) = run.world.books.accounts.get(&Pid(pid)) else { continue };
                for tier in TIERS {
                    prop_assert_eq!(account.spent.of(tier).saturating_add(account.reserved.of(tier)), run.real(pid, tier).0);
                    prop_assert_eq!(account.held.of(tier), run.doubt(pid, tier).0, "what is in doubt is held, once");
                }
                prop_assert_eq!(account.held.micros, run.doubt(pid, ALL_TIERS).1);
            }
        }
    }

    /// A crash holds what had left and nothing else: neither what was only reserved nor what was only leased.
    #[test]
    fn a_crash_holds_what_had_left(steps in prop::collection::vec(any_step(), 0..120)) {
        let mut run = Run::new();
        for step in steps.iter().filter(|step| !matches!(step, Step::Crash { .. } | Step::Fail | Step::Rest | Step::Cap { .. })) {
            run.step(step);
        }
        run.sync();
        run.crash(false);
        for (pid, _) in PARENTS {
            let Some(account) = run.world.books.accounts.get(&Pid(pid)) else { continue };
            for tier in TIERS {
                prop_assert_eq!(account.held.of(tier), run.doubt(pid, tier).0);
                prop_assert_eq!(account.spent.of(tier), run.real(pid, tier).0);
            }
        }
        // And all of it only for a day.
        run.step(&Step::Wait { hours: 24 });
        prop_assert!(run.world.books.held.is_empty());
        prop_assert!(run.world.books.accounts.values().all(|account| account.held.of(ALL_TIERS) == 0 && account.held.micros == 0));
    }
}
