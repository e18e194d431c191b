//! The inbox in a real terminal: tmux shows what a person would see and presses the keys.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod common;

use common::Site;
use std::process::Command;
use std::time::{Duration, Instant};

const ASKS: &str = "\
capabilities:
- {name: all, match: {syscall: '*'}, action: allow, reason: a test}
- {name: ask-src, match: {syscall: fs.write, path_glob: 'src/**'}, action: require_review, reason: source is precious}
";

/// A terminal of its own server, so that nobody's sessions are touched.
struct Screen {
    socket: std::path::PathBuf,
}

impl Screen {
    /// Starts `skep` with these arguments; when it has ended the screen stays and shows its exit code.
    fn open(site: &Site, term: &str, arguments: &str) -> Screen {
        let screen = Screen { socket: site.folder.path().join(format!("tmux-{}", arguments.len())) };
        let skep = env!("CARGO_BIN_EXE_skep");
        let line = format!(
            "TERM={term} {skep} {arguments}; echo \"left with $?\"; stty -a | tr ';' '\\n' | grep -o -- '-\\?\\(icanon\\|echo\\) '; sleep 600"
        );
        let mut tmux = screen.tmux();
        tmux.args(["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "40"]).arg(line).current_dir(site.project());
        tmux.env("SKEP_HOME", site.home()).env("NO_COLOR", "1");
        assert!(tmux.status().expect("tmux is installed by `cargo xtask test`").success());
        screen
    }

    fn tmux(&self) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(&self.socket).env_remove("TMUX").env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color").arg("-u");
        tmux
    }

    fn text(&self) -> String {
        let output = self.tmux().args(["capture-pane", "-p"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn press(&self, keys: &[&str]) {
        assert!(self.tmux().arg("send-keys").args(keys).status().unwrap().success());
    }

    /// Waits until the screen shows all of these at once.
    #[track_caller]
    fn shows(&self, parts: &[&str]) -> String {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let text = self.text();
            if parts.iter().all(|part| text.contains(part)) {
                return text;
            }
            assert!(Instant::now() < end, "{parts:?} is not on the screen:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        drop(self.tmux().arg("kill-server").output());
    }
}

/// A project that asks before `src/` is written, and a task that waits for the answer.
fn asking(script: &str) -> (Site, String) {
    let tests = "test:\n  command: [sh, -c, 'echo 1..1; echo ok 1']\n";
    let site = Site::new(&[(".skep/policy.yaml", ASKS), ("skep.yml", tests), ("src/a.txt", "old\n")]);
    site.ok(&["trust", "--yes"]);
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
    let text = screen.shows(&["inbox  1 of 1 question", "[a]llow once", "[q]uit"]);
    for part in ["◍ r-1  Writing src/a.txt", "source is precious", "ask-src", "fs.write on /src/a.txt", "one \\x1b[2J\\u{202e}"] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    assert!(!text.contains('\u{202e}'), "the agent's own marks reached the terminal:\n{text}");
    // One answer for the session lets both writes pass, and their merge, which asks about nothing else.
    screen.press(&["s"]);
    screen.shows(&["r-1 allowed for its session", "nothing waits"]);
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
    screen.shows(&["r-1", "[a]llow once"]);
    screen.press(&["d"]);
    screen.press(&["-l", "because of"]);
    screen.shows(&["deny  enter goes on", "reason  because of"]);
    // Meanwhile somebody else answers; the half-typed no is about nothing any more, and the next question comes by itself.
    site.ok(&["review", "allow", "r-1"]);
    let text = screen.shows(&["r-1 was allowed by operator meanwhile", "◍ r-2  Writing src/b.txt", "[a]llow once"]);
    assert!(!text.contains("because of"), "{text}");
    screen.press(&["D"]);
    screen.shows(&["deny for good"]);
    screen.press(&["-l", "not this one"]);
    screen.press(&["Enter", "Enter"]);
    screen.shows(&["r-2 denied for good in its repository"]);
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
    screen.shows(&["◍ r-1  Writing src/a.txt", "[a]llow once"]);
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
    assert!(listed.contains("◍ r-1  Writing src/a.txt") && !listed.contains('\x1b'), "{listed}");
    assert_eq!(site.json(&["review"])["reviews"][0]["review"], "r-1");
}
