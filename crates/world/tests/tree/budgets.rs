//! Allotments, one case each.

use super::history::Run;
use super::spawned;
use ::world::event::*;
use ::world::*;
use std::collections::BTreeMap;

fn all(tokens: u64) -> Budget {
    Budget { tokens: BTreeMap::from([("all".to_owned(), tokens)]), ..Budget::default() }
}

fn agent(budget: Option<Budget>) -> Program {
    Program { budget, ..Program::new(ProcessRole::Agent, Tier::Tactical) }
}

fn free(run: &Run, pid: u64) -> u64 {
    run.world.free(Pid(pid), &Cap::Tokens("all".into()), run.now_ms).map_or(u64::MAX, |(_, free)| free)
}

fn need(tokens: u64) -> Need<'static> {
    Need { tier: "tactical", tokens, context: 0, micros: 0 }
}

#[test]
fn what_is_allotted_is_nobody_elses_and_comes_back() {
    let mut run = Run::new();
    run.record(spawned(3, 1, agent(Some(all(60_000)))));
    assert_eq!(free(&run, 1), 40_000);
    run.record(spawned(4, 1, agent(None)));
    let asked = |run: &Run, pid, tokens| run.world.short(Pid(pid), &need(tokens), run.now_ms).map(|short| short.pid);
    assert_eq!((asked(&run, 3, 60_000), asked(&run, 3, 60_001)), (None, Some(Pid(3))));
    assert_eq!((asked(&run, 4, 40_000), asked(&run, 4, 40_001)), (None, Some(Pid(1))), "its sibling's part is not its own");
    let too_much: Event = spawned(5, 1, agent(Some(all(40_001))));
    assert!(run.world.check(&too_much).is_err());
    run.record(spawned(5, 3, agent(Some(all(10_000)))));
    assert_eq!((free(&run, 1), free(&run, 3), free(&run, 5)), (40_000, 50_000, 10_000));
    run.world.ending_branch(Pid(3), "over", EndReason::Normal).into_iter().for_each(|event| run.record(event));
    assert_eq!(free(&run, 1), 100_000);
    run.record(spawned(6, 1, agent(Some(all(100_000)))));
}

#[test]
fn more_is_given_from_the_nearest_one_who_has_it() {
    let mut run = Run::new();
    run.record(spawned(3, 1, agent(Some(all(1_000)))));
    run.record(spawned(4, 3, agent(Some(all(1_000)))));
    let what = Cap::Tokens("all".into());
    let events = run.world.resource_path(Pid(4), &what, 10, run.now_ms).unwrap();
    let steps: Vec<String> = events
        .iter()
        .map(|event| match event {
            Event::ResourceGiven(e) => format!("{} {} from {}", e.pid, e.amount, e.from),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(steps, ["3 10 from 1", "4 10 from 3"]);
    events.into_iter().for_each(|event| run.record(event));
    assert_eq!(
        (run.world.caps(Pid(4))["tokens"], run.world.caps(Pid(3))["tokens"], free(&run, 1)),
        (1_010, 1_010, 98_990),
        "10 more and not 10 in all"
    );
    let short = run.world.resource_path(Pid(4), &what, 98_991, run.now_ms).unwrap_err();
    assert_eq!((short.pid, short.need), (Pid(1), 1));
    let forged: Event = ResourceGiven { pid: Pid(4), task: None, from: Pid(3), what: "tokens".into(), amount: 1 }.into();
    assert!(run.world.check(&forged).is_err(), "who has nothing gives nothing");
}

#[test]
fn a_child_that_is_adopted_takes_its_part_along() {
    let mut run = Run::new();
    run.record(spawned(3, 1, agent(Some(all(5_000)))));
    run.record(spawned(4, 3, agent(Some(all(2_000)))));
    let exit = ProcessExit { code: Some(3), ..ProcessExit::default() };
    let events = run.world.ending(Pid(3), false, "done", exit);
    assert_eq!(events.iter().map(Event::kind).collect::<Vec<_>>(), ["proc.adopted", "proc.exited"]);
    events.into_iter().for_each(|event| run.record(event));
    assert_eq!((free(&run, 1), free(&run, 4)), (98_000, 2_000));
    assert_eq!(run.world.processes[&Pid(4)].parent, Some(Pid(1)));
    assert_eq!(run.world.processes[&Pid(3)].exit.as_ref().and_then(|exit| exit.code), Some(3));
}

#[test]
fn claims_only_add_and_end_with_the_first_request_through_the_gateway() {
    let mut run = Run::new();
    run.record(spawned(3, 1, agent(Some(all(5_000)))));
    let say = |run: &mut Run, tokens| {
        run.record(ProcReported { pid: Pid(3), task: None, state: None, context_permille: None, tokens: Some(tokens) })
    };
    say(&mut run, 1_000);
    say(&mut run, 400);
    say(&mut run, 1_200);
    assert_eq!((free(&run, 3), free(&run, 1)), (3_800, 95_000));
    run.step(&super::history::Step::Ask { nth: 0, tokens: 100 });
    assert!(run.world.processes[&Pid(3)].run.as_ref().unwrap().uses_gateway);
    let before = run.world.books.accounts[&Pid(3)].spent.clone();
    say(&mut run, 4_000);
    assert_eq!(run.world.books.accounts[&Pid(3)].spent, before, "the gateway counts");
}

#[test]
fn a_cap_of_an_hour_passes_with_the_hour() {
    let mut run = Run::new();
    let hourly = Budget {
        tokens_per_hour: BTreeMap::from([("all".to_owned(), 1_000)]),
        tokens_per_day: BTreeMap::from([("tactical".to_owned(), 1_500)]),
        ..all(9_000)
    };
    run.record(spawned(3, 1, agent(Some(hourly))));
    let ask = |run: &mut Run, tokens| {
        run.step(&super::history::Step::Ask { nth: 0, tokens });
        run.step(&super::history::Step::Settle { part: 100 });
    };
    ask(&mut run, 800);
    let short = |run: &Run, tokens| run.world.short(Pid(3), &need(tokens), run.now_ms).map(|short| short.what.to_string());
    assert_eq!((short(&run, 200), short(&run, 201).as_deref()), (None, Some("tokens an hour")));
    run.now_ms += 3_600_000;
    assert_eq!((short(&run, 700), short(&run, 701).as_deref()), (None, Some("tactical tokens a day")));
    run.now_ms += 86_400_000;
    assert_eq!((short(&run, 1_000), short(&run, 1_001).as_deref()), (None, Some("tokens an hour")));
    for text in ["tokens an hour", "tactical tokens a day", "tokens", "money"] {
        assert_eq!(Cap::parse(text).map(|cap| cap.to_string()).as_deref(), Some(text));
    }
}
