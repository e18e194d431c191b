//! Rules, grants and tokens as a person uses them.

use crate::common::Site;
use wire::table::ZoneTrust;

const OPEN: &str = "\
capabilities:
- {name: all, match: {syscall: '*'}, action: allow, reason: a test}
- name: ask-src
  match: {syscall: fs.write, path_glob: 'src/**'}
  action: require_review
  reason: source is precious
  examples: {match: [{syscall: fs.write, path: src/a}], not_match: [{syscall: fs.write, path: docs/a}]}
";
const CLOSED: &str = "- {name: no-a, match: {syscall: fs.read, path_glob: a.txt}, action: deny, reason: no more}\n";

fn ready() -> Site {
    let site = Site::new(&[(".skep/policy.yaml", OPEN), ("a.txt", "hello\n")]);
    site.trust();
    site
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not said in:\n{text}");
    }
}

#[test]
fn rules_are_checked_explained_and_tried_before_they_are_in_force() {
    let site = ready();
    says(&site.ok(&["policy", "test"]), &["✓ .skep/policy.yaml  2 rules, 2 examples that hold"]);
    let new = site.folder.path().join("new.yaml");
    let new = new.to_str().unwrap();
    std::fs::write(new, OPEN.replace("syscall: '*'", "sycsall: '*'")).unwrap();
    says(&site.fails(1, &["policy", "check", new]), &["new.yaml:2:", "sycsall", "1 error"]);
    says(&site.fails(2, &["policy", "update", new, "--yes"]), &["cannot be put in force"]);
    std::fs::write(new, OPEN.replace("path: src/a", "path: doc/a")).unwrap();
    says(&site.fails(1, &["policy", "test", new]), &["new.yaml:", "1 error"]);
    says(
        &site.ok(&["policy", "explain", "fs.write", "path=src/a", "content=x"]),
        &["◍ Writing src/a  review", "ask-src", "source is precious"],
    );

    (0..6).for_each(|_| drop(site.ok(&["call", "fs.read", "path=a.txt"])));
    std::fs::write(new, format!("{OPEN}{CLOSED}")).unwrap();
    let tried = site.ok(&["policy", "trial", new]);
    says(&tried, &["[BREAKING]", "fs.read a.txt", "allow → deny", "no-a", "6 breaking"]);
    assert_eq!(tried.matches("[BREAKING]").count(), 6, "{tried}");
    assert_eq!(site.json(&["policy", "trial", new, "--last", "2"])["tried"], 2);
    // Six breaking changes are no matter of a flag, and before a yes nothing is written.
    says(&site.fails(2, &["policy", "update", new, "--yes"]), &["break 6 calls", "--phrase"]);
    says(&site.fails(11, &["policy", "update", new, "--phrase", "break 5 calls"]), &["nothing changed", "--phrase 'break 6 calls'"]);
    assert_eq!(site.read(".skep/policy.yaml"), OPEN);
    site.ok(&["call", "fs.read", "path=a.txt"]);
    says(&site.ok(&["policy", "update", new, "--phrase", "break 7 calls"]), &["+- {name: no-a", "✓ policy version 2 is in force"]);
    assert_eq!(site.read(".skep/policy.yaml"), format!("{OPEN}{CLOSED}"));
    says(&site.fails(3, &["call", "fs.read", "path=a.txt"]), &["no-a"]);
    says(&site.ok(&["policy", "log", "--diff"]), &["version 2", "+- {name: no-a", "version 1"]);
    says(&site.ok(&["policy", "types"]), &["rule("]);
    // A yes to one file is no yes to another that came with a clone.
    site.write("skep.yml", "limits: { calls: 5 }\n");
    std::fs::write(new, OPEN).unwrap();
    says(&site.fails(11, &["policy", "update", new, "--yes"]), &["more than `.skep/policy.yaml`", "skep trust"]);
    assert_eq!(site.read(".skep/policy.yaml"), format!("{OPEN}{CLOSED}"));
}

#[test]
fn whatever_puts_a_policy_in_force_wants_the_phrase() {
    use wire::method::zone::ZoneTrustParams;
    let site = ready();
    (0..21).for_each(|_| drop(site.ok(&["call", "fs.read", "path=a.txt"])));
    // Positive control: what breaks nothing is a matter of a flag.
    site.write(".skep/policy.yaml", &format!("{OPEN}# a word\n"));
    says(&site.trust(), &["version 2 is in force"]);
    let closed = format!("{OPEN}{CLOSED}");
    site.write(".skep/policy.yaml", &closed);
    says(&site.fails(2, &["trust", "--yes"]), &["[BREAKING]", "21 breaking", "break 21 calls", "--phrase"]);
    says(&site.fails(2, &["policy", "update", "--yes", "--last", "1"]), &["break 21 calls"]);
    let no = site.fails(11, &["trust", "--yes", "--phrase", "break 5 calls"]);
    says(&no, &["[BREAKING]", "nothing changed", "by the phrase `break 21 calls`", "--phrase 'break 21 calls'"]);
    // Neither a client of its own nor a restart is a way around.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let asked = |phrase: Option<&str>| {
        runtime.block_on(async {
            let mut kernel = wire::KernelClient::connect(&site.home()).await.unwrap();
            let path = site.project().canonicalize().unwrap().to_str().unwrap().to_owned();
            let shown = kernel.call::<ZoneTrust>(&ZoneTrustParams { path: path.clone(), hash: None, phrase: None }).await.unwrap();
            assert_eq!((shown.breaking, shown.phrase.as_deref()), (21, Some("break 21 calls")));
            kernel.call::<ZoneTrust>(&ZoneTrustParams { path, hash: Some(shown.hash), phrase: phrase.map(Into::into) }).await
        })
    };
    says(&asked(None).unwrap_err().to_string(), &["would deny 21 of the last 21 calls"]);
    says(&asked(Some("break 20 calls")).unwrap_err().to_string(), &["would deny 21"]);
    site.ok(&["kernel", "stop"]);
    site.ok(&["init"]);
    says(&site.ok(&["call", "fs.read", "path=a.txt"]), &["hello"]);
    site.write(".skep/policy.yaml", "");
    says(&site.fails(2, &["trust", "--yes"]), &["break 22 calls"]);
    site.write(".skep/policy.yaml", &closed);
    says(&site.ok(&["trust", "--phrase", "break 22 calls"]), &["version 3 is in force"]);
    says(&site.fails(3, &["call", "fs.read", "path=a.txt"]), &["no-a"]);
}

/// The review that a call waits for.
#[track_caller]
fn asked(text: &str) -> String {
    let word = text.split([' ', '`', ':']).find(|word| word.strip_prefix("r-").is_some_and(|n| n.parse::<u64>().is_ok()));
    word.unwrap_or_else(|| panic!("no review in:\n{text}")).to_owned()
}

#[test]
fn a_yes_to_a_cut_question_wants_its_whole_to_be_seen() {
    let site = ready();
    let kept = || std::fs::read_dir(site.home().join("vault")).unwrap().count();
    let long = format!("content={}evil-tail", "all is well\n".repeat(400));
    let write = ["call", "fs.write", "path=src/b", &long];
    says(&site.fails(4, &write), &["r-1"]);
    let shown = site.ok(&["review", "show", "r-1"]);
    says(&shown, &["a yes covers all of it", "skep review show r-1 --full"]);
    assert!(!shown.contains("evil-tail"), "the record is cut");
    says(&site.fails(9, &["review", "allow", "r-1"]), &["r-1 was not shown whole", "skep review show r-1 --full"]);
    says(&site.fails(9, &["review", "allow", "r-1", "--always", "--seen", "00000000"]), &["not shown whole"]);
    // It outlives its kernel, and the answer.
    site.ok(&["kernel", "stop"]);
    says(&site.ok(&["review", "show", "r-1", "--full"]), &["evil-tail", "skep review allow r-1 --seen "]);
    let seen = site.json(&["review", "show", "r-1", "--full"])["seen"].as_str().unwrap().to_owned();
    assert_eq!(kept(), 1);
    says(&site.ok(&["review", "allow", "r-1", "--seen", &seen]), &["✓ r-1 allowed"]);
    assert_eq!(kept(), 0);
    says(&site.ok(&["call", "--task", "task-1", "fs.write", "path=src/b", &long]), &["allowed"]);
    // What the record leaves out as a secret is no less a part of the call.
    says(&site.fails(4, &["call", "fs.write", "path=src/c", "content=password=hunter2-evil-tail"]), &["r-3"]);
    assert!(!site.ok(&["review", "show", "r-3"]).contains("evil-tail"));
    site.fails(9, &["review", "allow", "r-3"]);
    says(&site.ok(&["review", "show", "r-3", "--full"]), &["hunter2-evil-tail"]);
    site.ok(&["review", "deny", "r-3"]);
    assert_eq!(kept(), 0);
    // Positive control: what is shown whole is a matter of one word.
    says(&site.fails(4, &["call", "fs.write", "path=src/d", "content=short"]), &["r-4"]);
    says(&site.ok(&["review", "allow", "r-4"]), &["✓ r-4 allowed"]);
}

#[test]
fn a_diff_shows_what_a_terminal_hides() {
    let asks = "- {name: asks, match: {syscall: merge.apply}, action: require_review, reason: look}\n";
    let site = Site::new(&[(".skep/policy.yaml", &format!("{OPEN}{asks}")), ("a.txt", "hello\n")]);
    site.trust();
    // One byte that is no text, fillers and joiners: nothing of it hides a line.
    let script = r"printf '#!/bin/sh\n# \377\nrm\343\205\244 -rf \342\240\200 x\357\270\217\n' > run.sh";
    let command = format!("command={}", serde_json::json!(["sh", "-c", script]));
    site.ok(&["call", "shell.run", &command]);
    let shown = site.ok(&["diff", "task-1", "--text"]);
    says(&shown, &["created run.sh", "+# \\xff", "+rm\\u{3164} -rf \\u{2800} x\\u{fe0f}"]);
    assert!(!shown.contains("binary"), "{shown}");
    says(&site.ok(&["review", "show", "r-1"]), &["+rm\\u{3164}"]);
    says(&site.ok(&["merge", "task-1", "--yes"]), &["+3 −0"]);
    // What is really no text is told by size and hash, and its question is no matter of one word.
    let script = "printf '\\177ELF\\000\\000\\000\\000' > program";
    let command = format!("command={}", serde_json::json!(["sh", "-c", script]));
    site.ok(&["call", "shell.run", &command]);
    says(&site.ok(&["diff", "task-2", "--text"]), &["binary: nothing becomes 8 bytes (sha256 "]);
    says(&site.fails(9, &["review", "allow", "r-2"]), &["r-2 was not shown whole"]);
    says(
        &site.ok(&["review", "show", "r-2", "--full"]),
        &["created program", "binary: nothing", "skep diff task-2 --file PATH", "--seen "],
    );
    let output = site.skep(&["diff", "task-2", "--file", "program"]);
    assert_eq!(output.stdout, b"\x7fELF\0\0\0\0");
    says(&site.ok(&["merge", "task-2", "--yes"]), &["created  binary  program  nothing becomes 8 bytes"]);
}

#[test]
fn a_wide_yes_lasts_until_it_is_taken_back() {
    let site = ready();
    let write = ["call", "fs.write", "path=src/b", "content=x"];
    says(&site.fails(4, &write), &["r-1"]);
    site.ok(&["review", "allow", "r-1", "--for", "user", "--paths", "src/**", "--ttl", "10m", "--hide", "bytes"]);
    let wrote = site.json(&write);
    assert_eq!((&wrote["ok"], &wrote["decision"]), (&true.into(), &"allowed".into()), "{wrote}");
    site.ok(&["call", "fs.write", "path=src/c", "content=x"]);
    let listed = site.ok(&["grant", "list"]);
    says(&listed, &["✓ g-1  fs.write on src/**  always, for ", "left", "hides bytes"]);
    says(&site.ok(&["grant", "revoke", "g-1"]), &["✓ g-1 revoked"]);
    let again = asked(&site.fails(4, &write));
    site.ok(&["review", "deny", &again, "--for-good", "--for", "process", "--instead", "fs.write", "path=docs/b", "--reason", "docs only"]);
    says(&site.fails(3, &write), &["docs only"]);
    says(&site.ok(&["grant", "list"]), &["⊘ b-1", "docs only", "instead fs.write path=docs/b"]);
    says(&site.ok(&["grant", "revoke", "b-1"]), &["✓ b-1 lifted"]);
    assert_ne!(asked(&site.fails(4, &write)), again);
    says(&site.fails(5, &["grant", "revoke", "g-9"]), &["there is no grant `g-9`", "fix"]);
    site.fails(2, &["grant", "revoke", "nine"]);
}

#[test]
fn a_yes_for_the_session_is_about_one_task_and_ends_with_it() {
    let site = ready();
    let write = "call fs.write path=src/b content=x\n";
    let brain = site.script(&format!("{write}call fs.write path=src/b content=y\ndone\n"));
    says(&site.fails(4, &["act", "first", "--brain", &brain, "--await"]), &["r-1"]);
    let told = site.ok(&["review", "allow", "r-1", "--for", "session"]);
    says(&told, &["✓ r-1 allowed", "for  calls like it, until the task ends"]);
    // The second call of the task is covered; its merge is the next question.
    says(&site.fails(4, &["act", "wait for it", "--brain", &brain, "--await"]), &["r-"]);
    let open = site.json(&["review", "list"]);
    let asks: Vec<&str> = open["reviews"].as_array().unwrap().iter().map(|review| review["tool"].as_str().unwrap()).collect();
    assert_eq!(asks, ["merge.apply", "fs.write"], "another task is asked anew: {open}");
    assert_eq!(site.json(&["grant", "list"])["grants"].as_array().unwrap().len(), 1);
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!(site.json(&["grant", "list"])["grants"], serde_json::json!([]), "it ended with its task");
    // The operator's own session is a run of the kernel.
    let own = asked(&site.fails(4, &["call", "fs.write", "path=src/c", "content=x"]));
    site.ok(&["review", "allow", &own, "--for", "session"]);
    site.ok(&["call", "fs.write", "path=src/c", "content=z"]);
    says(&site.ok(&["grant", "list"]), &["for you, until the kernel stops"]);
    site.ok(&["kernel", "stop"]);
    site.fails(4, &["call", "fs.write", "path=src/c", "content=x"]);
}

#[test]
fn a_token_is_for_the_process_that_got_it() {
    let site = ready();
    let skep = env!("CARGO_BIN_EXE_skep");
    let write = format!("{skep} call fs.write path=src/b content=x --token \"$SKEP_TOKEN\"");
    let issue = ["token", "issue", "fs.write", "--paths", "src/**", "--max-ops", "2", "--ttl", "5m", "--", "sh", "-c"];
    let with = |line: &str| -> Vec<String> { issue.iter().map(ToString::to_string).chain([line.to_owned()]).collect() };
    // The same process, by another name.
    let same = with(&format!("exec {write}"));
    says(&site.ok(&same.iter().map(String::as_str).collect::<Vec<_>>()), &["✓ fs.write allowed", "token:t-1"]);
    // A child of it is another process.
    let child = with(&format!("{write}; exit $?"));
    let said = crate::common::text(&site.skep(&child.iter().map(String::as_str).collect::<Vec<_>>()));
    assert!(!said.contains("✓ fs.write allowed"), "{said}");
    let token = site.ok(&["token", "issue", "fs.read"]);
    assert!(token.trim_end().chars().all(|c| c.is_ascii_graphic()) && token.lines().count() == 1, "{token}");
}

#[test]
fn a_journal_is_verified_without_a_kernel() {
    let site = ready();
    site.ok(&["kernel", "stop"]);
    says(&site.ok(&["journal", "verify", "--offline"]), &["✓ the chain of", "is whole"]);
    assert!(!site.home().join("kernel.sock").exists(), "a kernel was started");
    // A journal that is none keeps the kernel from starting; verify says so and looks at the files itself.
    for name in ["journal.db-wal", "journal.db-shm"] {
        drop(std::fs::remove_file(site.home().join(name)));
    }
    std::fs::write(site.home().join("journal.db"), "this is no journal".repeat(100)).unwrap();
    let output = site.skep(&["journal", "verify"]);
    let said = crate::common::text(&output);
    assert!(!output.status.success(), "{said}");
    says(&said, &["without a kernel"]);
}

/// Seven calls of one kind; then what is in force changes in another file than the rules, and that wants the phrase as well.
#[test]
fn masks_extensions_and_modes_count_among_breaking_changes() {
    let site = ready();
    (0..7).for_each(|_| drop(site.ok(&["call", "fs.read", "path=a.txt"])));
    // Positive control: a mask and an extension that break nothing.
    site.write("skep.yml", "mask: [elsewhere/]\n");
    site.write(".skep/rules/no.ts", "export default rule(\"no\", (call) => call.tool === \"fs.delete\" ? deny(\"never\") : pass());\n");
    says(&site.trust(), &["version 2 is in force"]);
    site.write("skep.yml", "mask: [a.txt]\n");
    says(&site.fails(2, &["trust", "--yes"]), &["[BREAKING]", "break 7 calls", "masked"]);
    site.write("skep.yml", "mask: [elsewhere/]\n");
    site.write(".skep/rules/no.ts", "export default rule(\"no\", (call) => call.tool === \"fs.read\" ? deny(\"never\") : pass());\n");
    says(&site.fails(2, &["trust", "--yes"]), &["[BREAKING]", "break 7 calls", "never"]);
    says(&site.fails(2, &["policy", "update", "--yes"]), &["break 7 calls"]);
    says(&site.ok(&["call", "fs.read", "path=a.txt"]), &["hello"]);
    says(&site.ok(&["trust", "--phrase", "break 8 calls and allow more"]), &["version 3 is in force"]);
    says(&site.fails(3, &["call", "fs.read", "path=a.txt"]), &["never"]);
}

/// A rule about reads masks what it denies, and every other call on it is refused then: that breaks as much as a rule about the calls.
#[test]
fn what_a_rule_about_reads_would_mask_counts_among_breaking_changes() {
    let open = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow}\n";
    let site = Site::new(&[(".skep/policy.yaml", open), ("src/a", "a\n"), ("docs/a", "a\n")]);
    site.trust();
    let calls: String = (0..7).map(|number| format!("call fs.write path=src/f{number} content=x\n")).collect();
    site.skep(&["act", "write", "--brain", &site.script(&format!("{calls}call fs.list path=src\ndone\n")), "--await"]);
    assert_eq!(site.count("call.refused"), 0, "the control: all of it was allowed");
    let rule = |glob: &str| format!("{open}- {{name: no, match: {{syscall: fs.read, path_glob: '{glob}'}}, action: deny}}\n");
    let explain = |candidate: &[&str]| {
        let arguments = [&["policy", "explain", "fs.write", "path=src/f1", "content=x"], candidate].concat();
        site.json(&arguments)["outcome"].clone()
    };
    site.write(".skep/policy.yaml", &rule("/docs/**"));
    assert_eq!((site.json(&["policy", "trial"])["breaking"].clone(), explain(&["--candidate"])), (0.into(), "allow".into()));
    site.write(".skep/policy.yaml", &rule("/src/**"));
    assert_eq!((site.json(&["policy", "trial"])["breaking"].clone(), explain(&["--candidate"])), (8.into(), "deny".into()));
    says(&site.fails(2, &["trust", "--yes"]), &["[BREAKING]", "break 8 calls", "`src/f1` is masked: rule `no` denies `fs.read`"]);
    says(&site.fails(2, &["policy", "update", "--yes"]), &["break 8 calls"]);
    assert_eq!(explain(&[]), "allow", "nothing is in force yet");
    says(&site.ok(&["trust", "--phrase", "break 8 calls"]), &["version 2 is in force"]);
    // As it was tried, so it is.
    assert_eq!(explain(&[]), "deny");
}

/// What a call was is on record: where it ran, and whether it was made in earnest.
#[test]
fn a_trial_knows_rooms_and_modes_of_past_calls() {
    let site = ready();
    (0..6).for_each(|_| drop(site.ok(&["call", "shell.run", "command=[\"true\"]", "template=integration-test", "--mode", "dry_run"])));
    let new = site.folder.path().join("new.yaml");
    let new = new.to_str().unwrap();
    for (fits, other) in
        [("mode: dry_run", "mode: live"), ("network: restricted", "network: none"), ("sandbox: integration-test", "sandbox: default")]
    {
        for (field, breaking) in [(fits, 6), (other, 0)] {
            std::fs::write(new, format!("{OPEN}- {{name: no, match: {{syscall: shell.run, {field}}}, action: deny, reason: no}}\n"))
                .unwrap();
            assert_eq!(site.json(&["policy", "trial", new])["breaking"], breaking, "{field}");
        }
    }
}

#[test]
fn two_files_do_not_share_the_last_use_of_a_yes() {
    let site = ready();
    site.write("src/x", "old\n");
    let brain = site.script("call fs.write path=src/b content=x\ncall fs.write path=src/c content=x\ndone\n");
    site.skep(&["act", "write", "--brain", &brain, "--await"]);
    // Two calls use two of three; the merge of two files has one left, and the other is asked about.
    site.ok(&["review", "allow", "r-1", "--for", "user", "--paths", "src/**", "--uses", "3"]);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while site.count("task.parked") < 2 {
        assert!(std::time::Instant::now() < end, "{}", site.ok(&["log", "task-1"]));
    }
    let shown = site.ok(&["review", "show", "r-2"]);
    says(&shown, &["src/c: source is precious"]);
    assert!(!shown.contains("src/b: source is precious"), "{shown}");
    says(&site.ok(&["merge", "task-1", "--yes"]), &["created"]);
    let started = site.records(&["--kind", "merge.started"]);
    assert_eq!(started[0]["payload"]["grants"], serde_json::json!(["g-1", "g-2"]), "{started:?}");
}

#[test]
fn a_diff_says_that_a_new_name_can_be_run() {
    let site = Site::new(&[(".skep/policy.yaml", OPEN), ("a.txt", "hello\n")]);
    site.trust();
    let script = "printf 'echo hi\\n' > run; chmod +x run; printf 'hi\\n' > plain; mv a.txt b.txt; chmod +x b.txt";
    site.ok(&["call", "shell.run", &format!("command={}", serde_json::json!(["sh", "-c", script]))]);
    let shown = site.ok(&["diff", "task-1", "--text"]);
    says(&shown, &["mode 755: it can be run", "mode 644 becomes 755"]);
    assert_eq!(shown.matches("mode ").count(), 2, "{shown}");
}

/// A `skep.yml` that gives a tool another room changes what the rules say of it: a trial tries the calls in the room that they would have.
#[test]
fn rooms_that_skep_yml_changes_count_among_breaking_changes() {
    let site = ready();
    (0..6).for_each(|_| drop(site.ok(&["call", "shell.run", "command=[\"true\"]"])));
    let explain = || site.json(&["policy", "explain", "shell.run", "command=[\"true\"]", "--candidate"])["outcome"].clone();
    let rule = "- {name: no, match: {syscall: shell.run, sandbox: code-executor}, action: deny, reason: no}\n";
    site.write(".skep/policy.yaml", &format!("{OPEN}{rule}"));
    // Positive control: the rule alone breaks nothing.
    assert_eq!((site.json(&["policy", "trial"])["breaking"].clone(), explain()), (0.into(), "allow".into()));
    site.write("skep.yml", "sandbox: {tools: {shell.run: code-executor}}\n");
    assert_eq!((site.json(&["policy", "trial"])["breaking"].clone(), explain()), (6.into(), "deny".into()));
    says(&site.fails(2, &["trust", "--yes"]), &["[BREAKING]", "break 6 calls"]);
    says(&site.ok(&["trust", "--phrase", "break 6 calls and allow more"]), &["is in force"]);
    // As it was tried, so it is.
    says(&site.fails(3, &["call", "shell.run", "command=[\"true\"]"]), &["denied by `no`"]);
}

/// What a caller can be is no typo in a rule about it.
#[test]
fn a_rule_about_commands_and_clients_is_no_typo() {
    let rule = |role: &str| format!("{OPEN}- {{name: no, match: {{syscall: fs.write, role: {role}}}, action: deny}}\n");
    let site = Site::new(&[(".skep/policy.yaml", &rule("job")), ("a.txt", "hello\n")]);
    assert!(!site.trust().contains("no such role"));
    site.write(".skep/policy.yaml", &rule("client"));
    assert!(!site.ok(&["policy", "check"]).contains("no such role"));
    site.write(".skep/policy.yaml", &rule("jb"));
    says(&site.ok(&["policy", "check"]), &["there is no such role", "job"]);
}

/// A policy that allows more than what is in force needs its phrase, first and later; one that allows less does not.
#[test]
fn a_looser_policy_needs_a_phrase_and_a_stricter_one_does_not() {
    let site = Site::new(&[(".skep/policy.yaml", OPEN), ("a.txt", "hello\n")]);
    let no = site.fails(2, &["trust", "--yes"]);
    says(&no, &["differences from the default", "+ all", "looser", "--phrase 'allow more'"]);
    site.ok(&["trust", "--phrase", "allow more"]);
    let deny = "- {name: never, match: {syscall: fs.delete}, action: deny}\n";
    site.write(".skep/policy.yaml", &format!("{OPEN}{deny}"));
    let told = site.ok(&["act", "look", "--brain", &site.script("done\n"), "--await"]);
    assert!(told.is_empty(), "{told}");
    let drift = crate::common::text(&site.skep(&["act", "look", "--brain", &site.script("done\n")]));
    says(&drift, &["the project's policy files changed", "skep trust"]);
    says(&site.ok(&["trust", "--yes"]), &["1 difference from version 1, which is in force: 0 looser, 1 stricter", "version 2 is in force"]);
    site.write(".skep/policy.yaml", OPEN);
    says(&site.fails(2, &["trust", "--yes"]), &["− never", "1 looser", "--phrase 'allow more'"]);
    site.ok(&["trust", "--phrase", "allow more"]);
}

/// Whatever mode a program gives a file, a new one is git's in the project, and an old one is as it was but for the executable bit.
#[test]
fn modes_are_gits_and_blanks_at_the_ends_are_seen() {
    use std::os::unix::fs::PermissionsExt;
    let site = ready();
    let script = "printf 'a \\n' > open; chmod 666 open; printf 'b\\n' > 'blank '; chmod 622 'blank '; printf 'c\\n' > run; chmod 711 run; \
                  printf 'hello you\\n' > a.txt; chmod 777 a.txt";
    site.ok(&["call", "shell.run", &format!("command={}", serde_json::json!(["sh", "-c", script]))]);
    let shown = site.ok(&["diff", "task-1", "--text"]);
    says(&shown, &["created blank·\n", "+++ b/blank·\n", "+a·\n", "mode 755: it can be run", "mode 644 becomes 755"]);
    assert_eq!(shown.matches("mode ").count(), 2, "{shown}");
    says(&site.ok(&["diff", "task-1", "--stat"]), &["blank·", "run  mode 755: it can be run", "a.txt  mode 644 becomes 755"]);
    says(&site.ok(&["merge", "task-1", "--yes"]), &["  + blank·\n"]);
    let mode = |name: &str| std::fs::metadata(site.project().join(name)).unwrap().permissions().mode() & 0o7777;
    // The kernel has the umask of this test.
    let plain = mode_of_new(&site);
    assert_eq!([mode("open"), mode("blank "), mode("run"), mode("a.txt")], [plain, plain, plain | ((plain & 0o444) >> 2), 0o755]);
}

/// What this process's umask leaves of a new file's mode.
fn mode_of_new(site: &Site) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    let path = site.folder.path().join("new");
    std::fs::write(&path, "").unwrap();
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A merge whose question is out of date names the path that changed, and asks about what is there now.
#[test]
fn a_stale_merge_names_the_path() {
    let site = ready();
    site.ok(&["act", "write", "--brain", &site.script("call fs.write path=a.txt content=\"new\\n\"\ndone\n"), "--await"]);
    let digest = site.json(&["diff", "task-1"])["digest"].as_str().unwrap().to_owned();
    site.write("a.txt", "mine\n");
    let no = site.fails(9, &["merge", "task-1", "--yes"]);
    says(&no, &["nothing is merged: `a.txt` changed after the question", "asks about what is there now", "skep diff task-1"]);
    assert_ne!(site.json(&["diff", "task-1"])["digest"], digest);
}
