//! The process tree: gRPC beside a bare echo, durable messages beside the journal alone.

use super::table::{Table, TableRow};
use super::{figures, number};
use anyhow::Result;

const SENDS_MIN: f64 = 10_000.0;
const DRAIN_MIN: f64 = 50_000.0;

pub(super) fn measure(table: &mut Table) -> Result<()> {
    for report in figures("tree", &[])? {
        for (what, of) in [("64 connections", "own_connections"), ("one connection", "one_connection")] {
            let (ours, bare) = (number(&report[of], "hive")?, number(&report[of], "bare")?);
            // What it promises of `GetProcessInfo` is not asked of a kernel here, so no promise is judged.
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
