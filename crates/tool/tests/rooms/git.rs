//! Git in the room: what it tells, and what it never runs.

use super::Host;
use serde_json::{Value, json};
use world::Code;

fn sh(host: &Host, script: &str) -> String {
    let output = host.call("shell.run", json!({ "command": ["sh", "-ec", script] }));
    assert!(output.ok, "{script}: {}", output.value);
    output.value["stdout"].as_str().unwrap_or_default().to_owned()
}

/// A repository with one commit.
fn repository(host: &Host) {
    sh(host, "git init -q -b main; git config user.name t; git config user.email t@t; git add -A; git commit -qm first");
}

fn status(host: &Host) -> Vec<String> {
    let value = host.call("git.status", json!({})).value;
    let words = |change: &Value| ["index", "worktree", "path"].map(|key| change[key].as_str().unwrap_or_default().to_owned()).join(" ");
    value["changes"].as_array().map(|changes| changes.iter().map(words).collect()).unwrap_or_default()
}

pub fn git_tells_and_commits_what_the_task_changed(host: &Host) {
    let refusal = host.refused("git.status", json!({}));
    assert_eq!((refusal.code, refusal.reason.as_str()), (Code::WrongState, "this project is not a git repository"));
    sh(host, "git init -q -b main");
    assert_eq!(host.call("git.log", json!({})).value, json!({ "commits": [], "truncated": false }));
    repository(host);
    assert!(status(host).is_empty());
    assert_eq!(host.refused("git.commit", json!({ "message": "m" })).reason, "there is nothing to commit");
    sh(host, "echo 'fn new() {}' > src/lib.rs; echo x > 'odd name*'; rm src/link.rs; mkdir d; echo y > d/file; git add d");
    assert_eq!(
        status(host),
        ["added unmodified d/file", "unmodified modified src/lib.rs", "unmodified deleted src/link.rs", "unmodified untracked odd name*"]
    );
    let diff = host.call("git.diff", json!({ "path": "src/lib.rs" })).value;
    let patch = diff["patch"].as_str().unwrap_or_default();
    assert!(patch.contains("\n-fn old() {}\n+fn new() {}\n") && diff["files"] == 1, "{patch}");
    assert_eq!(host.call("git.diff", json!({ "staged": true })).value["files"], 1);

    let commit = host.call("git.commit", json!({ "message": "second\n\nwith a body", "paths": ["odd name*", "src"] })).value;
    assert_eq!(commit["files"], 3);
    assert_eq!(status(host), ["added unmodified d/file"], "what was not named stays as it was");
    let log = host.call("git.log", json!({ "max": 1 })).value;
    let newest = &log["commits"][0];
    assert_eq!((&newest["id"], &newest["subject"], &newest["body"]), (&commit["commit"], &json!("second"), &json!("with a body")));
    assert_eq!((&newest["author"], &log["truncated"]), (&json!("skep <skep@localhost.invalid>"), &json!(true)));
    let log = host.call("git.log", json!({ "path": "src/lib.rs" })).value;
    assert_eq!(log["commits"].as_array().map(Vec::len), Some(2));
    host.call("git.commit", json!({ "message": "all" }));
    assert!(status(host).is_empty());
    assert!(!host.project().join(".git").exists(), "the project hears nothing of it");
    assert_eq!(host.refused("git.commit", json!({ "message": " \n" })).reason, "the message says nothing");
}

/// Everything a repository can name a program by. Each program leaves its name in the file `ran`.
const TRAPS: &str = r#"
arm() { printf '#!/bin/sh\necho %s >> "%s/ran"\n%s\n' "$1" "$PWD" "$2" > "$1.sh"; chmod +x "$1.sh"; }
arm fsmonitor; arm external; arm driver; arm pager; arm editor; arm signer 'exit 1'; arm credential; arm alias
arm textconv 'cat "$1"'; arm clean cat; arm smudge cat; arm odd cat; arm process 'exit 1'
for hook in pre-commit prepare-commit-msg commit-msg post-commit post-index-change reference-transaction fsmonitor-watchman; do
  arm $hook; cp $hook.sh .git/hooks/$hook
done
git config core.fsmonitor "$PWD/fsmonitor.sh"
git config diff.external "$PWD/external.sh"
git config diff.d.command "$PWD/driver.sh"
git config diff.t.textconv "$PWD/textconv.sh"
git config filter.f.clean "$PWD/clean.sh"
git config filter.f.smudge "$PWD/smudge.sh"
git config filter.f.required true
git config 'filter.o=d.d.clean' "$PWD/odd.sh"
git config filter.p.process "$PWD/process.sh"
git config core.pager "$PWD/pager.sh"
git config pager.log "$PWD/pager.sh"
git config core.editor "$PWD/editor.sh"
git config commit.gpgSign true
git config log.showSignature true
git config gpg.program "$PWD/signer.sh"
git config credential.helper "$PWD/credential.sh"
git config alias.status "!$PWD/alias.sh"
git config alias.hi "!$PWD/alias.sh"
printf '*.d diff=d\n*.t diff=t\n*.f filter=f\n*.o filter=o=d.d\n*.p filter=p\n' > .gitattributes
cp .gitattributes .git/info/attributes
"#;

pub fn a_hostile_repository_runs_nothing(host: &Host) {
    sh(host, "for x in d t f o p; do echo old > file.$x; done");
    repository(host);
    let touch = "for x in d t f o p; do echo n-$1 > file.$x; done";
    // The control: plain git runs the traps, so they are armed. A pager starts only on a terminal, which no room has.
    sh(host, &format!("{TRAPS}\nset -- a; {touch}"));
    let control = |commands: &str, armed: &[&str]| {
        let ran = sh(host, &format!("set +e; ({commands}) >/dev/null 2>&1; sort -u ran; rm -f ran"));
        for name in armed {
            assert!(ran.lines().any(|line| line == *name), "`{commands}` does not run {name}: {ran}");
        }
    };
    control("git status", &["fsmonitor", "clean", "odd", "process"]);
    control("git diff file.f", &["external"]);
    control("git -c diff.external= diff file.d", &["driver"]);
    control("git --no-pager diff --no-ext-diff file.t", &["textconv"]);
    control("git log -1; git hi", &["alias"]);
    control(
        "git -c filter.p.process= commit -m x file.f file.o",
        &["pre-commit", "prepare-commit-msg", "commit-msg", "signer", "clean", "odd"],
    );
    control(
        "git -c filter.p.process= -c commit.gpgSign=false commit -m x file.f",
        &["post-commit", "reference-transaction", "post-index-change"],
    );

    sh(host, &format!("set -- c; {touch}; rm -f ran"));
    assert!(status(host).iter().any(|change| change.ends_with("file.f")), "{:?}", status(host));
    let diff = host.call("git.diff", json!({})).value;
    let patch = diff["patch"].as_str().unwrap_or_default();
    for name in ["file.d", "file.t", "file.f", "file.o", "file.p"] {
        assert!(patch.contains(&format!("+++ b/{name}")), "{name}: {patch}");
    }
    host.call("git.diff", json!({ "staged": true }));
    let commit = host.call("git.commit", json!({ "message": "quiet", "paths": ["file.d", "file.t", "file.f", "file.o", "file.p"] }));
    assert_eq!(commit.value["files"], 5);
    assert_eq!(host.call("git.log", json!({ "path": "file.f" })).value["commits"][0]["subject"], "quiet");
    assert_eq!(sh(host, "cat ran 2>/dev/null || true"), "", "nothing of the repository's ran");
    assert_eq!(sh(host, "GIT_CONFIG_GLOBAL=/dev/null git -c core.fsmonitor=false --no-pager cat-file -p HEAD:file.f"), "n-c\n");
}

pub fn masked_files_stay_out_of_diffs_and_commits(host: &Host) {
    sh(host, "echo secret > hidden.txt; echo plain > shown.txt");
    repository(host);
    sh(host, "echo other > hidden.txt; echo other > shown.txt");
    assert_eq!(status(host), ["unmodified modified shown.txt"]);
    let patch = host.call("git.diff", json!({})).value["patch"].as_str().unwrap_or_default().to_owned();
    assert!(patch.contains("-plain") && !patch.contains("secret") && !patch.contains("hidden"), "{patch}");
    assert_eq!(host.call("git.commit", json!({ "message": "m" })).value["files"], 1);
    assert_eq!(sh(host, "git --no-pager show HEAD:hidden.txt; git diff --name-only"), "secret\nhidden.txt\n");
}
