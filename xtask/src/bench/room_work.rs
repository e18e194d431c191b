//! Everyday work in a task's room, beside the same outside and in bubblewrap with a plain bind of the same folder.
//!
//! The room is a task's, by `skep sandbox run`: overlay, masks, filters, Landlock, groups, and the base that is recorded meanwhile. Its
//! start is not part of the figures. Each room is new, so the first look at files finds none of them in its caches.

use super::home::{BenchHome, git};
use super::table::{Table, TableRow};
use super::{number, objects};
use crate::run::output;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first fills caches, and the kernel's memory of folders.
const ROUNDS: usize = 8;
const FILES: usize = 10_000;
const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = "room_work.py";

/// What is measured: the work, which of its times, and at most how many times as long a room may take.
const PROMISES: [(&str, &str, &str, f64, &str); 7] = [
    ("compile", "next", "in a room: compiling a C file", 1.05, "≤ 1.05 ×"),
    ("python", "next", "in a room: 20 Python processes", 1.1, "≤ 1.1 ×"),
    ("create", "next", "in a room: 2,000 new files", 1.5, "≤ 1.5 ×"),
    ("grep", "first", "in a room: first grep over 10,000 files", 1.3, "≤ 1.3 ×"),
    ("grep", "next", "in a room: next grep over 10,000 files", 1.3, "≤ 1.3 ×"),
    ("status", "first", "in a room: first git status, 10,000 files", 2.0, "≤ 2 ×"),
    ("status", "next", "in a room: next git status, 10,000 files", 1.2, "≤ 1.2 ×"),
];

pub(super) fn measure(table: &mut Table) -> Result<()> {
    let home = BenchHome::new()?;
    let places = Places::new(&home)?;
    for work in ["compile", "python", "create", "grep", "status"] {
        let mut rounds: [Vec<Value>; 3] = Default::default();
        for round in 0..ROUNDS {
            for (place, times) in rounds.iter_mut().enumerate() {
                let took = places.run(place, work, round)?;
                if round > 0 {
                    times.push(took);
                }
            }
        }
        for (_, which, what, most, promise) in PROMISES.iter().filter(|(of, ..)| *of == work) {
            let [outside, room, bwrap] = [0, 1, 2].map(|place: usize| median(&rounds[place], which));
            let ((outside, outside_cpu), (room, room_cpu), (bwrap, _)) = (outside?, room?, bwrap?);
            table.push(TableRow {
                what: (*what).into(),
                ours: format!("{room:.1} ms"),
                reference: format!("{outside:.1}, bwrap {bwrap:.1} ms; cpu {:.2} ×", room_cpu / outside_cpu),
                figure: format!("{:.2} ×", room / outside),
                promise,
                holds: Some(room / outside <= *most),
            });
        }
    }
    Ok(())
}

/// Where work is done: two projects, so that nothing that is made is looked through.
struct Places<'a> {
    home: &'a BenchHome,
    files: PathBuf,
    made: PathBuf,
}

impl Places<'_> {
    fn new(home: &BenchHome) -> Result<Places<'_>> {
        // Far from what was deleted on this disk a moment ago, which ext4 looks at for each new file. It concerns the work outside: without
        // it rooms would look better than they are. Other file systems know no such wish.
        drop(Command::new("chattr").arg("+T").arg(&home.path).output());
        let (files, made) = (home.path.join("files"), home.path.join("made"));
        for zone in [&files, &made] {
            std::fs::create_dir(zone)?;
            std::fs::write(zone.join(SCRIPT), include_str!("room_work.py"))?;
            // A file that rooms mask.
            std::fs::write(zone.join(".env"), "TOKEN=bench\n")?;
            std::fs::write(zone.join(".gitignore"), ".env\nmade-*\n*.o\n")?;
        }
        // About a hundred lines each, as source files have.
        for n in 0..FILES {
            let folder = files.join(format!("{}/{}", n / 1000, n / 100));
            if n % 100 == 0 {
                std::fs::create_dir_all(&folder)?;
            }
            let text: String = (0..80).map(|line| format!("line {line} of file {n}, with some words as code has them\n")).collect();
            std::fs::write(folder.join(format!("{n}.txt")), text)?;
        }
        let function = |n: usize| {
            format!("int f{n}(int a) {{ int s = 0; for (int i = 0; i < a; i++) s += i * {n} ^ a; printf(\"%d\", s); return s; }}\n")
        };
        let unit: String = (0..150).map(function).collect();
        std::fs::write(made.join("unit.c"), format!("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n{unit}"))?;
        for zone in [&files, &made] {
            git(zone, &["init", "-q"])?;
            home.init(zone)?;
            git(zone, &["add", "-A"])?;
            git(zone, &["commit", "-qm", "bench"])?;
        }
        // Files of the second in which the index was written would be read by every look.
        std::thread::sleep(std::time::Duration::from_millis(2100));
        for zone in [&files, &made] {
            git(zone, &["update-index", "-q", "--refresh"])?;
        }
        Ok(Places { home, files, made })
    }

    /// Outside, in a room or in bwrap: how long the work says that it took.
    fn run(&self, place: usize, work: &str, round: usize) -> Result<Value> {
        let zone: &Path = if matches!(work, "grep" | "status") { &self.files } else { &self.made };
        let name = format!("{place}-{round}");
        let own = [PYTHON, SCRIPT, work, &name];
        let mut command = match place {
            0 => Command::new(PYTHON),
            1 => self.home.skep(&["sandbox", "run", "--discard", "--", PYTHON]),
            _ => {
                let mut bwrap = Command::new("bwrap");
                bwrap.args(["--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--bind"]);
                bwrap.args([zone, zone]).arg(PYTHON);
                bwrap
            }
        };
        let text = output(command.args(&own[1..]).current_dir(zone))?;
        objects(&text)?.pop().with_context(|| format!("`{SCRIPT} {work}` printed no figures: {text}"))
    }
}

/// By the clock and by processors, each by itself.
fn median(rounds: &[Value], which: &str) -> Result<(f64, f64)> {
    let middle = |at: usize| {
        let mut times = rounds.iter().map(|round| number(&round[which], at)).collect::<Result<Vec<f64>>>()?;
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().context("nothing was measured")
    };
    Ok((middle(0)?, middle(1)?))
}
