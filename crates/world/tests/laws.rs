//! Laws of the fold, held against random histories.

use ::world::event::*;
use ::world::{Answer, CallId, CallPattern, Event, GrantId, Hands, MergeId, Mode, Pid, ReviewId, Scope, TaskId, Terms, World, ZoneId};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

fn exact(n: u64) -> CallPattern {
    CallPattern::Exact { tool: "t".into(), bind: format!("b{n}") }
}

fn given(pid: Pid, task: Option<TaskId>, grant: GrantId, what: CallPattern) -> Event {
    let terms = Terms { uses_left: Some(1), ..Terms::default() };
    GrantGiven { pid, task, grant, scope: Scope::All, what, terms, review: None, by: "h".into(), shown: None }.into()
}

/// Any event at all, with ids from a small range so that they often meet.
fn any_event() -> impl Strategy<Value = Event> {
    let small = 1u64..6;
    (0usize..19, small.clone(), small.clone(), small).prop_map(|(kind, a, b, c)| {
        let (pid, task) = (Pid(a), Some(TaskId(b)));
        match kind {
            0 => ProcSpawned {
                pid,
                task: None,
                parent: (a > 1).then_some(Pid(1)),
                name: "x".into(),
                role: "x".into(),
                zone: None,
                user: "u".into(),
                program: None,
            }
            .into(),
            1 => ZoneOpened { pid, task: None, zone: ZoneId(c), path: format!("/z{c}"), branch: "main".into() }.into(),
            2 | 3 => TaskQueued {
                pid,
                task,
                zone: ZoneId(c),
                mode: Mode::Act,
                prompt: String::new(),
                brain: String::new(),
                priority: 0,
                calls_max: Some(2),
                original: None,
                discard: false,
                order: None,
            }
            .into(),
            4 => TaskStarted { pid, task, episode: 1 }.into(),
            5 => TaskParked { pid, task, review: ReviewId(c) }.into(),
            6 => TaskFinished { pid, task, summary: String::new(), result: None }.into(),
            7..=9 => CallAdmitted {
                pid,
                task,
                call: CallId(c),
                tool: "t".into(),
                input: json!({}),
                digest: String::new(),
                bind: format!("b{c}"),
                hands: Hands::Kernel,
                read_only: c > 3,
                rules: vec![],
                grant: (c > 4).then_some(GrantId(a)),
                token: None,
                paths: vec![],
                size: None,
                of: None,
                up: None,
                rooms: None,
                run_mode: None,
                step: None,
                workflow: None,
            }
            .into(),
            10 => CallFinished { pid, task, call: CallId(c), ok: true, output: json!(1), blob: None, blob_bytes: 0, ms: 0 }.into(),
            11 => CallLost { pid, task, call: CallId(c), tool: "t".into(), why: String::new() }.into(),
            12 => ReviewAsked {
                pid,
                task,
                review: ReviewId(c),
                tool: "t".into(),
                input: json!({}),
                bind: format!("b{b}"),
                like: exact(b),
                reasons: vec![],
                rules: vec![],
                paths: vec![],
                size: None,
                zone: None,
                whole: None,
                room: None,
            }
            .into(),
            13 => ReviewAnswered { pid, task, review: ReviewId(c), answer: Answer::Allow, by: "h".into(), reason: None, alternative: None }
                .into(),
            14 => given(pid, task, GrantId(c), exact(b)),
            15 => MergeProposed {
                pid,
                task,
                merge: MergeId(c),
                digest: String::new(),
                frozen: String::new(),
                paths: vec![],
                summary: String::new(),
            }
            .into(),
            16 => MergeStarted { pid, task, merge: MergeId(c), by: "h".into(), snapshot: None, grants: vec![GrantId(a)], up: None }.into(),
            17 => WorkspaceOpened { pid, task, head: None, since_us: 0 }.into(),
            _ => ProcExited { pid, task: None, killed: c > 2, reason: String::new(), exit: None }.into(),
        }
    })
}

/// Turns random wishes into a history that the world accepts, ids put right where they must be the next.
fn legal(wishes: Vec<Event>) -> Vec<Event> {
    let mut world = World::default();
    let mut history = Vec::new();
    for mut event in wishes {
        match &mut event {
            Event::ProcSpawned(e) => {
                e.pid = world.next_pid();
                e.parent = (e.pid != Pid::KERNEL).then_some(Pid::KERNEL);
            }
            Event::ZoneOpened(e) => e.zone = world.next_zone(),
            Event::TaskQueued(e) => e.task = Some(world.next_task()),
            Event::CallAdmitted(e) => e.call = world.next_call(),
            Event::ReviewAsked(e) => e.review = world.next_review(),
            Event::GrantGiven(e) => e.grant = world.next_grant(),
            Event::MergeProposed(e) => e.merge = world.next_merge(),
            _ => {}
        }
        if world.check(&event).is_ok() {
            world.apply(&event, 0);
            history.push(event);
        }
    }
    history
}

fn fold(history: &[Event]) -> World {
    let mut world = World::default();
    history.iter().zip(1..).for_each(|(event, at)| world.apply(event, at));
    world
}

proptest! {
    #[test]
    fn whatever_is_recorded_can_be_applied(history in prop::collection::vec(any_event(), 0..80)) {
        fold(&history);
    }

    #[test]
    fn folding_is_deterministic_and_a_snapshot_changes_nothing(wishes in prop::collection::vec(any_event(), 0..120), cut in 0usize..120) {
        let history = legal(wishes);
        let whole = fold(&history);
        prop_assert_eq!(&whole, &fold(&history));
        let cut = cut.min(history.len());
        let saved = serde_json::to_string(&fold(&history[..cut])).unwrap();
        let mut world: World = serde_json::from_str(&saved).unwrap();
        history[cut..].iter().zip(cut as i64 + 1..).for_each(|(event, at)| world.apply(event, at));
        prop_assert_eq!(whole, world);
    }

    #[test]
    fn no_legal_history_spends_more_than_it_was_given(wishes in prop::collection::vec(any_event(), 0..200)) {
        let mut calls: BTreeMap<TaskId, u64> = BTreeMap::new();
        let mut uses: BTreeMap<GrantId, u32> = BTreeMap::new();
        for event in legal(wishes) {
            if let Event::CallAdmitted(e) = event {
                if let Some(task) = e.task {
                    *calls.entry(task).or_default() += 1;
                }
                if let Some(grant) = e.grant {
                    *uses.entry(grant).or_default() += 1;
                }
            }
        }
        // Every random task may make two calls.
        prop_assert!(calls.values().all(|made| *made <= 2));
        prop_assert!(uses.values().all(|used| *used <= 1));
    }
}

/// The generator must reach what the laws speak of, or they hold for nothing.
#[test]
fn random_histories_reach_calls_grants_and_merges() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let wishes = prop::collection::vec(any_event(), 200..400);
    let kinds: std::collections::BTreeSet<&str> =
        (0..40).flat_map(|_| legal(wishes.new_tree(&mut runner).unwrap().current())).map(|event| event.kind()).collect();
    for kind in ["call.admitted", "call.lost", "grant.given", "merge.started", "task.parked", "task.finished", "proc.exited"] {
        assert!(kinds.contains(kind), "no history has {kind}: {kinds:?}");
    }
}
