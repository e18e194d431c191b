//! What the acceptance checklist of khlone asks for and no other test shows: `docs/acceptance.md` has all of it.

use crate::brains::of;
use crate::common::provider::eventually;
use crate::common::{Site, text};
use crate::misbehaving::misbehaving;
use serde_json::{Value, json};

const HANGS: &str = "call shell.run command=[\"sh\",\"-c\",\"sleep 600\"]\ndone\n";

/// A question that only reads may ask too, and waits for the answer.
const ASKS: &str = "call http.request url=https://example.com/\ndone\n";

/// Nobody ran `init`, and the brain works for ten minutes or waits for a person: each command has returned long before.
#[test]
fn a_first_task_sets_its_repository_up_and_returns_at_once() {
    for (verb, script) in [("act", HANGS), ("ask", ASKS)] {
        let site = Site::new(&[("a.txt", "a\n")]);
        let said = site.ok(&[verb, "implement auth", "--brain", &site.script(script)]);
        assert!(said.starts_with("\n✓ init @main → worker.1\n✓ task-1 → worker.1 (@main)\n"), "{said}");
        let over = (site.count("task.finished"), site.count("task.failed"));
        assert_eq!(over, (0, 0), "it is still worked on: {:?}", [of(&site, "call.finished"), of(&site, "call.refused")]);
        let shown = site.ok(&["status", "--task", "task-1"]);
        assert!(shown.contains(&format!("mode        {verb}")) && shown.contains("worker.1"), "{shown}");
        assert_eq!(site.json(&["status", "task-1"])["mode"], verb);
        let again = site.ok(&[verb, "implement more", "--brain", &site.script(script)]);
        assert!(!again.contains("init") && again.contains("✓ task-2 → worker.1 (@main)"), "{again}");
        for task in ["task-2", "task-1"] {
            drop(site.skep(&["cancel", task]));
        }
    }
}

/// What `>> notes.md` takes: the answer, and nothing of what is told to the person.
#[test]
fn an_answer_is_all_that_standard_output_has() {
    let site = Site::new(&[("a.txt", "a\n")]);
    for (verb, script) in
        [("ask", "say I think.\ndone forty-two\n"), ("act", "call fs.write path=b.txt content=b\nsay I act.\ndone forty-two\n")]
    {
        let output = site.command(&[verb, "what?", "--await", "--brain", &site.script(script)]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "forty-two\n", "{verb}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains("task-"), "the person is told beside it: {told}");
    }
    assert_eq!(site.count("merge.proposed"), 1, "after it acted");
}

/// One worker's client crashes in the middle of its task: it alone is started again, in the same conversation, and its task is done. The
/// other worker hears nothing of it.
#[test]
fn a_crash_is_one_workers_own_affair() {
    let site = misbehaving(
        "if 'RESUME' not in prompt:\n    say(type='assistant', message={'content': [{'type': 'text', 'text': 'I begin.'}]})\n    \
         os.kill(os.getpid(), signal.SIGKILL)\ndone('done at last')\nsys.stdin.read()\n",
    );
    site.ok(&["act", "hold on", "--who", "++", "--brain", &site.script(HANGS)]);
    let peer = site.json(&["status", "task-1"])["process"].clone();
    eventually("the other works", || of(&site, "call.admitted").iter().any(|call| call["tool"] == "shell.run"));
    let output = site.command(&["act", "crash once", "--who", "worker.1", "--brain", "claude", "--await"]).output().unwrap();
    assert!(output.status.success(), "nobody has to do anything about it: {}", text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done at last\n");
    let view = site.json(&["status", "task-2"]);
    assert_ne!(view["process"], peer);
    let outputs = view["outputs"].as_array().unwrap();
    assert_eq!((outputs.len(), &outputs[0]["episode"]), (1, &json!("task-2/2")), "a new episode of one series: {outputs:?}");
    assert_eq!(outputs[0]["series"], "01234567-89ab-cdef-0123-456789abcdef");
    let words: Vec<String> = of(&site, "call.admitted")
        .iter()
        .filter(|call| call["tool"] == "brain.run")
        .map(|call| call["input"]["command"].to_string())
        .collect();
    assert!(words.len() == 2 && !words[0].contains("--resume") && words[1].contains("--resume"), "{words:?}");
    let shown = site.ok(&["status", "task-2"]);
    assert!(shown.contains("resumed 1 time"), "{shown}");
    let starts: Vec<Value> = of(&site, "task.started").into_iter().filter(|started| started["task"] == "task-1").collect();
    assert_eq!((starts.len(), site.is("task-1", "running")), (1, true), "the other was not interrupted");
    drop(site.skep(&["cancel", "task-1"]));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}
