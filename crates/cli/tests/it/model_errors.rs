//! A model that answers with an error stops a task, whoever works on it: it keeps its work, and goes on once that is mended.
//!
//! The four real clients and the built-in brain, on a model that refuses in the middle of a task.

use crate::brains::{CLAUDE, CODEX, Client, GEMINI, OPENCODE, of, site};
use crate::common::text;
use serde_json::json;
use std::fs;

/// Writes a file, then asks a model that has only errors.
fn refuses(error: &str) -> String {
    format!("on \"greeting\"\n  call write path=hello.txt content=\"half a greeting\\n\"\nthen\n  error {error}\n")
}

/// What its model says once it is mended: whatever it is asked, it goes on from what is there.
const MENDED: &str = "on \"greeting\"\n  call read path=hello.txt\nthen\n  say I went on from there.\n";

fn stops_and_goes_on(client: &Client) {
    let site = site(client, &refuses("401 this key is not known"), None);
    let model = site.folder.path().join("model");
    let said = site.command(&["act", "Please write the greeting", "--brain", client.brain, "--await"]).output().unwrap();
    let told = text(&said);
    assert!(!said.status.success() && told.contains("◍ task-1 stopped"), "{told}\n{}", site.ok(&["log"]));
    assert!(told.contains("this key is not known") && told.contains("skep retry task-1"), "{told}");
    // What clients do not ask again.
    for (nth, error) in [(1, "400 no such parameter"), (2, "403 not for you")] {
        fs::write(&model, refuses(error).replace("call write path=hello.txt content=\"half a greeting\\n\"", "call read path=hello.txt"))
            .unwrap();
        drop(site.skep(&["retry", "task-1", "--await"]));
        assert_eq!(of(&site, "task.stopped").len(), nth + 1, "{error}: {}", site.ok(&["log"]));
    }
    let ends: Vec<_> = of(&site, "task.stopped").into_iter().map(|stopped| stopped["cause"].clone()).collect();
    assert_eq!((json!(ends), of(&site, "task.failed")), (json!(["model", "model", "model"]), Vec::new()), "{}", site.ok(&["log"]));

    fs::write(&model, MENDED).unwrap();
    let said = site.ok(&["retry", "task-1", "--await"]);
    assert!(said.contains("I went on from there."), "{said}\n{}", site.ok(&["log"]));
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!(site.read("hello.txt"), "half a greeting\n", "what it had written before");
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn claude_stops_at_an_error_of_its_model() {
    stops_and_goes_on(&CLAUDE);
}

#[test]
fn codex_stops_at_an_error_of_its_model() {
    stops_and_goes_on(&CODEX);
}

#[test]
fn opencode_stops_at_an_error_of_its_model() {
    stops_and_goes_on(&OPENCODE);
}

#[test]
fn gemini_stops_at_an_error_of_its_model() {
    stops_and_goes_on(&GEMINI);
}

#[test]
fn the_built_in_brain_stops_at_an_error_of_its_model() {
    stops_and_goes_on(&Client { brain: "native", ..CLAUDE });
}
