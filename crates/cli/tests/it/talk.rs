//! A person talks with a brain on the brain's own terminal: keys, sizes, the way out, and what is left of it.

use crate::common::provider::eventually;
use crate::common::screen::Screen;
use crate::common::{Site, text};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A program with a screen of its own. Each key does one thing.
const FAKE: &str = r#"#!/usr/bin/python3
import os, shutil, signal, sys, tty
tty.setraw(0)
out = lambda text: (sys.stdout.write(text), sys.stdout.flush())
size = lambda: "size %dx%d" % os.get_terminal_size(0)
seen = []
def draw(word):
    seen.append(word)
    out("\x1b[2J\x1b[H" + size() + "\r\n" + "\r\n".join(seen[-8:]) + "\r\n")
signal.signal(signal.SIGWINCH, lambda *_: draw("resized"))
out("\x1b[?1049h\x1b[?2004h\x1b]52;c;c2VjcmV0\x07\x1bPq#0\x1b\\")
draw("ready " + " ".join(a for a in sys.argv[1:3]))
if "--resume" in sys.argv:
    draw("resumes " + sys.argv[sys.argv.index("--resume") + 1])
while True:
    key = os.read(0, 64)
    if key == b"q":
        out("\x1b[?2004l\x1b[?1049l")
        sys.exit(0)
    elif key == b"k":
        os.kill(os.getpid(), signal.SIGKILL)
    elif key == b"w":
        open("talked.txt", "w").write("by talk\n")
        draw("wrote")
    elif key == b"s":
        folder = os.path.expanduser("~/.claude/projects/p")
        os.makedirs(folder, exist_ok=True)
        open(folder + "/11111111-2222-3333-4444-555555555555.jsonl", "w").write("{}\n")
        draw("saved")
    elif key == b"i":
        out("\x1b[?1049l\r\nfirst row\r\nsecond row\r\nlast row\x1b[2A")
    elif key == b"\x03":
        draw("ctrl-c")
    else:
        draw("key " + repr(key.decode("utf-8", "replace")))
"#;

pub fn site() -> Site {
    site_of(&[])
}

/// The same with these files too, which are trusted.
pub fn site_of(files: &[(&str, &str)]) -> Site {
    let all: Vec<(&str, &str)> = [("a.txt", "a\n")].into_iter().chain(files.iter().copied()).collect();
    let site = Site::new(&all);
    let folder = site.folder.path().join("fake");
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("tui");
    fs::write(&program, FAKE).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(site.home()).unwrap();
    let model = folder.join("model");
    fs::write(&model, "say Nobody asks me.\n").unwrap();
    let config = format!(
        "providers: {{s: {{url: 'script:{}', dialect: anthropic, free: true}}}}\nbrain: claude\nbrains: {{claude: {{command: ['{}']}}}}\n",
        model.display(),
        program.display()
    );
    fs::write(site.home().join("config.yml"), config).unwrap();
    if !files.is_empty() {
        site.trust();
    }
    site
}

fn of(site: &Site, kind: &str) -> Vec<Value> {
    site.records(&["--kind", kind]).into_iter().map(|record| record["payload"].clone()).collect()
}

fn talk(site: &Site, arguments: &str) -> Screen {
    let screen = Screen::sized(site, "xterm-256color", arguments, (80, 24));
    screen.shows(&["ready --permission-mode", "size 80x24"]);
    screen
}

/// The real client, on a scripted model: its hooks ask at the door, and the next task goes on with the conversation.
#[test]
fn claude_talks_and_its_own_tools_ask_at_the_door() {
    let site = Site::new(&[("a.txt", "a\n"), (".skep/policy.yaml", DENIES)]);
    let model = site.folder.path().join("model");
    fs::write(&model, WRITES).unwrap();
    fs::create_dir_all(site.home()).unwrap();
    let program = crate::npm::installed("claude", "@anthropic-ai/claude-code@2.1.197");
    let config = format!(
        "providers:\n  s: {{url: 'script:{}', dialect: [anthropic], free: true}}\nmodels: {{tactical: s/any}}\n\
         brain: claude\nbrains: {{claude: {{command: ['{}']}}}}\n",
        model.display(),
        program.display()
    );
    fs::write(site.home().join("config.yml"), config).unwrap();
    site.trust();
    let screen = Screen::sized(&site, "xterm-256color", "talk", (80, 24));
    screen.shows(&["Claude Code", "❯", "for shortcuts"]);
    screen.types("Please write the greeting");
    screen.press_until(&["Enter"], &["denied by `no-greetings`", "I was told why."]);
    let resized = screen.tmux().args(["resize-window", "-x", "100", "-y", "30"]).status().unwrap();
    assert!(resized.success());
    screen.shows(&["─".repeat(100).as_str(), "I was told why."]);
    screen.types("/exit");
    screen.shows(&["Exit the CLI"]);
    screen.press_until(&["Enter"], &["its changes wait", "left with 0"]);
    is_restored(&screen);
    drop(screen);

    let admitted = of(&site, "call.admitted");
    let write = admitted.iter().find(|call| call["tool"] == "fs.write").unwrap_or_else(|| panic!("{admitted:?}"));
    assert_eq!((&write["hands"], &write["paths"]), (&json!("caller"), &json!(["bye.txt"])), "its own hands, through the door");
    let refused = of(&site, "call.refused");
    assert!(refused.iter().any(|call| call["tool"] == "fs.write" && call["rules"] == json!(["no-greetings"])), "{refused:?}");
    assert_eq!(of(&site, "brain.talked")[0]["ungated"], false);
    let log = site.ok(&["log"]);
    assert!(log.contains("I was told why.") && !log.contains("ungated"), "{log}");
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!((site.read("bye.txt"), site.project().join("hello.txt").exists()), ("bye\n".to_owned(), false));

    site.ok(&["act", "Nothing more", "--await"]);
    let runs: Vec<Value> = of(&site, "call.admitted").into_iter().filter(|call| call["tool"] == "brain.run").collect();
    let words: Vec<&str> = runs[1]["input"]["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(words.contains(&"--resume"), "in the same conversation: {words:?}");
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

pub const DENIES: &str = "capabilities:\n\
    - {name: all, match: {syscall: '*'}, action: allow}\n\
    - {name: no-greetings, match: {syscall: 'fs.*', path_glob: hello.txt}, except: [{syscall: fs.read}], action: deny, reason: greetings are for people, hint: write bye.txt}\n\
    - {name: merge, match: {syscall: merge.apply}, action: require_review}\n";

pub const WRITES: &str = "on \"greeting\"\n  call write path=hello.txt content=\"hello\\n\"\nthen\n  on result contains \"greetings are for people\"\n    \
                      call write path=bye.txt content=\"bye\\n\"\n  else\n    say Nobody told me why.\nthen\n  on result ok\n    say I was told why.\n  \
                      else\n    say That was refused too.\n";

/// The terminal as it was: its line discipline, its first screen, no paste in brackets.
pub fn is_restored(screen: &Screen) {
    let shown = screen.shows(&["left with", "\nicanon", "\necho"]);
    assert!(!shown.contains("-icanon") && !shown.contains("-echo"), "{shown}");
    let flags = screen.tmux().args(["display-message", "-p", "#{alternate_on} #{bracket_paste_flag} #{cursor_flag}"]).output().unwrap();
    let flags = text(&flags);
    assert!(flags.starts_with("0 "), "{flags}");
    assert!(!flags.starts_with("0 1"), "{flags}");
}

#[test]
fn keys_and_sizes_reach_the_brain_and_its_changes_wait() {
    let site = site();
    let screen = talk(&site, "talk");
    screen.press(&["h"]);
    screen.shows(&["key 'h'"]);
    screen.press(&["-l", "grün€"]);
    screen.shows(&["key 'grün€'"]);
    screen.press(&["C-c"]);
    screen.shows(&["ctrl-c"]);
    let resized = screen.tmux().args(["resize-window", "-x", "100", "-y", "30"]).status().unwrap();
    assert!(resized.success());
    screen.shows(&["resized", "size 100x30"]);
    // Paste comes in brackets, as the program asked.
    assert!(screen.tmux().args(["set-buffer", "pasted"]).status().unwrap().success());
    assert!(screen.tmux().args(["paste-buffer", "-p"]).status().unwrap().success());
    screen.shows(&["\\x1b[200~pasted\\x1b[201~"]);
    screen.press(&["w"]);
    screen.shows(&["wrote"]);
    assert!(!site.project().join("talked.txt").exists(), "nothing is merged yet");
    screen.press(&["q"]);
    let shown = screen.shows(&["its changes wait", "left with 0"]);
    assert!(shown.contains("skep merge task-1"), "{shown}");
    is_restored(&screen);
    let clipboard = screen.tmux().args(["show-buffer", "-b", "buffer1"]).output().unwrap();
    assert!(!text(&clipboard).contains("secret"), "the clipboard is out of reach");

    let talked = of(&site, "brain.talked");
    assert_eq!((talked.len(), &talked[0]["ungated"], &talked[0]["end"]), (1, &json!(true), &json!("ended")), "{talked:?}");
    assert!(talked[0]["blob"].is_string() && talked[0]["bytes"].as_u64().unwrap() > 100, "{talked:?}");
    let log = site.ok(&["log"]);
    assert!(log.contains("key 'grün€'") && log.contains("ungated"), "{log}");
    let review = site.ok(&["review", "show", "r-1"]);
    assert!(review.contains("ungated"), "{review}");
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!(site.read("talked.txt"), "by talk\n");
    let run = of(&site, "call.admitted").into_iter().find(|call| call["tool"] == "brain.run").unwrap();
    assert_eq!(run["rooms"], json!([{"template": "brain", "network": "restricted"}]));
    assert_eq!(site.json(&["journal", "verify"])["findings"], json!([]));
    drop(screen);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn a_talk_is_left_and_gone_on_with_in_the_same_conversation() {
    let site = site();
    let screen = talk(&site, "talk");
    screen.press(&["s"]);
    screen.shows(&["saved"]);
    screen.press(&["C-]"]);
    screen.press(&["d"]);
    screen.shows(&["nothing waits for a merge", "left with 0"]);
    is_restored(&screen);
    assert_eq!(of(&site, "brain.talked")[0]["end"], "was left");

    let again = talk(&site, "talk worker.1");
    again.shows(&["resumes 11111111-2222-3333-4444-555555555555"]);
    again.press(&["k"]);
    again.shows(&["left with 0"]);
    is_restored(&again);
    assert_eq!(of(&site, "brain.talked")[1]["end"], "ended by signal 9");
    drop((screen, again));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// A client that draws below its cursor, as most do below the line that one types in: whoever leaves, by whatever way, is told so below all
/// of it.
#[test]
fn leaving_a_talk_prints_below_what_was_drawn() {
    let site = site();
    let screen = talk(&site, "talk");
    screen.press(&["i"]);
    screen.shows(&["first row", "last row"]);
    let watcher = Screen::sized(&site, "xterm-256color", "talk --watch", (80, 24));
    watcher.shows(&["first row", "last row"]);
    watcher.press(&["C-c"]);
    let is_below = |screen: &Screen, end: &str| {
        screen.shows(&[end]);
        let text = screen.history();
        let at = |part: &str| text.lines().position(|line| line.contains(part)).unwrap();
        assert!(at("first row") < at("second row") && at("second row") < at("last row") && at("last row") < at(end), "{text}");
    };
    is_below(&watcher, "left with 0");
    screen.press(&["C-]"]);
    screen.press(&["d"]);
    is_below(&screen, "nothing waits for a merge");
    screen.shows(&["left with 0"]);
    is_restored(&screen);
}

/// `act --talk` has the task done first, and then talks with whoever did it.
#[test]
fn a_task_is_talked_about_when_it_is_done() {
    let site = site();
    let screen = talk(&site, &format!("act hello --talk --who ++ --brain {}", site.script("say quick\ndone quick\n")));
    assert!(site.is("task-1", "done"));
    let workers: Vec<Value> =
        site.json(&["list", "tasks"])["tasks"].as_array().unwrap().iter().map(|task| task["process"].clone()).collect();
    assert_eq!(workers, ["worker.2", "worker.2"]);
    screen.press(&["q"]);
    screen.shows(&["nothing waits for a merge", "left with 0"]);
}

/// Others may look on, from the present screen, and nobody else may talk.
#[test]
fn one_talks_and_others_watch() {
    let site = site();
    let screen = talk(&site, "talk");
    screen.press(&["1"]);
    screen.shows(&["key '1'"]);
    let watcher = talk(&site, "talk --watch");
    watcher.shows(&["key '1'"]);
    screen.press(&["2"]);
    watcher.shows(&["key '1'", "key '2'"]);
    watcher.press(&["3"]);
    screen.press(&["4"]);
    let shown = watcher.shows(&["key '4'"]);
    assert!(!shown.contains("key '3'"), "{shown}");

    let second = Screen::sized(&site, "xterm-256color", "talk --who worker.1", (80, 24));
    second.shows(&["somebody talks with worker.1 already", "left with 9"]);
    let nobody = Screen::sized(&site, "xterm-256color", "talk worker.77", (80, 24));
    nobody.shows(&["there is no worker `worker.77` here", "there are worker.1", "left with 5"]);

    watcher.press(&["C-c"]);
    watcher.shows(&["left with 0"]);
    is_restored(&watcher);
    screen.press(&["5"]);
    screen.shows(&["key '5'"]);
    screen.press(&["q"]);
    screen.shows(&["left with 0"]);
}

/// The queue waits for the end of a talk, and goes on after a talker that was killed.
#[test]
fn a_talker_that_is_killed_lets_the_worker_go_on() {
    let site = site();
    let screen = talk(&site, "talk");
    screen.press(&["w"]);
    screen.shows(&["wrote"]);
    let brain = site.script("call fs.write path=b.txt content=\"b\\n\"\ndone\n");
    let queued = site.ok(&["act", "change it", "--brain", &brain]);
    assert!(queued.contains("task-1"), "it is told what it waits for: {queued}");
    assert_eq!(site.json(&["list", "tasks"])["tasks"].as_array().unwrap().iter().filter(|task| task["state"] == "queued").count(), 1);

    kill_talker(&screen, rustix::process::Signal::KILL);
    eventually("both end", || site.count("merge.proposed") == 2);
    assert_eq!(of(&site, "brain.talked")[0]["end"], "ended with its connection");
    let started: Vec<Value> = of(&site, "task.started").into_iter().map(|started| started["task"].clone()).collect();
    assert_eq!(started, [json!("task-1"), json!("task-2")], "one after the other");
    drop(screen);
    for task in ["task-1", "task-2"] {
        site.ok(&["merge", task, "--yes"]);
    }
    assert_eq!((site.read("talked.txt"), site.read("b.txt")), ("by talk\n".to_owned(), "b\n".to_owned()));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

fn kill_talker(screen: &Screen, signal: rustix::process::Signal) {
    let pane = text(&screen.tmux().args(["display-message", "-p", "#{pane_pid}"]).output().unwrap());
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", pane.trim())).unwrap();
    let talker = children.split_whitespace().next().unwrap().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(talker).unwrap(), signal).unwrap();
}

#[test]
fn a_talker_that_is_told_to_end_gives_the_terminal_back() {
    let site = site();
    let screen = talk(&site, "talk");
    kill_talker(&screen, rustix::process::Signal::TERM);
    screen.shows(&["the talk was left", "SIGTERM"]);
    is_restored(&screen);
    eventually("the talk is over", || site.count("task.finished") == 1);
    assert_eq!(of(&site, "brain.talked")[0]["end"], "ended with its connection");
    drop(screen);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// A kernel that dies under a talk gives the terminal back, and its successor offers what was written.
#[test]
fn a_kernel_that_dies_gives_the_terminal_back() {
    let site = site();
    let screen = talk(&site, "talk");
    screen.press(&["w"]);
    screen.shows(&["wrote"]);
    let kernel = i32::try_from(site.json(&["kernel", "status"])["os_pid"].as_i64().unwrap()).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(kernel).unwrap(), rustix::process::Signal::KILL).unwrap();
    screen.shows(&["the connection to the kernel broke"]);
    is_restored(&screen);
    site.ok(&["kernel", "start"]);
    eventually("its changes wait", || site.count("merge.proposed") == 1);
    let review = site.ok(&["review", "show", "r-1"]);
    assert!(review.contains("ungated"), "{review}");
    let talked = of(&site, "brain.talked");
    assert_eq!((&talked[0]["ungated"], &talked[0]["end"]), (&json!(true), &json!("was interrupted")));
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!(site.read("talked.txt"), "by talk\n");
}

/// A talk waits for what the worker does, and who gives up takes it back.
#[test]
fn a_talk_waits_for_the_worker_and_can_be_given_up() {
    let site = site();
    let brain = site.script("call shell.run command=[\"sh\",\"-c\",\"echo begun; sleep 600\"]\ndone\n");
    site.ok(&["act", "sleep", "--brain", &brain]);
    eventually("it works", || site.count("workspace.opened") == 1);
    let screen = Screen::sized(&site, "xterm-256color", "talk", (80, 24));
    screen.shows(&["it ends task-1 first"]);
    screen.press(&["C-c"]);
    eventually("the talk is taken back", || of(&site, "task.cancelled").iter().any(|cancelled| cancelled["task"] == "task-2"));
    let again = Screen::sized(&site, "xterm-256color", "talk worker.1", (80, 24));
    again.shows(&["it ends task-1 first"]);
    site.ok(&["cancel", "task-1"]);
    again.shows(&["ready --permission-mode"]);
    again.press(&["q"]);
    again.shows(&["left with 0"]);
    assert_eq!(of(&site, "brain.talked").len(), 1, "only one was begun");
}

#[test]
fn a_talk_that_only_asks_merges_nothing() {
    let site = site();
    let screen = Screen::sized(&site, "xterm-256color", "talk --ask", (80, 24));
    screen.shows(&["ready --permission-mode plan"]);
    screen.press(&["w"]);
    screen.shows(&["wrote"]);
    screen.press(&["q"]);
    screen.shows(&["nothing waits for a merge", "left with 0"]);
    assert_eq!((site.count("merge.proposed"), site.project().join("talked.txt").exists()), (0, false));
}

#[test]
fn a_talk_needs_a_terminal_and_a_brain_that_has_one() {
    let site = site();
    assert!(site.fails(2, &["talk"]).contains("a talk needs a terminal"));
    let screen = Screen::sized(&site, "xterm-256color", "talk --brain native", (80, 24));
    screen.shows(&["`native` has no terminal of its own to talk on", "left with 12"]);
}
