//! Single histories, told by hand.

use crate::history::*;
use ::world::budget::held;
use ::world::event::*;
use ::world::{Pid, UsageTotals};
use std::collections::BTreeMap;

/// A process that asks again and again: the first request waits for the disk, the others do not.
#[test]
fn requests_after_the_first_leave_at_once() {
    let mut run = Run::new();
    run.step(&Step::Cap { pid: 2, tier: 1, tokens: Some(100_000), micros: Some(100_000) });
    for nth in 0..20 {
        run.ask(3, TIERS[1], 1_000, 500);
        assert_eq!(run.ahead, nth, "request {nth}");
        run.settle(run.made.len() - 1, |whole| whole / 10, |_| 0);
        run.sync();
    }
    let account = &run.world.books.accounts[&Pid(2)];
    assert_eq!((account.spent.of(TIERS[1]), account.spent.micros), (2_000, 1_000));
}

/// A lease that is topped up by a request that is not on disk yet holds no more than before.
#[test]
fn what_is_not_on_disk_is_not_drawn_from() {
    let mut run = Run::new();
    run.ask(3, TIERS[1], 1_000, 0);
    run.ask(3, TIERS[1], 1_500, 0);
    assert_eq!(run.ahead, 1, "the first set 2,000 aside, and is on disk");
    run.ask(3, TIERS[1], 2_500, 0);
    assert_eq!(run.ahead, 1, "the second set more aside, and is not");
    (0..2).for_each(|at| run.leave(at));
    run.crash(false);
    let account = &run.world.books.accounts[&Pid(3)];
    assert_eq!((account.held.of(TIERS[1]), account.spent.of(TIERS[1])), (1_000 + 1_500, 0), "the third had not left, nor had any lease");
}

/// The lease is held in the place of requests that nobody knows of, and only where that may be.
#[test]
fn where_the_machine_went_down_everything_set_aside_is_held() {
    for (machine, held) in [(false, 1_000), (true, 1_000 + 2_000)] {
        let mut run = Run::new();
        run.ask(3, TIERS[1], 1_000, 0);
        run.leave(0);
        run.crash(machine);
        assert_eq!(run.world.books.accounts[&Pid(1)].held.of(TIERS[1]), held);
    }
}

/// It left before it was on record, and never came to be: its lease pays, and its number is never another's.
#[test]
fn a_request_without_a_record_is_held_once() {
    let mut run = Run::new();
    run.ask(3, TIERS[1], 1_000, 0);
    run.settle(0, |whole| whole, |_| 0);
    run.sync();
    run.ask(3, TIERS[1], 900, 0);
    run.leave(1);
    assert_eq!(run.ahead, 1);
    let lost = run.made[1].call;
    run.fail();
    assert_eq!(run.world.books.held.keys().collect::<Vec<_>>(), [&lost]);
    assert!(run.world.next_call() > lost);
    run.crash(false);
    assert_eq!(run.world.books.accounts[&Pid(3)].held.of(TIERS[1]), 900);
}

/// A person who knows better takes the estimate's place, in every account above.
#[test]
fn what_is_known_takes_the_place_of_what_was_guessed() {
    let mut run = Run::new();
    run.ask(3, TIERS[1], 1_000, 500);
    run.settle(0, |whole| whole / 10, |_| 0);
    run.ask(3, TIERS[1], 1_000, 500);
    run.leave(1);
    run.sync();
    run.crash(false);
    let spent = |run: &Run, pid| run.world.books.accounts[&Pid(pid)].spent.clone();
    let held = run.world.books.held_of(Pid(3));
    assert_eq!((held.of(TIERS[1]), held.micros), (1_000, 500), "the request, and nothing of the lease");
    assert_eq!((spent(&run, 1).of(TIERS[1]), spent(&run, 1).micros), (100, 50));
    let reconcile = |run: &mut Run, tokens: BTreeMap<String, u64>, micros: Option<u64>| {
        let released = held::reconciled(&run.world, Pid(3), &tokens, micros);
        run.record(BudgetReconciled { pid: Pid(3), task: None, tokens, micros, by: "h".into() }.into());
        released.into_iter().for_each(|event| run.record(event));
    };
    reconcile(&mut run, BTreeMap::from([(TIERS[1].to_owned(), 40)]), None);
    let held = run.world.books.held_of(Pid(3));
    assert_eq!((spent(&run, 1).of(TIERS[1]), held.of(TIERS[1]), held.micros), (140, 0, 500), "what is not named stays");
    reconcile(&mut run, BTreeMap::new(), Some(20));
    assert!(run.world.books.held.is_empty());
    for pid in [3, 2, 1] {
        assert_eq!((spent(&run, pid).of(TIERS[1]), spent(&run, pid).micros), (140, 70));
    }
    assert!(run.world.books.guesses.is_empty());
    let total = run.world.books.usage.values().fold(UsageTotals::default(), |mut sum, figures| {
        sum.add(figures);
        sum
    });
    assert_eq!((total.requests, total.input, total.micros, total.estimated), (1, 40, 70, 0));
}

/// What is only set aside for one process is in nobody's way.
#[test]
fn a_lease_is_recalled_before_anybody_is_refused() {
    let mut run = Run::new();
    run.step(&Step::Cap { pid: 2, tier: 1, tokens: Some(10_000), micros: None });
    run.ask(3, TIERS[1], 500, 0);
    run.settle(0, |whole| whole / 5, |_| 0);
    run.sync();
    let leased = run.world.books.accounts[&Pid(2)].leased.of(TIERS[1]);
    assert!(leased > 0);
    run.ask(4, TIERS[1], 9_900, 0);
    assert_eq!(run.made.len(), 2, "all that is not spent can be asked for");
    assert_eq!(run.world.leases().count(), 0);
    run.ask(3, TIERS[1], 1, 0);
    assert_eq!(run.made.len(), 2, "and no more than that");
}

/// What a task spent, has reserved and has held counts against its own cap, and against no other task's.
#[test]
fn a_cap_of_a_task_is_passed_by_no_request() {
    use ::world::{Budget, Cap, Mode, Need, TaskId, ZoneId};
    let mut run = Run::new();
    let need = |micros| Need { tier: TIERS[1], tokens: 10, context: 10, micros };
    let (pid, first, second) = (Pid(3), TaskId(1), TaskId(2));
    for task in [first, second] {
        let queued = TaskQueued {
            pid,
            task: Some(task),
            zone: ZoneId(1),
            mode: Mode::Act,
            prompt: "p".into(),
            brain: String::new(),
            priority: 0,
            calls_max: None,
            original: None,
            order: None,
            discard: false,
        };
        run.world.apply(&queued.into(), 0);
    }
    let budget = Some(Budget { micros: Some(1_000), ..Budget::default() });
    run.world.apply(&BudgetSet { pid, task: Some(first), budget, by: "operator".into() }.into(), 0);
    assert!(run.world.books.accounts.get(&pid).is_none_or(|account| account.budget.is_none()), "it is the task's and not its process's");
    assert_eq!(run.world.short_of_task(first, &need(1_000)), None);
    let short = run.world.short_of_task(first, &need(1_001)).unwrap();
    assert_eq!((short.task, short.what, short.cap, short.used), (Some(first), Cap::Money, 1_000, 0));
    assert_eq!((run.world.short_of_task(second, &need(9_999)), run.world.is_task_capped(Some(second))), (None, false));
    assert!(run.world.is_unbounded_task(Some(first), TIERS[1]) && !run.world.is_unbounded_task(Some(second), TIERS[1]));

    // Reserved counts, then what is spent and held of it.
    let (task, call, tier) = (Some(first), ::world::CallId(9), TIERS[1].to_owned());
    let (provider, model) = ("p".to_owned(), "m".to_owned());
    let reserved =
        ModelReserved { pid, task, call, provider: provider.clone(), model: model.clone(), tier, tokens: 10, micros: 600, lease: None };
    run.world.apply(&reserved.into(), 0);
    assert_eq!(run.world.short_of_task(first, &need(401)).map(|short| short.used), Some(600));
    let figures = UsageTotals { requests: 1, input: 5, micros: 100, ..UsageTotals::default() };
    let used = ModelUsed {
        pid,
        task,
        call,
        provider,
        model,
        tier: TIERS[1].to_owned(),
        figures,
        charged_tokens: 5,
        charged_micros: 100,
        status: Some(200),
        first_byte_ms: None,
        asked: None,
        answered: None,
        notes: Vec::new(),
        held_tokens: 0,
        held_micros: 200,
        ended: None,
        parts: None,
    };
    run.world.apply(&used.into(), 0);
    assert_eq!(run.world.short_of_task(first, &need(701)).map(|short| short.used), Some(300));
    assert_eq!(run.world.short_of_task(first, &need(700)), None);
    let usage = run.world.usage_by_task();
    assert_eq!((usage.len(), usage[&first].totals, usage[&first].held.micros), (1, figures, 200));
}
