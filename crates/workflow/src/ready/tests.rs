//! The ready queue: tables for its rules, laws for every plan, and its cost in counted work.

use super::*;
use crate::graph::tests::plan_of;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn writes(path: &str) -> Footprint {
    Footprint { writes: vec![path.to_owned()], ..Footprint::default() }
}

fn reads(path: &str) -> Footprint {
    Footprint { reads: vec![path.to_owned()], ..Footprint::default() }
}

fn nothing() -> Footprint {
    Footprint::default()
}

fn queue(waits: &[Vec<usize>], footprints: &[Footprint]) -> ReadyQueue {
    ReadyQueue::new(PlanGraph::new(&plan_of(waits)).unwrap(), footprints)
}

fn free(waits: &[Vec<usize>]) -> ReadyQueue {
    queue(waits, &vec![nothing(); waits.len()])
}

fn with_policy(waits: &[Vec<usize>], step: usize, policy: FailurePolicy) -> ReadyQueue {
    let mut plan = plan_of(waits);
    plan.steps[step].failure_policy = policy;
    ReadyQueue::new(PlanGraph::new(&plan).unwrap(), &vec![nothing(); waits.len()])
}

/// KarnEvil9 began `c` only when the unrelated `a` had ended (shortcoming 11).
#[test]
fn a_slow_step_delays_only_what_needs_it() {
    let mut queue = free(&[vec![], vec![], vec![1], vec![2], vec![0]]);
    assert_eq!(queue.begin(5), [0, 1]);
    assert_eq!(queue.ended(1, StepStatus::Succeeded), []);
    assert_eq!(queue.begin(5), [2], "while 0 runs");
    queue.ended(2, StepStatus::Succeeded);
    assert_eq!(queue.begin(5), [3]);
    assert_eq!(queue.running(), 2);
    queue.ended(0, StepStatus::Succeeded);
    assert_eq!(queue.begin(5), [4]);
    queue.ended(3, StepStatus::Succeeded);
    assert!(!queue.is_over());
    queue.ended(4, StepStatus::Succeeded);
    assert!(queue.is_over() && queue.stopped_by().is_none());
}

#[test]
fn as_many_begin_as_there_are_places_the_plans_first_ones_first() {
    let mut queue = free(&vec![vec![]; 5]);
    assert_eq!(queue.begin(0), Vec::<usize>::new());
    assert_eq!(queue.begin(2), [0, 1]);
    assert_eq!(queue.begin(9), [2, 3, 4]);
    assert_eq!(queue.begin(9), Vec::<usize>::new());
}

/// Two steps without dependencies: do both begin at once?
#[track_caller]
fn meets(first: Footprint, second: Footprint, meets: bool) {
    let mut queue = queue(&[vec![], vec![]], &[first.clone(), second.clone()]);
    let begun = queue.begin(2);
    assert_eq!(begun, if meets { vec![0] } else { vec![0, 1] }, "{first:?} {second:?}");
    // Either way both come to their turn, however the first one ends.
    queue.ended(0, StepStatus::Succeeded);
    let begun = begun.len() + queue.begin(2).len();
    assert_eq!(begun, 2);
}

#[test]
fn steps_that_meet_on_a_path_are_ordered_and_others_are_not() {
    meets(writes("a"), writes("a"), true);
    meets(writes("a"), writes("b"), false);
    meets(reads("a"), reads("a"), false);
    meets(reads("a"), writes("a"), true);
    meets(writes("a"), reads("a"), true);
    meets(writes("./a//b"), writes("a/b/"), true);
    meets(reads("src"), writes("src/a.rs"), true);
    meets(writes("src"), reads("src/deep/a.rs"), true);
    meets(reads("src"), writes("srcs/a.rs"), false);
    meets(reads("."), writes("x"), true);
    meets(reads("."), reads("x"), false);
    // What could lead anywhere meets everything.
    meets(writes("../a"), writes("b"), true);
    meets(writes("a/../b"), reads("c"), true);
    meets(writes("/etc/x"), reads("c"), true);
    meets(Footprint::unknown(), writes("b"), true);
    meets(writes("b"), Footprint::unknown(), true);
    meets(Footprint::unknown(), Footprint::unknown(), true);
    meets(Footprint::unknown(), reads("b"), true);
    meets(Footprint::unknown(), nothing(), false);
    meets(nothing(), nothing(), false);
}

#[test]
fn a_step_whose_footprint_nobody_gave_may_write_anything() {
    let mut queue = queue(&[vec![], vec![]], &[writes("a")]);
    assert_eq!(queue.begin(2), [0]);
}

#[test]
fn the_order_on_a_path_is_the_plans_and_gives_way_to_what_depends() {
    // 0 comes after 1, and both write the same path: the dependency decides.
    let mut queue = queue(&[vec![1], vec![], vec![]], &[writes("a"), writes("a"), writes("a")]);
    let mut order: Vec<usize> = Vec::new();
    while !queue.is_over() {
        let begun = queue.begin(3);
        assert_eq!(begun.len(), 1);
        order.extend(&begun);
        queue.ended(begun[0], StepStatus::Succeeded);
    }
    assert_eq!(order, [1, 0, 2]);
}

#[test]
fn a_writer_that_failed_or_was_skipped_lets_the_next_one_go() {
    let footprints = [nothing(), writes("a"), writes("a")];
    let mut queue = {
        let mut plan = plan_of(&[vec![], vec![0], vec![]]);
        plan.steps[0].failure_policy = FailurePolicy::Continue;
        ReadyQueue::new(PlanGraph::new(&plan).unwrap(), &footprints)
    };
    assert_eq!(queue.begin(5), [0], "2 comes after 1 on `a`");
    assert_eq!(queue.ended(0, StepStatus::Failed), [(1, "dependency failed: s0".to_owned())]);
    assert_eq!(queue.begin(5), [2]);
}

#[test]
fn who_comes_after_a_skipped_writer_comes_after_those_before_it() {
    // All three write `a`; the one in the middle is skipped while the first one runs.
    let footprints = [writes("a"), writes("a"), writes("a"), nothing()];
    let mut plan = plan_of(&[vec![], vec![3], vec![], vec![]]);
    plan.steps[3].failure_policy = FailurePolicy::Continue;
    let mut queue = ReadyQueue::new(PlanGraph::new(&plan).unwrap(), &footprints);
    assert_eq!(queue.begin(5), [0, 3]);
    assert_eq!(queue.ended(3, StepStatus::Failed), [(1, "dependency failed: s3".to_owned())]);
    assert_eq!(queue.begin(5), Vec::<usize>::new(), "0 still writes `a`");
    queue.ended(0, StepStatus::Succeeded);
    assert_eq!(queue.begin(5), [2]);
}

#[test]
fn readers_between_two_writers_run_side_by_side() {
    let mut queue = queue(&vec![vec![]; 6], &[writes("d/a"), writes("d/b"), reads("d"), reads("d"), reads("d/a"), writes("d/c")]);
    assert_eq!(queue.begin(9), [0, 1]);
    queue.ended(0, StepStatus::Succeeded);
    assert_eq!(queue.begin(9), Vec::<usize>::new());
    queue.ended(1, StepStatus::Succeeded);
    assert_eq!(queue.begin(9), [2, 3, 4]);
    queue.ended(2, StepStatus::Succeeded);
    queue.ended(4, StepStatus::Succeeded);
    assert_eq!(queue.begin(9), Vec::<usize>::new(), "3 still lists `d`");
    queue.ended(3, StepStatus::Succeeded);
    assert_eq!(queue.begin(9), [5]);
}

#[test]
fn a_step_that_reads_and_writes_does_not_wait_for_itself() {
    let edit =
        Footprint { reads: vec![".".to_owned(), "a".to_owned()], writes: vec!["a".to_owned(), "a/b".to_owned()], writes_unknown: false };
    let mut queue = queue(&vec![vec![]; 3], &[reads("."), edit.clone(), edit]);
    for step in 0..3 {
        assert_eq!(queue.begin(9), [step]);
        queue.ended(step, StepStatus::Succeeded);
    }
    assert!(queue.is_over());
}

#[test]
fn what_depends_on_a_failed_step_is_skipped_and_the_policy_decides_about_the_rest() {
    let waits = [vec![], vec![0], vec![1], vec![], vec![3]];
    let reason = |step: usize, why: &str| (step, why.to_owned());

    let mut queue = with_policy(&waits, 0, FailurePolicy::Continue);
    assert_eq!(queue.begin(5), [0, 3]);
    assert_eq!(queue.ended(0, StepStatus::Failed), [reason(1, "dependency failed: s0"), reason(2, "dependency failed: s0")]);
    queue.ended(3, StepStatus::Succeeded);
    assert_eq!(queue.begin(5), [4]);
    assert_eq!(queue.stopped_by(), None);

    for (policy, why) in [(FailurePolicy::Abort, "plan aborted: s0 failed"), (FailurePolicy::Replan, "plan replaced: s0 failed")] {
        let mut queue = with_policy(&waits, 0, policy);
        assert_eq!(queue.begin(5), [0, 3]);
        let skipped = queue.ended(0, StepStatus::Failed);
        assert_eq!(skipped, [reason(1, "dependency failed: s0"), reason(2, "dependency failed: s0"), reason(4, why)]);
        assert_eq!(queue.begin(5), Vec::<usize>::new());
        assert!(!queue.is_over(), "3 still runs");
        assert_eq!(queue.ended(3, StepStatus::Succeeded), []);
        assert!(queue.is_over());
        assert_eq!(queue.stopped_by(), Some((0, policy)));
    }
}

#[test]
fn an_end_counts_once_and_what_has_not_ended_is_no_end() {
    let mut queue = free(&[vec![], vec![0]]);
    assert_eq!(queue.begin(1), [0]);
    assert_eq!(queue.ended(0, StepStatus::Running), []);
    assert_eq!(queue.running(), 1);
    queue.ended(0, StepStatus::Succeeded);
    assert_eq!(queue.ended(0, StepStatus::Failed), []);
    assert_eq!(queue.ended(77, StepStatus::Failed), []);
    assert_eq!((queue.begin(5), queue.running()), (vec![1], 1));
}

#[test]
fn a_queue_is_taken_up_where_the_journal_left_it() {
    // 0 failed and aborts while 3 ran; 3 succeeded after that. Told again, in any order, nothing else comes of it.
    let waits = [vec![], vec![0], vec![], vec![], vec![3]];
    for order in [[0, 3], [3, 0]] {
        let mut queue = with_policy(&waits, 0, FailurePolicy::Abort);
        order.iter().for_each(|step| queue.resume(*step));
        assert_eq!(queue.running(), 2);
        let mut skipped = Vec::new();
        for step in order {
            skipped.extend(queue.ended(step, if step == 0 { StepStatus::Failed } else { StepStatus::Succeeded }));
        }
        skipped.sort();
        assert_eq!(skipped.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [1, 2, 4]);
        assert!(queue.is_over());
    }
}

#[test]
fn giving_up_skips_what_has_not_begun() {
    let mut queue = free(&[vec![], vec![], vec![0]]);
    assert_eq!(queue.begin(1), [0]);
    assert_eq!(queue.give_up("no time left"), [(1, "no time left".to_owned()), (2, "no time left".to_owned())]);
    assert_eq!(queue.begin(9), Vec::<usize>::new());
    queue.ended(0, StepStatus::Succeeded);
    assert!(queue.is_over());
}

/// Runs a plan to its end, five at a time, the oldest first. Returns how many ran.
fn run_all(queue: &mut ReadyQueue) -> usize {
    let (mut running, mut made) = (std::collections::VecDeque::new(), 0);
    loop {
        running.extend(queue.begin(5 - running.len()));
        let Some(step) = running.pop_front() else { return made };
        made += 1;
        queue.ended(step, StepStatus::Succeeded);
    }
}

/// Ten thousand steps of each kind that could make a queue slow. Counted, not timed: a step's share does not grow with the plan.
#[test]
fn the_work_for_a_step_does_not_grow_with_the_plan() {
    type Shape = (&'static str, fn(usize) -> (Vec<usize>, Footprint));
    let shapes: [Shape; 8] = [
        ("a line", |step| (step.checked_sub(1).into_iter().collect(), nothing())),
        ("all at once", |_| (Vec::new(), nothing())),
        ("all write one file", |_| (Vec::new(), writes("a"))),
        ("all write anything", |_| (Vec::new(), Footprint::unknown())),
        ("a list after each write", |step| (Vec::new(), if step % 2 == 0 { writes(&format!("d/{step}")) } else { reads("d") })),
        ("lists, then writes", |step| (Vec::new(), if step < 5_000 { reads("d") } else { writes(&format!("d/{step}")) })),
        ("writes, then lists", |step| (Vec::new(), if step >= 5_000 { reads(".") } else { writes(&format!("d/{}/{step}", step % 7)) })),
        ("reads, then folder writes", |step| (Vec::new(), if step % 10 == 0 { writes("d") } else { reads(&format!("d/{step}")) })),
    ];
    for (name, shape) in shapes {
        let cost = |count: usize| {
            let (waits, footprints): (Vec<_>, Vec<_>) = (0..count).map(shape).unzip();
            let mut queue = queue(&waits, &footprints);
            assert_eq!(run_all(&mut queue), count, "{name}");
            assert!(queue.is_over());
            queue.work
        };
        let work = cost(10_000);
        assert!(work <= 100_000, "{name}: {work} for ten thousand steps");
    }
}

/// Two bytes make a folder: four megabytes of them are neither kept nor forgotten.
#[test]
fn a_path_of_a_million_folders_costs_no_more_than_others() {
    let deep = "a/".repeat(1_000_000);
    let many: Vec<String> = (0..60_000).map(|index| format!("d{index}/e")).collect();
    let many = Footprint { writes: many, ..Footprint::default() };
    let late = [writes("z/y/x"), writes("z/y/w"), writes("d7/e")];
    let mut queue = queue(&vec![vec![]; 5], &[writes(&deep), many, late[0].clone(), late[1].clone(), late[2].clone()]);
    assert!(queue.work < 1_000_000, "{}", queue.work);
    let mut made = 0;
    while !queue.is_over() {
        let begun = queue.begin(9);
        assert!(!begun.is_empty());
        assert!(!begun.contains(&1) || !begun.contains(&4), "{begun:?} meet");
        made += begun.len();
        for step in begun {
            queue.ended(step, StepStatus::Succeeded);
        }
    }
    assert_eq!(made, 5);
}

fn footprint() -> impl Strategy<Value = Footprint> {
    const PATHS: &[&str] = &[".", "a", "a/b", "a/b/c", "a/d", "e", "e/f", "../g"];
    let paths = || prop::collection::vec(prop::sample::select(PATHS).prop_map(str::to_owned), 0..3);
    (paths(), paths(), prop::bool::weighted(0.1)).prop_map(|(reads, writes, writes_unknown)| Footprint { reads, writes, writes_unknown })
}

/// Do two footprints meet, by brute force?
fn collide(one: &Footprint, other: &Footprint) -> bool {
    let everything = Footprint { writes: vec![".".to_owned()], ..Footprint::default() };
    let of = |print: &Footprint| if print.writes_unknown { everything.clone() } else { print.clone() };
    let (one, other) = (of(one), of(other));
    let overlap = |a: &String, b: &String| {
        let (a, b) = (names(a), names(b));
        a.starts_with(&b) || b.starts_with(&a)
    };
    let any = |left: &[String], right: &[String]| left.iter().any(|a| right.iter().any(|b| overlap(a, b)));
    any(&one.writes, &other.writes) || any(&one.writes, &other.reads) || any(&one.reads, &other.writes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever the plan, the footprints, the ends and their order: no step before what it depends on, none twice, none beside one that it meets, those that meet in one order, and
    /// every step ends or is skipped with a reason that is true.
    #[test]
    fn no_plan_breaks_the_rules(
        waits in prop::collection::vec(prop::collection::vec(0usize..14, 0..3), 1..14),
        footprints in prop::collection::vec(footprint(), 14),
        policies in prop::collection::vec(0usize..3, 14),
        ends in prop::collection::vec((any::<usize>(), prop::bool::weighted(0.85)), 14),
        places in 1usize..6,
    ) {
        // A step waits for earlier ones of a shuffled order only, so there is no circle.
        let count = waits.len();
        let waits: Vec<Vec<usize>> = waits.iter().enumerate().map(|(step, list)| {
            let rank = |step: usize| (step * 7 + 3) % 17;
            let mut list: Vec<usize> = list.iter().map(|other| other % count).filter(|other| rank(*other) < rank(step)).collect();
            list.sort_unstable();
            list.dedup();
            list
        }).collect();
        let mut plan = plan_of(&waits);
        for (step, policy) in plan.steps.iter_mut().zip(&policies) {
            step.failure_policy = FailurePolicy::ALL[*policy];
        }
        let graph = PlanGraph::new(&plan).unwrap();
        let order = graph.order().to_vec();
        let rank = |step: usize| order.iter().position(|other| *other == step);
        let mut queue = ReadyQueue::new(graph, &footprints);
        let mut ended: BTreeMap<usize, StepStatus> = BTreeMap::new();
        let (mut running, mut begun) = (Vec::new(), Vec::new());
        let mut ends = ends.into_iter();
        loop {
            for step in queue.begin(places - running.len()) {
                prop_assert!(!begun.contains(&step) && !ended.contains_key(&step), "{} twice", step);
                prop_assert!(waits[step].iter().all(|other| ended.get(other) == Some(&StepStatus::Succeeded)), "{} too early", step);
                prop_assert!(running.iter().all(|other: &usize| !collide(&footprints[step], &footprints[*other])), "{} beside {:?}", step, running);
                let passed = (0..count).find(|other| rank(*other) < rank(step) && !ended.contains_key(other) && collide(&footprints[step], &footprints[*other]));
                prop_assert_eq!(passed, None, "{} passed another", step);
                begun.push(step);
                running.push(step);
            }
            prop_assert_eq!(queue.running(), running.len());
            if running.is_empty() {
                break;
            }
            let (pick, is_good) = ends.next().unwrap_or((0, true));
            let step = running.remove(pick % running.len());
            let status = if is_good { StepStatus::Succeeded } else { StepStatus::Failed };
            ended.insert(step, status);
            for (skipped, reason) in queue.ended(step, status) {
                prop_assert!(!begun.contains(&skipped) && ended.insert(skipped, StepStatus::Skipped).is_none(), "{} is skipped and ran", skipped);
                let cause = format!("dependency failed: s{step}");
                let stops = reason == format!("plan aborted: s{step} failed") || reason == format!("plan replaced: s{step} failed");
                prop_assert!(reason == cause || stops && policies[step] < 2, "{}", reason);
            }
        }
        prop_assert!(queue.is_over());
        prop_assert_eq!(ended.len(), count);
        // Nothing was skipped without need.
        let failed = |step: &usize| ended[step] == StepStatus::Failed;
        let is_stopped = (0..count).any(|step| failed(&step) && policies[step] < 2);
        for step in (0..count).filter(|step| ended[step] == StepStatus::Skipped) {
            prop_assert!(is_stopped || waits[step].iter().any(|other| ended[other] != StepStatus::Succeeded));
        }
        prop_assert_eq!(queue.stopped_by().is_some(), is_stopped);
    }
}
