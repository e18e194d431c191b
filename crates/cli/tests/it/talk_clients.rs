//! A person talks with each vendor's own client on its own screens: its tools ask at the door, and the worker's next task goes on with the
//! conversation. The real clients, on a scripted model; Claude Code's is in `talk.rs`.

use crate::brains::{CODEX, Client, GEMINI, OPENCODE, of};
use crate::common::Site;
use crate::common::screen::Screen;
use crate::talk::{DENIES, WRITES, is_restored};
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

/// How a person gets through a client's screens.
struct Manners {
    /// What it always asks first; Enter is the answer.
    first: Option<&'static str>,
    /// What it asks once in its home, and the keys that lead on.
    once: Option<(&'static str, &'static [&'static str])>,
    /// On the screen when it can be typed to.
    ready: &'static str,
    leaves: &'static str,
}

/// A repository where greetings are refused, and whose client is `client`.
pub fn site(client: &Client, files: &[(&str, &str)]) -> Site {
    let program = crate::npm::installed(client.name, client.package);
    let files: Vec<(&str, &str)> = [("a.txt", "a\n"), (".skep/policy.yaml", DENIES)].into_iter().chain(files.iter().copied()).collect();
    let site = crate::brains::site_with(&files, WRITES, client.name, &[&program.to_string_lossy()]);
    let config = fs::read_to_string(site.home().join("config.yml")).unwrap();
    fs::write(site.home().join("config.yml"), format!("{config}brain: '{}'\n", client.brain)).unwrap();
    site.trust();
    site
}

/// Before it asks about trust, Codex drops what was typed so far, and ends if that takes it a second, as on a busy machine. A person starts it
/// again.
const GAVE_UP: &str = "timed out discarding buffered terminal input";

/// Goes through what a client asks first; `false` if it gave up.
fn enter(screen: &Screen, manners: &Manners, is_first: bool) -> bool {
    let doors = manners.first.map(|first| (first, &["Enter"][..])).into_iter().chain(manners.once.filter(|_| is_first));
    for (sign, keys) in doors {
        if !comes(screen, sign) {
            return false;
        }
        screen.press_while(keys, |text| text.contains(sign) && !text.contains(GAVE_UP));
    }
    comes(screen, manners.ready)
}

/// Waits for this on the screen; `false` if the client gave up.
fn comes(screen: &Screen, sign: &str) -> bool {
    let end = Instant::now() + Duration::from_secs(180);
    loop {
        let text = screen.text();
        if text.contains(GAVE_UP) || text.contains(sign) {
            return !text.contains(GAVE_UP);
        }
        assert!(Instant::now() < end, "`{sign}` is not on the screen:\n{text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A talk that can be typed to, and what it was opened with.
fn entered<T>(manners: &Manners, is_first: bool, open: impl Fn() -> (T, Screen)) -> (T, Screen) {
    for _ in 0..5 {
        let (with, screen) = open();
        if enter(&screen, manners, is_first) {
            return (with, screen);
        }
    }
    panic!("the client gave up five times");
}

fn talks(client: &Client, manners: &Manners) {
    let (site, screen) = entered(manners, true, || {
        let site = site(client, &[]);
        let screen = Screen::sized(&site, "xterm-256color", "talk", (100, 40));
        (site, screen)
    });
    screen.types("Please write the greeting");
    screen.press_until(&["Enter"], &["I was told why."]);
    screen.types(manners.leaves);
    screen.press_until(&["Enter"], &["its changes wait", "left with 0"]);
    is_restored(&screen);
    drop(screen);

    let admitted = of(&site, "call.admitted");
    let writes: Vec<&Value> = admitted.iter().filter(|call| call["tool"] == "fs.write").collect();
    let [write] = &writes[..] else { panic!("{admitted:?}") };
    assert_eq!((&write["hands"], &write["paths"]), (&json!("caller"), &json!(["bye.txt"])), "its own hands, through the door");
    let finished = of(&site, "call.finished");
    assert!(finished.iter().any(|end| end["call"] == write["call"] && end["ok"] == true), "its end is reported: {finished:?}");
    let refused = of(&site, "call.refused");
    assert!(refused.iter().any(|call| call["tool"] == "fs.write" && call["rules"] == json!(["no-greetings"])), "{refused:?}");
    let run = admitted.iter().find(|call| call["tool"] == "brain.run").unwrap();
    assert_eq!(run["rooms"], json!([{"template": "brain", "network": "restricted"}]));
    let requests: Vec<&Value> = admitted.iter().filter(|call| call["tool"] == "model.request").collect();
    assert!(requests.len() >= 3 && requests.iter().all(|call| call["of"] == run["call"]), "its requests pass the gateway: {requests:?}");
    assert_eq!(of(&site, "brain.talked")[0]["ungated"], false);
    let log = site.ok(&["log"]);
    assert!(log.contains("I was told why.") && !log.contains("ungated"), "{log}");
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!((site.read("bye.txt"), site.project().join("hello.txt").exists()), ("bye\n".to_owned(), false));

    // The worker's next task goes on with what was said, by the protocol that tasks use.
    site.ok(&["act", "Nothing more", "--await"]);
    let series = |task: &str| site.json(&["status", task])["outputs"][0]["series"].clone();
    assert!(series("task-1").is_string(), "{}", series("task-1"));
    assert_eq!(series("task-1"), series("task-2"), "in the same conversation");
    let said: Vec<Value> = of(&site, "brain.said").into_iter().map(|said| said["text"].clone()).collect();
    assert!(!said.iter().any(|text| text.as_str().is_some_and(|text| text.contains("has expired"))), "{said:?}");

    // And the next talk with both.
    let ((), again) = entered(manners, false, || ((), Screen::sized(&site, "xterm-256color", "talk", (100, 40))));
    again.shows(&["I was told why."]);
    again.press(&["C-]"]);
    again.press(&["d"]);
    again.shows(&["left with 0"]);
    drop(again);
    assert_eq!(site.json(&["journal", "verify"])["findings"], json!([]));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// It does not trust the repository's own settings, and says so; and it advertises a model once.
const CODEX_MANNERS: Manners = Manners {
    first: Some("Open restricted"),
    once: Some(("Use existing model", &["Down", "Enter"])),
    ready: "Ask Codex to do anything",
    leaves: "/quit",
};

#[test]
fn codex_talks_and_its_own_tools_ask_at_the_door() {
    talks(&CODEX, &CODEX_MANNERS);
}

/// The same client without our hooks asks nobody: that is told, its changes wait for a person, and what the policy denies does not go in.
#[test]
fn a_talk_whose_hooks_do_not_run_is_told_as_ungated() {
    let (site, screen) = entered(&CODEX_MANNERS, true, || {
        let site = crate::codex_exec::site(WRITES, DENIES, crate::codex_exec::WITHOUT_HOOKS);
        let screen = Screen::sized(&site, "xterm-256color", &format!("talk --brain {}", CODEX.brain), (100, 40));
        (site, screen)
    });
    screen.types("Please write the greeting");
    screen.press_until(&["Enter"], &["Nobody told me why."]);
    screen.types(CODEX_MANNERS.leaves);
    screen.press_until(&["Enter"], &["left with 0"]);
    drop(screen);
    assert_eq!(of(&site, "brain.talked")[0]["ungated"], true);
    assert!(!of(&site, "call.admitted").iter().any(|call| call["tool"] == "fs.write"), "nobody was asked");
    assert!(site.ok(&["log"]).contains("ungated"));
    drop(site.skep(&["merge", "task-1", "--yes"]));
    assert!(!site.project().join("hello.txt").exists());
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn opencode_talks_and_its_own_tools_ask_at_the_door() {
    talks(&OPENCODE, &Manners { first: None, once: None, ready: "ctrl+p commands", leaves: "/exit" });
}

#[test]
fn gemini_talks_and_its_own_tools_ask_at_the_door() {
    talks(&GEMINI, &Manners { first: None, once: None, ready: "Type your message", leaves: "/quit" });
}

/// A worker of a role is talked with as what it is: on the brain that it was enrolled with, with its role's words and its role's tools.
#[test]
fn a_worker_of_a_role_is_talked_with_as_what_it_is() {
    let roles = [
        (".skep/policy.yaml", DENIES),
        (".skep/roles/mechanic/role.md", "---\ntools: [brain.*, model.*, shell.run]\n---\nYou mend what is broken.\n"),
    ];
    let site = crate::talk::site_of(&roles);
    let config = fs::read_to_string(site.home().join("config.yml")).unwrap();
    fs::write(site.home().join("config.yml"), config.replace("brains: {", "brains: {mine: {alias: 'claude:opus'}, ")).unwrap();
    let none = Screen::sized(&site, "xterm-256color", "talk mechanic", (80, 24));
    none.shows(&["there is no worker `mechanic` here", "left with 5"]);
    drop(none);
    // Enrolled by a task that nobody wants any more.
    assert!(site.ok(&["act", "begin", "--who", "mechanic@mine"]).contains("✓ enrolled mechanic.1"));
    drop(site.skep(&["cancel", "task-1"]));
    let screen = Screen::sized(&site, "xterm-256color", "talk mechanic.1", (80, 24));
    screen.shows(&["ready --permission-mode"]);
    screen.press(&["q"]);
    screen.shows(&["nothing waits for a merge", "left with 0"]);
    drop(screen);
    let view = site.json(&["status", "task-2"]);
    assert_eq!((&view["process"], &view["brain"]), (&json!("mechanic.1"), &json!("claude:opus")), "{view}");
    assert_eq!(view["tool_lists"][0]["tools"], json!(["brain.*", "model.*", "shell.run"]), "{view}");
    let runs = of(&site, "call.admitted").into_iter().filter(|call| call["tool"] == "brain.run" && call["task"] == "task-2");
    let words: Vec<String> = runs.map(|run| run["input"]["command"].to_string()).collect();
    assert!(words.len() == 1 && words[0].contains("You mend what is broken."), "{words:?}");
}
