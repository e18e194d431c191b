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
fn the_account_of_one_who_ended_goes_on_for_those_it_left() {
    let mut run = Run::new();
    run.record(spawned(3, 1, agent(Some(all(5_000)))));
    run.record(spawned(4, 3, agent(Some(all(2_000)))));
    let exit = ProcessExit { code: Some(3), ..ProcessExit::default() };
    let events = run.world.ending(Pid(3), false, "done", exit);
    assert_eq!(events.iter().map(Event::kind).collect::<Vec<_>>(), ["proc.adopted", "proc.exited"]);
    events.into_iter().for_each(|event| run.record(event));
    assert_eq!((free(&run, 1), free(&run, 4)), (95_000, 2_000), "what it was given is still theirs");
    assert_eq!(run.world.processes[&Pid(4)].parent, Some(Pid(1)));
    assert_eq!(run.world.processes[&Pid(3)].exit.as_ref().and_then(|exit| exit.code), Some(3));
    let collected: Event = ProcCollected { pid: Pid(3), task: None, by: Pid::KERNEL }.into();
    assert!(run.world.check(&collected).is_err(), "its account is in use");
    run.world.ending(Pid(4), false, "done", ProcessExit::default()).into_iter().for_each(|event| run.record(event));
    assert_eq!(free(&run, 1), 100_000);
    run.record(ProcCollected { pid: Pid(4), task: None, by: Pid::KERNEL });
    run.record(collected);
}

/// Four children that share what their parent has: with it or without it, they share the same.
#[test]
fn a_cap_is_not_multiplied_by_the_end_of_its_process() {
    for by_limit in [true, false] {
        let mut run = Run::new();
        let limits = ProgramLimits { tokens_total: by_limit.then_some(10_000), ..ProgramLimits::default() };
        let of = |budget: Option<Budget>| Program { limits, ..agent(budget) };
        run.record(spawned(3, 1, of((!by_limit).then(|| all(10_000)))));
        (4..8).for_each(|pid| run.record(spawned(pid, 3, of(None))));
        run.record(spawned(8, 7, of(None)));
        let asked = |run: &Run, pid, tokens| run.world.short(Pid(pid), &need(tokens), run.now_ms).map(|short| short.pid);
        let ask = |run: &mut Run, nth, tokens| {
            run.step(&super::history::Step::Ask { nth, tokens });
            run.step(&super::history::Step::Settle { part: 100 });
            budget::lease::returned(&run.world).into_iter().for_each(|event| run.record(event));
        };
        ask(&mut run, 1, 3_000);
        assert_eq!((asked(&run, 5, 7_000), asked(&run, 5, 7_001)), (None, Some(Pid(3))), "while it lives");
        let end = |run: &mut Run, pid| {
            let events = run.world.ending(Pid(pid), true, "killed", ProcessExit::default());
            events.into_iter().for_each(|event| run.record(event));
        };
        end(&mut run, 3);
        assert_eq!((asked(&run, 5, 7_000), asked(&run, 5, 7_001)), (None, Some(Pid(3))), "and when it is gone");
        ask(&mut run, 0, 4_000);
        end(&mut run, 7);
        assert_eq!(run.world.processes[&Pid(8)].parent, Some(Pid(1)));
        for pid in [4, 5, 6, 8] {
            assert_eq!((asked(&run, pid, 3_000), asked(&run, pid, 3_001).is_some()), (None, true), "process {pid}");
        }
        let saved = serde_json::to_string(&run.world).unwrap();
        run.world = serde_json::from_str(&saved).unwrap();
        assert_eq!((asked(&run, 8, 3_000), asked(&run, 8, 3_001)), (None, Some(Pid(3))), "after a restart too");
        run.record(spawned(9, 1, of(None)));
        assert_eq!(asked(&run, 9, 10_000), None, "who was never below it does not pay for it");
    }
}

#[test]
fn a_claim_takes_from_nobody_else() {
    let mut run = Run::new();
    run.record(spawned(3, 1, agent(Some(all(100)))));
    run.record(spawned(4, 1, agent(None)));
    run.record(spawned(5, 3, agent(Some(all(40)))));
    run.record(ProcReported { pid: Pid(3), task: None, state: None, context_permille: None, tokens: Some(1_000_000_000_000) });
    let asked = |run: &Run, pid, tokens| run.world.short(Pid(pid), &need(tokens), run.now_ms).map(|short| short.pid);
    assert_eq!((asked(&run, 4, 99_900), asked(&run, 4, 99_941)), (None, Some(Pid(1))), "at most its own 60 are gone");
    assert_eq!(run.world.books.accounts[&Pid(3)].spent.of("tactical"), 1_000_000_000_000, "what it says of itself is shown");
    assert_eq!(run.world.used_up(Pid(3)).map(|short| short.pid), Some(Pid(3)));
    assert_eq!(run.world.used_up(Pid(5)).map(|short| short.pid), Some(Pid(3)), "and those below it live on that");
    assert_eq!(run.world.used_up(Pid(4)), None);
    run.record(ProcReported { pid: Pid(4), task: None, state: None, context_permille: None, tokens: Some(7_000) });
    assert_eq!(run.world.books.accounts[&Pid(1)].spent.of("tactical"), 7_060, "who has no cap of its own is believed");
    assert_eq!(run.world.used_up(Pid(4)), None);
}

#[test]
fn a_claim_of_any_number_is_one_that_can_be_shown() {
    let mut run = Run::new();
    run.record(spawned(3, 1, agent(None)));
    run.record(ProcReported { pid: Pid(3), task: None, state: None, context_permille: None, tokens: Some(u64::MAX) });
    let claimed = run.world.processes[&Pid(3)].run.as_ref().unwrap().claimed;
    assert_eq!((claimed, run.world.books.accounts[&Pid(3)].spent.of("tactical")), (1 << 40, 1 << 40));
}

#[test]
fn a_grant_raises_what_it_names_and_nothing_else() {
    let mut run = Run::new();
    let caps = Budget { tokens_per_day: BTreeMap::from([("all".to_owned(), 5)]), micros_per_day: Some(7), ..all(100) };
    run.record(spawned(3, 1, agent(Some(caps))));
    let by_day = Budget { tokens_per_day: BTreeMap::from([("all".to_owned(), 10)]), micros_per_day: Some(1), ..Budget::default() };
    run.record(BudgetGranted::of(Pid(3), by_day, "h"));
    let caps = run.world.caps(Pid(3));
    assert_eq!((caps["tokens"], caps["tokens a day"], caps["money a day"]), (100, 15, 8));
    // As records before it have it.
    let old = r#"{"pid":3,"task":null,"tokens":{"all":1},"micros":0,"by":"h"}"#;
    let old = Event::parse("budget.granted", old).unwrap();
    run.world.apply(&old, run.now_ms);
    assert_eq!((run.world.caps(Pid(3))["tokens"], run.world.caps(Pid(3))["tokens a day"]), (101, 15));
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
    for text in ["tokens an hour", "tactical tokens a day", "tokens", "money", "money a day"] {
        assert_eq!(Cap::parse(text).map(|cap| cap.to_string()).as_deref(), Some(text));
    }
}

#[test]
fn a_cap_of_a_day_counts_what_was_spent_before_it_was_set_and_money_too() {
    let mut run = Run::new();
    run.record(spawned(3, 1, agent(None)));
    let ask = |run: &mut Run, tokens| {
        run.step(&super::history::Step::Ask { nth: 0, tokens });
        run.step(&super::history::Step::Settle { part: 100 });
    };
    ask(&mut run, 800);
    let micros = run.world.books.accounts[&Pid(3)].spent.micros;
    let daily =
        Budget { tokens_per_day: BTreeMap::from([("all".to_owned(), 1_000)]), micros_per_day: Some(micros + 50), ..Budget::default() };
    run.record(BudgetSet { pid: Pid(3), task: None, budget: Some(daily), by: "h".into() });
    let short = |run: &Run, tokens: u64, micros: u64| {
        let need = Need { tier: "tactical", tokens, context: 0, micros };
        run.world.short(Pid(3), &need, run.now_ms).map(|short| short.what.to_string())
    };
    assert_eq!((short(&run, 200, 50), short(&run, 201, 0).as_deref()), (None, Some("tokens a day")), "the 800 before it count");
    assert_eq!(short(&run, 1, 51).as_deref(), Some("money a day"));
    let figures = run.world.cap_figures(Pid(3), run.now_ms);
    let figures: Vec<_> = figures.into_iter().map(|(what, used, cap)| (what.to_string(), used, cap)).collect();
    assert_eq!(figures, [("tokens a day".to_owned(), 800, 1_000), ("money a day".to_owned(), micros, micros + 50)]);
    run.now_ms += 86_400_000;
    assert_eq!((short(&run, 1_000, micros + 50), short(&run, 1_001, 0).as_deref()), (None, Some("tokens a day")));
}
