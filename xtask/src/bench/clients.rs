//! What Skep itself costs while vendors' clients work: a task's way to them, a key's way to their terminal, and the kernel's memory for
//! those that wait.
//!
//! The client is a small program of our own (`fake_client.py`), so that nothing of a vendor's is measured.

use super::home::{BenchHome, git, median, ms, time};
use super::table::{Table, TableRow};
use super::{figures, number};
use crate::run::output;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

const CLIENT: &str = include_str!("fake_client.py");
/// Clients that wait at a time.
const IDLE: usize = 20;
/// Tasks of one client, one after the other.
const TASKS: usize = 21;

pub(super) fn measure(table: &mut Table) -> Result<()> {
    let home = BenchHome::new()?;
    let zone = prepare(&home)?;
    act(table, &home, &zone)?;
    live_start(table, &home, &zone)?;
    keystroke(table, &home, &zone)?;
    // In a home of its own: what the others left in memory is not the clients'.
    drop(home);
    idle_clients(table)
}

/// A home whose `claude` is our program, and a repository in which as many may work as are measured.
fn prepare(home: &BenchHome) -> Result<PathBuf> {
    let (settings, zone) = (home.path.join("home"), home.path.join("repository"));
    std::fs::create_dir_all(&settings)?;
    std::fs::create_dir_all(&zone)?;
    // In a folder of its own, which sandboxes show.
    let folder = home.path.join("client");
    std::fs::create_dir_all(&folder)?;
    let (client, model) = (folder.join("claude"), home.path.join("model"));
    std::fs::write(&client, CLIENT)?;
    std::fs::set_permissions(&client, std::fs::Permissions::from_mode(0o755))?;
    std::fs::write(&model, "say Nobody asks me.\n")?;
    let config = format!(
        "providers: {{s: {{url: 'script:{}', dialect: anthropic, free: true}}}}\nbrains: {{claude: {{command: ['{}']}}}}\n",
        model.display(),
        client.display()
    );
    std::fs::write(settings.join("config.yml"), config)?;
    git(&zone, &["init", "-q"])?;
    home.init(&zone)?;
    std::fs::write(zone.join("skep.yml"), format!("zone: {{limits: {{maxClonesPerZone: {}}}}}\n", IDLE + 1))?;
    // More workers than usual is a looser limit, which wants to be typed.
    output(home.skep(&["trust", "--phrase", "allow more"]).current_dir(&zone))?;
    git(&zone, &["add", "-A"])?;
    git(&zone, &["commit", "-q", "-m", "a start"])?;
    Ok(zone)
}

fn json(home: &BenchHome, zone: &Path, arguments: &[&str]) -> Result<Value> {
    let text = output(home.skep(arguments).arg("--json").current_dir(zone))?;
    serde_json::from_str(&text).with_context(|| format!("`skep {}` printed no JSON: {text}", arguments.join(" ")))
}

/// From the command's start to its end. The task that it queued comes to its end before the next one is measured.
fn act(table: &mut Table, home: &BenchHome, zone: &Path) -> Result<()> {
    let script = home.path.join("done.skep");
    std::fs::write(&script, "done\n")?;
    let brain = format!("script:{}", script.display());
    let returned = median(31, || {
        let mut task = String::new();
        let took = time(|| {
            task = output(home.skep(&["act", "bench", "--brain", &brain, "--json"]).current_dir(zone))?;
            Ok(())
        })?;
        let task: Value = serde_json::from_str(&task)?;
        let task = task["task"].as_str().context("`skep act` named no task")?.to_owned();
        wait_for_end(home, zone, &task)?;
        Ok(took)
    })?;
    let plain = median(31, || time(|| output(home.skep(&["ps", "--json"]).current_dir(zone))))?;
    let reference = format!("skep ps {:.2} ms", ms(plain));
    table.push(TableRow::promise("act returns", format!("p50 {:.2} ms", ms(returned)), reference, "≤ 20 ms", ms(returned) <= 20.0));
    Ok(())
}

fn wait_for_end(home: &BenchHome, zone: &Path, task: &str) -> Result<()> {
    let begun = SystemTime::now();
    loop {
        let tasks = json(home, zone, &["list", "tasks", "--all"])?;
        let found = tasks["tasks"].as_array().and_then(|tasks| tasks.iter().find(|found| found["task"] == task));
        if found.is_some_and(|found| !found["ended_ms"].is_null()) {
            return Ok(());
        }
        ensure!(begun.elapsed()? < Duration::from_secs(60), "{task} does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// From `task.queued` on record to the prompt at the client's input, for a client that waited. Beside it the boot of the first.
fn live_start(table: &mut Table, home: &BenchHome, zone: &Path) -> Result<()> {
    let mut starts = Vec::new();
    for _ in 0..=TASKS {
        output(home.skep(&["ask", "bench", "--brain", "claude", "--await"]).current_dir(zone))?;
        starts.push(start_of_last(home, zone)?);
    }
    let reused = records(home, zone, "brain.served")?.iter().filter(|served| served["payload"]["reused"] == true).count();
    ensure!(reused == TASKS, "the client did not stay: {reused} of {TASKS} tasks were served by the one that waited");
    let booted = starts.remove(0);
    starts.sort_unstable();
    let ours = starts[TASKS / 2];
    let reference = format!("one that is booted {:.0} ms", ms(booted));
    let figure = format!("p50 {:.1} ms", ms(ours));
    table.push(TableRow::promise("a task reaches a client that waits", figure, reference, "≤ 50 ms", ms(ours) <= 50.0));
    Ok(())
}

fn records(home: &BenchHome, zone: &Path, kind: &str) -> Result<Vec<Value>> {
    super::objects(&output(home.skep(&["journal", "export", "--kind", kind]).current_dir(zone))?)
}

fn start_of_last(home: &BenchHome, zone: &Path) -> Result<Duration> {
    let (queued, finished) = (records(home, zone, "task.queued")?, records(home, zone, "task.finished")?);
    let (queued, finished) = (queued.last().context("no task was queued")?, finished.last().context("no task ended")?);
    ensure!(queued["payload"]["task"] == finished["payload"]["task"], "the last task did not end: {finished}");
    let told = finished["payload"]["summary"].as_str().and_then(|told| told.parse::<u64>().ok());
    let told = Duration::from_nanos(told.with_context(|| format!("the client told no time: {finished}"))?);
    let queued = unix_time(queued["timestamp"].as_str().context("a record has no time")?)?;
    Ok(told.saturating_sub(queued))
}

/// The time of a record since 1970.
fn unix_time(text: &str) -> Result<Duration> {
    let nanoseconds = output(Command::new("date").args(["-u", "+%s%N", "-d", text]))?;
    Ok(Duration::from_nanos(nanoseconds.trim().parse()?))
}

/// A key on its way to the client's terminal and back, beside the same program on a terminal without us.
fn keystroke(table: &mut Table, home: &BenchHome, zone: &Path) -> Result<()> {
    let (skep, client) = (super::home::skep(), home.path.join("client/claude"));
    let (settings, zone) = (home.path.join("home"), zone.to_string_lossy());
    let arguments = [&*skep.to_string_lossy(), &*settings.to_string_lossy(), &*zone, &*client.to_string_lossy()].map(str::to_owned);
    for line in figures("keystroke", &arguments.each_ref().map(String::as_str))? {
        let (ours, plain) = (number(&line, "talk_us")?, number(&line, "plain_us")?);
        table.push(TableRow {
            what: "a key in a talk and back".into(),
            ours: format!("p50 {ours:.0} µs"),
            reference: format!("plain terminal {plain:.0} µs"),
            figure: format!("+ {:.2} ms", (ours - plain) / 1e3),
            promise: "≤ 1 ms more",
            holds: Some(ours - plain <= 1_000.0),
        });
    }
    Ok(())
}

/// What the kernel itself holds for clients that wait for their workers' next tasks.
fn idle_clients(table: &mut Table) -> Result<()> {
    let home = BenchHome::new()?;
    let zone = prepare(&home)?;
    home.stop();
    output(&mut home.skep(&["kernel", "start"]))?;
    // Two seconds after the last record, and again four later, a kernel gives back what only the work needed.
    let settle = || std::thread::sleep(Duration::from_secs(5));
    settle();
    let before = home.resident()?;
    for _ in 0..IDLE {
        output(home.skep(&["ask", "bench", "--who", "@claude++", "--await"]).current_dir(&zone))?;
    }
    settle();
    let after = home.resident()?;
    let served = records(&home, &zone, "brain.served")?;
    let runs = |served: &&Value| Path::new(&format!("/proc/{}", served["payload"]["process"])).exists();
    let waiting = served.iter().filter(runs).count();
    ensure!(waiting == IDLE, "{waiting} of {IDLE} clients wait");
    let more = (after - before).max(0.0) / 1e6;
    let reference = format!("without them {:.2} MB", before / 1e6);
    table.push(TableRow::promise(&format!("{IDLE} clients that wait"), format!("{more:.2} MB"), reference, "≤ 10 MB", more <= 10.0));
    Ok(())
}
