//! Lives of processes: spawn, task, crash, restart, kill, wait.

use crate::ground::{Ground, agent, boot, play, task};
use std::time::{Duration, Instant};
use testkit::harness::Test;
use tree::{KillOrder, SpawnOrder};
use world::{EndReason, Event, Pid, ProcessRole, ProcessState, ProgramLimits, ProgramSchedule, TreeSignal, World};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("virtual_processes_are_spawned_killed_and_waited_for", || play(virtual_ones)),
        Test::new("an_agent_executes_tasks_in_its_room", || play(executes)),
        Test::new("a_task_ends_with_its_own_exit_code_and_output", || play(ends_as_its_task)),
        Test::new("a_spawn_within_on_init_and_a_start_that_fails", || play(inner_spawns)),
        Test::new("twenty_spawns_at_once", || play(twenty)),
        Test::new("a_daemon_that_crashes_is_started_again", || play(restarts)),
        Test::new("a_flood_of_output_blocks_nobody", || play(floods)),
        Test::new("time_is_enforced_and_what_there_was_is_kept", || play(timed)),
        Test::new("a_question_parks_its_task_until_a_person_answers", || play(asks)),
        Test::new("the_kernel_stops_in_the_middle_and_nothing_is_lost", || play(comes_back)),
    ]
}

fn kill(target: Pid, recursive: bool) -> KillOrder {
    KillOrder { target, recursive, reason: EndReason::UserRequest, grace: Duration::from_secs(2) }
}

async fn virtual_ones(ground: Ground) -> Result<(), String> {
    let tree = ground.tree();
    let lead = ground.spawn(agent("lead", ProcessRole::Lead, "")).await?;
    let child = |parent, name: &str| SpawnOrder { parent: Some(parent), ..agent(name, ProcessRole::Worker, "") };
    let (one, two) = (ground.spawn(child(lead, "one")).await?, ground.spawn(child(lead, "two")).await?);
    let own = tree.kill(two, kill(one, false), true).await.err().map(|stop| tree::contract::error_text(&stop));
    assert_eq!(own.as_deref(), Some("denied: can only kill own children (send it a message, or ask one above it)"));
    assert_eq!(tree.kill(lead, kill(one, false), true).await, Ok(vec![one]));
    assert_eq!(ground.state(one), Some(ProcessState::Dead));
    let exit = tree.wait(lead, one, Some(Duration::from_secs(5)), true).await.map_err(|stop| stop.to_string())?;
    assert_eq!(exit.reason, EndReason::UserRequest);
    assert_eq!(ground.state(one), None, "who is waited for leaves the table");
    let late = tree.wait(lead, two, Some(Duration::from_millis(50)), true).await.err().map(|stop| stop.to_string());
    assert_eq!(late.as_deref(), Some("timeout: process 5 has not ended within 0.05 s"));
    // Somebody waits before the end comes.
    let kernel = ground.kernel.clone();
    let waits = tokio::spawn(async move { kernel.tree.wait(Pid::OPERATOR, two, None, false).await });
    let killed = tree.kill(Pid::OPERATOR, kill(lead, true), false).await.map_err(|stop| stop.to_string())?;
    assert_eq!(killed, [two, lead]);
    assert_eq!(waits.await.map_err(|error| error.to_string())?.map(|exit| exit.reason), Ok(EndReason::ParentDied));
    // Nothing runs that could do a first task or keep a schedule, and that is said.
    let first = SpawnOrder { initial_task: Some("work".to_owned()), ..agent("idle", ProcessRole::Worker, "") };
    let yearly = ProgramSchedule { cron: "0 0 1 1 *".to_owned(), keep_alive: true };
    for order in [first, SpawnOrder { schedule: Some(yearly), ..agent("idle", ProcessRole::Worker, "") }] {
        let no = ground.spawn(order).await.unwrap_err();
        assert!(no.contains("a virtual process runs nothing that could do a first task or keep a schedule"), "{no}");
    }
    // A process that is killed alone leaves its children to the next above it.
    let lead = ground.spawn(agent("lead", ProcessRole::Lead, "")).await?;
    let kid = ground.spawn(child(lead, "kid")).await?;
    tree.kill(Pid::OPERATOR, kill(lead, false), false).await.map_err(|stop| stop.to_string())?;
    let parent = ground.kernel.ledger.look(|world| world.processes[&kid].parent);
    assert_eq!((parent, ground.state(kid)), (Some(Pid::OPERATOR), Some(ProcessState::Idle)));
    Ok(())
}

async fn executes(ground: Ground) -> Result<(), String> {
    let pid = ground.spawn(agent("first-echo", ProcessRole::Agent, "agents.plain:Echo")).await?;
    assert_eq!(ground.state(pid), Some(ProcessState::Idle));
    assert_eq!(ground.execute(pid, "hello", &[]).await?, (0, "hello".to_owned()));
    assert_eq!(ground.execute(pid, "exit", &[]).await?, (7, "seven".to_owned()));
    assert_eq!(ground.execute(pid, "fail", &[]).await, Err("task failed: told to fail".to_owned()));
    let (_, who) = ground.execute(pid, "who", &[]).await?;
    assert!(who.contains(&format!("\"pid\": {pid}, \"ppid\": 2")) && who.contains("\"role\": \"agent\""), "{who}");
    let (_, core) = ground.execute(pid, "environment", &[("name", "HIVEKERNEL_CORE")]).await?;
    assert_eq!(core, "127.0.0.1:61132");
    // A caller makes calls in its stream, and they are its own.
    let caller = ground.spawn(agent("caller", ProcessRole::Lead, "agents.plain:Caller")).await?;
    let call = |text: &str| format!("{{{text}}}");
    let (code, child) = ground.execute(caller, &call(r#""call": "spawn_echo""#), &[]).await?;
    assert_eq!(code, 0, "{child}");
    let (_, said) = ground.execute(caller, &call(&format!(r#""call": "execute_on", "pid": {child}, "text": "there""#)), &[]).await?;
    assert_eq!(said, r#"[0, "there"]"#);
    let (code, no) = ground.execute(caller, &call(&format!(r#""call": "kill", "pid": {pid}"#)), &[]).await?;
    assert!(code == 1 && no.contains("can only kill own children"), "{no}");
    let (_, killed) = ground.execute(caller, &call(&format!(r#""call": "kill", "pid": {child}"#)), &[]).await?;
    assert_eq!(killed, format!("[{child}]"));
    // State is true while it executes.
    let slow = ground.spawn(agent("slow", ProcessRole::Agent, "tried:Crashes")).await?;
    let kernel = ground.kernel.clone();
    let run = tokio::spawn(async move { kernel.tree.execute(Pid::OPERATOR, slow, task("sleep", &[("seconds", "1")]), false).await });
    ground.until("it runs", |world| world.processes[&slow].state == ProcessState::Running).await?;
    run.await.map_err(|error| error.to_string())?.map_err(|stop| stop.to_string())?;
    assert_eq!(ground.state(slow), Some(ProcessState::Idle));
    Ok(())
}

async fn ends_as_its_task(ground: Ground) -> Result<(), String> {
    let pid = ground.spawn(agent("once", ProcessRole::Task, "agents.plain:Echo")).await?;
    let kernel = ground.kernel.clone();
    let waits = tokio::spawn(async move { kernel.tree.wait(Pid::OPERATOR, pid, Some(Duration::from_secs(30)), false).await });
    assert_eq!(ground.execute(pid, "exit", &[]).await?, (7, "seven".to_owned()));
    let exit = waits.await.map_err(|error| error.to_string())?.map_err(|stop| stop.to_string())?;
    assert_eq!((exit.code, exit.output.as_str()), (Some(7), "seven"));
    assert_eq!(ground.state(pid), None);
    Ok(())
}

async fn inner_spawns(ground: Ground) -> Result<(), String> {
    let family = ground.spawn(agent("family", ProcessRole::Lead, "tried:Family")).await?;
    let (_, kids) = ground.execute(family, "kids", &[]).await?;
    let kids: Vec<Pid> = kids.split(' ').map(|kid| kid.parse().unwrap()).collect();
    let parents = ground.kernel.ledger.look(|world| kids.iter().map(|kid| world.processes[kid].parent).collect::<Vec<_>>());
    assert_eq!(parents, [Some(family), Some(family)]);
    for kid in kids {
        assert_eq!(ground.execute(kid, "write", &[("path", "a"), ("text", "b")]).await?.0, 0);
    }
    let before = ground.kernel.ledger.look(|world| world.processes.len());
    let no = ground.spawn(agent("broken", ProcessRole::Agent, "tried:NoStart")).await.unwrap_err();
    assert!(no.starts_with("runtime start failed: ") && no.contains("no key"), "{no}");
    let no = ground.spawn(agent("missing", ProcessRole::Agent, "no_such_module:Agent")).await.unwrap_err();
    assert!(no.contains("there is no module `no_such_module`"), "{no}");
    // The child that it had before it failed has ended with it, and waits to be collected; nothing else is left.
    let left = ground.kernel.ledger.look(|world| {
        let left = world.processes.values().filter(|process| process.program.is_some() && process.name != "family");
        left.filter(|process| process.state.alive()).map(|process| process.name.clone()).collect::<Vec<_>>()
    });
    assert_eq!(left, ["kid-1", "kid-2"], "{before}");
    Ok(())
}

async fn twenty(ground: Ground) -> Result<(), String> {
    let began = Instant::now();
    let spawns: Vec<_> = (0..20)
        .map(|number| {
            let kernel = ground.kernel.clone();
            let order = agent(&format!("many-{number}"), ProcessRole::Agent, "agents.plain:Echo");
            tokio::spawn(async move { kernel.tree.spawn(Pid::OPERATOR, order).await })
        })
        .collect();
    for spawn in spawns {
        spawn.await.map_err(|error| error.to_string())?.map_err(|stop| stop.to_string())?;
    }
    eprintln!("twenty agents in {:?}", began.elapsed());
    let up = ground.kernel.ledger.look(|world| world.processes.values().filter(|p| p.run.as_ref().is_some_and(|run| run.is_up)).count());
    assert_eq!(up, 20);
    Ok(())
}

async fn restarts(ground: Ground) -> Result<(), String> {
    let pid = ground.spawn(agent("daemon", ProcessRole::Daemon, "tried:Crashes")).await?;
    let failed = ground.execute(pid, "crash", &[]).await.unwrap_err();
    assert_eq!(failed, "task failed: its program ended with exit code 9");
    ground.until("it runs again", |world| world.processes[&pid].run.as_ref().is_some_and(|run| run.is_up && run.incarnation == 2)).await?;
    assert_eq!(ground.execute(pid, "lives", &[]).await?, (0, "1".to_owned()));
    let crashed = ground.events(&["proc.crashed"]);
    let [Event::ProcCrashed(crash)] = crashed.as_slice() else { return Err(format!("{crashed:?}")) };
    assert_eq!((crash.code, crash.incarnation), (Some(9), 1));
    assert!(crash.error.ends_with("the last words"), "{}", crash.error);
    // Others wait for a word.
    let pid = ground.spawn(agent("agent", ProcessRole::Agent, "tried:Crashes")).await?;
    ground.execute(pid, "crash", &[]).await.unwrap_err();
    ground.until("it waits", |world| world.processes[&pid].state == ProcessState::Blocked).await?;
    ground.tree().signal(Pid::OPERATOR, pid, TreeSignal::Cont, "go on").await.map_err(|stop| stop.to_string())?;
    ground.until("it runs again", |world| world.processes[&pid].run.as_ref().is_some_and(|run| run.is_up)).await?;
    // A task is over.
    let pid = ground.spawn(agent("task", ProcessRole::Task, "tried:Crashes")).await?;
    ground.execute(pid, "crash", &[]).await.unwrap_err();
    let exit = ground.tree().wait(Pid::OPERATOR, pid, Some(Duration::from_secs(10)), false).await.map_err(|stop| stop.to_string())?;
    assert_eq!(exit.code, Some(9));
    Ok(())
}

async fn floods(ground: Ground) -> Result<(), String> {
    let pid = ground.spawn(agent("flood", ProcessRole::Agent, "tried:Floods")).await?;
    for _ in 0..3 {
        assert_eq!(ground.execute(pid, "go", &[]).await?, (0, "flooded".to_owned()));
    }
    Ok(())
}

async fn timed(ground: Ground) -> Result<(), String> {
    let pid = ground.spawn(agent("forever", ProcessRole::Agent, "agents.plain:Forever")).await?;
    let order = tree::TaskOrder { timeout: Some(Duration::from_secs(1)), ..task("wait", &[]) };
    let began = Instant::now();
    let no = ground.tree().execute(Pid::OPERATOR, pid, order, false).await.unwrap_err();
    assert_eq!(no.to_string(), "task failed: timeout: it took longer than 1 s");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let failed = ground.events(&["task.failed"]);
    let [Event::TaskFailed(failed)] = failed.as_slice() else { return Err(format!("{failed:?}")) };
    let partial = failed.result.as_deref().map(|result| (result.exit_code, result.output.as_str(), result.partial));
    assert_eq!(partial, Some((5, "half", true)));
    // A signal interrupts as well, also one that comes before the program has the task that runs on record.
    let kernel = ground.kernel.clone();
    let run = tokio::spawn(async move { kernel.tree.execute(Pid::OPERATOR, pid, task("wait", &[]), false).await });
    ground.until("it runs", |world| world.processes[&pid].state == ProcessState::Running).await?;
    ground.tree().signal(Pid::OPERATOR, pid, TreeSignal::Int, "enough").await.map_err(|stop| stop.to_string())?;
    let no = run.await.map_err(|error| error.to_string())?.unwrap_err();
    assert_eq!(no.to_string(), "task failed: interrupted: enough");
    // The first is on record as taken; the second may have ended before that was written.
    assert!(matches!(ground.events(&["task.taken"]).first(), Some(Event::TaskTaken(taken)) if taken.pid == pid && taken.incarnation == 1));
    // One that hears nothing is killed.
    let deaf = ground.spawn(agent("deaf", ProcessRole::Agent, "tried:Crashes")).await?;
    let order = tree::TaskOrder { timeout: Some(Duration::from_secs(1)), ..task("deaf", &[("seconds", "60")]) };
    let began = Instant::now();
    let no = ground.tree().execute(Pid::OPERATOR, deaf, order, false).await.unwrap_err();
    assert_eq!(no.to_string(), "task failed: timeout: it took longer than 1 s");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    ground.until("it is gone", |world| world.processes[&deaf].run.as_ref().is_some_and(|run| !run.is_up)).await
}

async fn asks(ground: Ground) -> Result<(), String> {
    let pid = ground.spawn(agent("asker", ProcessRole::Agent, "agents.plain:Echo")).await?;
    let kernel = ground.kernel.clone();
    let run = tokio::spawn(async move { kernel.tree.execute(Pid::OPERATOR, pid, task("ask", &[]), false).await });
    ground.until("it asks", |world| world.reviews.values().any(|review| review.tool == "person.ask")).await?;
    assert_eq!(ground.state(pid), Some(ProcessState::Blocked));
    let review = ground.kernel.ledger.look(|world| world.reviews.values().map(|review| review.id).next().unwrap());
    ground.kernel.answer(review, kernel::Reply::yes(), "operator", Some("green".to_owned())).await.map_err(|stop| stop.to_string())?;
    let done = run.await.map_err(|error| error.to_string())?.map_err(|stop| stop.to_string())?;
    assert_eq!(done.output, "green");
    Ok(())
}

async fn comes_back(mut ground: Ground) -> Result<(), String> {
    let daemon = ground.spawn(agent("daemon", ProcessRole::Daemon, "tried:Crashes")).await?;
    // One task at a time, so that a second waits.
    let limits = ProgramLimits { tasks: Some(1), ..ProgramLimits::default() };
    let worker = ground.spawn(SpawnOrder { limits, ..agent("agent", ProcessRole::Agent, "tried:Crashes") }).await?;
    let execute = |order| {
        let kernel = ground.kernel.clone();
        tokio::spawn(async move { kernel.tree.execute(Pid::OPERATOR, worker, order, false).await })
    };
    let run = execute(task("sleep", &[("seconds", "60")]));
    ground.until("it runs", |world| world.processes[&worker].state == ProcessState::Running).await?;
    let waits = execute(task("lives", &[]));
    let second = |world: &World| world.tasks.values().find(|task| task.prompt == "lives").cloned();
    ground.until("another waits", |world| second(world).is_some()).await?;
    ground.kernel.stop("test").await.map_err(|fault| fault.to_string())?;
    let stopped = run.await.map_err(|error| error.to_string())?.unwrap_err().to_string();
    assert_eq!(stopped, "task failed: the kernel was stopped");
    let left = waits.await.map_err(|error| error.to_string())?.unwrap_err().to_string();
    assert!(left.starts_with("the kernel was stopped before task-2 began"), "{left}");
    let launcher = ground.launchers.pop().unwrap();
    let Ground { bed, kernel, .. } = ground;
    drop(kernel);
    let kernel = boot_again(&bed, launcher, None).await?;
    let ground = Ground { bed, kernel, launchers: Vec::new() };
    // At once: whoever wants it joins the start that is under way.
    assert_eq!(ground.execute(daemon, "lives", &[]).await?, (0, "2".to_owned()), "it has what it left");
    ground.until("what waited is done", |world| second(world).is_some_and(|task| task.state.ended())).await?;
    let said = ground.kernel.ledger.look(|world| second(world).and_then(|task| task.result)).map(|result| result.output);
    assert_eq!(said.as_deref(), Some("2"), "it has what it left");
    for pid in [daemon, worker] {
        let incarnation = ground.kernel.ledger.look(|world| world.processes[&pid].run.as_ref().map(|run| (run.is_up, run.incarnation)));
        assert_eq!(incarnation, Some((true, 2)));
    }
    let failed = ground.kernel.ledger.look(|world| world.tasks.values().filter(|task| task.state == world::TaskState::Failed).count());
    assert_eq!(failed, 1);
    Ok(())
}

/// Boots as soon as the last kernel has let go of its home.
pub async fn boot_again(
    bed: &testkit::bed::Bed,
    launcher: sandbox::Launcher,
    startup: Option<tree::Startup>,
) -> Result<std::sync::Arc<kernel::Kernel>, String> {
    let lock = bed.home().join("run/kernel.lock");
    let is_free = || std::fs::File::open(&lock).is_ok_and(|file| file.try_lock().is_ok());
    let until = Instant::now() + Duration::from_secs(10);
    while !is_free() && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    boot(bed, launcher, startup).await
}
