//! `skep demo`, as a newcomer sees it.

use crate::brains::{CLAUDE, CODEX, Client, GEMINI, OPENCODE};
use crate::common::screen::Screen;
use crate::common::{Site, path_without_clients};
use rustix::process::{Pid, Signal};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn demo(temp: &Path, colour: bool, arguments: &[&str]) -> Output {
    let mut command = command(temp);
    command.args(arguments);
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
        "✓ init @main → worker.1",
        "+  - name: ask-before-release",
        "✓ policy version 2 is in force",
        "✓ task-1 → worker.1 (@main)",
        "✓ Reading calc.sh",
        "✗ Writing /etc/motd  refused",
        "↳ why  `fs.write` on `/etc/motd` is denied by `builtin:outside-project`",
        "↳ fix  write inside the project",
        "✗ Testing  failed",
        "FAIL  5 sub 2",
        "◍ Writing VERSION  asks r-1",
        "✓ r-1 allowed by operator",
        "✓ merged 3 files",
        "4 passed, 0 failed",
        "└─ ○ worker.1",
        "task.finished",
        "✓ the chain of",
        "↳ time gate",
        "two things to try in a repository of your own",
        "skep init",
        "skep act",
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

/// The same task by a vendor's own client: its write is refused by the door, a person is asked, its changes are merged, nothing is left.
fn is_played_by(client: &Client, product: &str) {
    let program = crate::npm::installed(client.name, client.package);
    let temp = tempfile::tempdir().unwrap();
    let path = format!("{}:{}", program.parent().unwrap().display(), path_without_clients());
    let output = command(temp.path()).args(["--brain", client.name]).env("PATH", path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let title = format!("{product} does real work on a scripted model");
    let command = format!("--brain {}", client.name);
    let expected = [
        title.as_str(),
        &command,
        "› I read before I write.",
        "Reading calc.sh",
        "› A rule of my own, and nobody needs to be asked.",
        "✗ Writing .skep/rules/mine.ts  refused",
        "↳ why  `fs.write` on `.skep/rules/mine.ts` is denied by `builtin:policy-files`",
        "Writing tests/sub.test",
        "sh tests/run.sh",
        "› Red, as it should be. Now the code.",
        "Editing calc.sh",
        "sh tests/run.sh",
        "› Green. A release is a person's decision, so I ask.",
        "asks r-1",
        "✓ r-1 allowed by operator",
        "› calc subtracts now, with tests, as version 0.2.0",
        "+  sub) echo $(($1 - $3)) ;;",
        "✓ merged 3 files",
        "4 passed, 0 failed",
        "✓ the chain of",
        "two things to try in a repository of your own",
    ];
    let mut rest = text.as_str();
    for part in expected {
        let at = rest.find(part).unwrap_or_else(|| panic!("`{part}` does not follow in:\n{text}"));
        rest = &rest[at + part.len()..];
    }
    leaves_nothing(temp.path());
}

#[test]
fn claude_plays_the_demo() {
    is_played_by(&CLAUDE, "Claude Code");
}

#[test]
fn codex_plays_the_demo() {
    is_played_by(&CODEX, "Codex");
}

#[test]
fn opencode_plays_the_demo() {
    is_played_by(&OPENCODE, "OpenCode");
}

#[test]
fn gemini_plays_the_demo() {
    is_played_by(&GEMINI, "Gemini CLI");
}

/// Whoever has no client is told how to get one, by the demo that asks for it and at the end of the one that does not.
#[test]
fn a_client_that_is_not_there_is_told_with_its_command() {
    let temp = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], path: &str| command(temp.path()).args(arguments).env("PATH", path).output().unwrap();
    let without = path_without_clients();
    for (name, package) in
        [("claude", "@anthropic-ai/claude-code"), ("codex", "@openai/codex"), ("opencode", "opencode-ai"), ("gemini", "@google/gemini-cli")]
    {
        let output = run(&["--brain", name], &without);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(5) && output.stdout.is_empty(), "{told}");
        assert!(told.contains(&format!("no program `{name}` is on your PATH")), "{told}");
        assert!(told.contains(&format!("`npm install -g {package}`, then run `skep demo --brain {name}` again")), "{told}");
    }
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0, "nothing was begun");
    let output = run(&["--brain", "grok"], &without);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));

    let text = String::from_utf8(run(&[], &without).stdout).unwrap();
    let how = "the same task by a vendor's client, on the scripted model: npm install -g @anthropic-ai/claude-code, then skep demo --brain claude";
    assert!(text.contains(how), "{text}");
    // The control: who has one is not told to get one.
    let bin = tempfile::tempdir().unwrap();
    let client = bin.path().join("codex");
    std::fs::write(&client, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&client, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let text = String::from_utf8(run(&[], &format!("{}:{without}", bin.path().display())).stdout).unwrap();
    assert!(
        text.contains("the same task by Codex, on the scripted model: skep demo --brain codex") && !text.contains("npm install"),
        "{text}"
    );
}

/// `skep demo | head -3`, by readers of more and less patience.
#[test]
fn a_reader_who_has_seen_enough_leaves_no_kernel_behind() {
    for enough in ["skep demo", "the kernel runs", "asks r-1", "two things to try"] {
        let temp = tempfile::tempdir().unwrap();
        let mut demo = command(temp.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
        let seen = lines.by_ref().find(|line| line.as_ref().unwrap().contains(enough));
        // The control: there is something to leave behind.
        assert!(seen.is_some() && !mine(temp.path()).is_empty(), "{enough}");
        drop(lines);
        assert!(demo.wait().unwrap().success(), "{enough}");
        leaves_nothing(temp.path());
    }
}

/// A terminal that closes, and a signal from elsewhere, while the demo waits for a key.
#[test]
fn who_ends_the_demo_from_outside_leaves_no_kernel_behind() {
    let site = Site::new(&[]);
    let waiting = |temp: &Path| {
        let screen = Screen::open_with(&site, "xterm-256color", &format!("env TMPDIR={}", temp.display()), "demo");
        screen.shows(&["a calculator in sh", "any key goes on"]);
        screen.press(&["Space"]);
        screen.shows(&["the kernel runs", "any key goes on"]);
        assert!(mine(temp).iter().any(|process| process.contains("kernel run")), "the kernel runs for it");
        screen
    };
    let temp = tempfile::tempdir().unwrap();
    drop(waiting(temp.path()));
    leaves_nothing(temp.path());

    let temp = tempfile::tempdir().unwrap();
    let screen = waiting(temp.path());
    end(pid_of(temp.path(), "demo").unwrap());
    let text = screen.shows(&["left with 130", "\necho\n"]);
    assert!(!text.contains("-icanon") && !text.contains("-echo"), "the terminal was not given back:\n{text}");
    drop(screen);
    leaves_nothing(temp.path());
}

/// The kernel is on its way and has not said that it is ready: nothing can be sent to it, so it is killed.
#[test]
fn who_ends_the_demo_while_its_kernel_starts_leaves_none_behind() {
    let mut is_raced = false;
    while !is_raced {
        let temp = tempfile::tempdir().unwrap();
        let mut demo = command(temp.path()).stdout(Stdio::piped()).spawn().unwrap();
        while pid_of(temp.path(), "run\0--detached").is_none() {}
        end(i32::try_from(demo.id()).unwrap());
        let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
        is_raced = !lines.any(|line| line.unwrap().contains("the kernel runs"));
        assert_eq!(demo.wait().unwrap().code(), Some(130));
        leaves_nothing(temp.path());
    }
}

/// Nobody can hear of a SIGKILL: the kernel notices that the demo is gone, also while it starts, and tidies up.
#[test]
fn a_demo_that_is_killed_leaves_no_kernel_behind() {
    for enough in ["sh tests/run.sh", "the kernel runs", "asks r-1"] {
        let temp = tempfile::tempdir().unwrap();
        let mut demo = command(temp.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
        let seen = lines.by_ref().find(|line| line.as_ref().unwrap().contains(enough));
        assert!(seen.is_some(), "{enough}");
        while pid_of(temp.path(), "run\0--detached").is_none() {}
        demo.kill().unwrap();
        demo.wait().unwrap();
        leaves_nothing(temp.path());
    }
}

/// What is to be kept is kept also then, and its journal is whole.
#[test]
fn a_demo_with_keep_that_is_killed_keeps_its_folder() {
    let temp = tempfile::tempdir().unwrap();
    let mut demo = command(temp.path()).arg("--keep").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().any(|line| line.unwrap().contains("the kernel runs")));
    demo.kill().unwrap();
    demo.wait().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while !mine(temp.path()).is_empty() {
        assert!(Instant::now() < end, "the kernel runs on: {:?}", mine(temp.path()));
        std::thread::sleep(Duration::from_millis(20));
    }
    let folder = std::fs::read_dir(temp.path()).unwrap().next().unwrap().unwrap().path();
    let verified = Command::new(env!("CARGO_BIN_EXE_skep"))
        .args(["journal", "verify", "--offline"])
        .env("SKEP_HOME", folder.join("home"))
        .output()
        .unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
}

fn command(temp: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
    command.arg("demo").env("TMPDIR", temp).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

#[track_caller]
fn leaves_nothing(temp: &Path) {
    let end = Instant::now() + Duration::from_secs(60);
    let left = || (mine(temp), std::fs::read_dir(temp).unwrap().count());
    while left() != (Vec::new(), 0) {
        assert!(Instant::now() < end, "something was left behind: {:?}", left());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn end(pid: i32) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
}

/// A `skep` of this folder with these arguments one after the other.
fn pid_of(folder: &Path, arguments: &str) -> Option<i32> {
    let is_it = |process: &PathBuf| {
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        line.starts_with(env!("CARGO_BIN_EXE_skep").as_bytes()) && String::from_utf8_lossy(&line).contains(&format!("\0{arguments}\0"))
    };
    running(folder).into_iter().find(is_it)?.file_name()?.to_str()?.parse().ok()
}

/// Processes that were started for a home in this folder, by what they were started with.
fn mine(folder: &Path) -> Vec<String> {
    running(folder)
        .into_iter()
        .map(|process| String::from_utf8_lossy(&std::fs::read(process.join("cmdline")).unwrap_or_default()).replace('\0', " "))
        .collect()
}

fn running(folder: &Path) -> Vec<PathBuf> {
    let named = |file: PathBuf| String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).contains(&*folder.to_string_lossy());
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let ours = processes.filter(|process| named(process.join("cmdline")) || named(process.join("environ")));
    ours.filter(|process| std::fs::read_to_string(process.join("stat")).is_ok_and(|stat| !stat.contains(") Z "))).collect()
}
