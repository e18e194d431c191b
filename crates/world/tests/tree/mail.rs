//! Messages, one case each.

use super::history::Run;
use super::spawned;
use ::world::event::*;
use ::world::*;

fn of(role: ProcessRole) -> Program {
    Program { runtime: ProgramRuntime::Python, ..Program::new(role, Tier::Tactical) }
}

/// kernel 1 ─ queen 3 ─ { leo 4 ─ { lead 6 ─ task 9, lead 7 ─ worker 8 }, shop 5 }
fn tree() -> Run {
    let mut run = Run::new();
    let agent = ProcessRole::Agent;
    for (pid, parent, role) in [
        (3, 1, ProcessRole::Daemon),
        (4, 3, agent),
        (5, 3, agent),
        (6, 4, ProcessRole::Lead),
        (7, 4, ProcessRole::Lead),
        (8, 7, ProcessRole::Worker),
        (9, 6, ProcessRole::Task),
    ] {
        run.record(spawned(pid, parent, of(role)));
    }
    run
}

fn start(run: &mut Run, pid: u64, remembers: bool) {
    let incarnation = run.world.processes[&Pid(pid)].incarnation() + 1;
    run.record(ProcStarted { pid: Pid(pid), task: None, incarnation, process: Some(1), address: None, confined: true, remembers });
}

fn send(run: &mut Run, from: u64, to: u64, priority: MessagePriority) -> MessageId {
    let message = run.world.next_message();
    let relation = route(&run.world, Pid(from), Pid(to)).unwrap_or_else(|refusal| panic!("{refusal}")).relation;
    run.record(MessageSent {
        body: MessageBody::default(),
        pid: Pid(from),
        task: None,
        message,
        to: Recipient::Process(Pid(to)),
        relation,
        kind: "k".into(),
        priority,
        bytes: 1,
        deadline_ms: None,
        requires_ack: true,
        reply_to: None,
        blob: None,
        copy_of: None,
    });
    message
}

fn deliver(run: &mut Run, pid: u64) -> Option<MessageId> {
    let message = run.world.mail.next(&Recipient::Process(Pid(pid)), run.now_ms)?.id;
    let incarnation = run.world.processes[&Pid(pid)].incarnation();
    run.record(MessageDelivered { pid: Pid(pid), task: None, message, incarnation, further: Vec::new() });
    Some(message)
}

#[test]
fn the_routes_are_those_of_the_specification() {
    let run = tree();
    let way = |from, to| match route(&run.world, Pid(from), Pid(to)) {
        Ok(Route { relation, seen_by: Some(by) }) => format!("{} seen by {by}", relation.as_str()),
        Ok(Route { relation, seen_by: None }) => relation.as_str().to_owned(),
        Err(refusal) => refusal.to_string(),
    };
    let cases = [
        (4, 6, "parent"),
        (6, 4, "child"),
        (6, 7, "sibling seen by 4"),
        (6, 8, "process 8 is below the sibling 7: send to that one"),
        (4, 5, "sibling seen by 3"),
        (8, 5, "branch seen by 3"),
        (8, 6, "branch seen by 4"),
        (3, 6, "parent seen by 4"),
        (8, 4, "child seen by 7"),
        (9, 6, "child"),
        (9, 4, "a task sends to its parent alone, which is process 6"),
        (1, 9, "kernel"),
        (2, 8, "kernel"),
        (5, 5, "a process does not send to itself"),
        (5, 77, "there is no process 77"),
    ];
    for (from, to, expected) in cases {
        assert_eq!(way(from, to), expected, "{from} to {to}");
    }
}

#[test]
fn who_is_nearer_goes_first_and_who_waits_long_enough_goes_before() {
    let mut run = tree();
    start(&mut run, 4, false);
    let child = send(&mut run, 6, 4, MessagePriority::Critical);
    let sibling = send(&mut run, 5, 4, MessagePriority::Low);
    let parent = send(&mut run, 3, 4, MessagePriority::Normal);
    let kernel = send(&mut run, 1, 4, MessagePriority::Low);
    let order = |run: &Run| run.world.mail.in_order(&Recipient::Process(Pid(4))).map(|message| message.id).collect::<Vec<_>>();
    assert_eq!(order(&run), [kernel, parent, sibling, child]);
    // A child's message is worth 30 s more than this sibling's by its own priority, and 40 s less by where it comes from.
    run.now_ms += 10_001;
    let late = send(&mut run, 5, 4, MessagePriority::Low);
    assert_eq!(order(&run), [kernel, parent, sibling, child, late], "age counts on every road");
}

#[test]
fn what_was_in_hand_at_a_crash_is_unknown_unless_its_receiver_remembers() {
    for remembers in [false, true] {
        let mut run = tree();
        start(&mut run, 4, remembers);
        let (first, second) = (send(&mut run, 3, 4, MessagePriority::Normal), send(&mut run, 3, 4, MessagePriority::Low));
        assert_eq!(deliver(&mut run, 4), Some(first));
        let again: Event = MessageDelivered { pid: Pid(4), task: None, message: first, incarnation: 1, further: Vec::new() }.into();
        assert!(run.world.check(&again).is_err(), "not twice");
        run.record(ProcCrashed { pid: Pid(4), task: None, incarnation: 1, code: None, signal: Some(9), error: String::new() });
        let down: Event = MessageDelivered { pid: Pid(4), task: None, message: second, incarnation: 1, further: Vec::new() }.into();
        assert!(run.world.check(&down).is_err(), "nobody is there");
        start(&mut run, 4, remembers);
        let dead: Vec<_> = run.world.mail.dead.iter().map(|letter| (letter.message.id, letter.why)).collect();
        if remembers {
            assert_eq!((deliver(&mut run, 4), dead), (Some(first), vec![]));
        } else {
            assert_eq!(dead, [(first, DropReason::Unknown)]);
        }
        assert_eq!(deliver(&mut run, 4), Some(second), "what nobody had is for the next");
    }
}

#[test]
fn each_answer_has_its_effect() {
    let mut run = tree();
    (3..8).for_each(|pid| start(&mut run, pid, false));
    let answer = |run: &mut Run, pid: u64, message, status| {
        run.record(MessageAnswered { pid: Pid(pid), task: None, message, status, reply: None, further: Vec::new() })
    };
    let mut handed = || {
        let id = send(&mut run, 6, 4, MessagePriority::Normal);
        assert_eq!(deliver(&mut run, 4), Some(id));
        id
    };
    let (accepted, queued, rejected, up) = (handed(), handed(), handed(), handed());
    answer(&mut run, 4, accepted, ReplyStatus::Accepted);
    assert!(!run.world.mail.messages.contains_key(&accepted));
    answer(&mut run, 4, queued, ReplyStatus::Queued);
    assert!(run.world.mail.messages[&queued].holder.unwrap().is_queued);
    answer(&mut run, 4, queued, ReplyStatus::Accepted);
    answer(&mut run, 4, rejected, ReplyStatus::Rejected);
    assert_eq!(run.world.mail.dead_of(Pid(6)).map(|letter| letter.why).collect::<Vec<_>>(), [DropReason::Rejected]);
    answer(&mut run, 4, up, ReplyStatus::Escalate);
    assert_eq!(deliver(&mut run, 3), Some(up), "one level up");
    answer(&mut run, 3, up, ReplyStatus::Escalate);
    run.record(MessageDelivered { pid: Pid(1), task: None, message: up, incarnation: 0, further: Vec::new() });
    answer(&mut run, 1, up, ReplyStatus::Escalate);
    assert_eq!(run.world.mail.dead_of(Pid(6)).last().map(|letter| letter.why), Some(DropReason::Unhandled), "nobody is above the kernel");
}

#[test]
fn a_message_has_its_time_and_dead_letters_are_bounded() {
    let mut run = tree();
    start(&mut run, 4, false);
    let id = send(&mut run, 6, 4, MessagePriority::Normal);
    let mut sent = run
        .log
        .iter()
        .rev()
        .find_map(|(event, _)| match event {
            Event::MessageSent(e) => Some(e.clone()),
            _ => None,
        })
        .unwrap();
    run.record(MessageDropped { pid: Pid(4), task: None, message: id, why: DropReason::Withdrawn, further: Vec::new() });
    for _ in 0..limits::DEAD_LETTERS_MAX {
        (sent.message, sent.deadline_ms) = (run.world.next_message(), Some(run.now_ms + 5));
        run.record(sent.clone());
    }
    assert_eq!((run.world.mail.next_deadline_ms(), run.world.mail.expired(run.now_ms + 4).count()), (Some(run.now_ms + 5), 0));
    run.now_ms += 5;
    assert_eq!(run.world.mail.next(&Recipient::Process(Pid(4)), run.now_ms), None, "its time is over");
    run.step(&super::history::Step::Expire);
    assert_eq!((run.world.mail.dead.len(), run.world.mail.dead[0].why), (limits::DEAD_LETTERS_MAX, DropReason::Expired));
}

#[test]
fn a_queue_is_no_way_round_the_routes() {
    let mut run = tree();
    (3..10).for_each(|pid| start(&mut run, pid, false));
    let message = run.world.next_message();
    let to = Recipient::Queue("results".into());
    run.record(MessageSent {
        body: MessageBody::default(),
        pid: Pid(9),
        task: None,
        message,
        to,
        relation: SenderRelation::Child,
        kind: "k".into(),
        priority: MessagePriority::Normal,
        bytes: 1,
        deadline_ms: None,
        requires_ack: false,
        reply_to: None,
        blob: None,
        copy_of: None,
    });
    let read = |run: &Run, pid| run.world.next_in_queue("results", Pid(pid), run.now_ms).map(|message| message.id);
    assert_eq!((read(&run, 6), read(&run, 4), read(&run, 2)), (Some(message), None, Some(message)));
    run.world.ending(Pid(9), false, "done", ProcessExit::default()).into_iter().for_each(|event| run.record(event));
    assert_eq!((read(&run, 6), read(&run, 4)), (Some(message), None), "a task that ended is heard by its parent");
}

/// Twenty thousand are given out in their order without a search through the rest.
#[test]
fn a_long_backlog_is_given_out_in_order() {
    let mut run = tree();
    start(&mut run, 4, false);
    for nth in 0..20_000u32 {
        let priority = [MessagePriority::Low, MessagePriority::Critical, MessagePriority::Normal][nth as usize % 3];
        run.now_ms += i64::from(nth % 7);
        send(&mut run, if nth % 2 == 0 { 6 } else { 3 }, 4, priority);
    }
    let mut last = i64::MIN;
    while let Some(id) = deliver(&mut run, 4) {
        let place = run.world.mail.messages[&id].place_ms();
        assert!(place >= last, "{id} waited behind one that is worth less");
        last = place;
    }
    assert_eq!(run.world.mail.boxes[&Pid(4)].handed().len(), 20_000);
}
