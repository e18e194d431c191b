//! The promises of SPEC.md, each beside its reference measured in the same run.
//!
//! Ratios, because machines differ and this one is noisy; nothing here fails a build. A promise that does not hold is printed as failed.

use crate::run::{cargo, output, root, run};
use crate::test::install;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One line of the table.
struct Row {
    what: String,
    ours: String,
    reference: String,
    /// The figure that the promise is about, and what was promised of it.
    figure: String,
    promise: &'static str,
    holds: Option<bool>,
}

type Part = fn(&mut Vec<Row>) -> Result<()>;

const PARTS: [(&str, Part); 5] = [("journal", journal), ("gate", gate), ("rooms", rooms), ("kernel", kernel), ("gateway", gateway)];

/// All parts, or those that are named.
pub fn bench(names: &[String]) -> Result<()> {
    let known = PARTS.map(|(name, _)| name).join(", ");
    for name in names {
        ensure!(PARTS.iter().any(|(part, _)| part == name), "there is no part `{name}` of the bench\n  there are: {known}");
    }
    install(&[("bwrap", "bubblewrap"), ("git", "git")])?;
    let wanted = |part: &str| names.is_empty() || names.iter().any(|name| name == part);
    eprintln!("building in release mode");
    if wanted("kernel") || wanted("gateway") {
        run(cargo().args(["build", "--release", "--quiet", "-p", "cli", "--bins"]))?;
    }
    for (part, package) in [("journal", "journal"), ("gate", "policy"), ("rooms", "sandbox"), ("kernel", "wire"), ("gateway", "gateway")] {
        if wanted(part) {
            run(cargo().args(["build", "--release", "--quiet", "-p", package, "--example", &format!("{package}_bench")]))?;
        }
    }
    let mut rows = Vec::new();
    for (name, part) in PARTS {
        if wanted(name) {
            part(&mut rows)?;
        }
    }
    print(&rows);
    Ok(())
}

/// Runs a crate's own bench, which prints one JSON object a line.
fn figures(package: &str, arguments: &[&str]) -> Result<Vec<Value>> {
    eprintln!("measuring {package}");
    let text = output(
        cargo().args(["run", "--release", "--quiet", "-p", package, "--example", &format!("{package}_bench"), "--"]).args(arguments),
    )?;
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).with_context(|| format!("{package}: `{line}`"))).collect()
}

fn number(value: &Value, key: &str) -> Result<f64> {
    value[key].as_f64().with_context(|| format!("`{key}` is missing in {value}"))
}

/// The real `skep` between a client and a provider on this machine; two minutes of it under load.
fn gateway(rows: &mut Vec<Row>) -> Result<()> {
    let skep = root().join("target/release/skep");
    for report in figures("gateway", &[&skep.to_string_lossy(), "120"])? {
        for line in report["first_bytes"].as_array().context("the gateway's bench has no `first_bytes`")? {
            let (direct, added) = (number(line, "direct_p50_us")?, number(line, "added_us")?);
            let thinks = match number(line, "thinks_ms")? {
                0.0 => "at once".to_owned(),
                ms => format!("after {ms:.0} ms"),
            };
            rows.push(Row {
                what: format!("gateway, first byte, upstream answers {thinks}"),
                ours: format!("p50 {:.0} µs", direct + added),
                reference: format!("direct {direct:.0} µs"),
                figure: format!("+ {:.2} ms", added / 1e3),
                promise: "≤ 1 ms more",
                holds: Some(added <= 1_000.0),
            });
        }
        let per_core = number(&report, "chunks_per_core_s")?;
        rows.push(Row {
            what: "gateway, streamed chunks".into(),
            ours: format!("{:.0}/s", number(&report, "chunks_per_s")?),
            reference: String::new(),
            figure: format!("{per_core:.0}/s a core"),
            promise: "≥ 5,000/s a core",
            holds: Some(per_core >= 5_000.0),
        });
        let soak = &report["soak"];
        let (failed, grown, files) = (number(soak, "failed")?, number(soak, "grown_kib")?, number(soak, "more_files")?);
        rows.push(Row {
            what: format!("gateway, {:.0} s under load", number(soak, "seconds")?),
            ours: format!("{:.0} requests, {failed:.0} failed", number(soak, "requests")?),
            reference: String::new(),
            figure: format!("{:.1} MB, {files:.0} files more", grown / 1024.0),
            promise: "none fails",
            // As many connections to a provider as that are kept for the next request.
            holds: Some(failed == 0.0 && files <= 32.0),
        });
    }
    Ok(())
}

fn journal(rows: &mut Vec<Row>) -> Result<()> {
    for report in figures("journal", &[])? {
        for line in report["append"].as_array().context("the journal's bench has no `append`")? {
            let (ours, raw) = (number(line, "ours_per_s")?, number(line, "raw_per_s")?);
            let writers = number(line, "writers")?;
            let promised = writers >= 64.0;
            rows.push(Row {
                what: format!("journal append, {writers:.0} writers"),
                ours: format!("{ours:.0}/s"),
                reference: format!("raw fdatasync {raw:.0}/s"),
                figure: format!("{:.2} ×", ours / raw),
                promise: if promised { "≥ 0.8 ×" } else { "" },
                holds: promised.then_some(ours / raw >= 0.8),
            });
        }
        let (ours, raw) = (number(&report["verify"], "ours_mb_per_s")?, number(&report["verify"], "raw_mb_per_s")?);
        rows.push(Row {
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

fn gate(rows: &mut Vec<Row>) -> Result<()> {
    for line in figures("policy", &[])? {
        let (p50, p99, rules) = (number(&line, "p50_ns")?, number(&line, "p99_ns")?, number(&line, "rules")?);
        let (kind, promised) = match line["kind"].as_str().unwrap_or_default() {
            "literal" => ("", true),
            "host" => (", by host", true),
            "command" => (", by command", true),
            "wildcard" => (", all wildcards", false),
            _ => (", worst case", false),
        };
        rows.push(Row {
            what: format!("gate decision, {rules:.0} rules{kind}"),
            ours: format!("p50 {p50:.0} ns"),
            reference: format!("p99 {p99:.0} ns"),
            figure: format!("{:.2} µs", p50 / 1000.0),
            promise: if promised { "≤ 1 µs" } else { "" },
            holds: promised.then_some(p50 <= 1000.0),
        });
    }
    rivals(rows)
}

/// Cedar and regorus on equivalent policies, with our gate in the same process. They have a lock file of their own.
fn rivals(rows: &mut Vec<Row>) -> Result<()> {
    eprintln!("measuring rivals");
    let manifest = root().join("xtask/rivals/Cargo.toml");
    let manifest = manifest.to_string_lossy();
    let text = output(cargo().args(["run", "--release", "--quiet", "--manifest-path", &manifest]))?;
    let lines: Vec<Value> = text.lines().filter(|line| line.starts_with('{')).map(serde_json::from_str).collect::<Result<_, _>>()?;
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
        rows.push(Row { what, ours: format!("p50 {ours:.0} ns"), reference, figure, promise: "", holds: None });
    }
    Ok(())
}

fn rooms(rows: &mut Vec<Row>) -> Result<()> {
    for line in figures("sandbox", &[])? {
        let (ours, plain) = (number(&line, "ours_ms")?, number(&line, "fork_exec_ms")?);
        let mut row = |what: &str, reference: String, ratio: f64, promise, holds| {
            let figure = format!("{ratio:.2} ×");
            rows.push(Row { what: what.into(), ours: format!("{ours:.2} ms"), reference, figure, promise, holds: Some(holds) });
        };
        row("room start + exit", format!("fork/exec {plain:.2} ms"), ours / plain, "≤ 4 ×", ours / plain <= 4.0);
        let bwrap = number(&line, "bwrap_ms")?;
        row("room start + exit", format!("bwrap {bwrap:.2} ms"), ours / bwrap, "≤ 0.5 ×", ours / bwrap <= 0.5);
        let fifty = number(&line, "fifty_at_once_ms")?;
        row("50 rooms at once", format!("took {fifty:.1} ms"), fifty / ours, "≤ 50 ×", fifty / ours <= 50.0);
        let (empty, large) = (number(&line, "open_empty_ms")?, number(&line, "open_large_ms")?);
        rows.push(Row {
            what: "workspace over 100,000 files, no base".into(),
            ours: format!("{large:.2} ms"),
            reference: format!("over none {empty:.2} ms"),
            figure: format!("{:.2} ×", large / empty),
            promise: "the same",
            holds: Some(large / empty <= 1.2),
        });
    }
    masks(rows)
}

/// The first room and a later command over 100,000 files with 1,000 rules about reading, beside the same with one rule that allows it.
fn masks(rows: &mut Vec<Row>) -> Result<()> {
    eprintln!("measuring masks");
    const COMMANDS: usize = 21;
    let home = Home::new()?;
    let rule = |n: usize| {
        format!("  - {{ name: r{n}, match: {{ syscall: fs.read, path_glob: ['/{0}/{n}/**/*.key', '*.s{n}'] }}, action: deny }}\n", n % 10)
    };
    let own = "capabilities:\n  - { name: all, match: { syscall: '*' }, action: allow }\n".to_owned();
    let many: String = (0..1_000).map(rule).collect();
    let call = "call shell.run command=[\"true\"]\n";
    let (one, more) = (home.path.join("one.skep"), home.path.join("more.skep"));
    std::fs::write(&one, format!("{call}done\n"))?;
    std::fs::write(&more, format!("{}done\n", call.repeat(COMMANDS)))?;
    let mut measured = Vec::new();
    for (name, policy) in [("plain", own.clone()), ("ruled", own + &many)] {
        let zone = home.path.join(name);
        project(&zone, 100_000)?;
        std::fs::create_dir_all(zone.join(".skep"))?;
        std::fs::write(zone.join(".skep/policy.yaml"), policy)?;
        std::fs::write(zone.join("skep.yml"), "")?;
        git(&zone, &["init", "-q"])?;
        output(home.skep(&["init"]).current_dir(&zone))?;
        output(home.skep(&["trust", "--yes"]).current_dir(&zone))?;
        // Folders that just changed are not remembered.
        std::thread::sleep(Duration::from_millis(1200));
        let first = time(|| output(home.skep(&["sandbox", "run", "--discard", "--", "true"]).current_dir(&zone)))?;
        let task = |script: &Path| {
            let brain = format!("script:{}", script.display());
            median(3, || time(|| output(home.skep(&["act", "bench", "--brain", &brain, "--await"]).current_dir(&zone))))
        };
        let later = task(&more)?.saturating_sub(task(&one)?) / (COMMANDS as u32 - 1);
        measured.push((first.as_secs_f64() * 1000.0, later.as_secs_f64() * 1000.0));
    }
    let ((first_plain, later_plain), (first, later)) = (measured[0], measured[1]);
    for (what, ours, reference) in [("first room", first, first_plain), ("next command", later, later_plain)] {
        rows.push(Row {
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

/// A folder with so many small files, a hundred to each of its own.
fn project(zone: &Path, files: usize) -> Result<()> {
    for n in 0..files {
        let folder = zone.join(format!("{}/{}", n / 10_000, n / 100));
        if n % 100 == 0 {
            std::fs::create_dir_all(&folder)?;
        }
        std::fs::write(folder.join(format!("{n}.txt")), n.to_string())?;
    }
    Ok(())
}

fn git(zone: &Path, arguments: &[&str]) -> Result<()> {
    output(Command::new("git").arg("-C").arg(zone).args(["-c", "user.name=b", "-c", "user.email=b@b"]).args(arguments)).map(drop)
}

/// A kernel of our own in a temporary home, gone when this is dropped.
struct Home {
    path: PathBuf,
    skep: PathBuf,
}

impl Home {
    fn new() -> Result<Home> {
        let path = std::env::temp_dir().join(format!("skep-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Home { path, skep: root().join("target/release/skep") })
    }

    fn skep(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.skep);
        command.args(arguments).env("SKEP_HOME", self.path.join("home")).current_dir(&self.path).stdin(Stdio::null());
        command
    }

    fn json(&self, arguments: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(&output(&mut self.skep(arguments))?)?)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Best effort at the end of a measurement; a kernel that is left stops nothing.
        drop(self.skep(&["kernel", "stop"]).output());
        drop(std::fs::remove_dir_all(&self.path));
    }
}

fn kernel(rows: &mut Vec<Row>) -> Result<()> {
    eprintln!("measuring kernel");
    let home = Home::new()?;
    let cold = median(9, || {
        drop(home.skep(&["kernel", "stop"]).output());
        time(|| output(&mut home.skep(&["ps", "--json"])))
    })?;
    let warm = median(31, || time(|| output(&mut home.skep(&["ps", "--json"]))))?;
    let plain = median(31, || time(|| output(&mut Command::new("true"))))?;
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    rows.push(promise("cold start to first answer", ms(cold), "ms", format!("fork/exec {:.2} ms", ms(plain)), "≤ 20 ms", ms(cold) <= 20.0));
    rows.push(promise("command on a running kernel", ms(warm), "ms", format!("fork/exec {:.2} ms", ms(plain)), "≤ 5 ms", ms(warm) <= 5.0));
    let socket = home.path.join("home/kernel.sock");
    for line in figures("wire", &[&socket.to_string_lossy()])? {
        let (ours, echo) = (number(&line, "ours_us")?, number(&line, "echo_us")?);
        let figure = format!("{:.2} ×", ours / echo);
        let (ours_text, reference) = (format!("{ours:.1} µs"), format!("raw echo {echo:.1} µs"));
        rows.push(Row {
            what: "socket round trip".into(),
            ours: ours_text,
            reference,
            figure,
            promise: "≤ 3 ×",
            holds: Some(ours / echo <= 3.0),
        });
    }
    large(rows, &home)?;
    memory(rows, &home)
}

/// A command in a room of its own over a project of many files, beside one of a single file. Room, masks, base and record together.
fn large(rows: &mut Vec<Row>, home: &Home) -> Result<()> {
    const FILES: usize = 100_000;
    let (small, big) = (home.path.join("small"), home.path.join("large"));
    for (zone, files) in [(&small, 1), (&big, FILES)] {
        project(zone, files)?;
        git(zone, &["init", "-q"])?;
        init(home, zone)?;
        git(zone, &["add", "-A"])?;
        git(zone, &["commit", "-q", "-m", "a start"])?;
    }
    // What git wrote in the same second as a file it does not trust yet, and reads; that is no project's everyday state.
    std::thread::sleep(Duration::from_millis(1100));
    for zone in [&small, &big] {
        output(Command::new("git").arg("-C").arg(zone).args(["status", "--porcelain"]))?;
    }
    let room = |zone: &Path| time(|| output(home.skep(&["sandbox", "run", "--discard", "--", "true"]).current_dir(zone)));
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let (first_small, first) = (ms(room(&small)?), ms(room(&big)?));
    let (later_small, later) = (ms(median(7, || room(&small))?), ms(median(7, || room(&big))?));
    for (what, ours, reference) in [("first", first, first_small), ("later", later, later_small)] {
        rows.push(Row {
            what: format!("{what} room over 100,000 files"),
            ours: format!("{ours:.0} ms"),
            reference: format!("over one file {reference:.0} ms"),
            figure: format!("{:.2} ×", ours / reference),
            promise: "the same",
            holds: Some(ours / reference <= 1.2),
        });
    }
    Ok(())
}

fn memory(rows: &mut Vec<Row>, home: &Home) -> Result<()> {
    drop(home.skep(&["kernel", "stop"]).output());
    output(&mut home.skep(&["kernel", "start"]))?;
    let resident = || -> Result<f64> { number(&home.json(&["kernel", "status", "--json"])?, "rss_bytes") };
    let idle = resident()?;
    rows.push(promise("idle kernel", idle / 1e6, "MB", "HiveKernel (Go) 14.6 MB".into(), "≤ 14 MB", idle <= 14e6));
    const ZONES: usize = 40;
    for n in 0..ZONES {
        let zone = home.path.join(format!("zone-{n}"));
        output(Command::new("git").args(["init", "-q"]).arg(&zone))?;
        init(home, &zone)?;
    }
    let more = (resident()? - idle).max(0.0) / ZONES as f64 / 1e3;
    rows.push(promise("each more idle process", more, "KB", "zone and policy included".into(), "≤ 20 KB", more <= 20.0));
    Ok(())
}

fn init(home: &Home, zone: &Path) -> Result<()> {
    output(home.skep(&["init", "--json"]).current_dir(zone)).map(drop)
}

fn promise(what: &str, figure: f64, unit: &str, reference: String, promise: &'static str, holds: bool) -> Row {
    let figure = format!("{figure:.2} {unit}");
    Row { what: what.into(), ours: figure.clone(), reference, figure, promise, holds: Some(holds) }
}

fn time<T>(work: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn median(times: usize, mut measure: impl FnMut() -> Result<Duration>) -> Result<Duration> {
    let mut all = (0..times).map(|_| measure()).collect::<Result<Vec<_>>>()?;
    all.sort_unstable();
    Ok(all[times / 2])
}

fn print(rows: &[Row]) {
    println!("{:<44} {:>16}  {:<26} {:>10}  {:<9}", "what", "ours", "reference, same run", "figure", "promise");
    for row in rows {
        let mark = match row.holds {
            Some(true) => "✓",
            Some(false) => "✗ failed",
            None => "",
        };
        println!("{:<44} {:>16}  {:<26} {:>10}  {:<9} {mark}", row.what, row.ours, row.reference, row.figure, row.promise);
    }
}
