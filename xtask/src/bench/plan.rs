//! What a plan costs: its steps beside a bare loop of the same calls, a layer of five, and the ten thousandth step beside the first.

use super::home::BenchHome;
use super::table::{Table, TableRow};
use super::{figures, number};
use anyhow::{Context, Result};
use serde_json::Value;

/// Tool calls a second that KarnEvil9 makes, one by one, at its best.
const KARNEVIL9: f64 = 940.0;

pub(super) fn measure(table: &mut Table) -> Result<()> {
    let home = BenchHome::new()?;
    let folder = home.path.join("plan");
    std::fs::create_dir_all(&folder)?;
    let measured = figures("embedded", &["plan", &folder.to_string_lossy()])?;
    let of = |what: &str| measured.iter().find(|line| line["what"] == what).with_context(|| format!("`{what}` was not measured"));
    rate(table, "fs.read as steps, five at once", of("reads")?, 8.0, "≥ 8 × K9")?;
    rate(table, "durable effects as steps, five at once", of("effects")?, 5.0, "≥ 5 × K9")?;
    let ms = number(of("layers")?, "ms")?;
    table.push(TableRow::promise("a layer of five durable steps", format!("{ms:.1} ms"), String::new(), "≤ 5 ms", ms <= 5.0));
    for (what, key) in [("the last of 10,000 reads", "flat"), ("the last of 10,000 durable effects", "flat_effects")] {
        let flat = of(key)?;
        let (first, last) = (number(flat, "first_us")?, number(flat, "last_us")?);
        table.push(TableRow {
            what: what.into(),
            ours: format!("{last:.0} µs"),
            reference: format!("the first {first:.0} µs"),
            figure: format!("{:.2} ×", last / first),
            promise: "≤ 1.5 ×",
            holds: Some(last <= first * 1.5),
        });
    }
    Ok(())
}

fn rate(table: &mut Table, what: &str, figures: &Value, least: f64, promise: &'static str) -> Result<()> {
    let (ours, bare) = (number(figures, "steps_per_s")?, number(figures, "calls_per_s")?);
    table.push(TableRow {
        what: what.into(),
        ours: format!("{ours:.0}/s"),
        reference: format!("bare loop {bare:.0}/s"),
        figure: format!("{:.1} × K9", ours / KARNEVIL9),
        promise,
        holds: Some(ours >= KARNEVIL9 * least),
    });
    Ok(())
}
