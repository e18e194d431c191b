//! Appending beside a raw group commit, verifying beside raw hashing.

use super::table::{Table, TableRow};
use super::{figures, number};
use anyhow::{Context, Result};

pub(super) fn measure(table: &mut Table) -> Result<()> {
    for report in figures("journal", &[])? {
        for line in report["append"].as_array().context("the bench of the journal has no `append`")? {
            let (ours, raw) = (number(line, "ours_per_s")?, number(line, "raw_per_s")?);
            let writers = number(line, "writers")?;
            let promised = match writers as u64 {
                1 => Some((0.9, "≥ 0.9 ×")),
                64 => Some((0.8, "≥ 0.8 ×")),
                _ => None,
            };
            table.push(TableRow {
                what: format!("journal append, {writers:.0} writers"),
                ours: format!("{ours:.0}/s"),
                reference: format!("raw fdatasync {raw:.0}/s"),
                figure: format!("{:.2} ×", ours / raw),
                promise: promised.map_or("", |(_, text)| text),
                holds: promised.map(|(least, _)| ours / raw >= least),
            });
        }
        for line in report["questions"]["by"].as_array().context("the bench of the journal has no `questions`")? {
            let (ours, scan) = (number(line, "ours_ms")?, number(line, "scan_ms")?);
            table.push(TableRow {
                what: format!("records by {} of a million", line["by"].as_str().context("a question without a name")?),
                ours: format!("{ours:.2} ms"),
                reference: format!("all of them {scan:.0} ms"),
                figure: format!("{ours:.2} ms"),
                promise: "≤ 10 ms",
                holds: Some(ours <= 10.0),
            });
        }
        let built = number(&report["questions"], "built_ms")?;
        table.push(TableRow {
            what: "index of a million records".into(),
            ours: format!("{:.1} s", built / 1000.0),
            reference: String::new(),
            figure: String::new(),
            promise: "",
            holds: None,
        });
        let (ours, raw) = (number(&report["verify"], "ours_mb_per_s")?, number(&report["verify"], "raw_mb_per_s")?);
        table.push(TableRow {
            what: "journal verify".into(),
            ours: format!("{ours:.0} MB/s"),
            reference: format!("raw SHA-256 {raw:.0} MB/s"),
            figure: format!("{:.2} ×", ours / raw),
            promise: "≥ 0.3 ×",
            holds: Some(ours / raw >= 0.3),
        });
        let seconds = number(&report["verify"], "seconds")?;
        table.push(TableRow::promise(
            "journal verify, a million records",
            format!("{seconds:.2} s"),
            String::new(),
            "≤ 1 s",
            seconds <= 1.0,
        ));
    }
    Ok(())
}
