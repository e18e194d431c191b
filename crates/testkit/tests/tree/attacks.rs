//! What hostile agents tried: to see, spend, hear and be more than they may. Each with what is still allowed beside it.

use crate::ground::{Ground, agent, play, task};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use testkit::harness::Test;
use tree::{KillOrder, LogLine, MessageOrder, QueueFilter, SpawnOrder, TaskOrder, TreeEvent};
use world::{
    Budget, CronAction, CronSpec, EndReason, Event, MessagePriority, MissedRule, OverlapRule, Pid, ProcessRole, ProgramRuntime, Recipient,
};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("a_child_sees_no_folder_that_its_parent_does_not_see", || play(image_elsewhere)),
        Test::new("what_is_secret_in_a_shown_folder_is_masked", || play(secrets)),
        Test::new("a_child_has_tools_and_a_name_of_its_own", || play(tools_and_names)),
        Test::new("who_says_that_all_is_used_up_gets_no_more", || play(used_up)),
        Test::new("of_many_that_spawn_at_once_those_that_may_not_are_told_why", || play(race)),
        Test::new("what_a_dead_parent_may_have_spent_bounds_those_it_left", || play(left_behind)),
        Test::new("users_hear_nothing_of_each_other", || play(users)),
        Test::new("only_the_kernel_says_what_only_the_kernel_knows", || play(forged)),
        Test::new("who_sees_too_much_is_told_what_it_does_not_see", || play(unseen)),
        Test::new("an_open_question_stops_the_program_when_its_time_is_up", || play(question)),
    ]
}

fn said<T>(result: Result<T, world::Stop>) -> Result<T, String> {
    result.map_err(|stop| tree::contract::error_text(&stop))
}

fn all(tokens: u64) -> Option<Budget> {
    Some(Budget { tokens: [("all".to_owned(), tokens)].into(), ..Budget::default() })
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::create_dir_all(path.parent().unwrap()).and_then(|()| std::fs::write(path, text)).map_err(|error| error.to_string())
}

fn virtual_one(name: &str, user: Option<&str>) -> SpawnOrder {
    SpawnOrder { user: user.map(str::to_owned), ..agent(name, ProcessRole::Agent, "") }
}

async fn image_elsewhere(ground: Ground) -> Result<(), String> {
    let elsewhere = tempfile::Builder::new().prefix("elsewhere-").tempdir_in("/var/tmp").map_err(|error| error.to_string())?;
    let program = elsewhere.path().join("build.sh");
    write(&program, "#!/bin/sh\nexit 3\n")?;
    let mut mode = std::fs::metadata(&program).map_err(|error| error.to_string())?.permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&program, mode).map_err(|error| error.to_string())?;
    let image = program.display().to_string();
    let custom = |runtime, image: &str| SpawnOrder { runtime, image: image.to_owned(), ..agent("kid", ProcessRole::Worker, "") };
    let one = ground.spawn(agent("one", ProcessRole::Agent, "tried:Files")).await?;
    let parts = format!("{}/../{}/build.sh", elsewhere.path().display(), elsewhere.path().file_name().unwrap().display());
    for (runtime, image) in [(ProgramRuntime::Custom, &image), (ProgramRuntime::Claw, &image), (ProgramRuntime::Custom, &parts)] {
        let own = BTreeMap::from([
            ("skep.shown".to_owned(), elsewhere.path().display().to_string()),
            ("skep.programs".to_owned(), elsewhere.path().display().to_string()),
        ]);
        let refused = said(ground.tree().spawn(one, SpawnOrder { metadata: own, ..custom(runtime, image) }).await).unwrap_err();
        assert!(refused.contains("builtin:spawn-image"), "{refused}");
    }
    // The control: who is shown the folder may run what lies in it, and who runs outside a sandbox sees it anyway.
    let shown = BTreeMap::from([("skep.shown".to_owned(), elsewhere.path().display().to_string())]);
    let two = ground.spawn(SpawnOrder { metadata: shown, ..agent("two", ProcessRole::Agent, "tried:Files") }).await?;
    let free = ground.spawn(SpawnOrder { confined: false, ..agent("free", ProcessRole::Agent, "tried:Files") }).await?;
    for by in [two, free, Pid::OPERATOR] {
        let not_ready = said(ground.tree().spawn(by, custom(ProgramRuntime::Custom, &image)).await).unwrap_err();
        assert!(not_ready.contains("runtime start failed") && !not_ready.contains("denied"), "{not_ready}");
    }
    ground.kernel.stop("test").await.map_err(|fault| fault.to_string())
}

async fn secrets(ground: Ground) -> Result<(), String> {
    let home = tempfile::Builder::new().prefix("home-").tempdir_in("/var/tmp").map_err(|error| error.to_string())?;
    let secret = [".env", ".ssh/id_rsa", ".aws/credentials", "deep/.env.local"];
    for path in secret.iter().chain(&["plain.txt", "deep/plain.txt"]) {
        write(&home.path().join(path), "its content")?;
    }
    let shown = BTreeMap::from([("skep.shown".to_owned(), home.path().display().to_string())]);
    let one = ground.spawn(SpawnOrder { metadata: shown, ..agent("one", ProcessRole::Agent, "tried:Files") }).await?;
    let read = async |path: &str| ground.execute(one, "read", &[("path", &home.path().join(path).display().to_string())]).await;
    for path in ["plain.txt", "deep/plain.txt"] {
        assert_eq!(read(path).await?, (0, "its content".to_owned()), "{path}");
    }
    for path in secret {
        assert!(!read(path).await?.1.contains("its content"), "{path}");
    }
    ground.kernel.stop("test").await.map_err(|fault| fault.to_string())
}

async fn tools_and_names(ground: Ground) -> Result<(), String> {
    let tools = |tools: &[&str]| tools.iter().map(|tool| (*tool).to_owned()).collect::<Vec<_>>();
    let lead = ground.spawn(SpawnOrder { tools: tools(&["read", "web"]), ..virtual_one("lead", None) }).await?;
    ground.spawn(virtual_one("queen", None)).await?;
    let kid = |name: &str, own: &[&str]| SpawnOrder { tools: tools(own), ..virtual_one(name, None) };
    let refused = said(ground.tree().spawn(lead, kid("a", &["shell_exec"])).await).unwrap_err();
    assert!(refused.contains("builtin:spawn-tools"), "{refused}");
    let heir = said(ground.tree().spawn(lead, kid("b", &[])).await)?;
    let own = ground.kernel.ledger.look(|world| world.processes[&heir].program.as_ref().map(|program| program.tools.clone()));
    assert_eq!(own, Some(tools(&["read", "web"])), "who names none has its parent's");
    let refused = said(ground.tree().spawn(heir, kid("c", &["shell_exec"])).await).unwrap_err();
    assert!(refused.contains("builtin:spawn-tools"), "{refused}");
    said(ground.tree().spawn(lead, kid("d", &["web"])).await)?;
    for name in ["king", "operator", "Kernel", "queen"] {
        let refused = said(ground.tree().spawn(lead, kid(name, &[])).await).unwrap_err();
        assert!(refused.contains("builtin:spawn-name"), "{name}: {refused}");
    }
    said(ground.tree().spawn(lead, kid("queen-2", &[])).await)?;
    let long = SpawnOrder { model: "m".repeat(100_000), ..virtual_one("e", None) };
    assert!(said(ground.tree().spawn(Pid::OPERATOR, long).await).unwrap_err().contains("at most 256 characters"));
    ground.kernel.stop("test").await.map_err(|fault| fault.to_string())
}

async fn race(ground: Ground) -> Result<(), String> {
    let limits = world::ProgramLimits { children: Some(1), ..world::ProgramLimits::default() };
    let parent = ground.spawn(SpawnOrder { limits, budget: all(100), ..virtual_one("parent", None) }).await?;
    for round in 0..20 {
        let spawns: Vec<_> = (0..8)
            .map(|nth| {
                let kernel = ground.kernel.clone();
                let order = SpawnOrder { budget: all(60), ..virtual_one(&format!("kid-{round}-{nth}"), None) };
                tokio::spawn(async move { said(kernel.tree.spawn(parent, order).await) })
            })
            .collect();
        let mut kids = Vec::new();
        for spawned in spawns {
            match spawned.await.map_err(|error| error.to_string())? {
                Ok(pid) => kids.push(pid),
                Err(why) => assert!(why.contains("denied") && !why.contains("refused by the world"), "{why}"),
            }
        }
        assert_eq!(kids.len(), 1, "it may have one");
        let end = KillOrder { target: kids[0], recursive: true, reason: EndReason::UserRequest, grace: Duration::ZERO };
        said(ground.tree().kill(Pid::OPERATOR, end, false).await)?;
    }
    ground.kernel.stop("test").await.map_err(|fault| fault.to_string())
}

async fn used_up(ground: Ground) -> Result<(), String> {
    let one = ground.spawn(SpawnOrder { budget: all(100), ..agent("one", ProcessRole::Agent, "tried:Crashes") }).await?;
    let other = ground.spawn(agent("other", ProcessRole::Agent, "tried:Crashes")).await?;
    assert_eq!(ground.execute(one, "hello", &[]).await?.1, "hello");
    let asked = said(ground.tree().request(one, "tokens", 50, "more").await)?;
    assert!(!asked.granted, "a person capped it, and nobody gave it more: {asked:?}");
    let free = said(ground.tree().request(other, "tokens", 50, "more").await)?;
    assert!(free.granted, "nothing caps it: {free:?}");
    let kernel = ground.kernel.clone();
    let run = tokio::spawn(async move {
        kernel.tree.execute(Pid::OPERATOR, one, task("sleep", &[("seconds", "100")]), false).await.map_err(|stop| stop.to_string())
    });
    ground.until("it works", |world| world.running_tasks(one) > 0).await?;
    said(ground.tree().metric(one, "tokens_consumed", 1e12).await)?;
    let why = run.await.map_err(|error| error.to_string())?.unwrap_err();
    assert!(why.contains("used up"), "{why}");
    let refused = ground.execute(one, "hello", &[]).await.unwrap_err();
    assert!(refused.contains("used up"), "{refused}");
    let refused = said(ground.tree().spawn(one, agent("kid", ProcessRole::Worker, "")).await).unwrap_err();
    assert!(refused.contains("builtin:spawn-budget"), "{refused}");
    assert_eq!(ground.execute(other, "hello", &[]).await?.1, "hello", "another pays nothing for it");
    ground.kernel.stop("test").await.map_err(|fault| fault.to_string())
}

async fn left_behind(mut ground: Ground) -> Result<(), String> {
    let limits = world::ProgramLimits { tokens_total: Some(10_000), ..world::ProgramLimits::default() };
    let parent = ground.spawn(SpawnOrder { budget: all(10_000), limits, ..virtual_one("parent", None) }).await?;
    let mut kids = Vec::new();
    for name in ["a", "b", "c", "d"] {
        kids.push(said(ground.tree().spawn(parent, virtual_one(name, None)).await)?);
    }
    let short = |ground: &Ground, pid: Pid, tokens: u64| {
        let need = world::Need { tier: "operational", tokens, context: 0, micros: 0 };
        ground.kernel.ledger.look(|world| world.short(pid, &need, world.now_ms).map(|short| short.pid))
    };
    said(ground.tree().metric(kids[0], "tokens_consumed", 4_000.0).await)?;
    let only = KillOrder { target: parent, recursive: false, reason: EndReason::UserRequest, grace: Duration::ZERO };
    said(ground.tree().kill(Pid::OPERATOR, only, false).await)?;
    for kid in &kids {
        assert_eq!(ground.kernel.ledger.look(|world| world.processes[kid].parent), Some(Pid::OPERATOR));
        assert_eq!((short(&ground, *kid, 6_000), short(&ground, *kid, 6_001)), (None, Some(parent)));
    }
    let launcher = ground.launchers.pop().ok_or("no launcher")?;
    ground.kernel.stop("test").await.map_err(|fault| fault.to_string())?;
    let Ground { bed, kernel, .. } = ground;
    drop(kernel);
    let kernel = crate::lives::boot_again(&bed, launcher, None).await?;
    let ground = Ground { bed, kernel, launchers: Vec::new() };
    assert_eq!((short(&ground, kids[3], 6_000), short(&ground, kids[3], 6_001)), (None, Some(parent)), "after a restart");
    assert!(said(ground.tree().info(Pid::OPERATOR, kids[0]))?.is_claimed, "what it claimed stays a claim");
    ground.kernel.stop("test").await.map_err(|fault| fault.to_string())
}

async fn users(ground: Ground) -> Result<(), String> {
    let alice = ground.spawn(virtual_one("alice-1", Some("alice"))).await?;
    let bob = ground.spawn(virtual_one("bob-1", Some("bob"))).await?;
    let friend = ground.spawn(virtual_one("bob-2", Some("bob"))).await?;
    let worker = ground.spawn(SpawnOrder { user: Some("bob".into()), ..agent("bob-3", ProcessRole::Agent, "tried:Crashes") }).await?;
    let head = ground.kernel.ledger.journal().head().seq;
    let order = MessageOrder {
        to: Recipient::Queue("orders".into()),
        kind: "order".into(),
        priority: MessagePriority::Normal,
        body: b"bob's own".to_vec(),
        requires_ack: false,
        ttl: None,
        reply_to: None,
    };
    said(ground.tree().send(bob, order).await)?;
    let queue = || QueueFilter { queue: Some("orders".into()), kind: None, min_priority: None };
    let mut heard = said(ground.tree().subscribe(alice, queue()).await)?;
    assert_eq!(heard.next_waiting().await, None, "it is for bob's processes");
    drop(heard);
    let mut heard = said(ground.tree().subscribe(friend, queue()).await)?;
    assert_eq!(heard.next_waiting().await.map(|one| one.body), Some(b"bob's own".to_vec()));

    let line = LogLine { level: "info".into(), message: "bob's words".into(), fields: BTreeMap::new() };
    said(ground.tree().log(bob, line).await)?;
    let spec = CronSpec {
        name: "nightly".into(),
        expression: "0 0 1 1 *".into(),
        timezone: String::new(),
        action: CronAction::Message,
        target: bob,
        description: "bob's plan".into(),
        params: BTreeMap::new(),
        program: None,
        enabled: true,
        overlap: OverlapRule::Skip,
        missed: MissedRule::Skip,
        jitter_ms: 0,
    };
    said(ground.tree().cron_add(bob, spec).await)?;
    let plans = |by| ground.tree().crons_of(by).len();
    assert_eq!((plans(alice), plans(bob), plans(friend), plans(Pid::OPERATOR)), (0, 1, 1, 1));

    let kernel = ground.kernel.clone();
    let order = TaskOrder { label: "ext-bob's text".into(), ..task("sleep", &[("seconds", "100")]) };
    let run = tokio::spawn(async move { kernel.tree.execute(Pid::OPERATOR, worker, order, false).await });
    ground.until("it works", |world| world.running_tasks(worker) > 0).await?;
    let label = |by| said(ground.tree().info(by, worker)).map(|view| view.task_label);
    assert_eq!((label(alice)?.as_str(), label(friend)?.as_str()), ("", "ext-bob's text"));

    let words = async |by| {
        // Something that comes after what is looked for.
        let mut events = ground.tree().events(by, Some(head));
        let end = LogLine { level: "info".into(), message: format!("the end of {by}"), fields: BTreeMap::new() };
        said(ground.tree().log(by, end).await)?;
        let mut heard = Vec::new();
        while let Some(TreeEvent { message, .. }) = events.next().await {
            if message == format!("the end of {by}") {
                break;
            }
            heard.push(message);
        }
        Ok::<_, String>(heard)
    };
    let is_told = |heard: Vec<String>| heard.iter().any(|message| message == "bob's words");
    assert_eq!((is_told(words(alice).await?), is_told(words(friend).await?)), (false, true));
    run.abort();
    ground.kernel.stop("test").await.map_err(|fault| fault.to_string())
}

async fn forged(ground: Ground) -> Result<(), String> {
    let one = ground.spawn(virtual_one("one", None)).await?;
    let head = ground.kernel.ledger.journal().head().seq;
    let kinds = ["removed", "spawned", "state_changed", "message_sent", "message_delivered", "cron_executed", "progress", ""];
    for kind in kinds {
        let fields = BTreeMap::from([("event_type".to_owned(), kind.to_owned())]);
        said(ground.tree().log(one, LogLine { level: "info".into(), message: "x".into(), fields }).await)?;
    }
    let mut events = ground.tree().events(Pid::OPERATOR, Some(head));
    let mut heard = Vec::new();
    while heard.len() < kinds.len() {
        let event = events.next().await.ok_or("no more events")?;
        heard.extend((event.message == "x").then_some(event.kind));
    }
    assert_eq!(heard, ["log", "log", "log", "log", "log", "log", "progress", "log"]);
    ground.kernel.stop("test").await.map_err(|fault| fault.to_string())
}

async fn unseen(ground: Ground) -> Result<(), String> {
    let above = ground.spawn(virtual_one("above", None)).await?;
    let from = said(ground.tree().spawn(above, virtual_one("from", None)).await)?;
    let to = said(ground.tree().spawn(above, virtual_one("to", None)).await)?;
    for _ in 0..world::limits::COPIES_MAX + 7 {
        let order = MessageOrder {
            to: Recipient::Process(to),
            kind: "k".into(),
            priority: MessagePriority::Low,
            body: Vec::new(),
            requires_ack: false,
            ttl: None,
            reply_to: None,
        };
        said(ground.tree().send(from, order).await)?;
    }
    let is_told = |world: &world::World| world.mail.messages.values().any(|message| message.kind == "traffic_dropped");
    ground.until("it is told", is_told).await?;
    let counted: Vec<(Pid, u64)> = ground
        .events(&["records.dropped"])
        .into_iter()
        .filter_map(|event| match event {
            Event::RecordsDropped(dropped) if dropped.kind == "message.copy" => Some((dropped.pid, dropped.count)),
            _ => None,
        })
        .collect();
    assert_eq!(counted.iter().map(|(_, count)| count).sum::<u64>(), 7, "{counted:?}");
    assert!(counted.iter().all(|(pid, _)| *pid == above));
    ground.kernel.stop("test").await.map_err(|fault| fault.to_string())
}

/// The program may go on for what is left of its time, and no longer; with an answer it has the time that it had when it asked.
async fn question(ground: Ground) -> Result<(), String> {
    let one = ground.spawn(agent("one", ProcessRole::Agent, "asks:WorksOn")).await?;
    let ask = |after: &str| {
        let kernel = ground.kernel.clone();
        let order = TaskOrder { timeout: Some(Duration::from_secs(2)), ..task("work", &[("after", after)]) };
        tokio::spawn(async move { kernel.tree.execute(Pid::OPERATOR, one, order, false).await.map_err(|stop| stop.to_string()) })
    };
    let open = |world: &world::World| {
        let asked = world.reviews.values().find(|review| review.pid == one && review.state == world::ReviewState::Open);
        asked.map(|review| review.id)
    };
    for (after, is_done) in [("0", true), ("60", false)] {
        let run = ask(after);
        ground.until("a person is asked", |world| open(world).is_some()).await?;
        // Three times as long as it may work.
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert!(!run.is_finished(), "nobody answers late");
        let review = ground.kernel.ledger.look(open).ok_or("no question")?;
        ground.kernel.answer(review, kernel::Reply::yes(), "operator", None).await.map_err(|stop| stop.to_string())?;
        let done = run.await.map_err(|error| error.to_string())?;
        assert_eq!(done.is_ok(), is_done, "{done:?}");
        if let Ok(done) = done {
            let ticks: u32 = done.output.rsplit(' ').next().and_then(|ticks| ticks.parse().ok()).ok_or("no ticks")?;
            // Two seconds of a tick each fiftieth of a second, and not six.
            assert!((1..70).contains(&ticks), "{ticks} ticks");
        }
    }
    ground.kernel.stop("test").await.map_err(|fault| fault.to_string())
}
