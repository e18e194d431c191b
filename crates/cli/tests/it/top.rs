//! `skep top` in real terminals of 80 by 24 and 120 by 40: what a person sees, and what the keys do.

use crate::common::screen::{LARGE, SMALL, Screen};
use crate::common::{ASKS, Site, pid_of, text};
use std::time::Duration;

fn site() -> Site {
    let site = Site::new(&[(".skep/policy.yaml", ASKS), ("src/a.txt", "old\n")]);
    site.trust();
    site
}

/// A command of a task that goes on until the test ends it.
struct Sleeper(String);

impl Sleeper {
    fn new(number: u32) -> Sleeper {
        Sleeper(format!("{}.{}", 8_000 + number, std::process::id()))
    }

    fn call(&self) -> String {
        format!("say now I wait\ncall shell.run command=[\"sh\",\"-c\",\"sleep {}; true\"]\n", self.0)
    }

    /// Its number, once it runs.
    fn pid(&self) -> i32 {
        loop {
            match pid_of(&["sleep", &self.0]) {
                Some(pid) => return pid,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn let_go(&self) {
        let pid = rustix::process::Pid::from_raw(self.pid()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}

fn act(site: &Site, script: &str) -> String {
    let brain = site.script(script);
    site.json(&["act", "change what is old", "--brain", &brain])["task"].as_str().unwrap().to_owned()
}

#[track_caller]
fn is_given_back(screen: &Screen) {
    let text = screen.shows(&["left with", "\necho\n"]);
    assert!(!text.contains("-icanon") && !text.contains("-echo"), "the terminal was not given back:\n{text}");
}

/// From a running command by a question and its merge to the end, without leaving the screen.
#[test]
fn the_board_shows_what_runs_and_takes_the_answers() {
    for (number, size) in [SMALL, LARGE].into_iter().enumerate() {
        let site = site();
        let sleeper = Sleeper::new(number as u32);
        act(&site, &format!("{}call fs.write path=src/a.txt content=\"new\\n\"\ndone wrote it\n", sleeper.call()));
        sleeper.pid();
        let screen = Screen::sized(&site, "xterm-256color", "top", size);
        let text = screen.shows(&["1 running, 0 queued, nothing waits for you", "› now I wait", "[q]uit"]);
        let row = text.lines().find(|line| line.contains("worker.1")).unwrap_or_else(|| panic!("{text}"));
        assert!(row.starts_with("› └ ● worker.1") && row.contains("running  task-1") && row.contains("B   "), "{text}");
        assert_eq!(row.contains("change what is old"), size == LARGE, "{text}");
        sleeper.let_go();
        screen.shows(&["1 question (r answers)", "◍ worker.1", "waits    task-1"]);
        screen.press(&["r"]);
        let text = screen.shows(&["◍ r-1  Writing src/a.txt", "source is precious", "[a]llow this call"]);
        assert_eq!(text.contains("worker.1 "), size == LARGE, "{text}");
        screen.press(&["a"]);
        // The next question is the merge, with its diff.
        screen.shows(&["Merging 1 file", "+new", "[a]llow this merge  [d]eny  [e] send back…"]);
        screen.press(&["a"]);
        screen.shows(&["nothing waits for you", "✓ nothing waits for your answer"]);
        screen.press(&["q"]);
        screen.shows(&["✓ done  wrote it", "○ worker.1", "[x] end"]);
        assert_eq!(site.read("src/a.txt"), "new\n");
        screen.press(&["q"]);
        screen.shows(&["✓ r-1 allowed by operator", "✓ r-2 allowed by operator", "left with 0"]);
        is_given_back(&screen);
    }
}

/// A question can be sent away with a reason, which the brain is told.
#[test]
fn a_no_is_given_with_its_reason() {
    let site = site();
    act(&site, "call fs.write path=src/a.txt content=x\ndone\n");
    let screen = Screen::sized(&site, "xterm-256color", "top", SMALL);
    screen.shows(&["1 question (r answers)"]);
    screen.press(&["r"]);
    screen.shows(&["[a]llow this call"]);
    screen.press(&["d"]);
    screen.shows(&["deny  enter goes on"]);
    screen.press(&["-l", "not on a monday, q"]);
    screen.shows(&["not on a monday, q"]);
    screen.press(&["Enter"]);
    screen.shows(&["r-1 denied"]);
    assert_eq!(site.records(&["--kind", "review.answered"])[0]["payload"]["reason"], "not on a monday, q");
    screen.press(&["C-c"]);
    is_given_back(&screen);
}

#[test]
fn a_sandbox_is_paused_and_its_task_ended_after_a_question() {
    let site = site();
    let sleeper = Sleeper::new(5);
    act(&site, &format!("{}done\n", sleeper.call()));
    let pid = sleeper.pid();
    let screen = Screen::sized(&site, "xterm-256color", "top", SMALL);
    screen.shows(&["● worker.1", "› now I wait"]);
    screen.press(&["p"]);
    screen.shows(&["✓ task-1 stands still; p has it go on", "◍ worker.1", "paused   task-1"]);
    assert_eq!(site.json(&["sandbox", "ps"])["rooms"][0]["paused"], true);
    screen.press(&["p"]);
    screen.shows(&["✓ task-1 goes on", "● worker.1", "running  task-1"]);
    // A no ends nothing.
    screen.press(&["x"]);
    screen.shows(&["end task-1 of worker.1? its changes are kept"]);
    screen.press(&["n"]);
    screen.lacks("its changes are kept");
    assert!(site.is("task-1", "running") && sleeper.pid() == pid);
    screen.press(&["x"]);
    screen.shows(&["end task-1 of worker.1?"]);
    screen.press(&["y"]);
    screen.shows(&["✓ task-1 ended; it had changed nothing", "○ worker.1"]);
    assert!(site.is("task-1", "cancelled") && pid_of(&["sleep", &sleeper.0]).is_none());
    screen.press(&["q"]);
    is_given_back(&screen);
}

#[test]
fn a_filter_the_keys_and_another_size() {
    let site = site();
    let sleeper = Sleeper::new(6);
    act(&site, &format!("{}done\n", sleeper.call()));
    sleeper.pid();
    let screen = Screen::sized(&site, "xterm-256color", "top", SMALL);
    screen.shows(&["○ kernel", "● worker.1", "[/] filter"]);
    screen.press(&["/"]);
    screen.shows(&["enter keeps it, esc shows all"]);
    screen.press(&["-l", "worker"]);
    screen.lacks("○ kernel");
    screen.press(&["Enter"]);
    screen.shows(&["/worker  [x] end", "worker.1"]);
    screen.press(&["Escape"]);
    screen.shows(&["○ kernel"]);
    screen.press(&["?"]);
    screen.shows(&["show only what has a text", "any key goes back"]);
    screen.press(&["q"]);
    screen.shows(&["[?] keys", "● worker.1"]);
    assert!(screen.tmux().args(["resize-window", "-x", "120", "-y", "40"]).status().unwrap().success());
    let text = screen.shows(&["cpu  prompt", "change what is old"]);
    assert_eq!(text.lines().position(|line| line.contains("[q]uit")), Some(39), "{text}");
    assert!(screen.tmux().args(["resize-window", "-x", "60", "-y", "12"]).status().unwrap().success());
    screen.lacks("prompt");
    let text = screen.shows(&["worker.1", "skep top"]);
    assert!(text.lines().count() <= 12, "{text}");
    screen.press(&["C-c"]);
    is_given_back(&screen);
}

/// A kernel that dies is told, and the terminal given back; so is one whose command is ended.
#[test]
fn a_kernel_that_dies_and_a_signal_leave_the_terminal_as_it_was() {
    let site = site();
    site.ok(&["kernel", "stop"]);
    let mut kernel = site.kernel(None);
    let screen = Screen::sized(&site, "xterm-256color", "top", SMALL);
    screen.shows(&["○ kernel", "[q]uit"]);
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    let text = screen.shows(&["run `skep top` again", "left with"]);
    assert!(text.contains("✗ ") && !text.contains("left with 0"), "{text}");
    is_given_back(&screen);

    // By its arguments it is told from those of other tests.
    let again = Screen::sized(&site, "xterm-256color", "top --no-pager", SMALL);
    again.shows(&["○ kernel", "[q]uit"]);
    let top = pid_of(&[env!("CARGO_BIN_EXE_skep"), "top", "--no-pager"]).and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(top, rustix::process::Signal::TERM).unwrap();
    is_given_back(&again);
}

/// The talk has the terminal to itself, and the board comes back after it.
#[test]
fn a_talk_opens_and_comes_back() {
    let site = crate::talk::site();
    site.ok(&["init"]);
    let screen = Screen::sized(&site, "xterm-256color", "top", SMALL);
    screen.shows(&["○ worker.1", "[t]alk"]);
    screen.press(&["t"]);
    screen.shows(&["one talks with a worker: select one first"]);
    screen.press(&["j", "j"]);
    screen.shows(&["› └ ○ worker.1"]);
    screen.press(&["t"]);
    screen.shows(&["ready --permission-mode", "size 80x24"]);
    screen.press(&["x"]);
    screen.shows(&["key 'x'"]);
    screen.press(&["q"]);
    screen.shows(&["✓ the talk with worker.1 is over", "○ worker.1"]);
    screen.press(&["q"]);
    is_given_back(&screen);
}

#[test]
fn a_brain_without_screens_says_so_and_the_board_comes_back() {
    let site = site();
    act(&site, "call fs.write path=src/a.txt content=x\ndone\n");
    let screen = Screen::sized(&site, "xterm-256color", "top", SMALL);
    screen.shows(&["1 question (r answers)", "› └ ◍ worker.1"]);
    screen.press(&["t"]);
    screen.shows(&["✗ ", "any key goes back to `skep top`"]);
    screen.press(&["z"]);
    screen.shows(&["there was no talk with worker.1", "› └ ◍ worker.1"]);
    screen.press(&["q"]);
    is_given_back(&screen);
}

#[test]
fn without_a_terminal_it_names_the_other_ways() {
    let site = site();
    let sleeper = Sleeper::new(7);
    act(&site, &format!("{}done\n", sleeper.call()));
    sleeper.pid();
    let refused = site.skep(&["top"]);
    assert!(!refused.status.success(), "{}", text(&refused));
    assert!(text(&refused).contains("`skep top` needs a terminal") && text(&refused).contains("skep status"), "{}", text(&refused));
    let shown = site.json(&["top"]);
    let rows = shown["processes"].as_array().unwrap();
    let worker = rows.iter().find(|row| row["name"] == "worker.1").unwrap_or_else(|| panic!("{shown}"));
    assert_eq!((&worker["task"], &worker["state"], &worker["depth"]), (&"task-1".into(), &"running".into(), &1.into()), "{worker}");
    assert!(worker["memory_bytes"].as_u64() > Some(0) && worker["cpu_ms"].is_u64(), "{worker}");
    assert!(worker["tokens"].is_null() && worker["cost_micros"].is_null(), "a script asks no model: {worker}");
    assert!(rows[0]["name"] == "kernel" && rows[0]["memory_bytes"].as_u64() > Some(1_000_000), "{shown}");
    let dumb = Screen::sized(&site, "dumb", "top", SMALL);
    dumb.shows(&["this one can only print lines", "left with"]);
}
