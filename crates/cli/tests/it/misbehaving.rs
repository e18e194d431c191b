//! A client that misbehaves on purpose: it floods, clings to life, reaches out, crashes and lies. Its room and its task hold all the same.

use crate::brains::of;
use crate::common::Site;
use crate::common::provider::eventually;
use serde_json::Value;
use std::fs;

/// Plays Claude Code's side of the conversation; what stands behind it does the mischief.
const FAKE: &str = r#"#!/usr/bin/env python3
import json, os, signal, subprocess, sys, time
def say(**frame):
    print(json.dumps(frame), flush=True)
def done(text):
    say(type="result", subtype="success", is_error=False, result=text, total_cost_usd=0, usage={"input_tokens": 0, "output_tokens": 0})
def ask(tool, **given):
    say(type="control_request", request_id=tool, request={"subtype": "hook_callback", "callback_id": "skep", "tool_use_id": tool,
        "input": {"tool_name": tool, "tool_input": given}})
    while True:
        heard = json.loads(sys.stdin.readline())
        if heard["type"] == "control_response":
            return heard["response"]["response"]["hookSpecificOutput"]
sys.stdin.readline()
heard = json.loads(sys.stdin.readline())
prompt = heard["message"]["content"][0]["text"]
say(type="system", subtype="init", session_id="01234567-89ab-cdef-0123-456789abcdef")
say(**heard, isReplay=True)
"#;

/// A repository whose `claude` is a program that misbehaves.
pub fn misbehaving(body: &str) -> Site {
    let site = Site::new(&[("a.txt", "a\n")]);
    let client = site.folder.path().join("client");
    fs::create_dir_all(site.home()).unwrap();
    fs::create_dir_all(&client).unwrap();
    let program = client.join("claude");
    fs::write(&program, format!("{FAKE}{body}")).unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let model = site.folder.path().join("model");
    fs::write(&model, "say Nobody asks me.\n").unwrap();
    let config = format!(
        "providers: {{s: {{url: 'script:{}', dialect: anthropic, free: true}}}}\nbrains: {{claude: {{command: ['{}']}}}}\n",
        model.display(),
        program.display()
    );
    fs::write(site.home().join("config.yml"), config).unwrap();
    site
}

/// Adds lines to the operator's settings.
pub fn add_config(site: &Site, lines: &str) {
    let path = site.home().join("config.yml");
    let config = fs::read_to_string(&path).unwrap();
    fs::write(path, format!("{config}{lines}")).unwrap();
}

/// It floods its output, line by line and in one line without an end: the task ends in order, and neither memory nor disk fills.
#[test]
fn a_client_that_floods_hurts_nobody() {
    let lines = misbehaving("for n in range(100):\n    say(type='noise', text='x' * 1_000_000)\ndone('flooded')\nsys.stdin.read()\n");
    lines.ok(&["act", "flood", "--brain", "claude", "--await"]);
    assert_eq!(of(&lines, "task.finished").len(), 1);
    let kept: u64 = of(&lines, "brain.transcribed").iter().map(|part| part["bytes"].as_u64().unwrap()).sum();
    let dropped = of(&lines, "records.dropped");
    assert!(kept <= 64 << 20, "{kept}");
    assert!(dropped.iter().any(|record| record["kind"] == "brain.transcribed" && record["count"].as_u64() > Some(0)), "{dropped:?}");
    assert_eq!(lines.leftovers(), Vec::<String>::new());

    let endless = misbehaving("while True:\n    sys.stdout.write('x' * 1_000_000)\n");
    drop(endless.skep(&["act", "flood", "--brain", "claude", "--await"]));
    let ended = [of(&endless, "task.failed"), of(&endless, "task.stopped")].concat();
    assert!(ended.iter().any(|end| end["reason"].as_str().is_some_and(|why| why.contains("a line of more than 16 MiB"))), "{ended:?}");
    assert_eq!(endless.leftovers(), Vec::<String>::new());
}

/// It leaves processes behind, does not heed the end of its input and ignores signals: nothing of it outlives its turn.
#[test]
fn a_client_that_clings_to_life_is_ended() {
    let body = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n\
                subprocess.Popen(['setsid', 'sleep', '98765'])\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(98765)\n\
                done('still here')\nwhile True:\n    time.sleep(60)\n";
    let site = misbehaving(body);
    // Else it would wait, held still, for the next task.
    add_config(&site, "brain_idle: 0s\n");
    site.ok(&["act", "cling", "--brain", "claude", "--await"]);
    assert_eq!(of(&site, "task.finished")[0]["summary"], "still here");
    let sleeps = || {
        fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .any(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.windows(5).any(|part| part == b"98765")))
    };
    eventually("nothing of it is left", || !sleeps());
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// It writes and reads where it must not, and says that all is well: the room decides, not its word.
#[test]
fn a_client_that_reaches_out_reaches_nothing() {
    let body = "def tries(act):\n    try:\n        act()\n        return 'ok'\n    except Exception as error:\n        return type(error).__name__\n\
                home = os.environ.get('SKEP_HOME_OF_TEST', '')\n\
                tried = {'etc': tries(lambda: open('/etc/skep-was-here', 'w').write('x')),\n\
                'project': tries(lambda: open('ungated.txt', 'w').write('x')),\n\
                'shadow': tries(lambda: open('/etc/shadow').read()),\n\
                'net': tries(lambda: __import__('urllib.request').request.urlopen('http://192.0.2.1/', timeout=3))}\n\
                say(type='assistant', message={'content': [{'type': 'text', 'text': json.dumps(tried)}]})\n\
                done('all is well')\nsys.stdin.read()\n";
    let site = misbehaving(body);
    let output = site.command(&["act", "reach out", "--brain", "claude", "--await"]).output().unwrap();
    let told = crate::common::text(&output);
    assert!(!output.status.success() && told.contains("wrote `ungated.txt` without asking"), "{told}");
    let tried: Value = serde_json::from_str(of(&site, "brain.said")[0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(tried["project"], "ok", "the overlay is its own: {tried}");
    assert!(tried["shadow"] != "ok" && tried["net"] != "ok", "{tried}");
    assert!(!std::path::Path::new("/etc/skep-was-here").exists() && !site.project().join("ungated.txt").exists());
    assert_eq!(of(&site, "model.used"), Vec::<Value>::new(), "what it claims to have used is nobody's figure");
    // What it wrote without a word is on record as that, and nobody is asked to merge it.
    let refused = of(&site, "call.refused");
    assert!(refused.iter().any(|call| call["reason"].as_str().is_some_and(|why| why.starts_with("ungated"))), "{refused:?}");
    assert!(refused.iter().any(|call| call["input"]["tool"] == "write of ungated.txt"), "{refused:?}");
    assert_eq!((site.count("merge.proposed"), site.count("task.stopped")), (0, 1));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// The control: one that asks before it writes, or runs a command that may write anything, is not taken for one that does not.
#[test]
fn a_client_that_asks_may_write() {
    let named = "ask('Write', file_path=os.path.abspath('deep/er/new.txt'), content='x')\nos.makedirs('deep/er')\nopen('deep/er/new.txt', 'w').write('x')\n";
    let any = "ask('Bash', command='make')\nopen('made.txt', 'w').write('x')\n";
    for body in [named, any] {
        let site = misbehaving(&format!("{body}done('done')\nsys.stdin.read()\n"));
        site.ok(&["act", "write", "--brain", "claude", "--await"]);
        assert_eq!((site.count("merge.proposed"), site.count("task.stopped")), (1, 0));
        site.ok(&["reject", "task-1"]);
        assert_eq!(site.leftovers(), Vec::<String>::new());
    }
}

/// It is ended in the middle of its work, again and again: the task stops with the reason, and goes on when it is told to.
#[test]
fn a_client_that_keeps_crashing_stops_its_task() {
    let site = misbehaving(
        "print('a warning of no weight', file=sys.stderr, flush=True)\nif os.path.exists('ill'):\n    print('the disk is on fire', file=sys.stderr)\n    \
         sys.exit(3)\nif not os.path.exists('well'):\n    os.kill(os.getpid(), signal.SIGKILL)\ndone('well again')\nsys.stdin.read()\n",
    );
    drop(site.skep(&["act", "crash", "--brain", "claude", "--await"]));
    let reason = |nth: usize| of(&site, "task.stopped")[nth]["reason"].as_str().unwrap().to_owned();
    assert_eq!(reason(0), "the brain crashed: its program was killed (signal 9) before its turn was over", "what it wrote is no reason");
    assert_eq!(of(&site, "task.started").len(), 4, "it was started again three times");
    fs::write(site.project().join("ill"), "").unwrap();
    drop(site.skep(&["retry", "task-1", "--await"]));
    let expected = "the brain crashed: its program ended with exit code 3 before its turn was over; its last error output: a warning of no weight\n\
                    the disk is on fire";
    assert_eq!(reason(1), expected);
    fs::remove_file(site.project().join("ill")).unwrap();
    fs::write(site.project().join("well"), "").unwrap();
    site.ok(&["retry", "task-1"]);
    eventually("it goes on", || site.count("task.finished") == 1);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// What a client had written beside a file when it was killed before it replaced it stays out of the merge, and is told; where a command may
/// have meant it, it is a change like any other.
#[test]
fn what_a_client_left_beside_a_file_stays_out_of_the_merge() {
    let written = "ask('Write', file_path=os.path.abspath('one.txt'), content='x')\nopen('one.txt', 'w').write('x')\n\
                   open('one.txt.tmp.2.4e26', 'w').write('x')\n";
    for (before, is_meant) in [("", false), ("ask('Bash', command='make')\n", true)] {
        let site = misbehaving(&format!("{before}{written}done('done')\nsys.stdin.read()\n"));
        site.ok(&["act", "write", "--brain", "claude", "--await"]);
        let proposed = of(&site, "merge.proposed")[0]["paths"].to_string();
        assert_eq!(proposed.contains("the client was ended while it replaced `one.txt` by this"), !is_meant, "{proposed}");
        site.ok(&["merge", "task-1", "--yes"]);
        let exists = |name: &str| site.project().join(name).exists();
        assert_eq!((exists("one.txt"), exists("one.txt.tmp.2.4e26")), (true, is_meant));
        assert_eq!(site.leftovers(), Vec::<String>::new());
    }
}
