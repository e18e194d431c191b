//! `skep sandbox` as people use it: streams, exit codes, templates, pauses.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Site, text};
use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

fn site() -> Site {
    let site = Site::new(&[("a.txt", "one\n")]);
    site.ok(&["init"]);
    site
}

#[track_caller]
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_command_has_your_streams_and_its_own_end() {
    let site = site();
    let output = site.skep(&["sandbox", "run", "--", "sh", "-c", "cat a.txt; echo oops >&2; echo two > b.txt; exit 7"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(7), b"one\n".as_slice()), "{}", text(&output));
    assert!(text(&output).contains("oops\n") && text(&output).contains("its changes wait: `skep diff task-1`"), "{}", text(&output));
    // In the room only, until it is merged; and on record as a call of the operator's.
    assert!(!site.project().join("b.txt").exists());
    assert!(site.ok(&["journal", "log"]).contains("by run-by-operator"));
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!(site.read("b.txt"), "two\n");
    // Dropped, when it is said so.
    let output = site.skep(&["sandbox", "run", "--discard", "--", "sh", "-c", "echo > c.txt"]);
    assert!(output.status.success() && !text(&output).contains("wait"), "{}", text(&output));
    assert_eq!(site.skep(&["sandbox", "run", "--discard", "--", "sh", "-c", "kill -9 $$"]).status.code(), Some(128 + 9));

    // Any bytes, both ways, more than any buffer holds.
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n * 7 + n / 256) as u8).collect();
    let mut cat = site.command(&["sandbox", "run", "--discard", "--", "cat"]);
    let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut to, sent) = (cat.stdin.take().unwrap(), bytes.clone());
    let feed = std::thread::spawn(move || to.write_all(&sent));
    let mut got = Vec::new();
    cat.stdout.take().unwrap().read_to_end(&mut got).unwrap();
    feed.join().unwrap().unwrap();
    assert!(cat.wait().unwrap().success() && got == bytes);
    site.ok(&["kernel", "stop"]);
}

#[test]
fn templates_bound_and_nobody_widens() {
    let site = site();
    let refused = |arguments: &[&str], wanted: &str| {
        let output = site.skep(arguments);
        assert!(!output.status.success() && text(&output).contains(wanted), "{arguments:?}: {}", text(&output));
    };
    for name in ["ai-provider", "brain", "code-executor", "default", "install", "integration-test", "policy-sandbox"] {
        assert!(site.ok(&["sandbox", "templates"]).contains(name), "{name}");
    }
    refused(&["sandbox", "run", "-t", "policy-sandbox", "--", "true"], "`policy-sandbox` is for Skep's own children, not for commands");
    refused(&["sandbox", "run", "-t", "nothing", "--", "true"], "there is no template `nothing`");
    refused(
        &["sandbox", "run", "-t", "code-executor", "--timeout", "200ms", "--", "sleep", "60"],
        "it ran longer than 200 ms and was ended",
    );
    // Without internet sockets under `standard`; with them, on loopback, under `standard-net`.
    let inet = ["/usr/bin/python3", "-c", "import socket; socket.socket(socket.AF_INET)"];
    let run =
        |template: &str| site.skep(&[&["sandbox", "run", "--discard", "-t", template, "--"], inet.as_slice()].concat()).status.success();
    assert!(run("default") && !run("code-executor"));

    // What a project says is refused where it widens, and holds where it narrows.
    let trust = |config: &str| {
        site.write("skep.yml", config);
        site.ok(&["trust", "--yes"]);
    };
    trust("sandbox: {templates: {default: {pids: 99999}}}\n");
    refused(&["call", "shell.run", "command=[\"true\"]"], "skep.yml: sandbox.templates.default.pids: a project may only narrow a template");
    trust("sandbox: {tools: {shell.run: integration-test}}\n");
    refused(&["call", "shell.run", "command=[\"true\"]"], "`integration-test` is wider than `default` in `network`");
    trust("sandbox: {templates: {default: {duration: 300ms, disk: 5MiB}}}\n");
    refused(&["call", "shell.run", "command=[\"sleep\",\"60\"]"], "it ran longer than 300 ms and was ended");
    let fill = r#"command=["sh","-c","i=0; while :; do i=$((i+1)); head -c 400000 /dev/urandom > f$i; done"]"#;
    trust("sandbox: {templates: {default: {disk: 5MiB}}}\n");
    refused(&["call", "shell.run", fill], "it made the workspace hold more than 5 MiB and was ended");
    site.ok(&["kernel", "stop"]);

    // The operator's own file may widen and add, and a typo stops the kernel with its place.
    std::fs::write(site.home().join("config.yml"), "sandbox:\n  templates: {mine: {from: code-executor, profile: standard-net}}\n")
        .unwrap();
    assert!(site.ok(&["sandbox", "templates"]).contains("mine") && run("mine"));
    site.ok(&["kernel", "stop"]);
    std::fs::write(site.home().join("config.yml"), "sandbox:\n  templates: {mine: {from: nothing}}\n").unwrap();
    refused(&["sandbox", "templates"], "sandbox.templates.mine: there is no template `nothing`");
}

#[test]
fn a_slow_reader_slows_the_command_and_fills_no_memory() {
    let site = site();
    let mut flood = site.command(&["sandbox", "run", "--discard", "--", "sh", "-c", "head -c 200000000 /dev/zero; echo > done"]);
    let mut flood = flood.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = flood.stdout.take().unwrap();
    let mut first = vec![0; 1 << 20];
    out.read_exact(&mut first).unwrap();
    // Nobody reads on: the command comes to stand still, and the kernel stays as small as it is.
    let rooms = || site.json(&["sandbox", "ps"]);
    let used = || rooms()["rooms"][0]["jobs"][0]["cpu_ms"].as_u64().unwrap_or(0);
    let mut last = u64::MAX;
    wait_until("it stands still", || {
        std::thread::sleep(Duration::from_millis(150));
        std::mem::replace(&mut last, used()) == last
    });
    let rss = site.json(&["kernel", "status"])["rss_bytes"].as_u64().unwrap();
    assert!(rss < 120_000_000, "{rss}");
    // It goes on when somebody reads, to the last byte.
    let rest = std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    assert_eq!(rest + (1 << 20), 200_000_000);
    assert!(flood.wait().unwrap().success());
    let rss = site.json(&["kernel", "status"])["rss_bytes"].as_u64().unwrap();
    assert!(rss < 120_000_000, "{rss}");
    site.ok(&["kernel", "stop"]);
}

#[test]
fn a_room_is_paused_over_a_restart_and_a_left_command_ends() {
    let site = site();
    let mut busy = site
        .command(&["sandbox", "run", "--", "sh", "-c", "i=0; while :; do i=$((i+1)); echo $i > n.new; mv n.new n; echo $i; done"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = busy.stdout.take().unwrap();
    let drain = std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    let rooms = || site.json(&["sandbox", "ps"])["rooms"].clone();
    wait_until("it runs", || rooms()[0]["jobs"][0]["cpu_ms"].as_u64().is_some_and(|ms| ms > 30));
    let task = rooms()[0]["task"].as_str().unwrap().to_owned();
    site.ok(&["sandbox", "pause", &task]);
    let cpu = rooms()[0]["jobs"][0]["cpu_ms"].clone();
    assert_eq!((&rooms()[0]["paused"], &rooms()[0]["jobs"][0]["cpu_ms"]), (&true.into(), &cpu));
    let twice = site.skep(&["sandbox", "pause", &task]);
    assert!(text(&twice).contains(&format!("the room of {task} is paused already")), "{}", text(&twice));
    site.ok(&["sandbox", "resume", &task]);
    wait_until("it goes on", || rooms()[0]["jobs"][0]["cpu_ms"].as_u64() > cpu.as_u64());
    assert!(site.ok(&["journal", "log"]).contains("workspace.paused"));
    // Whoever ran it leaves; nothing stays behind.
    busy.kill().unwrap();
    busy.wait().unwrap();
    drain.join().unwrap().unwrap();
    wait_until("it has ended", || rooms().as_array().unwrap().iter().all(|room| room["jobs"].as_array().unwrap().is_empty()));
    site.ok(&["kernel", "stop"]);
}
