//! `skep demo`, as a newcomer sees it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

fn demo(temp: &std::path::Path, colour: bool, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
    command.arg("demo").args(arguments).env("TMPDIR", temp).stdin(Stdio::null());
    match colour {
        true => command.env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1"),
        false => command.env("NO_COLOR", "1"),
    };
    command.output().unwrap()
}

#[test]
fn the_demo_shows_everything_and_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let output = demo(temp.path(), false, &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let expected = [
        "✓ the kernel runs",
        "✓ init @main → foreman.1",
        "+  - name: ask-before-release",
        "✓ policy version 2 is in force",
        "✓ task-1 → foreman.1 (@main)",
        "Reading calc.sh …",
        "✗ Writing /etc/motd  refused",
        "↳ why  `fs.write` on `/etc/motd` is denied by `builtin:outside-project`",
        "↳ fix  write inside the project",
        "✗ Testing  failed",
        "FAIL  5 sub 2",
        "◍ Writing VERSION  asks r-1",
        "✓ r-1 allowed by operator",
        "✓ merged 3 files",
        "4 passed, 0 failed",
        "└─ ○ foreman.1",
        "task.finished",
        "✓ the chain of",
        "↳ time gate",
        "skep --help",
    ];
    let mut rest = text.as_str();
    for part in expected {
        let at = rest.find(part).unwrap_or_else(|| panic!("`{part}` does not follow in:\n{text}"));
        rest = &rest[at + part.len()..];
    }
    assert!(!text.contains('\x1b'), "colour in a pipe:\n{text}");
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0, "something was left behind");
}

#[test]
fn the_demo_has_colour_and_a_json_form() {
    let temp = tempfile::tempdir().unwrap();
    let output = demo(temp.path(), true, &[]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("\x1b[32m✓ \x1b[0m"));
    let output = demo(temp.path(), false, &["--json"]);
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["ok"], true);
    assert_eq!(result["task"]["merge"], "applied");
}

/// `skep demo | head -3`.
#[test]
fn a_reader_who_has_seen_enough_leaves_no_kernel_behind() {
    let temp = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
    command.arg("demo").env("TMPDIR", temp.path()).env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut demo = command.spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    // The kernel runs by then, so there is something to leave behind.
    let seen = lines.by_ref().find(|line| line.as_ref().unwrap().contains("the kernel runs"));
    assert!(seen.is_some() && !mine(temp.path()).is_empty());
    drop(lines);
    assert!(demo.wait().unwrap().success());
    assert_eq!(mine(temp.path()), Vec::<String>::new());
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0, "something was left behind");
}

/// Processes that were started for a home in this folder.
fn mine(folder: &std::path::Path) -> Vec<String> {
    let named =
        |file: std::path::PathBuf| String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).contains(&*folder.to_string_lossy());
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let ours = processes.filter(|process| named(process.join("cmdline")) || named(process.join("environ")));
    let about = ours.filter_map(|process| std::fs::read_to_string(process.join("stat")).ok());
    about.filter(|stat| !stat.contains(") Z ")).collect()
}
