//! The order of sessions: tables for the rules of seed 003, and laws for what no history may break.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const ROOMY: MemoryUse = MemoryUse { used: 1, total: 100 };

fn request(session: u64, template: &str, priority: u8) -> RoomClaim {
    RoomClaim { session: TaskId(session), template: template.to_owned(), priority, time_ms_max: 1_000 }
}

fn queue(slots_max: usize) -> SlotQueue {
    SlotQueue::new(SlotLimits {
        slots_max,
        per_template: BTreeMap::from([("executor".to_owned(), 2), ("policy".to_owned(), 1)]),
        age_ms: 100,
    })
}

/// The sessions that get the place, one after the other.
fn served(queue: &mut SlotQueue, tickets: &BTreeMap<SlotTicket, u64>, now_ms: u64) -> Vec<u64> {
    let mut order = Vec::new();
    loop {
        let granted = queue.grant(now_ms);
        if granted.is_empty() {
            return order;
        }
        for ticket in granted {
            order.push(tickets[&ticket]);
            queue.leave(ticket);
        }
    }
}

#[test]
fn waiting_lifts_to_the_second_level_and_no_further() {
    let check =
        |priority, waited_ms, expected| assert_eq!(effective_priority(priority, waited_ms, 100), expected, "{priority} after {waited_ms}");
    check(5, 99, 5);
    check(5, 100, 4);
    check(5, 299, 3);
    check(5, 300, 2);
    check(5, u64::MAX, 2);
    check(3, 100, 2);
    check(2, 10_000, 2);
    check(1, 10_000, 1);
    // What is no priority is the nearest one.
    check(0, 10_000, 1);
    check(9, 0, 5);
}

#[test]
fn the_highest_priority_comes_first_and_equals_in_the_order_they_came() {
    let mut queue = queue(1);
    let mut tickets = BTreeMap::new();
    for (number, (session, priority)) in [(1, 3), (2, 1), (3, 5), (4, 3)].into_iter().enumerate() {
        tickets.insert(queue.enter(request(session, "any", priority), number as u64), session);
    }
    assert_eq!(served(&mut queue, &tickets, 10), [2, 1, 4, 3]);
}

#[test]
fn a_session_with_many_steps_does_not_hold_up_one_with_few() {
    let mut queue = queue(1);
    let mut tickets = BTreeMap::new();
    for _ in 0..4 {
        tickets.insert(queue.enter(request(1, "any", 3), 0), 1);
    }
    for _ in 0..2 {
        tickets.insert(queue.enter(request(2, "any", 3), 1), 2);
    }
    assert_eq!(served(&mut queue, &tickets, 2), [1, 2, 1, 2, 1, 1]);
}

#[test]
fn a_session_that_comes_and_goes_is_not_always_first() {
    let mut queue = queue(1);
    let mut wins = [0, 0];
    let mut open = [queue.enter(request(1, "any", 3), 0), queue.enter(request(2, "any", 3), 0)];
    for now_ms in 1..=20 {
        let granted = queue.grant(now_ms);
        let winner = open.iter().position(|ticket| granted.contains(ticket)).unwrap();
        wins[winner] += 1;
        queue.leave(open[winner]);
        open[winner] = queue.enter(request(winner as u64 + 1, "any", 3), now_ms);
    }
    assert_eq!(wins, [10, 10]);
}

#[test]
fn what_is_remembered_of_sessions_is_bounded() {
    let mut queue = queue(1);
    for session in 0..5_000 {
        let ticket = queue.enter(request(session, "any", 3), 0);
        assert_eq!(queue.grant(0), [ticket]);
        queue.leave(ticket);
        assert!(queue.served.len() <= SERVED_MAX, "{}", queue.served.len());
    }
    assert!(queue.lanes.is_empty() && queue.running.is_empty());
}

#[test]
fn who_waits_long_enough_passes_fresh_work_but_not_the_systems() {
    let mut queue = queue(1);
    let patient = queue.enter(request(9, "any", 5), 0);
    let fresh = queue.enter(request(1, "any", 3), 290);
    let system = queue.enter(request(2, "any", 1), 290);
    assert_eq!(queue.grant(295), [system]);
    queue.leave(system);
    // At 295 the patient one counts as 3 like the fresh one and came first.
    assert_eq!(queue.grant(295), [patient]);
    queue.leave(patient);
    assert_eq!(queue.grant(295), [fresh]);
}

#[test]
fn a_full_template_holds_up_nobody_else() {
    let mut queue = queue(4);
    let executors: Vec<SlotTicket> = (0..3).map(|_| queue.enter(request(1, "executor", 2), 0)).collect();
    let policy = queue.enter(request(1, "policy", 4), 0);
    let other = queue.enter(request(2, "any", 5), 0);
    assert_eq!(queue.grant(0), [executors[0], executors[1], policy, other]);
    assert_eq!((queue.running(), queue.waiting()), (4, 1));
    queue.leave(other);
    assert_eq!(queue.grant(0), [], "there is a place, and none for executors");
    queue.leave(executors[0]);
    assert_eq!(queue.grant(0), [executors[2]]);
}

#[test]
fn a_higher_priority_gets_the_place_of_a_lower_one_that_is_paused_and_goes_on_later() {
    let mut queue = queue(2);
    let (low, lowest) = (queue.enter(request(1, "any", 4), 0), queue.enter(request(2, "any", 5), 0));
    assert_eq!(queue.grant(0), [low, lowest]);
    assert_eq!(queue.preempt(1, ROOMY), None, "nobody waits");
    let high = queue.enter(request(3, "any", 1), 1);
    assert_eq!(queue.grant(1), []);
    assert_eq!(queue.preempt(1, ROOMY), Some(PreemptionCall { claimant: high, victim: lowest, act: Preemption::Pause }));
    assert_eq!(queue.preempt(1, ROOMY), None, "one is on its way out already");
    queue.suspend(lowest, 1);
    assert_eq!(queue.grant(1), [high]);
    assert_eq!(queue.waiting(), 1);
    queue.leave(high);
    assert_eq!(queue.grant(2), [lowest]);
}

#[test]
fn equals_and_the_patient_take_nobodys_place() {
    let mut queue = queue(1);
    let first = queue.enter(request(1, "any", 3), 0);
    assert_eq!(queue.grant(0), [first]);
    queue.enter(request(2, "any", 3), 0);
    assert_eq!(queue.preempt(50, ROOMY), None);
    queue.enter(request(3, "any", 4), 0);
    // It counts as 2 by now, and still takes no place of a 3.
    assert_eq!(queue.preempt(500, ROOMY), None);
    // Control: one that is of higher priority does, though the patient one comes before it in line.
    let claimant = queue.enter(request(5, "any", 2), 499);
    assert_eq!(queue.preempt(500, ROOMY), Some(PreemptionCall { claimant, victim: first, act: Preemption::Pause }));
}

#[test]
fn for_a_full_template_only_one_of_it_makes_place() {
    let mut queue = queue(4);
    let policy = queue.enter(request(1, "policy", 3), 0);
    let other = queue.enter(request(2, "any", 5), 0);
    assert_eq!(queue.grant(0).len(), 2);
    let claimant = queue.enter(request(3, "policy", 2), 0);
    assert_eq!(
        queue.preempt(1, MemoryUse { used: 90, total: 100 }),
        Some(PreemptionCall { claimant, victim: policy, act: Preemption::Destroy })
    );
    queue.leave(policy);
    assert_eq!(queue.grant(1), [claimant]);
    assert_eq!(queue.running(), 2, "{other:?} was left alone");
}

#[derive(Clone, Debug)]
enum Act {
    Enter { session: u64, template: usize, priority: u8 },
    Grant,
    Leave(usize),
    Suspend(usize),
    Wait(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0u64..4, 0usize..3, 1u8..=5).prop_map(|(session, template, priority)| Act::Enter { session, template, priority }),
        4 => Just(Act::Grant),
        3 => any::<usize>().prop_map(Act::Leave),
        1 => any::<usize>().prop_map(Act::Suspend),
        2 => (0u64..200).prop_map(Act::Wait),
    ];
    prop::collection::vec(act, 0..120)
}

proptest! {
    /// Never more than the limits, nobody twice without having left, whoever enters is granted in the end, and a session's equals in the order they came.
    #[test]
    fn no_history_breaks_the_limits_or_forgets_anybody(acts in acts()) {
        const TEMPLATES: [&str; 3] = ["executor", "policy", "any"];
        let mut queue = queue(3);
        let (mut now_ms, mut running, mut waiting) = (0, Vec::new(), BTreeSet::new());
        let mut of = BTreeMap::new();
        let mut suspended = BTreeSet::new();
        let drain = Act::Wait(1_000);
        let ends = (0..400).map(|index| if index % 2 == 0 { Act::Grant } else { Act::Leave(0) });
        for act in acts.into_iter().chain([drain]).chain(ends) {
            match act {
                Act::Enter { session, template, priority } => {
                    let ticket = queue.enter(request(session, TEMPLATES[template], priority), now_ms);
                    of.insert(ticket, (session, template, priority));
                    waiting.insert(ticket);
                }
                Act::Grant => {
                    for ticket in queue.grant(now_ms) {
                        prop_assert!(waiting.remove(&ticket), "{:?} did not wait", ticket);
                        let own = of[&ticket];
                        let earlier = waiting.iter().find(|other| **other < ticket && of[*other] == own && !suspended.contains(*other));
                        prop_assert!(suspended.remove(&ticket) || earlier.is_none(), "{:?} passed {:?}", ticket, earlier);
                        running.push(ticket);
                    }
                    prop_assert!(running.len() <= 3);
                    for (template, max) in [(0, 2), (1, 1)] {
                        prop_assert!(running.iter().filter(|ticket| of[*ticket].1 == template).count() <= max);
                    }
                    // No place stays empty that somebody could have.
                    let is_stuck = |ticket: &SlotTicket| {
                        let count = |template| running.iter().filter(|ticket| of[*ticket].1 == template).count();
                        match of[ticket].1 { 0 => count(0) == 2, 1 => count(1) == 1, _ => false }
                    };
                    prop_assert!(running.len() == 3 || waiting.iter().all(is_stuck));
                }
                Act::Leave(pick) if !running.is_empty() => queue.leave(running.remove(pick % running.len())),
                Act::Suspend(pick) if !running.is_empty() => {
                    let ticket = running.remove(pick % running.len());
                    queue.suspend(ticket, now_ms);
                    waiting.insert(ticket);
                    suspended.insert(ticket);
                }
                Act::Leave(_) | Act::Suspend(_) => {}
                Act::Wait(ms) => now_ms += ms,
            }
            prop_assert_eq!((queue.running(), queue.waiting()), (running.len(), waiting.len()));
        }
        prop_assert!(waiting.is_empty(), "{:?} still wait", waiting);
    }

    /// Sessions of one priority that always want more get the same number of places, give or take one.
    #[test]
    fn equal_sessions_get_equal_shares(slots in 1usize..6, sessions in 2u64..6, rounds in 10usize..60, leaving in prop::collection::vec(any::<usize>(), 60)) {
        let mut queue = SlotQueue::new(SlotLimits { slots_max: slots, ..SlotLimits::default() });
        let mut of = BTreeMap::new();
        for session in 0..sessions {
            for _ in 0..rounds + 6 {
                of.insert(queue.enter(request(session, "any", 3), 0), session);
            }
        }
        let mut running = queue.grant(0);
        let mut shares = BTreeMap::new();
        for pick in leaving.iter().take(rounds) {
            let ended = running.remove(pick % running.len());
            queue.leave(ended);
            running.extend(queue.grant(0));
            shares.clear();
            for ticket in &running {
                *shares.entry(of[ticket]).or_insert(0usize) += 1;
            }
            let most = shares.values().max().copied().unwrap_or(0);
            let least = (0..sessions).map(|session| shares.get(&session).copied().unwrap_or(0)).min().unwrap_or(0);
            // Who ends when is not up to the queue, so a share may lag by what has just ended.
            prop_assert!(most - least <= 2, "{:?}", shares);
        }
    }

    /// However much of priority 2 keeps coming, somebody of the lowest priority is served soon after three levels of waiting.
    #[test]
    fn nobody_starves_behind_a_flood(flooders in 1u64..5) {
        let mut queue = SlotQueue::new(SlotLimits { slots_max: 1, age_ms: 100, ..SlotLimits::default() });
        let patient = queue.enter(request(99, "any", 5), 0);
        let mut turns_after_lift = 0;
        for now_ms in (0..2_000).step_by(10) {
            for session in 0..flooders {
                queue.enter(request(session, "any", 2), now_ms);
            }
            let granted = queue.grant(now_ms);
            if granted.contains(&patient) {
                prop_assert!(now_ms >= 300, "lifted too early: {now_ms}");
                prop_assert!(turns_after_lift <= flooders, "{turns_after_lift}");
                return Ok(());
            }
            turns_after_lift += u64::from(now_ms >= 300);
            granted.into_iter().for_each(|ticket| queue.leave(ticket));
        }
        prop_assert!(false, "never served");
    }
}
