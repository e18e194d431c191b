//! The inbox in a real terminal: tmux shows what a person would see and presses the keys.

use crate::common::Site;
use crate::common::screen::Screen;
use std::time::Duration;

const ASKS: &str = "\
capabilities:
- {name: all, match: {syscall: '*'}, action: allow, reason: a test}
- {name: ask-src, match: {syscall: fs.write, path_glob: 'src/**'}, action: require_review, reason: source is precious}
";

/// A project that asks before `src/` is written, and a task that waits for the answer.
fn asking(script: &str) -> (Site, String) {
    let tests = "test:\n  command: [sh, -c, 'echo 1..1; echo ok 1']\nmerge: {safe: ['src/**']}\n";
    let site = Site::new(&[(".skep/policy.yaml", ASKS), ("skep.yml", tests), ("src/a.txt", "old\n")]);
    site.trust();
    let brain = site.script(script);
    let task = site.json(&["act", "write", "--brain", &brain])["task"].as_str().unwrap().to_owned();
    while site.count("task.parked") == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    (site, task)
}

#[test]
fn a_key_answers_and_the_task_goes_on() {
    let script = "call fs.write path=src/a.txt content=\"one \\u001b[2J\\u202e\\n\"\ncall fs.write path=src/a.txt content=\"two\\n\"\ndone wrote it\n";
    let (site, task) = asking(script);
    let screen = Screen::open(&site, "xterm-256color", "review");
    let text = screen.shows(&["inbox  1 of 1 question", "[a]llow this call", "[q]uit"]);
    for part in ["◍ r-1  Writing src/a.txt", "source is precious", "ask-src", "fs.write on /src/a.txt", "one \\x1b[2J\\u{202e}"] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    assert!(!text.contains('\u{202e}'), "the agent's own marks reached the terminal:\n{text}");
    // One answer for the session lets both writes pass, and their merge, which asks about nothing else.
    screen.press(&["s"]);
    screen.shows(&["r-1 allowed for this task", "nothing waits"]);
    let story = site.ok(&["watch", &task]);
    assert!(story.contains("✓ done  wrote it"), "{story}");
    assert_eq!((site.count("review.asked"), site.read("src/a.txt").as_str()), (1, "two\n"));
    screen.press(&["q"]);
    let text = screen.shows(&["✓ r-1 allowed by operator", "left with 0", "\necho\n"]);
    assert!(!text.contains("-icanon") && !text.contains("-echo"), "the terminal was not given back:\n{text}");
}

#[test]
fn two_reviewers_and_one_answer() {
    let (site, _) = asking("call fs.write path=src/a.txt content=x\ncall fs.write path=src/b.txt content=x\ndone\n");
    let screen = Screen::open(&site, "xterm-256color", "review");
    screen.shows(&["r-1", "[a]llow this call"]);
    screen.press(&["d"]);
    screen.press(&["-l", "because of"]);
    screen.shows(&["deny  enter goes on", "reason  because of"]);
    // Meanwhile somebody else answers; the half-typed no is about nothing any more, and the next question comes by itself.
    site.ok(&["review", "allow", "r-1"]);
    let text = screen.shows(&["r-1 was allowed by operator meanwhile", "◍ r-2  Writing src/b.txt", "[a]llow this call"]);
    assert!(!text.contains("because of"), "{text}");
    screen.press(&["D"]);
    screen.shows(&["deny for good"]);
    screen.press(&["-l", "not this one"]);
    screen.press(&["Enter", "Enter"]);
    screen.shows(&["r-2 denied for good in this repository"]);
    let grants = site.json(&["grant", "list"]);
    assert_eq!(grants["bans"][0]["reason"], "not this one", "{grants}");
    assert_eq!(grants["bans"][0]["scope"]["of"], "zone", "{grants}");
    screen.press(&["C-c"]);
    screen.shows(&["left with 0"]);
}

#[test]
fn a_terminal_that_only_knows_lines() {
    let (site, _) = asking("call fs.write path=src/a.txt content=x\ndone\n");
    let screen = Screen::open(&site, "dumb", "review");
    screen.shows(&["◍ r-1  Writing src/a.txt", "[a]llow this call"]);
    screen.press(&["d", "Enter"]);
    screen.shows(&["reason (the brain is told; may stay empty)"]);
    screen.press(&["-l", "not on a monday"]);
    screen.press(&["Enter"]);
    screen.shows(&["r-1 denied", "nothing waits", "left with 0"]);
    let answered = site.records(&["--kind", "review.answered"]);
    assert_eq!(answered[0]["payload"]["reason"], "not on a monday");
}

#[test]
fn in_a_pipe_it_is_a_list() {
    let (site, _) = asking("call fs.write path=src/a.txt content=x\ndone\n");
    let listed = site.ok(&["review"]);
    assert!(listed.contains("◍ r-1  open") && listed.contains("Writing src/a.txt") && !listed.contains('\x1b'), "{listed}");
    assert_eq!(site.json(&["review"])["reviews"][0]["review"], "r-1");
}
