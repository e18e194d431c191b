//! What the tree does by rule: decisions, schedules, startup files, signals, and what becomes of programs when their kernel is killed.

use crate::ground::{Ground, agent, boot, play, task};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::bed::Bed;
use testkit::harness::Test;
use tree::{KillOrder, MessageOrder, SpawnOrder, Startup};
use world::{EndReason, MessagePriority, Pid, ProcessRole, ProcessState, ProgramSchedule, Recipient, Tier, TreeSignal};

/// The argument by which this program is a kernel that somebody kills.
pub const VICTIM: &str = "kernel-to-be-killed";

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("a_person_decides_what_becomes_of_an_agent_that_crashed", || play(decided)),
        Test::new("a_task_for_an_agent_that_crashed_waits_for_the_decision", || play(undecided)),
        Test::new("what_is_decided_about_a_crash_outlives_a_kernel", || play(decided_later)),
        Test::new("a_schedule_has_a_program_sleep_between_its_runs", || play(scheduled)),
        Test::new("a_startup_file_spawns_what_is_not_there", || play(started)),
        Test::new("an_agent_that_is_stopped_stands_still_until_it_goes_on", || play(stopped)),
        Test::new("a_program_that_is_killed_while_it_is_stopped_is_noticed", || play(killed_while_stopped)),
        Test::new("a_message_reaches_its_agent_and_values_of_variables_no_record", || play(told)),
        Test::new("programs_die_with_a_kernel_that_is_killed", killed),
    ]
}

async fn decided(ground: Ground) -> Result<(), String> {
    for (answer, runs) in [(kernel::Reply::yes(), true), (kernel::Reply::no(), false)] {
        let pid = ground.spawn(agent("agent", ProcessRole::Agent, "tried:Crashes")).await?;
        ground.execute(pid, "crash", &[]).await.unwrap_err();
        let open = |world: &world::World| {
            let asked = world.reviews.values().find(|review| review.pid == pid && review.state == world::ReviewState::Open);
            asked.map(|review| review.id)
        };
        ground.until("a person is asked", |world| open(world).is_some()).await?;
        assert_eq!(ground.state(pid), Some(ProcessState::Blocked));
        let review = ground.kernel.ledger.look(open).ok_or("no question")?;
        ground.kernel.answer(review, answer, "operator", None).await.map_err(|stop| stop.to_string())?;
        let is = |world: &world::World| match runs {
            true => world.processes[&pid].run.as_ref().is_some_and(|run| run.is_up && run.incarnation == 2),
            false => world.processes[&pid].state == ProcessState::Zombie,
        };
        ground.until("it is done", is).await?;
    }
    Ok(())
}

/// The question about a process that somebody is to answer.
fn open_question(world: &world::World, pid: Pid) -> Option<world::ReviewId> {
    let asked = world.reviews.values().find(|review| review.pid == pid && review.state == world::ReviewState::Open);
    asked.map(|review| review.id)
}

/// How often a process was started.
fn starts(ground: &Ground, pid: Pid) -> usize {
    ground.events(&["proc.started"]).iter().filter(|event| event.pid() == pid).count()
}

async fn undecided(ground: Ground) -> Result<(), String> {
    for (answer, output) in [
        (kernel::Reply::yes(), Ok("hello")),
        (kernel::Reply::no(), Err("task failed: its process ended: it crashed, and was not to be started again")),
    ] {
        let pid = ground.spawn(agent("agent", ProcessRole::Agent, "tried:Crashes")).await?;
        ground.execute(pid, "crash", &[]).await.unwrap_err();
        ground.until("a person is asked", |world| open_question(world, pid).is_some()).await?;
        let kernel = ground.kernel.clone();
        let run = tokio::spawn(async move { kernel.tree.execute(Pid::OPERATOR, pid, task("hello", &[]), false).await });
        ground.until("it has a task", |world| world.open_tasks(pid).next().is_some()).await?;
        // In this time another is started and does something: so would this one have been.
        let control = ground.spawn(agent("control", ProcessRole::Agent, "tried:Crashes")).await?;
        assert_eq!(ground.execute(control, "hello", &[]).await?.1, "hello");
        assert_eq!((starts(&ground, control), starts(&ground, pid)), (1, 1), "nobody has decided");
        assert!(!run.is_finished());
        let review = ground.kernel.ledger.look(|world| open_question(world, pid)).ok_or("no question")?;
        ground.kernel.answer(review, answer, "operator", None).await.map_err(|stop| stop.to_string())?;
        let done = run.await.map_err(|error| error.to_string())?;
        assert_eq!(done.map(|result| result.output).map_err(|stop| stop.to_string()), output.map(str::to_owned).map_err(str::to_owned));
    }
    Ok(())
}

async fn decided_later(mut ground: Ground) -> Result<(), String> {
    let pid = ground.spawn(agent("agent", ProcessRole::Agent, "tried:Crashes")).await?;
    let daemon = ground.spawn(agent("daemon", ProcessRole::Daemon, "tried:Crashes")).await?;
    ground.execute(pid, "crash", &[]).await.unwrap_err();
    ground.until("a person is asked", |world| open_question(world, pid).is_some()).await?;
    let launcher = ground.launchers.pop().ok_or("no launcher")?;
    ground.kernel.stop("test").await.map_err(|fault| fault.to_string())?;
    let Ground { bed, kernel, .. } = ground;
    drop(kernel);
    let kernel = crate::lives::boot_again(&bed, launcher, None).await?;
    let ground = Ground { bed, kernel, launchers: Vec::new() };
    let is_back =
        |pid: Pid| move |world: &world::World| world.processes[&pid].run.as_ref().is_some_and(|run| run.is_up && run.incarnation == 2);
    ground.until("the control is back", is_back(daemon)).await?;
    assert_eq!((starts(&ground, daemon), starts(&ground, pid)), (2, 1), "the next kernel does not decide it");
    let review = ground.kernel.ledger.look(|world| open_question(world, pid)).ok_or("no question")?;
    ground.kernel.answer(review, kernel::Reply::yes(), "operator", None).await.map_err(|stop| stop.to_string())?;
    ground.until("it is back", is_back(pid)).await?;
    assert_eq!(ground.events(&["escalation.raised"]).len(), 1, "one crash is one question");
    Ok(())
}

async fn scheduled(ground: Ground) -> Result<(), String> {
    let yearly = |keep_alive| Some(ProgramSchedule { cron: "0 0 1 1 *".to_owned(), keep_alive });
    for (keep_alive, incarnation) in [(true, 1), (false, 2)] {
        let order = SpawnOrder { schedule: yearly(keep_alive), ..agent("nightly", ProcessRole::Agent, "tried:Crashes") };
        let pid = ground.spawn(order).await?;
        assert_eq!(ground.state(pid), Some(ProcessState::Sleeping));
        let is_up = |world: &world::World| world.processes[&pid].run.as_ref().is_some_and(|run| run.is_up);
        assert_eq!(ground.kernel.ledger.look(is_up), keep_alive, "without `keep_alive` nothing runs between two runs");
        let cron = ground.tree().cron_list().into_iter().find(|entry| entry.spec.target == pid).ok_or("no entry of cron")?;
        ground.tree().cron_run(Pid::OPERATOR, cron.id).await.map_err(|stop| stop.to_string())?;
        ground.until("it ran", |world| world.tasks.values().any(|task| task.pid == pid && task.state.ended())).await?;
        ground.until("it sleeps again", |world| world.processes[&pid].state == ProcessState::Sleeping).await?;
        let run = ground.kernel.ledger.look(|world| world.processes[&pid].run.clone()).ok_or("no run")?;
        assert_eq!((run.incarnation, run.is_up), (incarnation, keep_alive));
    }
    Ok(())
}

async fn started(mut ground: Ground) -> Result<(), String> {
    let folder = ground.bed.folder().join("startup");
    std::fs::create_dir(&folder).map_err(|error| error.to_string())?;
    let json = r#"{"agents": [
        {"name": "queen", "cognitive_tier": "tactical", "runtime_image": "beside:Agent", "system_prompt_file": "queen.txt",
         "tools": ["web"], "workspace": "files", "metadata": {"a": "b"},
         "cron": [{"name": "look", "expression": "0 0 1 1 *", "description": "look"}]},
        {"name": "maid", "role": "daemon", "parent": "queen"}]}"#;
    let code = "import json\nfrom skep import Agent, TaskResult\nclass Agent(Agent):\n    async def handle_task(self, task):\n        \
                open(self.config.metadata['agent.workspace'] + '/written', 'w').write('by the agent')\n        \
                return TaskResult(output=json.dumps([self.config.system_prompt, self.config.metadata['agent.tools'], self.config.metadata['a']]))\n";
    for (name, text) in [("tree.json", json), ("queen.txt", "You rule."), ("beside.py", code)] {
        std::fs::write(folder.join(name), text).map_err(|error| error.to_string())?;
    }
    let launcher = ground.launchers.pop().ok_or("no launcher")?;
    ground.kernel.stop("test").await.map_err(|fault| fault.to_string())?;
    let Ground { bed, kernel, .. } = ground;
    drop(kernel);
    let startup = Startup::read(&folder.join("tree.json")).map_err(|fault| fault.to_string())?;
    let kernel = crate::lives::boot_again(&bed, launcher, Some(startup)).await?;
    let ground = Ground { bed, kernel, launchers: Vec::new() };
    let named = |world: &world::World, name: &str| world.processes.values().find(|p| p.name.starts_with(name)).cloned();
    ground.until("all are there", |world| named(world, "maid@").is_some() && !world.crons.is_empty()).await?;
    let (queen, maid) = ground.kernel.ledger.look(|world| (named(world, "queen@"), named(world, "maid@")));
    let (queen, maid) = (queen.ok_or("no queen")?, maid.ok_or("no maid")?);
    assert_eq!((queen.parent, maid.parent, queen.tree_tier()), (Some(Pid::KERNEL), Some(queen.pid), Some(Tier::Tactical)));
    assert_eq!(maid.state, ProcessState::Idle, "what has no image is virtual");
    assert_eq!(ground.execute(queen.pid, "go", &[]).await?, (0, r#"["You rule.", "web", "b"]"#.to_owned()));
    let written = std::fs::read_to_string(folder.join("files/queen/written")).map_err(|error| error.to_string())?;
    assert_eq!(written, "by the agent");

    let yaml = "agents:\n  - { name: queen, cog: tactical, runtime_image: 'beside:Agent' }\n";
    std::fs::write(folder.join("agents.yaml"), yaml).map_err(|error| error.to_string())?;
    std::fs::write(folder.join("budgets.yaml"), "tactical: 1000\ntotal: 5000\n").map_err(|error| error.to_string())?;
    std::fs::write(folder.join("permissions.yaml"), "daemon: [web]\n").map_err(|error| error.to_string())?;
    let read = Startup::read(&folder).map_err(|fault| fault.to_string())?;
    let text = format!("{read:?}");
    assert!(text.contains(r#"tools: ["web"]"#) && text.contains(r#"{"all": 5000, "tactical": 1000}"#), "{text}");
    std::fs::write(folder.join("bad.yaml"), "agents:\n  - { name: queen, role: emperor }\n").map_err(|error| error.to_string())?;
    let bad = Startup::read(&folder.join("bad.yaml")).err().map(|fault| fault.why);
    assert_eq!(bad.as_deref(), Some("agent `queen`: there is no role `emperor`"));
    Ok(())
}

async fn stopped(ground: Ground) -> Result<(), String> {
    let pid = ground.spawn(agent("agent", ProcessRole::Agent, "tried:Crashes")).await?;
    let signal = |signal| ground.tree().signal(Pid::OPERATOR, pid, signal, "a test");
    signal(TreeSignal::Stop).await.map_err(|stop| stop.to_string())?;
    assert_eq!(ground.state(pid), Some(ProcessState::Paused));
    let kernel = ground.kernel.clone();
    let run = tokio::spawn(async move { kernel.tree.execute(Pid::OPERATOR, pid, task("hello", &[]), false).await });
    ground.until("it waits", |world| world.tasks.values().any(|task| task.pid == pid)).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!run.is_finished(), "it stands still");
    signal(TreeSignal::Cont).await.map_err(|stop| stop.to_string())?;
    let done = run.await.map_err(|error| error.to_string())?.map_err(|stop| stop.to_string())?;
    assert_eq!(done.output, "hello");
    signal(TreeSignal::Term).await.map_err(|stop| stop.to_string())?;
    assert_eq!(ground.state(pid), Some(ProcessState::Dead));
    Ok(())
}

/// The operating-system process that a program runs in, and not the one that its room begins with.
fn command_of(ground: &Ground, pid: Pid, confined: bool) -> Result<i32, String> {
    let first =
        ground.kernel.ledger.look(|world| world.processes[&pid].run.as_ref().and_then(|run| run.process)).ok_or("it does not run")?;
    if !confined {
        return Ok(first);
    }
    let children = std::fs::read_to_string(format!("/proc/{first}/task/{first}/children")).map_err(|error| error.to_string())?;
    children.split_whitespace().next().and_then(|child| child.parse().ok()).ok_or_else(|| "nothing runs in its room".to_owned())
}

async fn killed_while_stopped(ground: Ground) -> Result<(), String> {
    // In a room without a cgroup, in one with a freezer where the machine has one, and in none.
    for (confined, memory) in [(true, None), (true, Some("1024")), (false, None)] {
        let metadata = memory.map(|memory| ("skep.memory_mb".to_owned(), memory.to_owned())).into_iter().collect();
        let order = SpawnOrder { confined, metadata, ..agent("daemon", ProcessRole::Daemon, "tried:Crashes") };
        let pid = ground.spawn(order).await?;
        let signal = |signal| ground.tree().signal(Pid::OPERATOR, pid, signal, "a test");
        signal(TreeSignal::Stop).await.map_err(|stop| stop.to_string())?;
        let command = command_of(&ground, pid, confined)?.to_string();
        let killed = Command::new("kill").args(["-KILL", &command]).status().map_err(|error| error.to_string())?;
        assert!(killed.success(), "{command}");
        let crashed = |world: &world::World| world.processes[&pid].run.as_ref().is_some_and(|run| !run.is_up && run.crashes_ms.len() == 1);
        ground.until("its end is noticed", crashed).await?;
        // It stays stopped: what is to be done waits, and so does its next start.
        assert_eq!(ground.state(pid), Some(ProcessState::Paused));
        let kernel = ground.kernel.clone();
        let run = tokio::spawn(async move { kernel.tree.execute(Pid::OPERATOR, pid, task("hello", &[]), false).await });
        ground.until("it has a task", |world| world.open_tasks(pid).next().is_some()).await?;
        let control = ground.spawn(agent("control", ProcessRole::Agent, "tried:Crashes")).await?;
        assert_eq!((starts(&ground, control), starts(&ground, pid), run.is_finished()), (1, 1, false));
        signal(TreeSignal::Cont).await.map_err(|stop| stop.to_string())?;
        let done = run.await.map_err(|error| error.to_string())?.map_err(|stop| stop.to_string())?;
        assert_eq!((done.output.as_str(), starts(&ground, pid)), ("hello", 2));
    }
    Ok(())
}

async fn told(ground: Ground) -> Result<(), String> {
    let value = "a value that nobody may find";
    let order = SpawnOrder {
        env: [("OWN_VALUE".to_owned(), value.to_owned())].into(),
        ..agent("mailbox", ProcessRole::Agent, "agents.plain:Mailbox")
    };
    let pid = ground.spawn(order).await?;
    let message = MessageOrder {
        to: Recipient::Process(pid),
        kind: "note".to_owned(),
        priority: MessagePriority::Normal,
        body: b"hello".to_vec(),
        requires_ack: true,
        ttl: None,
        reply_to: Some("me".to_owned()),
    };
    ground.tree().send(Pid::OPERATOR, message).await.map_err(|stop| stop.to_string())?;
    let (_, shown) = ground.execute(pid, "show", &[("count", "1")]).await?;
    assert!(shown.contains(r#""payload": "hello", "reply_to": "me""#), "{shown}");
    // What a child leaves that ends in the middle is its parent's.
    let child = |name: &str, image: &str| SpawnOrder { parent: Some(pid), ..agent(name, ProcessRole::Task, image) };
    let crashed = ground.spawn(child("crashed", "tried:Crashes")).await?;
    ground.execute(crashed, "crash", &[]).await.unwrap_err();
    let forever = ground.spawn(child("forever", "agents.plain:Forever")).await?;
    let kernel = ground.kernel.clone();
    let run = tokio::spawn(async move { kernel.tree.execute(Pid::OPERATOR, forever, task("wait", &[]), false).await });
    let has_it = |world: &world::World| world.tasks.values().any(|task| task.pid == forever && task.taken_by == Some(1));
    ground.until("its program has the task", has_it).await?;
    let kill = KillOrder { target: forever, recursive: false, reason: EndReason::BudgetExceeded, grace: Duration::from_secs(5) };
    ground.tree().kill(Pid::OPERATOR, kill, false).await.map_err(|stop| stop.to_string())?;
    let no = run.await.map_err(|error| error.to_string())?.unwrap_err().to_string();
    assert_eq!(no, "task failed: shutdown: budget_exceeded");
    let (_, shown) = ground.execute(pid, "show", &[("count", "3")]).await?;
    assert!(shown.contains("child_exited") && shown.contains("its program ended with exit code 9"), "{shown}");
    assert!(shown.contains("its budget is used up") && shown.contains("half"), "{shown}");
    let exit = ground.tree().wait(pid, forever, None, true).await.map_err(|stop| stop.to_string())?;
    assert_eq!((exit.reason, exit.partial.map(|partial| partial.output)), (EndReason::BudgetExceeded, Some("half".to_owned())));
    let echo =
        SpawnOrder { env: [("OWN_VALUE".to_owned(), value.to_owned())].into(), ..agent("echo", ProcessRole::Agent, "agents.plain:Echo") };
    let echo = ground.spawn(echo).await?;
    assert_eq!(ground.execute(echo, "environment", &[("name", "OWN_VALUE")]).await?.1, value);
    let spawned = format!("{:?}", ground.events(&["proc.spawned", "call.admitted"]));
    assert!(spawned.contains("OWN_VALUE") && !spawned.contains(value), "{spawned}");
    Ok(())
}

/// A kernel that spawns two agents, says their operating-system pids, and waits to be killed.
pub fn victim() -> Result<(), String> {
    let bed = Bed::new(&[])?;
    let launcher = sandbox::Launcher::start().map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let kernel = boot(&bed, launcher, None).await?;
        for confined in [true, false] {
            let order = SpawnOrder { confined, ..agent("agent", ProcessRole::Agent, "tried:Crashes") };
            let pid = kernel.tree.spawn(Pid::OPERATOR, order).await.map_err(|stop| stop.to_string())?;
            let process = kernel.ledger.look(|world| world.processes[&pid].run.as_ref().and_then(|run| run.process));
            println!("{}", process.ok_or("it does not run")?);
        }
        std::future::pending().await
    })
}

fn killed() -> Result<(), String> {
    crate::ground::packages();
    let folder = tempfile::Builder::new().prefix("skep-victim-").tempdir().map_err(|error| error.to_string())?;
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut kernel =
        Command::new(me).arg(VICTIM).env("TMPDIR", folder.path()).stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let stdout = kernel.stdout.take().ok_or("no output")?;
    let pids: Vec<String> = BufReader::new(stdout).lines().take(2).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    assert_eq!(pids.len(), 2, "both run");
    let lives = |pid: &String| std::path::Path::new("/proc").join(pid).exists();
    assert!(pids.iter().all(lives), "{pids:?}");
    kernel.kill().and_then(|()| kernel.wait()).map_err(|error| error.to_string())?;
    let until = Instant::now() + Duration::from_secs(10);
    while pids.iter().any(lives) {
        assert!(Instant::now() < until, "orphans: {pids:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
