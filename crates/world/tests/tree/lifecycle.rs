//! Starts, rests and ends, one case each.

use super::history::Run;
use super::spawned;
use ::world::event::*;
use ::world::*;
use serde_json::json;

fn python(role: ProcessRole) -> Program {
    Program { runtime: ProgramRuntime::Python, ..Program::new(role, Tier::Tactical) }
}

fn state(run: &Run, pid: u64) -> &'static str {
    run.world.processes[&Pid(pid)].state.as_str()
}

fn started(pid: u64, incarnation: u64, confined: bool) -> Event {
    ProcStarted { pid: Pid(pid), task: None, incarnation, process: Some(1), address: None, confined, remembers: false }.into()
}

fn queued(run: &Run, pid: u64) -> Event {
    TaskQueued {
        pid: Pid(pid),
        task: Some(run.world.next_task()),
        zone: ZoneId::NONE,
        mode: Mode::Execute,
        prompt: "p".into(),
        brain: String::new(),
        priority: 0,
        calls_max: None,
        original: None,
        discard: false,
        order: None,
    }
    .into()
}

#[test]
fn a_state_is_true_at_every_step() {
    let mut run = Run::new();
    run.record(spawned(3, 1, python(ProcessRole::Daemon)));
    assert_eq!(state(&run, 3), "blocked", "its program does not run yet");
    assert!(run.world.check(&started(3, 1, false)).is_err(), "it is to run in a room");
    assert!(run.world.check(&started(3, 2, true)).is_err(), "incarnations are counted");
    run.record(started(3, 1, true));
    assert_eq!(state(&run, 3), "idle");
    let task = Some(TaskId(1));
    run.record(queued(&run, 3));
    run.record(TaskStarted { pid: Pid(3), task, episode: 1 });
    assert_eq!(state(&run, 3), "running");
    // On record by `task.taken` when the program has it.
    let taken = |incarnation| Event::from(TaskTaken { pid: Pid(3), task, incarnation });
    assert!(run.world.check(&taken(2)).is_err(), "no such program runs");
    assert_eq!(run.world.tasks[&TaskId(1)].taken_by, None);
    run.record(taken(1));
    assert_eq!(run.world.tasks[&TaskId(1)].taken_by, Some(1));
    let sleeps: Event = ProcSlept { pid: Pid(3), task: None, until_ms: None, ended: false, reason: String::new() }.into();
    assert!(run.world.check(&sleeps).is_err(), "it has a task");
    run.record(ProcBlocked { pid: Pid(3), task: None, on: BlockReason::Child, reason: String::new() });
    run.record(ProcUnblocked { pid: Pid(3), task: None, reason: String::new() });
    assert_eq!(state(&run, 3), "running");
    run.record(ProcPaused { pid: Pid(3), task: None, reason: "STOP".into() });
    run.record(ProcResumed { pid: Pid(3), task: None, by: "CONT".into() });
    assert_eq!(state(&run, 3), "running");
    let result = ExecuteResult { exit_code: 7, output: "seven".into(), ..ExecuteResult::default() };
    run.record(TaskFinished { pid: Pid(3), task, summary: "seven".into(), result: Some(Box::new(result.clone())) });
    assert_eq!((state(&run, 3), run.world.tasks[&TaskId(1)].result.as_deref()), ("idle", Some(&result)));
    run.record(sleeps);
    run.record(ProcWoken { pid: Pid(3), task: None, reason: "cron".into() });
    assert_eq!(state(&run, 3), "idle");
    run.record(ProcSlept { pid: Pid(3), task: None, until_ms: None, ended: true, reason: String::new() });
    run.record(ProcWoken { pid: Pid(3), task: None, reason: "cron".into() });
    assert_eq!(state(&run, 3), "blocked", "it is started for each run");
    run.record(started(3, 2, true));
    run.record(ProcSignalled { pid: Pid(3), task: None, signal: TreeSignal::Term, by: Pid(1), reason: String::new() });
    run.record(ProcSnapshotted { pid: Pid(3), task: None, blob: "aa".into(), bytes: 2 });
    assert_eq!(run.world.needs_blob("aa").as_deref(), Some("process 3"));
    run.record(ProcCrashed { pid: Pid(3), task: None, incarnation: 2, code: Some(1), signal: None, error: "boom".into() });
    let known = run.world.processes[&Pid(3)].run.clone().unwrap();
    assert_eq!((state(&run, 3), known.crashes_ms.len(), known.last_error.as_deref()), ("blocked", 1, Some("boom")));
}

#[test]
fn a_task_that_needs_input_is_a_question_whose_answer_it_gets() {
    let mut run = Run::new();
    run.record(spawned(3, 1, Program::new(ProcessRole::Agent, Tier::Tactical)));
    let (pid, task, review) = (Pid(3), Some(TaskId(1)), ReviewId(1));
    run.record(queued(&run, 3));
    run.record(TaskStarted { pid, task, episode: 1 });
    let like = CallPattern::Exact { tool: TASK_INPUT.into(), bind: "b".into() };
    run.record(ReviewAsked {
        pid,
        task,
        review,
        tool: TASK_INPUT.into(),
        input: json!({"question": "which?"}),
        bind: "b".into(),
        like,
        reasons: vec![],
        rules: vec![],
        paths: vec![],
        size: None,
        zone: None,
        whole: None,
        room: None,
    });
    run.record(TaskParked { pid, task, review });
    assert_eq!(
        (state(&run, 3), run.world.processes[&pid].blocked_on, run.world.task_input(TaskId(1))),
        ("blocked", Some(BlockReason::Person), None)
    );
    run.record(ReviewAnswered {
        pid,
        task,
        review,
        answer: Answer::Allow,
        by: "h".into(),
        reason: Some("the red one".into()),
        alternative: None,
    });
    assert_eq!(run.world.task_input(TaskId(1)), Some("the red one"));
    run.record(TaskStarted { pid, task, episode: 1 });
    assert_eq!(state(&run, 3), "running");
}

#[test]
fn no_more_tasks_and_children_than_its_limits_say() {
    let mut run = Run::new();
    let limits = ProgramLimits { children: Some(1), tasks: Some(1), ..ProgramLimits::default() };
    run.record(spawned(3, 1, Program { limits, ..Program::new(ProcessRole::Lead, Tier::Tactical) }));
    let unbounded: Event = spawned(4, 3, Program::new(ProcessRole::Task, Tier::Operational));
    assert!(run.world.check(&unbounded).is_err(), "no limit is more than a limit");
    let child = |pid| spawned(pid, 3, Program { limits, ..Program::new(ProcessRole::Task, Tier::Operational) });
    run.record(child(4));
    assert!(run.world.check(&child(5)).is_err());
    run.world.ending(Pid(4), false, "done", ProcessExit::default()).into_iter().for_each(|event| run.record(event));
    assert_eq!(state(&run, 4), "zombie");
    run.record(child(5));
    for nth in [1, 2] {
        run.record(queued(&run, 3));
        let begun: Event = TaskStarted { pid: Pid(3), task: Some(TaskId(nth)), episode: 1 }.into();
        assert_eq!(run.world.check(&begun).is_ok(), nth == 1);
        if nth == 1 {
            run.record(begun);
        }
    }
}

#[test]
fn a_branch_ends_with_its_leaves_first() {
    let mut run = Run::new();
    for (pid, parent) in [(3, 1), (4, 3), (5, 3), (6, 4), (7, 1)] {
        run.record(spawned(pid, parent, Program::new(ProcessRole::Agent, Tier::Tactical)));
    }
    run.record(queued(&run, 6));
    let order = run.world.branch(Pid(3));
    assert_eq!(order.len(), 4);
    for (at, pid) in order.iter().enumerate() {
        let parent = run.world.processes[pid].parent.unwrap();
        assert!(order[..at].iter().all(|before| *before != parent), "{parent} would end before {pid}");
    }
    let bare: Event = ProcExited { pid: Pid(3), task: None, killed: true, reason: String::new(), exit: None }.into();
    assert!(run.world.check(&bare).is_err(), "it would leave orphans");
    let events = run.world.ending_branch(Pid(3), "the work is done", EndReason::UserRequest);
    events.into_iter().for_each(|event| run.record(event));
    assert_eq!((run.world.tasks[&TaskId(1)].state, state(&run, 7)), (TaskState::Failed, "idle"));
    let reason = |pid: u64| run.world.processes[&Pid(pid)].exit.as_ref().unwrap().reason;
    assert_eq!((reason(3), reason(6)), (EndReason::UserRequest, EndReason::ParentDied));
    for pid in [6, 5, 4, 3] {
        run.record(ProcCollected { pid: Pid(pid), task: None, by: Pid::KERNEL });
    }
    assert_eq!(run.world.processes.keys().map(|pid| pid.0).collect::<Vec<_>>(), [1, 2, 7]);
    let alive: Event = ProcCollected { pid: Pid(7), task: None, by: Pid::KERNEL }.into();
    assert!(run.world.check(&alive).is_err());
}

#[test]
fn a_process_of_an_older_journal_reads_and_is_written_as_before() {
    let old = r#"{"pid":3,"parent":1,"name":"worker.1","role":"foreman","zone":"zone-1","user":"u"}"#;
    let event = Event::parse("proc.spawned", old).unwrap();
    assert_eq!(event.payload().unwrap().get(), old);
    let old = r#"{"pid":3,"killed":true,"reason":"r"}"#;
    assert_eq!(Event::parse("proc.exited", old).unwrap().payload().unwrap().get(), old);
    let mut world = World::default();
    world.apply(&event, 5);
    let text = serde_json::to_string(&world).unwrap();
    for new in ["program", "blocked_on", "mail", "artifacts", "escalations", "crons", "departed", "former_parents"] {
        assert!(!text.contains(new), "{new} is written where there is none: {text}");
    }
    assert!(text.contains("worker.1"), "control");
}

#[test]
fn tasks_of_agents_take_no_place_of_peoples() {
    let mut run = Run::new();
    run.record(spawned(3, 1, python(ProcessRole::Daemon)));
    run.record(started(3, 1, true));
    let cancelled = |pid: u64, task| TaskCancelled { pid: Pid(pid), task: Some(task), by: "h".into() };
    let persons = run.world.next_task();
    let Event::TaskQueued(call) = queued(&run, Pid::OPERATOR.0) else { panic!("it is none") };
    run.record(ZoneOpened { pid: Pid::OPERATOR, task: None, zone: ZoneId(1), path: "/p".into(), branch: "main".into() });
    run.record(TaskQueued { mode: Mode::Call, zone: ZoneId(1), ..call });
    run.record(cancelled(Pid::OPERATOR.0, persons));
    let first = run.world.next_task();
    for _ in 0..=limits::TASKS_REMEMBERED {
        let task = run.world.next_task();
        run.record(queued(&run, 3));
        run.record(cancelled(3, task));
    }
    assert!(run.world.tasks.contains_key(&persons));
    assert!(!run.world.tasks.contains_key(&first), "the control: the oldest of the agents' is forgotten");
    assert_eq!(run.world.tasks.len(), limits::TASKS_REMEMBERED + 1);
}
