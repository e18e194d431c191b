//! Appending beside a raw group commit, verifying beside raw hashing.

use super::table::{Table, TableRow};
use super::{figures, number};
use anyhow::{Context, Result};

pub(super) fn measure(table: &mut Table) -> Result<()> {
    for report in figures("journal", &[])? {
        for line in report["append"].as_array().context("the bench of the journal has no `append`")? {
            let (ours, raw) = (number(line, "ours_per_s")?, number(line, "raw_per_s")?);
            let writers = number(line, "writers")?;
            let promised = writers >= 64.0;
            table.push(TableRow {
                what: format!("journal append, {writers:.0} writers"),
                ours: format!("{ours:.0}/s"),
                reference: format!("raw fdatasync {raw:.0}/s"),
                figure: format!("{:.2} ×", ours / raw),
                promise: if promised { "≥ 0.8 ×" } else { "" },
                holds: promised.then_some(ours / raw >= 0.8),
            });
        }
        let (ours, raw) = (number(&report["verify"], "ours_mb_per_s")?, number(&report["verify"], "raw_mb_per_s")?);
        table.push(TableRow {
            what: "journal verify".into(),
            ours: format!("{ours:.0} MB/s"),
            reference: format!("raw SHA-256 {raw:.0} MB/s"),
            figure: format!("{:.2} ×", ours / raw),
            promise: "≥ 0.3 ×",
            holds: Some(ours / raw >= 0.3),
        });
    }
    Ok(())
}
