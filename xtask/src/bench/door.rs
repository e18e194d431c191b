//! What a call costs: reads over the socket and durable effects at the door, by one caller and by sixty, quiet and beside other work.

use super::home::BenchHome;
use super::table::{Table, TableRow};
use super::{figures, number};
use crate::run::{output, root};
use anyhow::{Context, Result};
use serde_json::Value;
use std::process::{Child, Command, Stdio};

const MANY: &str = "60";
/// Programs that compute and nothing else, on a machine of two cores.
const LOAD: usize = 4;

pub(super) fn measure(table: &mut Table) -> Result<()> {
    measure_at(table, "")?;
    let load = Load::begin()?;
    measure_at(table, ", load of four")?;
    drop(load);
    Ok(())
}

fn measure_at(table: &mut Table, beside: &str) -> Result<()> {
    let home = BenchHome::new()?;
    let project = home.path.join("project");
    std::fs::create_dir_all(&project)?;
    std::fs::write(project.join("a.txt"), "one line\n")?;
    output(Command::new("git").args(["init", "-q"]).arg(&project))?;
    home.init(&project)?;
    let (socket, project) = (home.path.join("home/kernel.sock"), project.to_string_lossy().into_owned());
    for callers in ["1", MANY] {
        let read = one(figures("embedded", &["door", "reads", &socket.to_string_lossy(), &project, callers])?)?;
        Rows { table, of: "fs.read", callers, beside }.push(&read, &READS)?;
    }
    for callers in ["1", MANY] {
        let folder = home.path.join(format!("effects-{callers}"));
        std::fs::create_dir(&folder)?;
        let effect = one(figures("embedded", &["door", "effects", &folder.to_string_lossy(), callers])?)?;
        Rows { table, of: "durable effect", callers, beside }.push(&effect, &EFFECTS)?;
    }
    Ok(())
}

fn one(lines: Vec<Value>) -> Result<Value> {
    lines.into_iter().next().context("the bench of the door printed nothing")
}

/// What is promised of one kind of call.
struct Promised {
    /// Of one caller's p50, in fdatasyncs.
    syncs: (f64, &'static str),
    /// Calls a second of many callers, where no other work has the processors.
    rate: (f64, &'static str),
}

const READS: Promised = Promised { syncs: (0.5, "≤ 0.5 ×"), rate: (15_000.0, "≥ 15,000/s") };
const EFFECTS: Promised = Promised { syncs: (2.5, "≤ 2.5 ×"), rate: (10_000.0, "≥ 10,000/s") };

struct Rows<'a> {
    table: &'a mut Table,
    of: &'a str,
    callers: &'a str,
    beside: &'a str,
}

impl Rows<'_> {
    fn push(&mut self, figures: &Value, promised: &Promised) -> Result<()> {
        let Rows { of, callers, beside, .. } = *self;
        let get = |key| number(figures, key);
        let (p50, p99, sync, echo) = (get("p50_us")?, get("p99_us")?, get("sync_us")?, get("echo_us")?);
        let (rate, cpu) = (get("per_s")?, get("cpu_us")?);
        let who = if callers == "1" { "1 caller".to_owned() } else { format!("{callers} callers") };
        let what = |part: &str| format!("{of}, {who}{part}{beside}");
        let reference = format!("fdatasync {sync:.0}, echo {echo:.0} µs");
        if callers == "1" {
            let (most, promise) = promised.syncs;
            self.table.push(TableRow {
                what: what(""),
                ours: format!("p50 {p50:.0} µs"),
                reference,
                figure: format!("{:.2} ×", p50 / sync),
                promise,
                holds: Some(p50 / sync <= most),
            });
        } else {
            let (least, promise) = promised.rate;
            let is_alone = beside.is_empty();
            self.table.push(TableRow {
                what: what(""),
                ours: format!("p50 {p50:.0} µs"),
                reference,
                figure: format!("{rate:.0}/s"),
                promise: if is_alone { promise } else { "" },
                holds: is_alone.then_some(rate >= least),
            });
        }
        self.table.push(TableRow {
            what: what(", slowest of 100"),
            ours: format!("p99 {p99:.0} µs"),
            reference: format!("p50 {p50:.0} µs"),
            figure: format!("{:.1} ×", p99 / p50),
            promise: "≤ 5 ×",
            holds: Some(p99 / p50 <= 5.0),
        });
        self.table.push(TableRow {
            what: what(", processor"),
            ours: format!("{rate:.0}/s"),
            reference: String::new(),
            figure: format!("{:.3} ms", cpu / 1e3),
            promise: "≤ 0.1 ms",
            holds: Some(cpu <= 100.0),
        });
        Ok(())
    }
}

/// Other work on the machine, as long as this lives.
struct Load(Vec<Child>);

impl Load {
    fn begin() -> Result<Load> {
        let mut load = Load(Vec::new());
        for _ in 0..LOAD {
            let mut busy = Command::new(root().join("target/release/bench-embedded"));
            load.0.push(busy.args(["door", "busy"]).stdin(Stdio::null()).spawn().context("cannot start bench-embedded")?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for busy in &mut self.0 {
            // One that has ended already is no load any more.
            drop(busy.kill().and_then(|()| busy.wait()));
        }
    }
}
