//! What a process is spawned to do is queued once, also where the kernel dies between the spawn and that.
//!
//! A kernel that dies is a process of its own: this program, told by its environment what it is.

use crate::cheap_agent::MARK;
use crate::ground::{agent, boot_to_die};
use journal::{Faults, Filter, Options, Point};
use sandbox::Launcher;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;
use testkit::bed::Bed;
use testkit::harness::Test;
use tree::SpawnOrder;
use world::{Event, Pid, ProcessRole, ProgramRuntime, ProgramSchedule};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("a_crash_behind_the_spawn_loses_neither_its_task_nor_its_schedule", || dies_behind_the_spawn("both")),
        Test::new("a_crash_behind_the_spawn_loses_no_schedule", || dies_behind_the_spawn("schedule")),
    ]
}

const FOLDER: &str = "SKEP_TEST_FIRST_TASK";
const KILL: &str = "SKEP_TEST_KILL";

/// What is spawned: with a schedule, and with a first task too where that is asked for.
fn order(what: &str) -> SpawnOrder {
    let image = std::env::current_exe().unwrap().display().to_string();
    SpawnOrder {
        runtime: ProgramRuntime::Custom,
        image,
        env: BTreeMap::from([(MARK.to_owned(), "first".to_owned())]),
        initial_task: (what == "both").then(|| "hello".to_owned()),
        schedule: Some(ProgramSchedule { cron: "0 0 1 1 *".to_owned(), keep_alive: true }),
        ..agent("first", ProcessRole::Agent, "")
    }
}

/// Whether this process is such a kernel.
pub fn child() -> Option<ExitCode> {
    let told = std::env::var(FOLDER).ok()?;
    let (what, folder) = told.split_once(':')?;
    Some(match play(what, Path::new(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    })
}

/// Spawns, unless a kernel before this one did, and waits until what it was spawned to do is on record.
fn play(what: &str, folder: &Path) -> Result<(), String> {
    let launcher = Launcher::start().map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| error.to_string())?;
    let nth = std::env::var(KILL).ok().and_then(|nth| nth.parse().ok());
    runtime.block_on(async {
        let faults = Faults { kill_at: nth.map(|nth| (Point::BeforeAck, nth)), ..Faults::default() };
        let kernel = boot_to_die(folder, launcher, faults).await?;
        let known = kernel.ledger.look(|world| world.processes.values().find(|process| process.name == "first").map(|process| process.pid));
        let pid = match known {
            Some(pid) => pid,
            None => kernel.tree.spawn(Pid::OPERATOR, order(what)).await.map_err(|stop| stop.to_string())?,
        };
        let mut records = kernel.ledger.journal().follow();
        let is_done = |world: &world::World| {
            let is_worked = what != "both" || world.tasks.values().any(|task| task.pid == pid && task.state.ended());
            is_worked && world.crons.values().any(|entry| entry.spec.target == pid)
        };
        let done = async { while !kernel.ledger.look(is_done) && records.changed().await.is_ok() {} };
        tokio::time::timeout(Duration::from_secs(60), done).await.map_err(|_| "what it was spawned to do is not done".to_owned())?;
        kernel.stop("test").await.map_err(|fault| fault.to_string())
    })
}

/// Runs a kernel in a process of its own. Says whether it was killed.
fn run_kernel(bed: &Bed, what: &str, nth: Option<u64>) -> Result<bool, String> {
    let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    command.env(FOLDER, format!("{what}:{}", bed.folder().display()));
    if let Some(nth) = nth {
        command.env(KILL, nth.to_string());
    }
    let output = command.output().map_err(|error| error.to_string())?;
    match (output.status.success(), output.status.signal()) {
        (true, _) => Ok(false),
        (_, Some(9)) => Ok(true),
        _ => Err(format!("{} {}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}

/// How often it was spawned, scheduled, and given its first task.
fn told(bed: &Bed) -> Result<(usize, usize, usize), String> {
    let (journal, _) = journal::Journal::open(&bed.home(), Options::default()).map_err(|error| error.to_string())?;
    let records = journal.read(&Filter::default()).map_err(|error| error.to_string())?;
    let events = records.iter().map(|record| serde_json::from_str::<Event>(&record.line).map_err(|error| error.to_string()));
    let events = events.collect::<Result<Vec<Event>, String>>()?;
    let count = |is: fn(&Event) -> bool| events.iter().filter(|event| is(event)).count();
    Ok((
        count(|event| matches!(event, Event::ProcSpawned(e) if e.name == "first")),
        count(|event| matches!(event, Event::CronAdded(e) if e.spec.name.starts_with("schedule of process"))),
        count(|event| matches!(event, Event::TaskQueued(e) if e.order.as_ref().is_some_and(|order| order.is_first))),
    ))
}

/// Kills a kernel at one commit after the other. What died between the spawn and what it was for is taken up by the next kernel, and done once.
fn dies_behind_the_spawn(what: &str) -> Result<(), String> {
    let whole = (1, 1, usize::from(what == "both"));
    let control = Bed::new(&[])?;
    assert!(!run_kernel(&control, what, None)?, "a kernel without a fault died");
    assert_eq!(told(&control)?, whole, "the control");
    let mut in_between = 0;
    for nth in 1..60 {
        let bed = Bed::new(&[])?;
        if !run_kernel(&bed, what, Some(nth))? {
            break;
        }
        let then = told(&bed)?;
        if then.0 == 0 {
            continue;
        }
        if then == whole {
            break;
        }
        in_between += 1;
        assert!(!run_kernel(&bed, what, None)?, "a kernel without a fault died");
        assert_eq!(told(&bed)?, whole, "killed at commit {nth}, with {then:?} on record");
        // Nothing of it is done again by the kernel after that.
        assert!(!run_kernel(&bed, what, None)?, "a kernel without a fault died");
        assert_eq!(told(&bed)?, whole, "killed at commit {nth}: it is done once");
    }
    assert!(in_between > 0, "no kernel died between the spawn and what it was for");
    Ok(())
}
