//! Tests first at the prompt: modes, states, reviews and commits as a person sees them on a terminal.

use crate::common::Site;
use crate::common::provider::eventually;
use crate::common::screen::{SMALL, Screen};
use crate::test_first::{script_of_native, site};
use serde_json::json;

/// A look at the folder waits for a person: there a task can be caught in the middle of a phase.
const HOLD: &str = "- {name: hold, match: {syscall: fs.list}, action: require_review, reason: lists are looked at}\n";

/// The scenario of strict mode with a list in its test phase; and tasks that write one file.
fn script() -> String {
    let plan = "  call plan.complete\nthen\n";
    let strict = script_of_native().replacen(plan, &format!("{plan}  call list path=.\nthen\n"), 1);
    let tries =
        |word: &str| format!("on \"{word}\"\n{plan}  call write path={word}.txt content=\"x\\n\"\nthen\n{plan}  say Tried {word}.\n");
    format!("{strict}{}{}", tries("alpha"), tries("omega"))
}

/// Waits until this holds of the last line that is not empty.
#[track_caller]
fn last_line(screen: &Screen, what: &str, holds: impl Fn(&str) -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while !holds(screen.text().trim_end().lines().last().unwrap_or_default().trim_end()) {
        assert!(std::time::Instant::now() < end, "{what} is not the last line:\n{}", screen.text());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Types a line where the cursor stands, and waits until it was taken.
#[track_caller]
fn enter(screen: &Screen, line: &str) {
    let typed = format!("] > {line}");
    screen.press(&["-l", line]);
    last_line(screen, line, |last| last.ends_with(&typed));
    screen.press(&["Enter"]);
    last_line(screen, "what follows", |last| !last.ends_with(&typed));
}

/// Waits until the next line can be typed, with this before it.
#[track_caller]
fn stands_at(screen: &Screen, line: &str) {
    last_line(screen, line, |last| last == line);
}

fn open() -> (Site, Screen, crate::common::model_server::ModelServer) {
    let (site, server) = site(None, &script(), HOLD);
    let screen = Screen::sized(&site, "xterm-256color", "prompt --brain native", SMALL);
    stands_at(&screen, "[native] [idle] >");
    (site, screen, server)
}

#[test]
fn strict_from_the_plan_to_the_commit() {
    let (site, screen, _server) = open();
    enter(&screen, "/strict");
    stands_at(&screen, "[native] [strict] [idle] >");
    enter(&screen, "Add error handling to parseConfig");
    stands_at(&screen, "[native] [strict] [test_writing] [asks] >");
    let told = screen.history();
    for part in ["● [strict] [planning]", "● [strict] [test_writing]  the plan is complete", "lists are looked at"] {
        assert!(told.contains(part), "{part}:\n{told}");
    }
    enter(&screen, "/status");
    screen.shows(&["task-1: [strict] [test_writing]", "worker.1"]);
    stands_at(&screen, "[native] [strict] [test_writing] [asks] >");
    enter(&screen, "/approve");
    stands_at(&screen, "[native] [strict] [reviewing] >");
    let told = screen.history();
    for part in [
        "✗ Writing src/utils.mjs  refused",
        "the kernel ran the tests (red): failed, 1 failed, 1 passed",
        "● [strict] [code_writing]",
        "the kernel ran the tests (green): passed, 0 failed, 2 passed",
        "red: 1 of 2 tests fail",
        "green: 2 tests pass",
        "+  if (pairs.some(",
        "/approve takes it",
    ] {
        assert!(told.contains(part), "{part}:\n{told}");
    }
    enter(&screen, "/status");
    screen.shows(&["task-1: [strict] [reviewing]", "red: 1 failed, 1 passed"]);
    stands_at(&screen, "[native] [strict] [reviewing] >");
    enter(&screen, "/budget");
    screen.shows(&["without a budget of their own"]);
    stands_at(&screen, "[native] [strict] [reviewing] >");
    enter(&screen, "/approve commit");
    stands_at(&screen, "[native] [strict] [idle] >");
    let told = screen.history();
    for part in ["✓ merged 2 files", "✓ committed ", "● [strict] [committing]", "● [strict] [idle]"] {
        assert!(told.contains(part), "{part}:\n{told}");
    }
    assert!(site.ok(&["verify"]).contains("✓ tested"), "{}", site.ok(&["verify"]));
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
}

#[test]
fn rejected_work_is_kept_and_its_state_is_idle() {
    let (site, screen, _server) = open();
    enter(&screen, "/strict");
    stands_at(&screen, "[native] [strict] [idle] >");
    enter(&screen, "Add error handling to parseConfig");
    stands_at(&screen, "[native] [strict] [test_writing] [asks] >");
    enter(&screen, "/approve");
    stands_at(&screen, "[native] [strict] [reviewing] >");
    enter(&screen, "/reject not like this");
    stands_at(&screen, "[native] [strict] [idle] >");
    assert!(screen.history().contains("rejected by operator"), "{}", screen.history());
    assert!(!site.project().join("tests/utils.test.mjs").exists());
    let kept = site.ok(&["diff", "task-1"]);
    assert!(kept.contains("tests/utils.test.mjs"), "what was refused is kept: {kept}");
}

/// What the project says counts for the next task as soon as it is trusted, and stands before the line.
#[test]
fn the_mode_of_the_project_is_shown_when_it_is_trusted() {
    let (site, screen, _server) = open();
    site.write("skep.yml", "discipline: strict\ntest: {command: [node, --test]}\n");
    enter(&screen, "/budget");
    stands_at(&screen, "[native] [idle] >");
    site.trust();
    enter(&screen, "/budget");
    stands_at(&screen, "[native] [strict] [idle] >");
    enter(&screen, "Add error handling to parseConfig");
    stands_at(&screen, "[native] [strict] [test_writing] [asks] >");
}

#[test]
fn explore_is_unverified_and_debug_needs_a_yes() {
    let (site, screen, _server) = open();
    let switches =
        || site.records(&["--kind", "discipline.switched"]).iter().map(|record| record["payload"]["mode"].clone()).collect::<Vec<_>>();
    enter(&screen, "/explore");
    stands_at(&screen, "[native] [explore] [idle] >");
    enter(&screen, "try alpha");
    stands_at(&screen, "[native] [explore] [reviewing] >");
    assert!(screen.history().contains("UNVERIFIED: it was made in explore mode"), "{}", screen.history());
    // The task that waits is switched only after a yes; then its merge waits on.
    enter(&screen, "/debug");
    stands_at(&screen, "[native] [explore] [reviewing] [asks] >");
    assert!(screen.history().contains("debug mode runs what the other modes never run"), "{}", screen.history());
    assert_eq!(switches(), [json!("explore")]);
    enter(&screen, "/approve");
    stands_at(&screen, "[native] [debug] [reviewing] >");
    assert!(screen.history().contains("task-1: debug"), "{}", screen.history());
    assert_eq!(switches(), [json!("explore"), json!("debug")]);
    enter(&screen, "/reject");
    stands_at(&screen, "[native] [debug] [idle] >");
    // So does the next task, which begins after the yes and not before.
    let tasks = || site.json(&["list", "tasks", "--all"])["tasks"].as_array().unwrap().len();
    enter(&screen, "try omega");
    stands_at(&screen, "[native] [debug] [asks] >");
    assert_eq!(tasks(), 1);
    enter(&screen, "/approve");
    stands_at(&screen, "[native] [debug] [reviewing] >");
    enter(&screen, "/approve");
    stands_at(&screen, "[native] [debug] [idle] >");
    eventually("it is merged", || site.project().join("omega.txt").exists());
    // After a no it does not begin at all.
    enter(&screen, "try alpha");
    stands_at(&screen, "[native] [debug] [asks] >");
    enter(&screen, "/reject not now");
    stands_at(&screen, "[native] [debug] [idle] >");
    assert_eq!((tasks(), site.count("review.answered")), (2, 5));
    enter(&screen, "/quit");
    screen.shows(&["left with 0"]);
}
