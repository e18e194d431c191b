//! What the gateway adds to a request.

use super::home::skep;
use super::table::{Table, TableRow};
use super::{figures, number};
use anyhow::{Context, Result};

/// The real `skep` between a client and a provider on this machine; two minutes of it under load.
pub(super) fn measure(table: &mut Table) -> Result<()> {
    let skep = skep();
    for report in figures("gateway", &[&skep.to_string_lossy(), "120"])? {
        for line in report["first_bytes"].as_array().context("the gateway's bench has no `first_bytes`")? {
            let (direct, added) = (number(line, "direct_p50_us")?, number(line, "added_us")?);
            // An answer that takes longer than the disk finds its record written.
            let (thinks, is_paid_ahead) = match number(line, "thinks_ms")? {
                0.0 => ("at once".to_owned(), false),
                ms => (format!("after {ms:.0} ms"), true),
            };
            table.push(TableRow {
                what: format!("gateway, first byte, upstream answers {thinks}"),
                ours: format!("p50 {:.0} µs", direct + added),
                reference: format!("direct {direct:.0} µs"),
                figure: format!("+ {:.2} ms", added / 1e3),
                promise: if is_paid_ahead { "≤ 0.3 ms more" } else { "≤ 1 ms more" },
                holds: Some(added <= if is_paid_ahead { 300.0 } else { 1_000.0 }),
            });
        }
        let per_core = number(&report, "chunks_per_core_s")?;
        table.push(TableRow {
            what: "gateway, streamed chunks".into(),
            ours: format!("{:.0}/s", number(&report, "chunks_per_s")?),
            reference: String::new(),
            figure: format!("{per_core:.0}/s a core"),
            promise: "≥ 5,000/s a core",
            holds: Some(per_core >= 5_000.0),
        });
        let soak = &report["soak"];
        let (failed, grown, files) = (number(soak, "failed")?, number(soak, "grown_kib")?, number(soak, "more_files")?);
        table.push(TableRow {
            what: format!("gateway, {:.0} s under load", number(soak, "seconds")?),
            ours: format!("{:.0} requests, {failed:.0} failed", number(soak, "requests")?),
            reference: String::new(),
            figure: format!("{:.1} MB, {files:.0} files more", grown / 1024.0),
            promise: "none fails",
            // As many connections to a provider as that are kept for the next request.
            holds: Some(failed == 0.0 && files <= 32.0),
        });
        let memory = &report["memory"];
        let (idle, rested) = (number(memory, "idle_kib")? / 1024.0, number(memory, "rested_kib")? / 1024.0);
        table.push(TableRow {
            what: "memory ten seconds after that load".into(),
            ours: format!("{rested:.1} MB"),
            reference: format!("idle before it {idle:.1} MB"),
            figure: format!("+ {:.1} MB", rested - idle),
            promise: "≤ 4 MB more",
            holds: Some(rested - idle <= 4.0),
        });
    }
    Ok(())
}
