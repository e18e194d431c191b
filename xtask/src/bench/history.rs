//! A long past: how soon a kernel is there, and how soon a policy is tried on it.

use super::home::{BenchHome, git, median, ms, project, time};
use super::table::{Table, TableRow};
use super::{figures, number};
use crate::run::output;
use anyhow::{Result, ensure};
use std::path::Path;
use std::time::Duration;

/// The journal of this many records has more than a hundred thousand calls.
const RECORDS_OF_CALLS: u64 = 310_000;
const CALLS: u64 = 100_000;
const RECORDS: u64 = 1_000_000;

pub(super) fn measure(table: &mut Table) -> Result<()> {
    let home = BenchHome::new()?;
    let zone = home.path.join("project");
    project(&zone, 200)?;
    git(&zone, &["init", "-q"])?;
    git(&zone, &["add", "-A"])?;
    git(&zone, &["commit", "-q", "-m", "a start"])?;
    home.init(&zone)?;
    let calls = fill(&home, RECORDS_OF_CALLS)?;
    ensure!(calls >= CALLS as f64, "the past has {calls} calls, not {CALLS}");
    judge(table, &home, &zone)?;
    fill(&home, RECORDS)?;
    boot(table, &home)
}

/// Has the journal go on until it has so many records; says how many calls came with them.
fn fill(home: &BenchHome, records: u64) -> Result<f64> {
    home.stop();
    let path = home.path.join("home");
    let mut calls = 0.0;
    for report in figures("history", &[&path.to_string_lossy(), &records.to_string()])? {
        calls = number(&report, "calls")?;
    }
    Ok(calls)
}

/// Waits until the journal's verification, which every start begins, is over.
fn rest(home: &BenchHome) -> Result<()> {
    // It starts the kernel; asking for its state does not.
    output(&mut home.skep(&["ps", "--json"]))?;
    while home.json(&["kernel", "status", "--json"])?["verification"] == "running" {
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn judge(table: &mut Table, home: &BenchHome, zone: &Path) -> Result<()> {
    rest(home)?;
    let last = CALLS.to_string();
    let ask =
        |arguments: &[&str]| -> Result<serde_json::Value> { Ok(serde_json::from_str(&output(home.skep(arguments).current_dir(zone))?)?) };
    let trial = ["policy", "trial", "--last", &last, "--json"];
    let tried = number(&ask(&trial)?, "tried")?;
    ensure!(tried == CALLS as f64, "the policy was tried on {tried} calls");
    for (what, arguments) in
        [("policy trial on 100,000 calls", &trial[..]), ("policy suggest from 100,000 calls", &["policy", "suggest", "--json"])]
    {
        let took = ms(median(7, || time(|| ask(arguments)))?);
        table.push(TableRow::promise(what, format!("{took:.0} ms"), String::new(), "≤ 500 ms", took <= 500.0));
    }
    Ok(())
}

fn boot(table: &mut Table, home: &BenchHome) -> Result<()> {
    let first = |home: &BenchHome| time(|| output(&mut home.skep(&["ps", "--json"])));
    // The clean stop after this one leaves a snapshot of everything.
    first(home)?;
    let snapshot = median(5, || {
        home.stop();
        first(home)
    })?;
    let whole = median(5, || {
        home.stop();
        for slot in ["snapshot.0", "snapshot.1"].map(|slot| home.path.join("home").join(slot)).into_iter().filter(|slot| slot.exists()) {
            std::fs::remove_file(slot)?;
        }
        first(home)
    })?;
    for (what, took) in [("start on a million records, snapshot", snapshot), ("start on a million records, no snapshot", whole)] {
        let took = took.as_secs_f64();
        table.push(TableRow::promise(what, format!("{took:.2} s"), String::new(), "≤ 2 s", took <= 2.0));
    }
    Ok(())
}
