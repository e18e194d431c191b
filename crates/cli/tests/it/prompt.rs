//! The prompt that `skep` alone opens, on a real terminal with the built-in brain on a scripted model.

use crate::common::Site;
use crate::common::provider::eventually;
use crate::common::screen::{SMALL, Screen};
use crate::native;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// What the model says and does: works where it is asked to, answers questions, and hangs where it is told to wait.
const MODEL: &str = "\
on \"tidy\"
  say <<END
# Plan

I write **one** file, then `stop`.
END
  call write path=b.txt content=\"new\\n\"
then
  say <<END
Wrote it:

- b.txt
END
on \"different\"
  call write path=b.txt content=\"other\\n\"
then
  say Changed it.
on \"wait\"
  delay 10m
  say Too late.
on \"where\"
  say It is in a.txt.
otherwise
  say I did nothing.
";

fn site() -> Site {
    let site = native::site(MODEL, "", &[("a.txt", "one\n"), ("src/main.rs", "fn main() {}\n")]).0;
    site.git(&["config", "user.name", "Ann"]);
    site.git(&["config", "user.email", "ann@x.y"]);
    site
}

fn open(site: &Site) -> Screen {
    let screen = Screen::sized(site, "xterm-256color", "prompt --brain native", SMALL);
    screen.shows(&["[native] [idle] >"]);
    screen
}

fn enter(screen: &Screen, line: &str) {
    screen.press(&["-l", line]);
    screen.press(&["Enter"]);
}

#[test]
fn a_conversation_with_a_review_that_is_answered_where_it_is_asked() {
    let site = site();
    let screen = open(&site);
    enter(&screen, "tidy up");
    screen.shows(&["[native] [reviewing] >"]);
    let told = screen.history();
    for part in
        ["✓ task-1 → worker.1", "# Plan", "I write **one** file, then `stop`.", "✓ Writing b.txt (", "- b.txt", "+new", "/approve takes it"]
    {
        assert!(told.contains(part), "{part}:\n{told}");
    }
    assert!(!site.project().join("b.txt").exists(), "nothing is merged before the answer");
    assert!(told.contains("# Plan\n\nI write"), "paragraphs stay apart:\n{told}");
    // What should be different is said to the same task.
    enter(&screen, "make it different");
    screen.shows(&["said to task-1", "Changed it.", "+other", "[reviewing] >"]);
    enter(&screen, "/approve commit tidied");
    screen.shows(&["✓ merged 1 file", "✓ done", "[native] [idle] >"]);
    assert_eq!(site.read("b.txt"), "other\n");
    assert!(site.ok(&["verify"]).contains("is the commit that the kernel made of task-1"));
    // A question changes nothing, and has no review.
    enter(&screen, "? where is it");
    screen.shows(&["It is in a.txt.", "task-2"]);
    assert_eq!(site.task("task-2")["mode"], "ask");
    enter(&screen, "/undo task-1");
    eventually("it is taken back", || !site.project().join("b.txt").exists());
    screen.shows(&["[native] [idle] >"]);
    enter(&screen, "/quit");
    screen.shows(&["left with 0", "icanon", "echo"]);
    assert!(!screen.text().contains("-icanon") && !screen.text().contains("-echo"), "{}", screen.text());
}

#[test]
fn a_no_keeps_the_changes_and_nothing_waits_twice() {
    let site = site();
    let screen = open(&site);
    enter(&screen, "/approve");
    screen.shows(&["nothing waits for your answer here"]);
    enter(&screen, "tidy up");
    screen.shows(&["[native] [reviewing] >"]);
    enter(&screen, "/approve nonsense");
    screen.shows(&["`/approve nonsense` means nothing"]);
    enter(&screen, "/reject not now");
    screen.shows(&["rejected by operator", "[native] [idle] >"]);
    assert!(!site.project().join("b.txt").exists());
    assert!(site.ok(&["diff", "task-1"]).contains("+new"), "what was refused is kept");
    enter(&screen, "/aprove");
    screen.shows(&["there is no `/aprove`", "/approve, if you meant that"]);
    enter(&screen, "/help");
    screen.shows(&["/approve [commit [MESSAGE]]", "/quit"]);
    enter(&screen, "/status");
    screen.shows(&["worker.1"]);
}

#[test]
fn a_question_of_a_call_is_answered_too() {
    let policy = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow, reason: a test}\n\
                  - {name: hold, match: {syscall: fs.write}, action: require_review, reason: writes are looked at}\n";
    let site = native::site(MODEL, "", &[("a.txt", "one\n")]).0;
    site.write(".skep/policy.yaml", policy);
    site.trust();
    let screen = open(&site);
    enter(&screen, "tidy up");
    screen.shows(&["writes are looked at", "[native] [asks] >"]);
    enter(&screen, "something else");
    screen.shows(&["waits for your answer"]);
    enter(&screen, "/approve");
    screen.shows(&["✓ Writing b.txt"]);
    screen.shows(&["- b.txt"]);
}

#[test]
fn ctrl_c_stops_the_turn_and_twice_it_leaves() {
    let site = site();
    let screen = open(&site);
    enter(&screen, "wait for it");
    screen.shows(&["ctrl-c stops it"]);
    screen.press(&["C-c"]);
    screen.shows(&["cancelled by operator", "[native] [idle] >"]);
    assert!(site.is("task-1", "cancelled"));
    // At the prompt the first takes what is typed, and the second leaves.
    screen.press(&["-l", "half a line"]);
    screen.shows(&["half a line"]);
    screen.press(&["C-c"]);
    screen.shows(&["ctrl-c again leaves"]);
    screen.press(&["C-c"]);
    screen.shows(&["left with 130", "icanon", "echo"]);
    assert_eq!(site.json(&["list", "tasks"])["tasks"].as_array().unwrap().len(), 1);
    // In a turn, the second leaves as well.
    let screen = open(&site);
    enter(&screen, "wait again");
    screen.shows(&["ctrl-c stops it"]);
    screen.press(&["C-c", "C-c"]);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !screen.text().contains("left with 130") {
        assert!(std::time::Instant::now() < end, "{}", screen.text());
        // It may have been stopped before the second was pressed.
        if screen.text().trim_end().ends_with('>') {
            screen.press(&["C-c"]);
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    eventually("it is stopped", || site.is("task-2", "cancelled"));
}

#[test]
fn many_lines_typed_or_pasted_are_one_task() {
    let site = site();
    let screen = open(&site);
    enter(&screen, "first line \\");
    enter(&screen, "second line");
    screen.shows(&["I did nothing.", "[native] [idle] >"]);
    assert_eq!(site.task("task-1")["prompt"], "first line \nsecond line");
    let many: Vec<String> = (1..=40).map(|n| format!("pasted line {n}")).collect();
    assert!(screen.tmux().args(["set-buffer", &many.join("\n")]).status().unwrap().success());
    assert!(screen.tmux().args(["paste-buffer", "-p"]).status().unwrap().success());
    screen.shows(&["pasted line 40"]);
    assert_eq!(site.json(&["list", "tasks"])["tasks"].as_array().unwrap().len(), 1, "a paste is not sent by itself");
    screen.press(&["Enter"]);
    eventually("it is queued", || site.json(&["list", "tasks"])["tasks"].as_array().unwrap().len() == 2);
    assert_eq!(site.task("task-2")["prompt"], many.join("\n"));
    screen.shows(&["I did nothing.", "✓ done", "[native] [idle] >"]);
    // An open fence goes on.
    for line in ["```rust", "code", "```"] {
        enter(&screen, line);
    }
    eventually("it is queued", || site.json(&["list", "tasks"])["tasks"].as_array().unwrap().len() == 3);
    assert_eq!(site.task("task-3")["prompt"], "```rust\ncode\n```");
}

#[test]
fn what_was_typed_is_there_at_the_next_start_for_its_owner_alone() {
    let site = site();
    let screen = open(&site);
    enter(&screen, "where is it kept");
    screen.shows(&["It is in a.txt.", "✓ done", "[native] [idle] >"]);
    enter(&screen, " /status");
    screen.shows(&["worker.1"]);
    enter(&screen, "/quit");
    screen.shows(&["left with 0"]);
    let file = site.home().join("history");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "\"where is it kept\"\n\"/quit\"\n");
    let screen = open(&site);
    screen.press(&["Up", "Up"]);
    screen.shows(&["[idle] > where is it kept"]);
    screen.press(&["Enter"]);
    eventually("it is asked again", || site.json(&["list", "tasks"])["tasks"].as_array().unwrap().len() == 2);
}

#[test]
fn tab_completes_commands_paths_and_brains() {
    let site = site();
    let screen = open(&site);
    screen.press(&["-l", "/appr"]);
    screen.press(&["Tab"]);
    screen.shows(&["> /approve"]);
    screen.press(&["C-u"]);
    screen.press(&["-l", "look at sr"]);
    screen.press(&["Tab"]);
    screen.shows(&["> look at src/"]);
    screen.press(&["Tab"]);
    screen.shows(&["> look at src/main.rs"]);
    screen.press(&["C-u"]);
    // Brains are asked for beside everything else.
    screen.press_while(&["C-u", "/", "b", "r", "a", "i", "n", "Space", "n", "a", "Tab"], |text| !text.contains("> /brain native"));
    screen.press(&["Enter"]);
    screen.shows(&["your next tasks have the brain native"]);
}

#[test]
fn another_size_and_no_colours() {
    let site = site();
    let screen = open(&site);
    assert!(screen.tmux().args(["resize-window", "-x", "60", "-y", "20"]).status().unwrap().success());
    enter(&screen, "where is it, said in a line that is longer than sixty columns are");
    let text = screen.shows(&["It is in a.txt.", "[native] [idle] >"]);
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    let escapes = |screen: &Screen| {
        let output = screen.tmux().args(["capture-pane", "-p", "-e", "-S", "-"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(!escapes(&screen).contains("\x1b["), "NO_COLOR is set: {}", escapes(&screen));
    let (skep, home) = (env!("CARGO_BIN_EXE_skep"), site.home());
    let coloured = Screen::shell(&site, &format!("{skep} prompt --brain native; sleep 600"), SMALL, |tmux: &mut Command| {
        tmux.env("SKEP_HOME", &home).env_remove("NO_COLOR");
    });
    coloured.shows(&["[native] [idle] >"]);
    enter(&coloured, "tidy up");
    coloured.shows(&["[native] [reviewing] >"]);
    let told = escapes(&coloured);
    assert!(told.contains("\x1b[1mPlan") && !told.contains("# Plan") && told.contains("• b.txt"), "{told}");
    let background = regex::Regex::new("\x1b\\[([0-9;]*;)?(4[0-7]|48;[0-9;]*|10[0-7]|7)m").unwrap();
    assert!(!background.is_match(&told), "no background: {told}");
}

#[test]
fn a_kernel_that_is_killed_meanwhile_is_started_again_and_the_task_goes_on() {
    let (site, answers) = native::site(MODEL, "", &[("a.txt", "one\n")]);
    site.ok(&["kernel", "stop"]);
    let mut kernel = site.kernel(None);
    let screen = open(&site);
    enter(&screen, "wait for it");
    screen.shows(&["ctrl-c stops it"]);
    std::fs::write(&answers, MODEL.replace("  delay 10m\n", "")).unwrap();
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    screen.shows(&["the kernel has ended; it is started again", "Too late.", "✓ done", "[native] [idle] >"]);
    // Between two lines it may go as well.
    site.ok(&["kernel", "stop"]);
    enter(&screen, "? where");
    screen.shows(&["It is in a.txt."]);
}

#[test]
fn in_a_pipe_the_bare_name_prints_help() {
    let site = Site::new(&[]);
    let output = site.skep(&[]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage:") || String::from_utf8_lossy(&output.stdout).contains("Usage:"));
    assert!(site.fails(2, &["prompt"]).contains("the prompt needs a terminal"));
    // On a terminal it is the prompt.
    let skep = env!("CARGO_BIN_EXE_skep");
    let screen = Screen::run(&site, &format!("{skep}; echo \"left with $?\"; sleep 600"), SMALL);
    screen.shows(&["[idle] >"]);
    screen.press(&["C-d"]);
    screen.shows(&["left with 0"]);
}

#[test]
fn a_pinned_text_is_part_of_every_later_prompt_of_the_worker() {
    let model = format!("on \"no tabs please\"\n  say I saw the pin.\n{MODEL}");
    let site = native::site(&model, "", &[("a.txt", "one\n")]).0;
    let screen = open(&site);
    enter(&screen, "? where is it");
    screen.shows(&["It is in a.txt.", "✓ done"]);
    enter(&screen, "/pin");
    screen.shows(&["nothing is pinned"]);
    enter(&screen, "/pin no tabs please");
    screen.shows(&[" 1  no tabs please"]);
    enter(&screen, "? where is it now");
    screen.shows(&["I saw the pin."]);
    let pinned = site.records(&["--kind", "worker.pinned"]);
    assert_eq!(pinned[0]["payload"]["pins"], serde_json::json!(["no tabs please"]));
    // It outlives the kernel, and goes when it is given up.
    screen.shows(&["[native] [idle] >"]);
    site.ok(&["kernel", "stop"]);
    enter(&screen, "/pin");
    screen.shows(&[" 1  no tabs please"]);
    enter(&screen, "/unpin 7");
    screen.shows(&["nothing is pinned as 7"]);
    enter(&screen, "/unpin 1");
    eventually("it is given up", || site.count("worker.pinned") == 2);
    screen.press(&["C-l"]);
    enter(&screen, "? where is it at last");
    screen.shows(&["It is in a.txt."]);
}
