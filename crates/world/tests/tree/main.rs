//! The process tree: laws held against random histories, and cases that name one thing each.

mod budgets;
mod history;
mod lifecycle;
mod mail;
mod shared;

use ::world::event::*;
use ::world::{Cap, Event, Pid, World};
use history::{Run, any_step};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// What holds after every single record.
fn assert_laws(world: &World) {
    for process in world.processes.values().filter(|process| process.program.is_some() && process.state.alive()) {
        let parent = process.parent.and_then(|parent| world.processes.get(&parent));
        assert!(parent.is_some_and(|parent| parent.state.alive()), "process {} has a dead parent", process.pid);
        let above = parent.and_then(|parent| parent.limits());
        let (Some(own), Some(above)) = (process.limits(), above) else { continue };
        // One that was adopted has a new parent, whose limits its old one was within.
        assert_eq!(own.beyond(above), None, "process {} goes beyond its parent", process.pid);
    }
    for (pid, account) in &world.books.accounts {
        // Nobody can stop an agent from saying that it used more than it had; that counts for it alone.
        let claims = world.books.usage.iter().filter(|(row, _)| row.pid == *pid && row.provider == ::world::budget::allot::CLAIMED);
        let claimed: u64 = claims.map(|(_, totals)| totals.tokens()).sum();
        for (what, cap) in account.budget.iter().flat_map(|budget| budget.amounts()) {
            let (used, kept) = world.allotted(*pid, &what, world.now_ms);
            if what.passes() {
                let given =
                    account.allotted.iter().filter(|child| world.books.accounts[child].allotted_from.get(&what.to_string()) == Some(pid));
                let given: u64 = given.filter_map(|child| world.books.accounts[child].budget.as_ref()?.amount(&what)).sum();
                assert!(given <= cap, "process {pid} gave {given} of {cap} {what}");
                continue;
            }
            assert!(used + kept <= cap + claimed, "process {pid} uses {used} and keeps {kept} free of {cap} {what}");
        }
    }
    for (pid, mailbox) in &world.mail.boxes {
        let order: Vec<i64> = mailbox.waiting().map(|id| world.mail.messages[&id].effective_priority(world.now_ms)).collect();
        assert!(order.is_sorted_by(|a, b| a >= b), "a message of process {pid} waits behind one that is worth less: {order:?}");
        for id in mailbox.handed() {
            assert_eq!(world.mail.messages[&id].holder.map(|holder| holder.pid), Some(*pid));
        }
    }
    for escalation in world.escalations.values().filter(|escalation| escalation.handled.is_none()) {
        assert!(world.processes.get(&escalation.at).is_some_and(|process| process.state.alive()), "{} is with nobody", escalation.id);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn random_trees_keep_the_laws(steps in prop::collection::vec(any_step(), 1..160)) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
            assert_laws(&run.world);
        }
    }

    #[test]
    fn folding_a_tree_is_deterministic_and_a_snapshot_changes_nothing(steps in prop::collection::vec(any_step(), 1..160), cut in 0usize..400) {
        let mut run = Run::new();
        steps.iter().for_each(|step| run.step(step));
        let fold = |log: &[(Event, i64)], mut world: World| {
            log.iter().for_each(|(event, at_ms)| world.apply(event, *at_ms));
            world
        };
        prop_assert_eq!(&fold(&run.log, World::default()), &run.world);
        let cut = cut.min(run.log.len());
        let saved = serde_json::to_string(&fold(&run.log[..cut], World::default())).unwrap();
        prop_assert_eq!(&fold(&run.log[cut..], serde_json::from_str(&saved).unwrap()), &run.world);
        // As the journal keeps them.
        let mut world = World::default();
        for (event, at_ms) in &run.log {
            let line = event.payload().unwrap();
            world.fold(::world::FoldStep::parse(event.kind(), line.get()).unwrap(), *at_ms);
        }
        prop_assert_eq!(&world, &run.world);
    }

    #[test]
    fn no_message_is_handed_twice_to_one_incarnation(steps in prop::collection::vec(any_step(), 1..200)) {
        let mut run = Run::new();
        steps.iter().for_each(|step| run.step(step));
        let mut seen = BTreeSet::new();
        for (event, _) in &run.log {
            if let Event::MessageDelivered(e) = event {
                prop_assert!(seen.insert((e.pid, e.incarnation, e.message)), "{} twice to process {}", e.message, e.pid);
            }
        }
    }

    /// What was given to a branch is whole again when the branch is gone, but for what was spent.
    #[test]
    fn a_budget_is_whole_again_when_its_branch_is_gone(steps in prop::collection::vec(any_step(), 1..120)) {
        let mut run = Run::new();
        for step in steps.iter().filter(|step| !matches!(step, history::Step::Claim { .. })) {
            run.step(step);
            assert_laws(&run.world);
        }
        run.end_all();
        let what = Cap::Tokens("all".into());
        let (used, kept) = run.world.allotted(Pid::KERNEL, &what, run.world.now_ms);
        prop_assert_eq!((used, kept), (run.spent, 0));
        prop_assert_eq!(run.world.free(Pid::KERNEL, &what, run.world.now_ms), Some((Pid::KERNEL, history::ROOT_TOKENS - run.spent)));
        prop_assert!(run.world.mail.boxes.keys().all(|pid| pid.0 < 3), "nobody is left who could read it");
    }

    /// However its processes are killed, adopted and started again: what a branch was given is all that it spends, with all that were ever below.
    #[test]
    fn a_branch_never_spends_more_than_it_was_given(steps in prop::collection::vec(any_step(), 1..160)) {
        let mut run = Run::new();
        let mut below = std::collections::BTreeMap::<Pid, Vec<Pid>>::new();
        let mut given = std::collections::BTreeMap::<Pid, u64>::new();
        for step in steps.iter().filter(|step| !matches!(step, history::Step::Claim { .. })) {
            run.step(step);
        }
        for (event, _) in &run.log {
            match event {
                Event::ProcSpawned(e) if e.program.is_some() => {
                    let above = e.parent.and_then(|parent| below.get(&parent)).cloned().unwrap_or_default();
                    below.insert(e.pid, above.into_iter().chain([e.pid]).collect());
                    let cap = e.program.as_ref().and_then(|program| program.budget.as_ref()?.tokens.get("all").copied());
                    given.extend(cap.map(|cap| (e.pid, cap)));
                }
                Event::ResourceGiven(e) if e.what == "tokens" => *given.entry(e.pid).or_default() += e.amount,
                _ => {}
            }
        }
        let mut spent = std::collections::BTreeMap::<Pid, u64>::new();
        for (event, _) in &run.log {
            if let Event::ModelUsed(e) = event {
                // As it was spawned, whoever has ended since.
                below.get(&e.pid).into_iter().flatten().for_each(|above| *spent.entry(*above).or_default() += e.charged_tokens);
            }
        }
        for (pid, cap) in given {
            let used = spent.get(&pid).copied().unwrap_or(0);
            prop_assert!(used <= cap, "the branch of process {pid} spent {used} of {cap}");
        }
    }

    /// Whatever a journal holds can be folded, also what no kernel would have written.
    #[test]
    fn any_order_of_records_can_be_applied(steps in prop::collection::vec(any_step(), 1..80), seed in any::<u64>()) {
        let mut run = Run::new();
        steps.iter().for_each(|step| run.step(step));
        let mut log = run.log.clone();
        let len = log.len() as u64;
        (0..len).for_each(|at| log.swap(at as usize, ((seed ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15)) % len) as usize));
        let mut world = World::default();
        log.iter().for_each(|(event, at_ms)| world.apply(event, *at_ms));
    }
}

/// The generator must reach what the laws speak of, or they hold for nothing.
#[test]
fn random_trees_reach_every_kind() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let steps = prop::collection::vec(any_step(), 150..300);
    let mut kinds: BTreeSet<&str> = BTreeSet::new();
    let mut most = 0;
    for _ in 0..40 {
        let mut run = Run::new();
        steps.new_tree(&mut runner).unwrap().current().iter().for_each(|step| run.step(step));
        kinds.extend(run.log.iter().map(|(event, _)| event.kind()));
        most = most.max(run.world.processes.len());
    }
    let wanted = [
        "proc.started",
        "proc.slept",
        "proc.woken",
        "proc.blocked",
        "proc.unblocked",
        "proc.crashed",
        "proc.restarting",
        "proc.adopted",
        "proc.collected",
        "proc.reported",
        "message.sent",
        "message.delivered",
        "message.answered",
        "message.dropped",
        "artifact.stored",
        "artifact.removed",
        "escalation.raised",
        "escalation.passed",
        "escalation.handled",
        "resource.asked",
        "resource.given",
    ];
    let missed: Vec<&&str> = wanted.iter().filter(|kind| !kinds.contains(**kind)).collect();
    assert!(missed.is_empty(), "no history has {missed:?}");
    assert!(most > 12, "the largest tree has {most} processes");
}

/// A process of the tree for tests.
fn spawned(pid: u64, parent: u64, program: ::world::Program) -> Event {
    let role = program.role.as_str().to_owned();
    ProcSpawned {
        pid: Pid(pid),
        task: None,
        parent: Some(Pid(parent)),
        name: format!("p{pid}"),
        role,
        zone: None,
        user: "u".into(),
        program: Some(Box::new(program)),
    }
    .into()
}
