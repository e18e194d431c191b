//! The kernel from its start on: answers, rooms over large projects, memory.

use super::home::{BenchHome, git, median, ms, project, time};
use super::table::{Table, TableRow};
use super::{figures, number};
use crate::run::output;
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub(super) fn measure(table: &mut Table) -> Result<()> {
    let home = BenchHome::new()?;
    let cold = median(9, || {
        home.stop();
        time(|| output(&mut home.skep(&["ps", "--json"])))
    })?;
    let warm = median(31, || time(|| output(&mut home.skep(&["ps", "--json"]))))?;
    let plain = median(31, || time(|| output(&mut Command::new("true"))))?;
    let plain = format!("fork/exec {:.2} ms", ms(plain));
    let row = |what, time, promise, most| TableRow::promise(what, format!("{:.2} ms", ms(time)), plain.clone(), promise, ms(time) <= most);
    table.push(row("cold start to first answer", cold, "≤ 20 ms", 20.0));
    table.push(row("command on a running kernel", warm, "≤ 5 ms", 5.0));
    let socket = home.path.join("home/kernel.sock");
    for line in figures("wire", &[&socket.to_string_lossy()])? {
        let (ours, echo) = (number(&line, "ours_us")?, number(&line, "echo_us")?);
        let figure = format!("{:.2} ×", ours / echo);
        let (ours_text, reference) = (format!("{ours:.1} µs"), format!("raw echo {echo:.1} µs"));
        table.push(TableRow {
            what: "socket round trip".into(),
            ours: ours_text,
            reference,
            figure,
            promise: "≤ 3 ×",
            holds: Some(ours / echo <= 3.0),
        });
    }
    commands(table, &home, &plain)?;
    tasks(table, &home)?;
    large(table, &home)?;
    memory(table, &home)
}

/// Commands that ask a running kernel and print what it says, in a repository in which some tasks were done. What has work of its own is
/// not among them: `act`, rooms, `doctor`, what git is asked for, and what reads a whole journal.
const COMMANDS: [&[&str]; 20] = [
    &["call", "fs.read", "path=README.md"],
    &["call", "fs.list", "path=."],
    &["status"],
    &["ps"],
    &["list", "tasks"],
    &["list", "tools"],
    &["list", "crews"],
    &["log"],
    &["usage"],
    &["budget", "show"],
    &["review"],
    &["grant", "list"],
    &["queue"],
    &["policy", "explain", "fs.read", "path=README.md"],
    &["policy", "log"],
    &["brain", "list"],
    &["sandbox", "templates"],
    &["sandbox", "ps"],
    &["journal", "log"],
    &["kernel", "status"],
];

fn commands(table: &mut Table, home: &BenchHome, plain: &str) -> Result<()> {
    let zone = home.path.join("commands");
    std::fs::create_dir_all(&zone)?;
    std::fs::write(zone.join("README.md"), "A file to read.\n")?;
    git(&zone, &["init", "-q"])?;
    home.init(&zone)?;
    git(&zone, &["add", "-A"])?;
    git(&zone, &["commit", "-q", "-m", "a start"])?;
    let script = home.path.join("read.skep");
    std::fs::write(&script, "call fs.read path=README.md\ndone\n")?;
    let brain = format!("script:{}", script.display());
    for _ in 0..3 {
        output(home.skep(&["act", "bench", "--brain", &brain, "--await"]).current_dir(&zone))?;
    }
    for command in COMMANDS {
        let took = median(31, || time(|| output(home.skep(command).current_dir(&zone))))?;
        let (what, figure) = (format!("skep {}", command.join(" ")), format!("{:.2} ms", ms(took)));
        table.push(TableRow::promise(&what, figure, plain.to_owned(), "≤ 5 ms", ms(took) <= 5.0));
    }
    Ok(())
}

/// A task whose brain does nothing, and one whose brain reads one file and so has a room.
fn tasks(table: &mut Table, home: &BenchHome) -> Result<()> {
    let zone = home.path.join("commands");
    let (socket, nothing) = (home.path.join("home/kernel.sock"), home.path.join("done.skep"));
    std::fs::write(&nothing, "done\n")?;
    for (what, script, promise) in
        [("a task that does nothing", nothing, Some("≤ 10 ms")), ("a task that reads a file", home.path.join("read.skep"), None)]
    {
        let brain = format!("script:{}", script.display());
        for line in figures("wire", &[&socket.to_string_lossy(), "task", &zone.to_string_lossy(), &brain])? {
            let (queued, ended) = (number(&line, "queued_ms")?, number(&line, "ended_ms")?);
            table.push(TableRow {
                what: what.into(),
                ours: format!("p50 {ended:.2} ms"),
                reference: format!("until it is queued {queued:.2} ms"),
                figure: format!("{ended:.2} ms"),
                promise: promise.unwrap_or_default(),
                holds: promise.map(|_| ended <= 10.0),
            });
        }
    }
    Ok(())
}

/// A command in a room of its own over a project of many files, beside one of a single file. Room, masks, base and record together.
fn large(table: &mut Table, home: &BenchHome) -> Result<()> {
    const FILES: usize = 100_000;
    let (small, big) = (home.path.join("small"), home.path.join("large"));
    for (zone, files) in [(&small, 1), (&big, FILES)] {
        project(zone, files)?;
        git(zone, &["init", "-q"])?;
        home.init(zone)?;
        git(zone, &["add", "-A"])?;
        git(zone, &["commit", "-q", "-m", "a start"])?;
    }
    // What git wrote in the same second as a file it does not trust yet, and reads; that is no project's everyday state.
    std::thread::sleep(Duration::from_millis(1100));
    for zone in [&small, &big] {
        output(Command::new("git").arg("-C").arg(zone).args(["status", "--porcelain"]))?;
    }
    let room = |zone: &Path| time(|| output(home.skep(&["sandbox", "run", "--discard", "--", "true"]).current_dir(zone)));
    let (first_small, first) = (ms(room(&small)?), ms(room(&big)?));
    let (later_small, later) = (ms(median(7, || room(&small))?), ms(median(7, || room(&big))?));
    for (what, ours, reference) in [("first", first, first_small), ("later", later, later_small)] {
        table.push(TableRow {
            what: format!("{what} room over 100,000 files"),
            ours: format!("{ours:.0} ms"),
            reference: format!("over one file {reference:.0} ms"),
            figure: format!("{:.2} ×", ours / reference),
            promise: "the same",
            holds: Some(ours / reference <= 1.2),
        });
    }
    Ok(())
}

/// What each more process record costs an idle kernel. What the idle kernel itself costs is a row of `weight`.
fn memory(table: &mut Table, home: &BenchHome) -> Result<()> {
    home.stop();
    output(&mut home.skep(&["kernel", "start"]))?;
    // Some seconds after the last record a kernel has given back what only the work needed; that is idle.
    let settle = || std::thread::sleep(Duration::from_secs(10));
    let add = |name: String| {
        let zone = home.path.join(name);
        output(Command::new("git").args(["init", "-q"]).arg(&zone))?;
        home.init(&zone)
    };
    // What all zones share is there with the first: the default policy, and the pages of code that set one up.
    add("zone".into())?;
    settle();
    let idle = home.resident()?;
    // The pages of code that a kernel has in memory are 2 MB more or less from one second to the next, so few records would tell of them alone.
    const ZONES: usize = 400;
    (0..ZONES).try_for_each(|n| add(format!("zone-{n}")))?;
    settle();
    let more = (home.resident()? - idle).max(0.0) / ZONES as f64 / 1e3;
    table.push(TableRow::promise(
        "each more idle process",
        format!("{more:.2} KB"),
        "zone and policy included".into(),
        "≤ 20 KB",
        more <= 20.0,
    ));
    Ok(())
}
