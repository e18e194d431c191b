//! Rooms beside fork and exec, and beside bubblewrap; work in them beside work outside; large projects beside small ones.

use super::home::{BenchHome, git, median, project, time};
use super::table::{Table, TableRow};
use super::{figures, number, room_work};
use crate::run::output;
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

pub(super) fn measure(table: &mut Table) -> Result<()> {
    for line in figures("sandbox", &[])? {
        let (ours, plain) = (number(&line, "ours_ms")?, number(&line, "fork_exec_ms")?);
        let mut row = |what: &str, reference: String, ratio: f64, promise, holds| {
            let figure = format!("{ratio:.2} ×");
            table.push(TableRow { what: what.into(), ours: format!("{ours:.2} ms"), reference, figure, promise, holds: Some(holds) });
        };
        row("room start + exit", format!("fork/exec {plain:.2} ms"), ours / plain, "≤ 4 ×", ours / plain <= 4.0);
        let bwrap = number(&line, "bwrap_ms")?;
        row("room start + exit", format!("bwrap {bwrap:.2} ms"), ours / bwrap, "≤ 0.5 ×", ours / bwrap <= 0.5);
        let fifty = number(&line, "fifty_at_once_ms")?;
        row("50 rooms at once", format!("took {fifty:.1} ms"), fifty / ours, "≤ 50 ×", fifty / ours <= 50.0);
        let (empty, large) = (number(&line, "open_empty_ms")?, number(&line, "open_large_ms")?);
        table.push(TableRow {
            what: "workspace over 100,000 files, no base".into(),
            ours: format!("{large:.2} ms"),
            reference: format!("over none {empty:.2} ms"),
            figure: format!("{:.2} ×", large / empty),
            promise: "the same",
            holds: Some(large / empty <= 1.2),
        });
    }
    room_work::measure(table)?;
    masks(table)
}

/// The first room and a later command over 100,000 files with 1,000 rules about reading, beside the same with one rule that allows it.
fn masks(table: &mut Table) -> Result<()> {
    // The base is recorded beside a task's first commands, so a task of few takes as long as the base does: the difference of two long ones counts.
    const FEW: usize = 100;
    const MORE: usize = 300;
    let home = BenchHome::new()?;
    let rule = |n: usize| {
        format!("  - {{ name: r{n}, match: {{ syscall: fs.read, path_glob: ['/{0}/{n}/**/*.key', '*.s{n}'] }}, action: deny }}\n", n % 10)
    };
    let own = "capabilities:\n  - { name: all, match: { syscall: '*' }, action: allow }\n".to_owned();
    let many: String = (0..1_000).map(rule).collect();
    let call = "call shell.run command=[\"true\"]\n";
    let (few, more) = (home.path.join("few.skep"), home.path.join("more.skep"));
    std::fs::write(&few, format!("{}done\n", call.repeat(FEW)))?;
    std::fs::write(&more, format!("{}done\n", call.repeat(MORE)))?;
    let mut measured = Vec::new();
    for (name, policy) in [("plain", own.clone()), ("ruled", own + &many)] {
        let zone = home.path.join(name);
        project(&zone, 100_000)?;
        std::fs::create_dir_all(zone.join(".skep"))?;
        std::fs::write(zone.join(".skep/policy.yaml"), policy)?;
        std::fs::write(zone.join("skep.yml"), "")?;
        git(&zone, &["init", "-q"])?;
        output(home.skep(&["trust", "--yes", "--phrase", "allow more"]).current_dir(&zone))?;
        // Folders that just changed are not remembered.
        std::thread::sleep(Duration::from_millis(1200));
        let first = time(|| output(home.skep(&["sandbox", "run", "--discard", "--", "true"]).current_dir(&zone)))?;
        let task = |script: &Path| {
            let brain = format!("script:{}", script.display());
            median(3, || time(|| output(home.skep(&["act", "bench", "--brain", &brain, "--await"]).current_dir(&zone))))
        };
        let (few, more) = (task(&few)?, task(&more)?);
        let later = more.checked_sub(few).context("300 commands took less time than 100")? / (MORE - FEW) as u32;
        measured.push((first.as_secs_f64() * 1000.0, later.as_secs_f64() * 1000.0));
    }
    let ((first_plain, later_plain), (first, later)) = (measured[0], measured[1]);
    for (what, ours, reference) in [("first room", first, first_plain), ("next command", later, later_plain)] {
        table.push(TableRow {
            what: format!("{what}: 100,000 files, 1,000 rules"),
            ours: format!("{ours:.1} ms"),
            reference: format!("one rule {reference:.1} ms"),
            figure: format!("{:.2} ×", ours / reference),
            promise: "≤ 2 ×",
            holds: Some(ours / reference <= 2.0),
        });
    }
    Ok(())
}
