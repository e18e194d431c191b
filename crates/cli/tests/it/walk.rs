//! What somebody met who ran every command once, right and wrong: each line is true, names what helps, and is JSON where that is wanted.

use crate::common::screen::Screen;
use crate::common::{Site, text};
use serde_json::Value;
use std::process::Stdio;

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not said in:\n{text}");
    }
}

/// Each command that prints a text of its own makes a JSON document of it too, and an error before there is a kernel is one.
#[test]
fn json_is_json_everywhere() {
    let site = Site::new(&[("a.txt", "a\n")]);
    for (arguments, part) in [
        (&["policy", "types"][..], "TypeScript"),
        (&["completions", "bash"], "_skep()"),
        (&["man"], ".TH skep"),
        (&["help", "act"], "Usage"),
    ] {
        let printed = site.ok(arguments);
        let json = site.json(arguments);
        let within = json.as_object().unwrap().values().find_map(Value::as_str).unwrap();
        assert!(printed.contains(part) && within.contains(part), "{arguments:?}: {json}");
    }
    let mut homeless = site.command(&["status", "--json"]);
    let homeless = homeless.env_remove("SKEP_HOME").env_remove("HOME").output().unwrap();
    let error: Value = serde_json::from_slice(&homeless.stderr).unwrap();
    assert_eq!((homeless.status.code(), error["error"]["code"].as_str()), (Some(2), Some("bad_input")), "{error}");
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let lost = site.command(&["ps", "--json"]).stdout(full()).output().unwrap();
    let error: Value = serde_json::from_slice(&lost.stderr).unwrap();
    assert_eq!(error["error"]["what"], "the output is not complete");
    // The control: without it they are lines for people.
    assert!(text(&site.command(&["ps"]).stdout(full()).output().unwrap()).starts_with("✗ the output is not complete\n  ↳ why"));
}

/// What is missing or empty is named as that, with the step that helps.
#[test]
fn what_is_missing_is_named() {
    let site = Site::new(&[("a.txt", "a\n")]);
    site.ok(&["init"]);
    says(&site.fails(2, &["brain", "add", "goose"]), &["nothing says what `goose` is", "`skep brain add goose -- PROGRAM`", "--alias"]);
    let empty = site.folder.path().join("empty.patch");
    std::fs::write(&empty, "\n").unwrap();
    says(&site.fails(2, &["merge", "import", &empty.display().to_string()]), &["is empty", "git diff | skep merge import -"]);
    assert_eq!(site.count("task.queued"), 0, "nothing was begun for it");
    for verb in ["pause", "resume"] {
        says(&site.fails(5, &["sandbox", verb, "task-9"]), &["there is no task `task-9`", "`skep list tasks`"]);
    }
    let cassette = site.fails(5, &["cassette", "show", "task-9"]);
    assert!(cassette.contains("there is no cassette") && !cassette.contains("os error"), "{cassette}");
    says(&site.ok(&["policy", "log", "--home"]), &["no policy of your own was ever in force", "`skep trust --home`"]);
    says(&site.fails(2, &["call", "fs.read", "path="]), &["`path` does not fit: it must not be empty"]);
    for word in ["room", "zone", "foreman"] {
        let tools = site.ok(&["list", "tools"]);
        let doctor = text(&site.skep(&["doctor"]));
        let ours = |line: &&str| line.split(|letter: char| !letter.is_alphanumeric()).any(|part| part == word);
        assert_eq!(tools.lines().chain(doctor.lines()).find(ours), None, "{word}");
    }
}

/// A sandbox that is paused while nothing runs in it is listed, and the answer is JSON where that is wanted.
#[test]
fn a_paused_sandbox_is_listed_while_nothing_runs_in_it() {
    let site = Site::new(&[("a.txt", "a\n")]);
    let brain = site.script("call fs.write path=b.txt content=\"b\\n\"\ndone\n");
    site.ok(&["act", "write b", "--brain", &brain, "--await"]);
    site.ok(&["kernel", "restart"]);
    assert!(site.ok(&["sandbox", "ps"]).contains("no sandbox is open"));
    assert_eq!(site.json(&["sandbox", "pause", "task-1"]), serde_json::json!({"task": "task-1", "paused": true}));
    says(&site.ok(&["sandbox", "ps"]), &["◍ task-1", "paused"]);
    says(&site.ok(&["sandbox", "resume", "task-1"]), &["the sandbox of task-1 continues"]);
    assert!(site.ok(&["sandbox", "ps"]).contains("no sandbox is open"));
}

/// Keys that are to be copied are whole on a narrow terminal; so is a sentence, below itself.
#[test]
fn nothing_that_is_to_be_copied_is_cut() {
    let site = Site::new(&[("a.txt", "a\n")]);
    std::fs::create_dir_all(site.home()).unwrap();
    let config = "providers: {a-provider: {url: 'http://127.0.0.1:1', dialect: chat}}\ngateway: {loopback: true}\n";
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    site.ok(&["init"]);
    let screen = Screen::sized(&site, "xterm-256color", "gateway open", (80, 24));
    let shown = screen.shows(&["open until"]).replace('\n', "");
    let key = shown.split("ANTHROPIC_API_KEY=").nth(1).unwrap().split("export").next().unwrap().trim();
    assert!(key.strip_prefix("sk-skep-").is_some_and(|rest| rest.len() == 64 && !shown.contains('…')), "{shown}");
    drop(screen);
    let screen = Screen::sized(&site, "xterm-256color", "ask why --model a-provider/one-of-a-rather-long-name", (80, 24));
    let shown = screen.shows(&["left with 0"]);
    assert!(shown.contains("does not list its models") && !shown.contains('…'), "{shown}");
    assert!(shown.split_whitespace().collect::<Vec<_>>().join(" ").contains("shows at the first request"), "{shown}");
}

#[test]
fn colours_are_printed_where_they_are_wanted() {
    let site = Site::new(&[]);
    // In a pipe, and with NO_COLOR: the flag counts more.
    assert!(site.ok(&["ps", "--color", "always"]).contains("\x1b["));
    for arguments in [&["ps"][..], &["ps", "--color", "never"], &["ps", "--color", "auto"]] {
        assert!(!site.ok(arguments).contains('\x1b'), "{arguments:?}");
    }
}

/// Who ends the input at a question has said no, on a line of its own.
#[test]
fn an_end_of_input_at_a_question_is_a_no() {
    let site = Site::new(&[("a.txt", "a\n")]);
    let brain = site.script("call fs.write path=b.txt content=\"b\\n\"\ndone\n");
    site.ok(&["act", "write b", "--brain", &brain, "--await"]);
    site.ok(&["reject", "task-1"]);
    let screen = Screen::sized(&site, "xterm-256color", "drop task-1", (80, 24));
    screen.shows(&["for good? [y/N]"]);
    screen.press(&["C-d"]);
    let shown = screen.shows(&["left with"]);
    assert!(shown.lines().any(|line| line.trim_end().ends_with("[y/N]")), "{shown}");
    assert_eq!(site.count("work.dropped"), 0);
}
