//! Programs that are no Python modules: a compiled one as `claw` and as `custom`, a script as `custom`; and one that answers nothing any more.

use crate::cheap_agent::{ARGUMENTS, LATE, MARK, VARIABLE};
use crate::ground::{Ground, agent, play, task};
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::harness::Test;
use tree::{HeartbeatTerms, SpawnOrder};
use world::{Event, Pid, ProcessRole, ProgramRuntime, TreeSignal};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("any_program_that_speaks_the_contract_is_an_agent", || play(any_program)),
        Test::new("a_script_that_speaks_the_contract_is_an_agent", || play(script)),
        Test::new("a_program_that_cannot_be_run_says_why", || play(none)),
        Test::new("an_interruption_before_the_program_has_its_task_is_not_lost", || play(late)),
        Test::new("a_program_that_answers_no_heartbeat_is_ended", || play(silent)),
    ]
}

/// This very program, as an agent.
fn compiled(name: &str, runtime: ProgramRuntime) -> SpawnOrder {
    let image = std::env::current_exe().unwrap().display().to_string();
    let env = BTreeMap::from([(MARK.to_owned(), name.to_owned())]);
    SpawnOrder { runtime, image, env, ..agent(name, ProcessRole::Agent, "") }
}

async fn any_program(ground: Ground) -> Result<(), String> {
    for confined in [true, false] {
        let metadata = BTreeMap::from([("claw.env.GREETING".to_owned(), "hello".to_owned())]);
        let claw = ground.spawn(SpawnOrder { confined, metadata, ..compiled("claw", ProgramRuntime::Claw) }).await?;
        let core = ground.execute(claw, &format!("{VARIABLE} HIVEKERNEL_CORE"), &[]).await?.1;
        assert!(if confined { core == "127.0.0.1:61132" } else { core.starts_with("unix:///") }, "{core}");
        assert_eq!(ground.execute(claw, ARGUMENTS, &[]).await?, (0, format!("hive --core {core}")));
        assert_eq!(ground.execute(claw, &format!("{VARIABLE} GREETING"), &[]).await?.1, "hello");
        let custom = ground.spawn(SpawnOrder { confined, ..compiled("custom", ProgramRuntime::Custom) }).await?;
        assert_eq!(ground.execute(custom, ARGUMENTS, &[]).await?.1, "", "what a program is told, its variables tell");
        assert_eq!(ground.execute(custom, &format!("{VARIABLE} HIVEKERNEL_PID"), &[]).await?.1, custom.to_string());
        assert_eq!(ground.execute(custom, "hello", &[]).await?.1, "hello");
        for pid in [claw, custom] {
            let run = ground.kernel.ledger.look(|world| world.processes[&pid].run.clone()).ok_or("no run")?;
            assert_eq!((run.confined, run.remembers), (confined, false));
        }
    }
    Ok(())
}

async fn script(ground: Ground) -> Result<(), String> {
    let image = format!("{}/tests/tree/agents/by_hand.py", env!("CARGO_MANIFEST_DIR"));
    let pid = ground.spawn(SpawnOrder { runtime: ProgramRuntime::Custom, image, ..agent("script", ProcessRole::Lead, "") }).await?;
    assert_eq!(ground.execute(pid, "shout", &[]).await?, (3, "SHOUT".to_owned()));
    // Its calls are its own, by the stream of its task and by the door of its room.
    assert_eq!(ground.execute(pid, "spawn", &[]).await?.1, "both");
    let own = ground.kernel.ledger.look(|world| world.live_children(pid).map(|child| child.name.clone()).collect::<Vec<_>>());
    assert_eq!(own, ["by-stream", "by-core"]);
    Ok(())
}

async fn none(ground: Ground) -> Result<(), String> {
    for (image, runtime, why) in [
        ("/no/such/program", ProgramRuntime::Custom, "`/no/such/program` was not found in the sandbox"),
        ("/bin/true", ProgramRuntime::Claw, "closed its output before it said `READY`"),
        ("", ProgramRuntime::Claw, "the image must name a program"),
    ] {
        let order = SpawnOrder { runtime, image: image.to_owned(), ..agent("none", ProcessRole::Agent, "") };
        let said = ground.spawn(order).await.err().unwrap_or_default();
        assert!(said.contains(why), "{image}: {said}");
    }
    let left = ground.kernel.ledger.look(|world| world.processes.values().filter(|process| process.program.is_some()).count());
    assert_eq!(left, 0, "nothing is left of them");
    Ok(())
}

async fn late(ground: Ground) -> Result<(), String> {
    let pid = ground.spawn(compiled("late", ProgramRuntime::Custom)).await?;
    let kernel = ground.kernel.clone();
    let run = tokio::spawn(async move { kernel.tree.execute(Pid::OPERATOR, pid, task(LATE, &[]), false).await });
    ground.until("it runs", |world| world.running_tasks(pid) == 1).await?;
    let is_taken = |world: &world::World| world.tasks.values().any(|task| task.pid == pid && task.taken_by.is_some());
    assert!(!ground.kernel.ledger.look(is_taken), "it takes it when somebody has tried to interrupt it");
    ground.tree().signal(Pid::OPERATOR, pid, TreeSignal::Int, "enough").await.map_err(|stop| stop.to_string())?;
    let no = run.await.map_err(|error| error.to_string())?.unwrap_err().to_string();
    assert_eq!(no, "task failed: interrupted at the 2. time");
    Ok(())
}

async fn silent(ground: Ground) -> Result<(), String> {
    let (every, within) = (Duration::from_millis(100), Duration::from_secs(1));
    ground.tree().set_heartbeats(HeartbeatTerms { every, within, misses_max: 3 });
    let deaf = ground.spawn(agent("deaf", ProcessRole::Daemon, "tried:Crashes")).await?;
    let control = ground.spawn(agent("control", ProcessRole::Daemon, "tried:Crashes")).await?;
    let kernel = ground.kernel.clone();
    let run = tokio::spawn(async move { kernel.tree.execute(Pid::OPERATOR, deaf, task("deaf", &[("seconds", "600")]), false).await });
    let is_back = |world: &world::World| world.processes[&deaf].run.as_ref().is_some_and(|run| run.is_up && run.incarnation == 2);
    ground.until("it was ended and started again", is_back).await?;
    let no = run.await.map_err(|error| error.to_string())?.unwrap_err().to_string();
    assert_eq!(no, "task failed: its program was killed (signal 9)");
    let crashed = ground.events(&["proc.crashed"]);
    let [Event::ProcCrashed(crashed)] = crashed.as_slice() else { return Err(format!("{crashed:?}")) };
    assert!(crashed.pid == deaf && crashed.error.contains("it did not answer its heartbeats"), "{crashed:?}");
    // The control answered all the time, works, and was not started again.
    assert_eq!(ground.execute(control, "hello", &[]).await?.1, "hello");
    let run = ground.kernel.ledger.look(|world| world.processes[&control].run.clone()).ok_or("no run")?;
    assert_eq!((run.incarnation, run.is_up, run.report.is_some()), (1, true, true));
    Ok(())
}
