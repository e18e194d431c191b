//! Looking at work: transcripts that are listed, searched and written to files, and watchers that come in the middle.

use crate::common::screen::Screen;
use crate::common::{Site, pid_of};
use crate::misbehaving::misbehaving;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use wire::method::watch::{BEAT, LIVE, ProcWatchParams};
use wire::{KernelClient, StreamItem, table};

/// A client that says much: a word to look for, a mark that turns the reading direction, and a key.
const SAYS: &str =
    "print(json.dumps({'type': 'noise', 'text': 'a Needle \\u202e and sk-ant-api03-' + 'Zq7' * 30}, ensure_ascii=False), flush=True)
say(type='assistant', message={'content': [{'type': 'text', 'text': 'I found the haystack'}]})
done('looked at it')
sys.stdin.read()
";
const KEY: &str = "Zq7Zq7Zq7";

fn of_client() -> Site {
    let site = misbehaving(SAYS);
    site.ok(&["act", "look for it", "--brain", "claude", "--await"]);
    site
}

#[test]
fn transcripts_are_listed_and_searched_without_secrets_and_controls() {
    let site = of_client();
    let brain = site.script("say nothing new here\ndone\n");
    site.ok(&["act", "something else", "--brain", &brain, "--await"]);
    let listed = site.json(&["log", "--list"])["transcripts"].clone();
    assert_eq!(
        (&listed[0]["task"], &listed[1]["task"], &listed[1]["worker"]),
        (&json!("task-2"), &json!("task-1"), &json!("worker.1")),
        "{listed}"
    );
    assert!(listed[1]["lines"].as_u64() >= Some(3) && listed[1]["whole"] == true && listed[0]["lines"] == 0, "{listed}");

    let found = site.ok(&["log", "--search", "nEEDLE"]);
    assert!(found.contains("task-1  worker.1  client") && found.contains("a Needle"), "{found}");
    assert!(!found.contains(KEY) && !found.contains('\u{202e}') && !found.contains("task-2"), "{found}");
    let found = site.json(&["log", "--search", "haystack", "--who", "worker.1"])["lines"].clone();
    assert!(found.as_array().unwrap().iter().any(|line| line["speaker"] == "brain" && line["text"] == "I found the haystack"), "{found}");
    assert!(site.ok(&["log", "--search", "unicorn"]).contains("`unicorn` is in no transcript here"));
    assert!(site.ok(&["log", "task-2", "--search", "needle"]).contains("is in no transcript"), "only of that task");
    assert!(site.ok(&["log", "--cost"]).contains("no model was asked for this"));
    let both = site.ok(&["log", "--who", "worker.1"]);
    assert!(both.contains("I found the haystack") && both.contains("nothing new here"), "{both}");
    assert_eq!(site.ok(&["log", "--task", "task-2"]), site.ok(&["log", "task-2"]));
    let nobody = site.fails(5, &["log", "--who", "worker.9"]);
    assert!(nobody.contains("no worker `worker.9` has had a task here") && nobody.contains("worker.1"), "{nobody}");
}

#[test]
fn a_transcript_becomes_a_file_for_its_owner_alone() {
    let site = of_client();
    let file = site.folder.path().join("transcript.txt");
    let path = file.to_str().unwrap();
    let said = site.ok(&["log", "task-1", "--export", path]);
    assert!(said.contains("lines written to"), "{said}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).unwrap();
    for part in [
        "] task-1 prompt: act: look for it\n",
        "] task-1 client: {\"type\": \"noise\"",
        "] task-1 brain: I found the haystack\n",
        "] task-1 end: done: looked at it\n",
    ] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    assert!(!text.contains(KEY) && !text.contains('\u{202e}'), "{text}");
    // What is there already is nobody's to overwrite.
    let again = site.fails(2, &["log", "task-1", "--export", path]);
    assert!(again.contains("cannot write") && again.contains("name a file that is not there yet"), "{again}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    let none = site.folder.path().join("none.txt");
    site.fails(5, &["log", "task-99", "--export", none.to_str().unwrap()]);
    assert!(!none.exists(), "nothing to tell, nothing written");

    // What was forgotten is told as such, and the rest stays.
    for record in site.records(&["--kind", "brain.transcribed"]) {
        site.ok(&["journal", "forget", &record["seq"].to_string(), "--yes"]);
    }
    assert_eq!(site.json(&["log", "--list"])["transcripts"][0]["whole"], false);
    assert!(site.ok(&["log", "--search", "kept no longer"]).contains("lines are kept no longer"));
    assert!(site.ok(&["log", "--search", "haystack"]).contains("I found the haystack"));
}

fn watches(worker: &str, site: &Site) -> ProcWatchParams {
    let path = site.project().to_str().unwrap().to_owned();
    ProcWatchParams { worker: Some(worker.into()), path: Some(path), ..ProcWatchParams::default() }
}

/// Ten look on at a worker, the eleventh is refused in words, and whoever leaves makes room.
#[test]
fn a_worker_has_ten_watchers() {
    let site = Site::new(&[("a.txt", "a\n")]);
    let brain = site.script("say hello\ndone\n");
    site.ok(&["act", "greet", "--brain", &brain, "--await"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let join = async || {
        let kernel = KernelClient::connect(&site.home()).await.unwrap();
        let (mut responses, mut notes) = kernel.begin::<table::ProcWatch>(&watches("worker.1", &site)).await.unwrap();
        loop {
            if let StreamItem::Note(note) = responses.next().await?
                && note.method == LIVE
            {
                notes.note(BEAT, &wire::method::Nothing {}).await?;
                return Ok::<_, wire::ClientError>((responses, notes));
            }
        }
    };
    let mut watchers = Vec::new();
    for _ in 0..10 {
        watchers.push(runtime.block_on(join()).unwrap());
    }
    let refused = site.fails(8, &["watch", "--who", "worker.1"]);
    assert!(refused.contains("10 watch worker.1 already, and no more may"), "{refused}");
    assert!(!refused.contains("lets watch"), "{refused}");
    watchers.pop();
    // The kernel sees the end of a connection a moment later.
    let last = loop {
        match runtime.block_on(join()) {
            Ok(watcher) => break watcher,
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    watchers.push(last);
    assert!(runtime.block_on(join()).is_err(), "and for one only");
    let unknown = site.fails(5, &["watch", "--who", "worker.7"]);
    assert!(unknown.contains("there is no worker `worker.7` here") && unknown.contains("worker.1"), "{unknown}");
}

/// Whoever comes in the middle sees the recent past and what follows, task after task; leaving ends no work.
#[test]
fn a_watcher_of_a_worker_comes_in_the_middle() {
    let site = Site::new(&[("a.txt", "a\n")]);
    let sleep = format!("8100.{}", std::process::id());
    let words: String = (1..=30).map(|n| format!("say word {n:02}\n")).collect();
    let brain = site.script(&format!("{words}call shell.run command=[\"sh\",\"-c\",\"sleep {sleep}; true\"]\nsay behind it\ndone first\n"));
    site.ok(&["act", "the first", "--brain", &brain]);
    let pid = loop {
        match pid_of(&["sleep", &sleep]) {
            Some(pid) => break rustix::process::Pid::from_raw(pid).unwrap(),
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let screen = Screen::sized(&site, "xterm-256color", "watch --who worker.1", (80, 24));
    let text = screen.shows(&["● worker.1 │   › word 30", "Running sh -c"]);
    assert!(!text.contains("word 05"), "the recent past, and not all of it:\n{text}");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    screen.shows(&["● worker.1 │   › behind it", "✓ done  first"]);
    let next = site.script("say the second begins\ndone second\n");
    site.ok(&["act", "the second", "--brain", &next]);
    screen.shows(&["● worker.1 │   › the second begins", "✓ done  second"]);
    let last = site.script("say it goes on\ndone third\n");
    screen.press(&["C-c"]);
    screen.shows(&["left with 0"]);
    site.ok(&["act", "the third", "--brain", &last, "--await"]);
}
