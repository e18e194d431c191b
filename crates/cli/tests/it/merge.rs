//! Merges as a person meets them: following, trying, choosing, hostile names and large files, with the real `skep`.

use crate::common::Site;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn act(site: &Site, script: &str) -> String {
    let brain = site.script(script);
    let shown = site.skep(&["act", "change it", "--brain", &brain, "--await", "--json"]);
    let view: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    view["task"].as_str().unwrap().to_owned()
}

#[test]
fn what_is_tried_is_the_tasks_tree_and_leaves_nothing() {
    let site = Site::new(&[("a.txt", "old\n"), ("gone.txt", "x\n")]);
    let task = act(&site, "call fs.write path=a.txt content=\"new\\n\"\ncall fs.delete path=gone.txt\ndone\n");
    let before = site.ok(&["diff", &task, "--text"]);
    assert_eq!(
        site.ok(&["try", &task, "--", "sh", "-c", "cat a.txt; ls gone.txt 2>/dev/null; echo mark > a.txt; echo mark > b.txt"]),
        "new\n"
    );
    assert_eq!(site.skep(&["try", &task, "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(site.ok(&["diff", &task, "--text"]), before);
    assert_eq!((site.read("a.txt"), site.project().join("b.txt").exists()), ("old\n".into(), false));
    assert_eq!(site.count("task.tried"), 2);
    site.ok(&["merge", &task, "--yes"]);
    assert!(site.fails(9, &["try", &task, "--", "true"]).contains("has no workspace"));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// A policy that changed after the question may leave nothing over.
#[test]
fn a_merge_of_which_the_new_policy_leaves_nothing_is_refused_with_the_reason() {
    let site = Site::new(&[("a.txt", "old\n")]);
    let task = act(&site, "call fs.write path=a.txt content=\"new\\n\"\ndone\n");
    let policy = site.read(".skep/policy.yaml");
    let rule = "\n  - name: frozen\n    match: { syscall: fs.write, path_glob: \"/a.txt\" }\n    action: deny\n    reason: it is frozen\n";
    site.write(".skep/policy.yaml", &(policy + rule));
    site.trust();
    let said = site.fails(9, &["merge", &task, "--yes"]);
    assert!(said.contains("nothing is merged") && said.contains("every change is left out"), "{said}");
    assert!(said.contains(&format!("`skep diff {task}` says why")), "{said}");
    assert_eq!(site.read("a.txt"), "old\n");
}

/// A port that nobody has. Not one of those that the host hands out: somebody else could be given it before we use it.
fn free_port() -> u16 {
    let first = 20_000 + (std::process::id() % 10_000) as u16;
    (first..32_000).find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

#[test]
fn a_port_leads_into_the_room_while_the_command_runs() {
    let site = Site::new(&[("index.html", "old\n")]);
    let task = act(&site, "call fs.write path=index.html content=\"from the room\\n\"\ndone\n");
    let port = free_port().to_string();
    let mut child = site.command(&["try", &task, "--port", &port, "--", "python3", "-m", "http.server", &port]).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let page = loop {
        assert!(Instant::now() < end, "the room never answered");
        let mut text = String::new();
        if let Ok(mut stream) = TcpStream::connect(format!("127.0.0.1:{port}")) {
            let asked = stream.write_all(b"GET /index.html HTTP/1.0\r\n\r\n").and_then(|()| stream.read_to_string(&mut text));
            if asked.is_ok() && text.contains("200 OK") {
                break text;
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(page.ends_with("from the room\n"), "{page}");
    // A second trial cannot have the port, but another one of this machine can lead to the same of its room.
    assert!(site.fails(9, &["try", &task, "--port", &port, "--", "true"]).contains("cannot be had"));
    assert_eq!(site.ok(&["try", &task, "--port", &format!("{}:{port}", free_port()), "--", "echo", "hi"]), "hi\n");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(format!("127.0.0.1:{port}")).is_ok() {
        assert!(Instant::now() < end, "the port stays open after its command");
        std::thread::sleep(Duration::from_millis(20));
    }
    site.ok(&["reject", &task]);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn a_followed_diff_ends_with_its_task() {
    let site = Site::new(&[("a.txt", "old\n")]);
    let brain = site.script("call fs.write path=a.txt content=\"new\\n\"\ncall shell.run command=[\"sleep\", \"2\"]\ncall fs.write path=b.txt content=\"b\\n\"\ndone\n");
    let task = site.json(&["act", "two files", "--brain", &brain])["task"].as_str().unwrap().to_owned();
    let shown = site.ok(&["diff", &task, "--follow"]);
    assert!(shown.contains("+new") && shown.contains("created b.txt"), "{shown}");
}

#[test]
fn hostile_large_and_odd_files_are_shown_safely() {
    let site = Site::new(&[("crlf.txt", "a\r\nb\r\n"), ("bare.txt", "x")]);
    let script = "call shell.run command=[\"sh\", \"-c\", \"printf 'a\\\\033]0;owned\\\\007\\\\342\\\\200\\\\256b\\\\n' > evil.txt; \
                  d=\\\"$(printf 'n\\\\n+++ b')\\\"; mkdir \\\"$d\\\"; echo x > \\\"$d/$(printf 'fake\\\\033[2J')\\\"; head -c 2097152 /dev/zero | tr '\\\\0' a > big.txt; \
                  head -c 100 /dev/zero > bin; printf 'A\\\\r\\\\nb\\\\r\\\\n' > crlf.txt; printf y > bare.txt; \
                  mkdir many; for i in $(seq 60); do echo $i > many/$i; done\"]\ndone\n";
    let task = act(&site, script);
    let shown = site.ok(&["merge", "show", &task]);
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}') && !shown.contains('\u{7}'));
    for part in [
        "too large to show: nothing becomes 2097152 bytes (sha256 ",
        "binary: nothing becomes 100 bytes (sha256 ",
        "No newline at end of file",
        "66 files changed",
    ] {
        assert!(shown.contains(part), "{part}\n{}", &shown[..shown.len().min(3000)]);
    }
    // A line break in a name begins no line of a diff.
    assert!(shown.contains("created n⏎+++ b/fake\\x1b[2J") && shown.contains("+++ b/n\\n+++ b/fake\\u{1b}[2J"), "{shown}");
    assert!(!shown.lines().any(|line| line.trim_start().starts_with("+++ b/fake")));
    site.ok(&["merge", &task, "--yes"]);
    assert_eq!((site.read("crlf.txt"), site.read("bare.txt"), site.read("many/60")), ("A\r\nb\r\n".into(), "y".into(), "60\n".into()));
}

#[test]
fn a_patch_is_imported_as_a_task_or_refused_whole() {
    let site = Site::new(&[("a.txt", "one\ntwo\n")]);
    site.ok(&["init"]);
    let patch = site.folder.path().join("fix.patch");
    std::fs::write(&patch, "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n").unwrap();
    let task = site.json(&["merge", "import", patch.to_str().unwrap()])["task"].as_str().unwrap().to_owned();
    assert!(site.ok(&["merge", "list"]).contains("waits for you"));
    site.ok(&["merge", "apply", &task, "--yes"]);
    assert_eq!(site.read("a.txt"), "one\nTWO\n");
    let told = crate::common::text(&site.skep(&["merge", "import", patch.to_str().unwrap()]));
    assert!(told.contains("does not fit `a.txt`"), "{told}");
    site.ok(&["merge", "undo", &task]);
    assert_eq!(site.read("a.txt"), "one\ntwo\n");
}

/// Taking back is the operator's own call: what denies it is told, and passed over by the phrase alone.
#[test]
fn an_undo_that_is_denied_needs_its_phrase() {
    let site = Site::new(&[("a.txt", "old\n")]);
    let task = act(&site, "call fs.write path=a.txt content=\"new\\n\"\ndone\n");
    site.ok(&["merge", &task, "--yes"]);
    let rule = "\n  - name: frozen\n    match: { syscall: fs.write, path_glob: \"/a.txt\" }\n    action: deny\n    reason: it is frozen\n";
    site.write(".skep/policy.yaml", &(site.read(".skep/policy.yaml") + rule));
    site.trust();
    let phrase = format!("undo {task} anyway");
    let said = site.fails(3, &["merge", "undo", &task]);
    assert!(said.contains("it is frozen") && said.contains(&format!("--phrase '{phrase}'")), "{said}");
    site.fails(3, &["merge", "undo", &task, "--phrase", "undo it"]);
    assert_eq!(site.read("a.txt"), "new\n");
    site.ok(&["merge", "undo", &task, "--phrase", &phrase]);
    assert_eq!(site.read("a.txt"), "old\n");
    let begun = |record: &serde_json::Value| record["type"] == "merge.undo_begun" && record.to_string().contains("it is frozen");
    assert!(site.records(&[]).iter().any(begun), "what was passed over is on record");
}

#[test]
fn a_tag_is_the_operators_to_give() {
    let site = Site::new(&[("a.txt", "old\n")]);
    site.ok(&["init"]);
    let rule = "\n  - name: probation\n    match: { syscall: fs.write, caller_tag: new_employee }\n    action: deny\n    reason: not yet\n";
    site.write(".skep/policy.yaml", &(site.read(".skep/policy.yaml") + rule));
    site.trust();
    let brain = site.script("call fs.write path=a.txt content=\"new\\n\"\ndone\n");
    site.ok(&["act", "tagged", "--brain", &brain, "--tag", "new_employee", "--await"]);
    assert_eq!((site.count("call.refused"), site.count("call.admitted")), (1, 0));
    site.skep(&["act", "another", "--brain", &brain, "--tag", "seasoned", "--await"]);
    assert_eq!((site.count("call.refused"), site.count("call.admitted")), (1, 1), "the control");
    for tag in ["operator", "brain", "foreman", "job", "client", "two words", ""] {
        site.fails(2, &["act", "x", "--brain", &brain, "--tag", tag]);
    }
}

/// What policy denies to a trial is on record like any other refusal.
#[test]
fn a_refused_trial_is_on_record() {
    let policy = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow, reason: a test}\n\
        - {name: no-curl, match: {syscall: shell.run, command: [curl]}, action: deny, reason: nothing is fetched}\n";
    let site = Site::new(&[("a.txt", "one\n"), (".skep/policy.yaml", policy)]);
    site.trust();
    let brain = site.script("call fs.write path=b.txt content=two\ndone\n");
    site.skep(&["act", "write", "--brain", &brain, "--await"]);
    assert_eq!(site.ok(&["try", "task-1", "--", "cat", "b.txt"]), "two");
    assert_eq!((site.count("call.refused"), site.count("task.tried")), (0, 1), "the control");
    let output = site.skep(&["try", "task-1", "--", "curl", "https://example.com"]);
    assert!(!output.status.success() && crate::common::text(&output).contains("nothing is fetched"), "{}", crate::common::text(&output));
    let refused = site.records(&["--kind", "call.refused"]);
    let [refused] = &refused[..] else { panic!("{refused:?}") };
    let payload = &refused["payload"];
    assert_eq!((&payload["tool"], &payload["input"]["command"][0]), (&"shell.run".into(), &"curl".into()), "{refused}");
    assert_eq!(payload["rules"], serde_json::json!(["no-curl"]), "{refused}");
    assert_eq!(site.count("task.tried"), 1);
}

/// A command of the operator's is a process of its own: what a rule says of it holds at the merge, and what it says of the operator does not
/// stand in for it.
#[test]
fn what_a_command_wrote_is_merged_by_its_own_rights() {
    let policy = |more: &str| {
        format!(
            "capabilities:\n- {{name: all, match: {{syscall: '*'}}, action: allow, reason: a test}}\n\
             - {{name: no, match: {{syscall: fs.write, path_glob: a.txt, role: job}}, action: deny, reason: not for commands}}\n{more}"
        )
    };
    let asks = "- {name: asks, match: {syscall: merge.apply, caller_tag: brain}, action: require_review, reason: look}\n";
    let site = Site::new(&[("a.txt", "one\n"), ("b.txt", "one\n"), (".skep/policy.yaml", &policy(asks))]);
    site.trust();
    let command = ["sandbox", "run", "--", "sh", "-c", "echo two > a.txt; echo two > b.txt"];
    site.ok(&command);
    let merged = site.ok(&["merge", "task-1", "--yes"]);
    assert!(merged.contains("not for commands"), "{merged}");
    assert_eq!((site.read("a.txt"), site.read("b.txt")), ("one\n".into(), "two\n".into()));
    // Positive control: the operator may.
    site.ok(&["call", "fs.write", "path=a.txt", "content=three"]);
    site.ok(&["merge", "task-2", "--yes"]);
    assert_eq!(site.read("a.txt"), "three");
    // A no to the whole is one whoever says yes.
    let never = "- {name: never, match: {syscall: merge.apply, role: job}, action: deny, reason: commands merge nothing}\n";
    site.write(".skep/policy.yaml", &policy(never));
    site.trust();
    site.ok(&["sandbox", "run", "--", "sh", "-c", "echo four > b.txt"]);
    let rejected = site.records(&["--kind", "merge.rejected"]);
    assert!(rejected.last().is_some_and(|record| record.to_string().contains("commands merge nothing")), "{rejected:?}");
    assert_eq!(site.read("b.txt"), "two\n");
}

/// A command of the operator's reads no more than its own process may.
#[test]
fn what_a_command_may_not_read_is_masked_in_its_room() {
    let policy = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow, reason: a test}\n\
        - {name: no, match: {syscall: fs.read, path_glob: 'private/**', role: job}, action: deny, reason: not for commands}\n\
        - {name: named, match: {syscall: fs.read, path_glob: named.txt, caller: 'claude.*'}, action: deny, reason: not for claude}\n";
    let site = Site::new(&[("private/a.txt", "secret\n"), ("open.txt", "open\n"), ("named.txt", "named\n"), (".skep/policy.yaml", policy)]);
    site.trust();
    let read = "cat open.txt named.txt private/a.txt";
    let told = crate::common::text(&site.skep(&["sandbox", "run", "--discard", "--", "sh", "-c", read]));
    assert!(told.contains("open\n") && told.contains("named\n") && !told.contains("secret"), "{told}");
    let told = crate::common::text(&site.skep(&["sandbox", "run", "--discard", "--name", "claude", "--", "sh", "-c", read]));
    assert!(told.contains("open\n") && !told.contains("named\n") && !told.contains("secret"), "{told}");
    // Positive control: the operator may, at the door and in a room.
    assert!(site.ok(&["call", "fs.read", "path=private/a.txt"]).contains("secret"));
    let command = format!("command={}", serde_json::json!(["sh", "-c", read]));
    assert!(site.ok(&["call", "shell.run", &command]).contains("secret"));
}
