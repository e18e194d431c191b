//! A codex whose `app-server` does not answer works by `codex exec`: asked about by its hooks, and stopped where it did not ask.

use crate::brains::{CODEX, of, site_with};
use crate::common::Site;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// The real codex behind a program that knows no `app-server`, and that changes the words of `exec` by `edit`.
pub fn site(script: &str, policy: &str, edit: &str) -> Site {
    let program = crate::npm::installed(CODEX.name, CODEX.package);
    let site = site_with(&[("a.txt", "a\n"), (".skep/policy.yaml", policy)], script, "codex", &["/bin/false"]);
    let folder = site.folder.path().join("old");
    fs::create_dir(&folder).unwrap();
    let old = folder.join("codex");
    let body = format!(
        "#!/bin/bash\nif [ \"$1\" = app-server ]; then echo \"error: unrecognized subcommand 'app-server'\" >&2; exit 2; fi\n{edit}exec {} \"$@\"\n",
        program.display()
    );
    fs::write(&old, body).unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).unwrap();
    let config = fs::read_to_string(site.home().join("config.yml")).unwrap().replace("/bin/false", &old.to_string_lossy());
    let shown = program.canonicalize().unwrap();
    let shown = shown.ancestors().filter(|folder| folder.ends_with("node_modules")).last().unwrap();
    fs::write(site.home().join("config.yml"), format!("{config}sandbox: {{show: ['{}']}}\n", shown.display())).unwrap();
    site.trust();
    site
}

#[test]
fn codex_without_an_app_server_is_asked_about_by_its_hooks() {
    let site = site(crate::talk::WRITES, crate::talk::DENIES, "");
    let said = site.ok(&["act", "Please write the greeting", "--brain", CODEX.brain, "--await"]);
    assert!(said.contains("I was told why."), "{said}");
    let told: Vec<Value> = of(&site, "brain.said").into_iter().map(|said| said["text"].clone()).collect();
    let first = told[0].as_str().unwrap();
    assert!(first.starts_with("(`codex app-server` does not answer, so `codex exec` works on this: "), "{told:?}");
    assert!(first.contains("unrecognized subcommand"), "{told:?}");
    let admitted = of(&site, "call.admitted");
    let writes: Vec<&Value> = admitted.iter().filter(|call| call["tool"] == "fs.write").collect();
    let [write] = &writes[..] else { panic!("{admitted:?}") };
    assert_eq!((&write["hands"], &write["paths"]), (&json!("caller"), &json!(["bye.txt"])));
    let finished = of(&site, "call.finished");
    assert!(finished.iter().any(|end| end["call"] == write["call"] && end["ok"] == true), "{finished:?}");
    let refused = of(&site, "call.refused");
    assert!(refused.iter().any(|call| call["tool"] == "fs.write" && call["rules"] == json!(["no-greetings"])), "{refused:?}");
    assert!(!refused.iter().any(|call| call["reason"].as_str().is_some_and(|why| why.starts_with("ungated"))), "{refused:?}");
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!((site.read("bye.txt"), site.project().join("hello.txt").exists()), ("bye\n".to_owned(), false));

    // The next task goes on with the conversation, by another program.
    site.ok(&["act", "Nothing more", "--brain", CODEX.brain, "--await"]);
    let series = |task: &str| site.json(&["status", task])["outputs"][0]["series"].clone();
    assert!(series("task-1").is_string() && series("task-1") == series("task-2"), "{} {}", series("task-1"), series("task-2"));
    assert_eq!(site.json(&["journal", "verify"])["findings"], json!([]));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// Takes our hooks out of its words.
pub const WITHOUT_HOOKS: &str =
    "words=(); for word in \"$@\"; do [[ $word == hooks=* ]] && word='hooks={}'; words+=(\"$word\"); done; set -- \"${words[@]}\"\n";

/// The same without its hooks: codex then asks nobody, and its task is stopped.
#[test]
fn codex_exec_that_does_not_ask_is_stopped() {
    let site = site(crate::talk::WRITES, "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow}\n", WITHOUT_HOOKS);
    let output = site.command(&["act", "Please write the greeting", "--brain", CODEX.brain, "--await"]).output().unwrap();
    let told = crate::common::text(&output);
    assert!(!output.status.success() && told.contains("without asking"), "{told}");
    let refused = of(&site, "call.refused");
    assert!(refused.iter().any(|call| call["reason"].as_str().is_some_and(|why| why.starts_with("ungated"))), "{refused:?}");
    assert_eq!((site.count("merge.proposed"), site.project().join("hello.txt").exists()), (0, false));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}
