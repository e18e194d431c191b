//! One decision of the gate, alone and beside other engines.

use super::table::{Table, TableRow};
use super::{figures, number, objects};
use crate::run::{cargo, output, root};
use anyhow::{Context, Result};

pub(super) fn measure(table: &mut Table) -> Result<()> {
    for line in figures("policy", &[])? {
        let (p50, p99, rules) = (number(&line, "p50_ns")?, number(&line, "p99_ns")?, number(&line, "rules")?);
        let (kind, promised) = match line["kind"].as_str().unwrap_or_default() {
            "literal" => ("", true),
            "host" => (", by host", true),
            "command" => (", by command", true),
            "wildcard" => (", all wildcards", false),
            _ => (", worst case", false),
        };
        table.push(TableRow {
            what: format!("gate decision, {rules:.0} rules{kind}"),
            ours: format!("p50 {p50:.0} ns"),
            reference: format!("p99 {p99:.0} ns"),
            figure: format!("{:.2} µs", p50 / 1000.0),
            promise: if promised { "≤ 1 µs" } else { "" },
            holds: promised.then_some(p50 <= 1000.0),
        });
    }
    Ok(())
}

/// Cedar and regorus on equivalent policies, with our gate in the same process. They have a lock file of their own.
pub(super) fn measure_rivals(table: &mut Table) -> Result<()> {
    let manifest = root().join("xtask/rivals/Cargo.toml");
    let target = root().join("target");
    let text = output(cargo().args(["run", "--release", "--quiet", "--manifest-path"]).arg(manifest).arg("--target-dir").arg(target))?;
    let lines = objects(&text)?;
    for line in &lines {
        let (gate, rules) = (line["gate"].as_str().unwrap_or_default(), number(line, "rules")?);
        if gate == "ours" {
            continue;
        }
        let own = lines.iter().find(|own| own["gate"] == "ours" && own["rules"] == line["rules"]);
        let ours = number(own.context("the rivals' bench did not measure our gate")?, "p50_ns")?;
        let (reference, figure) = match line["p50_ns"].as_f64() {
            Some(theirs) => (format!("{gate} p50 {:.1} µs", theirs / 1000.0), format!("{:.0} ×", theirs / ours)),
            None => (format!("{gate} cannot: {}", line["cannot"].as_str().unwrap_or_default()), String::new()),
        };
        let what = format!("gate decision, {rules:.0} rules");
        table.push(TableRow { what, ours: format!("p50 {ours:.0} ns"), reference, figure, promise: "", holds: None });
    }
    Ok(())
}
