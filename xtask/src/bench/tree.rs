//! The process tree: gRPC beside a bare echo, durable messages beside the journal alone.

use super::home::BenchHome;
use super::table::{Table, TableRow};
use super::{figures, number};
use crate::run::output;
use anyhow::Result;

/// Three times what HiveKernel (Go) does.
const INFO_MIN: f64 = 32_100.0;
const SENDS_MIN: f64 = 10_000.0;
const DRAIN_MIN: f64 = 50_000.0;

/// Processes without a program, and how many of them stand below one parent.
const VIRTUAL: usize = 1_000;
const OF_ONE_PARENT: usize = 90;

pub(super) fn measure(table: &mut Table) -> Result<()> {
    let home = BenchHome::new()?;
    output(&mut home.skep(&["kernel", "start", "--grpc", "127.0.0.1:0"]))?;
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
    virtual_processes(table, &home)?;
    drop(home);
    for report in figures("mail", &[])? {
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
