//! The process tree: gRPC beside a bare echo, durable messages beside the journal alone.

use super::home::BenchHome;
use super::table::{Table, TableRow};
use super::{figures, number};
use crate::run::{output, root};
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Three times what HiveKernel (Go) does.
const INFO_MIN: f64 = 32_100.0;
const SENDS_MIN: f64 = 10_000.0;
const DRAIN_MIN: f64 = 50_000.0;

/// Agents in Python that are started at once.
const AGENTS: usize = 20;
const AGENT: &str = "agents.plain:Echo";
/// Processes without a program, and how many of them stand below one parent.
const VIRTUAL: usize = 1_000;
const OF_ONE_PARENT: usize = 90;

pub(super) fn measure(table: &mut Table) -> Result<()> {
    let home = BenchHome::new()?;
    let path = python_path()?;
    output(home.skep(&["kernel", "start", "--grpc", "127.0.0.1:0"]).env("PYTHONPATH", &path))?;
    let socket = home.path.join("home/grpc.sock");
    for report in figures("tree", &[&socket.display().to_string()])? {
        let kernel = &report["kernel"];
        for (what, of, ratio, bare) in [
            ("64 connections", "own_connections", "own_ratio", "own_connections"),
            ("one connection", "one_connection", "one_ratio", "one_connection"),
        ] {
            let (rate, ratio, bare) = (number(kernel, of)?, number(kernel, ratio)?, number(&report[bare], "bare")?);
            table.push(TableRow {
                what: format!("`GetProcessInfo`, 64 callers, {what}"),
                ours: format!("{rate:.0}/s"),
                reference: format!("bare tonic {bare:.0}/s"),
                figure: format!("{ratio:.2} ×"),
                promise: "≥ 0.7 ×, ≥ 32,100/s",
                holds: Some(ratio >= 0.7 && rate >= INFO_MIN),
            });
        }
        for (what, of) in [("64 connections", "own_connections"), ("one connection", "one_connection")] {
            let (ours, bare) = (number(&report[of], "hive")?, number(&report[of], "bare")?);
            table.push(TableRow {
                what: format!("gRPC echo behind our listener, {what}"),
                ours: format!("{ours:.0}/s"),
                reference: format!("bare tonic {bare:.0}/s"),
                figure: format!("{:.2} ×", number(&report[of], "ratio")?),
                promise: "",
                holds: None,
            });
        }
    }
    python_agents(table, &home, &path)?;
    virtual_processes(table, &home)?;
    drop(home);
    for report in figures("embedded", &["mail"])? {
        let (send, records, ratio) = (number(&report, "send")?, number(&report, "journal_records")?, number(&report, "ratio")?);
        table.push(TableRow {
            what: "durable messages, 64 callers".into(),
            ours: format!("{send:.0}/s"),
            reference: format!("journal {records:.0} records/s"),
            figure: format!("{ratio:.2} ×"),
            promise: "≥ 0.5 × a third",
            holds: Some(ratio >= 0.5 && send >= SENDS_MIN),
        });
        let drain = number(&report, "drain")?;
        table.push(TableRow::promise(
            "reading a backlog of 20,000 messages",
            format!("{drain:.0}/s"),
            String::new(),
            "≥ 50,000/s",
            drain >= DRAIN_MIN,
        ));
    }
    Ok(())
}

/// What the table of processes costs: a thousand that run nothing.
fn virtual_processes(table: &mut Table, home: &BenchHome) -> Result<()> {
    let before = home.resident()?;
    let mut parent = String::new();
    for number in 0..VIRTUAL {
        let name = format!("p{number}");
        if number % OF_ONE_PARENT == 0 {
            output(&mut home.skep(&["spawn", &name, "--role", "lead"]))?;
            parent = name;
        } else {
            output(&mut home.skep(&["spawn", &name, "--role", "worker", "--parent", &parent]))?;
        }
    }
    let bytes = home.resident()? - before;
    table.push(TableRow::promise(
        "1,000 virtual processes",
        format!("{:.1} MB", bytes / 1e6),
        format!("kernel without them {:.1} MB", before / 1e6),
        "≤ 50 MB",
        bytes <= 50e6,
    ));
    Ok(())
}

/// Where agents find gRPC, the package and their own modules: in the environment that the package's checks make.
fn python_path() -> Result<String> {
    let library = root().join("target/sdk-venv/lib");
    let folder = std::fs::read_dir(&library).with_context(|| format!("`{}` is missing: run sdk/python/check", library.display()))?;
    let python = folder.flatten().next().context("the environment of the Python package is empty")?.path();
    let folders = [python.join("site-packages"), root().join("sdk/python/src"), root().join("sdk/python/tests")];
    Ok(folders.map(|folder| folder.display().to_string()).join(":"))
}

/// Twenty agents at once: by the kernel, in rooms and on record, and by hand, until each says that it is ready.
fn python_agents(table: &mut Table, home: &BenchHome, path: &str) -> Result<()> {
    let begun = Instant::now();
    let mut spawns: Vec<Child> = Vec::new();
    for number in 0..AGENTS {
        let mut spawn = home.skep(&["spawn", &format!("echo-{number}"), "--python", AGENT, "--role", "agent"]);
        spawns.push(spawn.stdout(Stdio::null()).spawn()?);
    }
    for spawn in &mut spawns {
        ensure!(spawn.wait()?.success(), "an agent was not spawned");
    }
    let ours = begun.elapsed().as_secs_f64();
    for number in 0..AGENTS {
        output(&mut home.skep(&["kill", &format!("echo-{number}")]))?;
    }
    let begun = Instant::now();
    let mut bare: Vec<Child> = Vec::new();
    for _ in 0..AGENTS {
        let mut runner = Command::new("python3");
        runner.args(["-m", "skep.runner", "--agent", AGENT, "--core", "127.0.0.1:1"]).env("PYTHONPATH", path);
        bare.push(runner.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
    }
    for child in &mut bare {
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        ensure!(line.starts_with("READY "), "a bare agent said `{line}`");
    }
    let reference = begun.elapsed().as_secs_f64();
    for mut child in bare {
        child.kill().and_then(|()| child.wait())?;
    }
    table.push(TableRow {
        what: "20 Python agents at once".into(),
        ours: format!("{ours:.2} s"),
        reference: format!("as many runners alone {reference:.2} s"),
        figure: format!("{:.2} ×", ours / reference),
        promise: "limited by Python alone",
        holds: None,
    });
    Ok(())
}
