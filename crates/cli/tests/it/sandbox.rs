//! `skep sandbox` as people use it: streams, exit codes, templates, pauses.

use crate::common::screen::Screen;
use crate::common::{Site, text};
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
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
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
    let output = site.skep(&["sandbox", "run", "--discard", "--", "sh", "-c", "echo > c.txt; rm a.txt"]);
    assert!(output.status.success() && !text(&output).contains("wait"), "{}", text(&output));
    assert!(text(&output).contains("dropped  a.txt, c.txt\n") && site.read("a.txt") == "one\n", "{}", text(&output));
    // Which is how it was meant to end, and no cancellation.
    let tasks = site.json(&["list", "tasks"]);
    let states: Vec<_> = tasks["tasks"].as_array().unwrap().iter().map(|task| task["state"].clone()).collect();
    assert!(states.len() == 2 && states.iter().all(|state| state == "done"), "{tasks}");
    assert_eq!(site.count("task.cancelled"), 0);
    let output = site.skep(&["sandbox", "run", "--discard", "--", "sh", "-c", "for i in $(seq 200); do echo > f$i; done"]);
    assert!(text(&output).contains("f100, f101") && text(&output).contains(" and 190 more\n"), "{}", text(&output));
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

/// A command has written something when its kernel ends; what it wrote is kept by the next one, offered, and merged.
fn interrupted(end: impl FnOnce(&Site, &mut std::process::Child)) {
    let site = Site::new(&[("a.txt", "one\n"), (".gitignore", "built\n")]);
    let mut kernel = site.kernel(None);
    site.ok(&["init"]);
    let mut run =
        site.command(&["sandbox", "run", "--", "sh", "-c", "echo two > b.txt; rm a.txt; echo x > built; echo written; sleep 600"]);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 8];
    run.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"written\n");
    end(&site, &mut kernel);
    kernel.wait().unwrap();
    let output = run.wait_with_output().unwrap();
    assert!(!output.status.success(), "the command was interrupted");
    assert!(text(&output).contains("the next kernel keeps what it wrote"), "{}", text(&output));
    wait_until("what the command wrote is offered", || site.json(&["list", "tasks"])["tasks"][0]["review"].is_string());
    let shown = site.ok(&["diff", "task-1", "--text"]);
    assert!(shown.contains("b.txt") && shown.contains("+two") && shown.contains("a.txt") && !shown.contains("built"), "{shown}");
    assert!(site.ok(&["review", "list"]).contains("task-1") && site.project().join("a.txt").exists());
    site.ok(&["merge", "task-1", "--yes"]);
    assert!(site.read("b.txt") == "two\n" && !site.project().join("a.txt").exists());
    assert_eq!(site.leftovers(), Vec::<String>::new());
    site.ok(&["kernel", "stop"]);
}

#[test]
fn work_that_a_crash_interrupts_is_kept_and_offered() {
    interrupted(|_, kernel| kernel.kill().unwrap());
}

#[test]
fn work_that_a_stop_interrupts_is_kept_and_offered() {
    interrupted(|site, _| drop(site.ok(&["kernel", "stop"])));
}

/// Whoever runs a command hears what becomes of its work when the kernel is stopped under it.
#[test]
fn a_stop_tells_who_runs_a_command_that_its_work_is_kept() {
    let site = Site::new(&[("a.txt", "one\n")]);
    site.ok(&["init"]);
    for nth in 1..=3 {
        let script = format!("echo {nth} > b{nth}.txt; echo written; sleep 600");
        let mut run = site.command(&["sandbox", "run", "--", "sh", "-c", &script]);
        let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        run.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
        site.ok(&["kernel", "stop"]);
        let output = run.wait_with_output().unwrap();
        let said = text(&output);
        assert!(!output.status.success() && said.contains("the kernel is stopping"), "{said}");
        assert!(said.contains(&format!("task-{nth} was interrupted")) && said.contains("the next kernel keeps what it wrote"), "{said}");
        // And that is true.
        let task = || site.json(&["list", "tasks"])["tasks"][nth - 1].clone();
        wait_until("what the command wrote is offered", || task()["review"].is_string());
    }
}

/// `--discard` holds for whatever end a command has. The control is the test above: without it the same work is offered.
fn discarded(end: impl FnOnce(&Site, &mut std::process::Child)) {
    let site = Site::new(&[("a.txt", "one\n")]);
    let mut kernel = site.kernel(None);
    site.ok(&["init"]);
    let mut run = site.command(&["sandbox", "run", "--discard", "--", "sh", "-c", "echo two > b.txt; echo written; sleep 600"]);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    run.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
    end(&site, &mut kernel);
    kernel.wait().unwrap();
    assert!(!run.wait().unwrap().success(), "the command was interrupted");
    wait_until("the task has ended", || site.json(&["list", "tasks"])["tasks"][0]["state"] == "failed");
    let task = &site.json(&["list", "tasks"])["tasks"][0];
    assert!(task["review"].is_null() && task.to_string().contains("dropped, as asked"), "{task}");
    assert_eq!((site.count("merge.proposed"), site.count("review.asked")), (0, 0));
    assert!(!site.project().join("b.txt").exists());
    assert_eq!(site.leftovers(), Vec::<String>::new());
    site.ok(&["kernel", "stop"]);
}

#[test]
fn discarded_work_is_not_offered_after_a_crash() {
    discarded(|_, kernel| kernel.kill().unwrap());
}

#[test]
fn discarded_work_is_not_offered_after_a_stop() {
    discarded(|site, _| drop(site.ok(&["kernel", "stop"])));
}

/// The control of both: a person who wants none of it says so, and then it is gone.
#[test]
fn interrupted_work_that_is_rejected_goes() {
    let site = Site::new(&[("a.txt", "one\n")]);
    let mut kernel = site.kernel(None);
    site.ok(&["init"]);
    let mut run = site.command(&["sandbox", "run", "--", "sh", "-c", "echo two > b.txt; echo written; sleep 600"]);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    run.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    run.wait().unwrap();
    wait_until("what the command wrote is offered", || site.json(&["list", "tasks"])["tasks"][0]["review"].is_string());
    site.ok(&["reject", "task-1"]);
    assert!(!site.project().join("b.txt").exists());
    assert_eq!(site.leftovers(), Vec::<String>::new());
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
        site.trust();
    };
    site.write("skep.yml", "sandbox: {templates: {default: {pids: 99999}}}\n");
    refused(&["trust", "--yes"], "skep.yml: sandbox.templates.default.pids: a project may only narrow a template");
    site.write("skep.yml", "sandbox: {tools: {shell.run: integration-test}}\n");
    refused(&["trust", "--yes"], "`integration-test` is wider than `default` in `network`");
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

/// The most memory that a process ever had.
fn peak_bytes(pid: u64) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn a_slow_reader_slows_the_command_and_fills_no_memory() {
    const SENT: u64 = 100_000_000;
    const GROWTH_MAX: u64 = SENT / 2;
    let site = site();
    // The control: whoever holds it all is seen to.
    let hold = format!("x = b'x' * {SENT}; print(flush=True); input()");
    let mut hoarder =
        std::process::Command::new("python3").args(["-c", &hold]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    hoarder.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    assert!(peak_bytes(hoarder.id().into()) > SENT);
    hoarder.kill().unwrap();
    hoarder.wait().unwrap();

    // What a process has of its own program counts too, so only what comes on top of that says something.
    let kernel = site.json(&["kernel", "status"])["os_pid"].as_u64().unwrap();
    let before = peak_bytes(kernel);
    let line = format!("head -c {SENT} /dev/zero; echo > done");
    let mut flood = site.command(&["sandbox", "run", "--discard", "--", "sh", "-c", &line]);
    let mut flood = flood.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = flood.stdout.take().unwrap();
    let mut first = vec![0; 1 << 20];
    out.read_exact(&mut first).unwrap();
    let begun = peak_bytes(flood.id().into());
    // Nobody reads on: the command comes to stand still.
    let used = || site.json(&["sandbox", "ps"])["rooms"][0]["jobs"][0]["cpu_ms"].as_u64().unwrap_or(0);
    let mut last = u64::MAX;
    wait_until("it stands still", || {
        std::thread::sleep(Duration::from_millis(150));
        std::mem::replace(&mut last, used()) == last
    });
    // It goes on when somebody reads, to the last byte; and neither side ever held more than a little of it.
    let mut rest = SENT - first.len() as u64;
    let mut piece = vec![0; 1 << 20];
    while rest > 1 << 20 {
        let got = out.read(&mut piece).unwrap();
        assert!(got > 0, "{rest} bytes are missing");
        rest -= got as u64;
    }
    for (who, pid, before) in [("kernel", kernel, before), ("client", flood.id().into(), begun)] {
        // The kernel gives memory back meanwhile, and then its peak is counted anew.
        let growth = peak_bytes(pid).saturating_sub(before);
        assert!(growth < GROWTH_MAX, "the {who} took {growth} bytes more");
    }
    assert_eq!(std::io::copy(&mut out, &mut std::io::sink()).unwrap(), rest);
    assert!(flood.wait().unwrap().success());
    site.ok(&["kernel", "stop"]);
}

#[test]
fn a_room_is_paused_and_a_left_command_ends() {
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
    assert!(text(&twice).contains(&format!("the sandbox of {task} is paused already")), "{}", text(&twice));
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

#[test]
fn a_pause_outlives_the_kernel() {
    let site = site();
    site.ok(&["kernel", "stop"]);
    let mut kernel = site.kernel(None);
    let brain =
        site.script("call shell.run command=[\"sleep\",\"600\"]\ncall shell.run command=[\"sh\",\"-c\",\"echo > two\"]\ndone both\n");
    let task = site.json(&["act", "wait", "--brain", &brain])["task"].as_str().unwrap().to_owned();
    let rooms = || site.json(&["sandbox", "ps"])["rooms"].clone();
    wait_until("it runs", || rooms()[0]["jobs"][0]["os_pid"].is_number());
    site.ok(&["sandbox", "pause", &task]);
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    // The next kernel takes the task up, in a room that stands still.
    wait_until("its room is open again", || rooms()[0]["paused"] == true);
    assert_eq!(rooms()[0]["task"], task.as_str());
    site.ok(&["sandbox", "resume", &task]);
    assert!(site.ok(&["journal", "log"]).contains("workspace.resumed"));
    // What was lost with the kernel is not repeated unasked; the rest goes on.
    wait_until("it asks", || site.count("review.asked") == 1);
    site.ok(&["review", "deny", "r-1"]);
    wait_until("it is done", || site.count("merge.proposed") == 1);
    assert_eq!(site.json(&["diff", &task])["files"][0]["path"], "two");
    site.ok(&["kernel", "stop"]);
}

/// Types a line.
fn enter(screen: &Screen, line: &str) {
    screen.press(&["-l", line]);
    screen.press(&["Enter"]);
}

#[test]
fn a_shell_has_the_terminal_and_gives_it_back() {
    let site = site();
    let screen = Screen::open(&site, "xterm-256color", "sandbox shell --discard");
    screen.shows(&["$"]);
    enter(&screen, r"printf '\033[31mr''ed\033[0m\n'; stty size; test -t 0 && echo is''-one");
    let text = screen.shows(&["red", "40 100", "is-one"]);
    enter(&screen, "echo name''d-$(tty)");
    screen.shows(&["named-/dev/pts/0"]);
    assert!(!text.contains("no job control"), "{text}");
    let coloured = screen.tmux().args(["capture-pane", "-p", "-e"]).output().unwrap();
    assert!(String::from_utf8_lossy(&coloured.stdout).contains("\x1b[31mred"), "{}", String::from_utf8_lossy(&coloured.stdout));
    // Ctrl-C ends what runs, not the shell.
    enter(&screen, "echo be''gun; sleep 600");
    screen.shows(&["begun"]);
    screen.press(&["C-c"]);
    enter(&screen, "echo code''-$?");
    screen.shows(&["code-130"]);
    // Another size reaches it while something runs.
    enter(&screen, "until stty size | grep '30'' 90'; do echo wai''ts; sleep 0.1; done");
    screen.shows(&["waits"]);
    assert!(screen.tmux().args(["resize-window", "-x", "90", "-y", "30"]).status().unwrap().success());
    screen.shows(&["30 90"]);
    enter(&screen, "clear; exit 7");
    let text = screen.shows(&["left with 7", "\necho"]);
    assert!(!text.contains("-icanon") && !text.contains("-echo"), "the terminal was not given back:\n{text}");
}

/// A command on a terminal has one, as a shell has; in a pipe it has none.
#[test]
fn a_command_on_a_terminal_has_one() {
    let site = site();
    let screen = Screen::open(
        &site,
        "xterm-256color",
        "sandbox run --discard -- sh -c 'echo name''d-$(tty); stty size; read x; echo go''t-$x; exit 3'",
    );
    screen.shows(&["named-/dev/pts/0", "40 100"]);
    enter(&screen, "typed");
    let text = screen.shows(&["got-typed", "left with 3", "\necho"]);
    assert!(!text.contains("-icanon") && !text.contains("-echo"), "the terminal was not given back:\n{text}");
    // Ctrl-C reaches what runs, and only that.
    let screen = Screen::open(
        &site,
        "xterm-256color",
        "sandbox run --discard -- sh -c 'trap \"echo he''ard; exit 5\" INT; echo be''gun; while :; do sleep 0.1; done'",
    );
    screen.shows(&["begun"]);
    screen.press(&["C-c"]);
    screen.shows(&["heard", "left with 5"]);
    // Control: without a terminal outside there is none inside.
    assert!(crate::common::text(&site.skep(&["sandbox", "run", "--discard", "--", "sh", "-c", "tty; true"])).contains("not a tty"));
}

#[test]
fn a_shell_without_its_kernel_gives_the_terminal_back() {
    let site = site();
    site.ok(&["kernel", "stop"]);
    let mut kernel = site.kernel(None);
    let screen = Screen::open(&site, "xterm-256color", "sandbox shell");
    screen.shows(&["$"]);
    enter(&screen, "stty -a | grep -o 'i''canon'; echo he''re");
    screen.shows(&["here"]);
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    let text = screen.shows(&["left with ", "\necho"]);
    assert!(!text.contains("left with 0") && !text.contains("-icanon") && !text.contains("-echo"), "{text}");
}
