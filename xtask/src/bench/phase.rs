//! What a change of phase takes beside the tests themselves, on a project of 10,000 files.

use super::home::BenchHome;
use super::table::{Table, TableRow};
use super::{figures, number};
use anyhow::Result;

const FILES: &str = "10000";
const MS_MAX: f64 = 100.0;

pub(super) fn measure(table: &mut Table) -> Result<()> {
    let home = BenchHome::new()?;
    let folder = home.path.join("phase");
    std::fs::create_dir_all(&folder)?;
    for line in figures("embedded", &["phase", &folder.to_string_lossy(), FILES])? {
        let (ms, least, git) = (number(&line, "ms")?, number(&line, "least_ms")?, number(&line, "git_status_ms")?);
        table.push(TableRow {
            what: format!("a change of phase, to {}", line["what"].as_str().unwrap_or_default()),
            ours: format!("least {least:.0} ms"),
            reference: format!("git status {git:.0} ms: {:.1} ×", ms / git),
            figure: format!("{ms:.0} ms"),
            promise: "≤ 100 ms",
            holds: Some(ms <= MS_MAX),
        });
    }
    Ok(())
}
