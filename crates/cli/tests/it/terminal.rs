//! What a person meets at the terminal beside the work itself: help, patches, the kernel's own commands.

use crate::common::model_server::ModelServer;
use crate::common::{Site, text};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

fn act(site: &Site, script: &str) {
    let brain = site.script(script);
    site.skep(&["act", "change it", "--brain", &brain, "--await"]);
}

/// In a pipe a diff is a patch: git makes of the project what a merge would.
#[test]
fn a_diff_in_a_pipe_is_a_patch_that_git_takes() {
    let site = Site::new(&[("a.txt", "one\ntwo\n"), ("gone.txt", "x\n"), ("kept.txt", "k\n")]);
    act(
        &site,
        "call fs.write path=a.txt content=\"one\\n2\\n\"\ncall fs.delete path=gone.txt\ncall fs.write path=\"a b/new.txt\" content=\"n\\n\"\n\
         call shell.run command=[\"sh\",\"-c\",\"printf '\\\\000\\\\377' > odd.bin; chmod +x odd.bin; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit\"]\ndone\n",
    );
    let diff = site.skep(&["diff", "task-1"]);
    assert!(diff.status.success(), "{}", text(&diff));
    let mut git = std::process::Command::new("git").args(["apply", "-"]).current_dir(site.project()).stdin(Stdio::piped()).spawn().unwrap();
    git.stdin.take().unwrap().write_all(&diff.stdout).unwrap();
    assert!(git.wait().unwrap().success(), "{}", String::from_utf8_lossy(&diff.stdout));
    assert_eq!((site.read("a.txt"), site.read("a b/new.txt"), site.read("kept.txt")), ("one\n2\n".into(), "n\n".into(), "k\n".into()));
    assert!(!site.project().join("gone.txt").exists());
    let odd = site.project().join("odd.bin");
    assert_eq!((std::fs::read(&odd).unwrap(), odd.metadata().unwrap().permissions().mode() & 0o111 != 0), (b"\0\xff".to_vec(), true));
    let stat = site.ok(&["diff", "task-1", "--stat"]);
    assert!(stat.contains("a.txt") && stat.contains("+1 −1") && !stat.contains("@@"), "{stat}");
}

#[test]
fn documents_are_read_from_the_binary() {
    let site = Site::new(&[]);
    assert!(site.ok(&["help", "models"]).starts_with("# Models\n"));
    let policy = site.ok(&["help", "policy"]);
    assert!(policy.contains("Usage: skep policy") && policy.contains("\n# "), "the command and the document");
    assert!(site.ok(&["help", "topics"]).contains("scripts"));
    assert!(site.fails(2, &["help", "nonsense"]).contains("skep help topics"));
}

#[test]
fn a_kernel_is_not_stopped_for_settings_that_none_could_start_with() {
    let site = Site::new(&[]);
    site.ok(&["kernel", "start"]);
    let pid = site.json(&["kernel", "status"])["os_pid"].clone();
    let config = site.home().join("config.yml");
    for broken in ["x: [", "reviews: {}", "models: {a: b, b: a}", "sandbox: {templates: {t: {memory: lots}}}"] {
        std::fs::write(&config, broken).unwrap();
        let refused = site.fails(14, &["kernel", "restart"]);
        assert!(refused.contains("the kernel runs on as it is") && refused.contains("↳ fix"), "{broken}: {refused}");
        assert_eq!(site.json(&["kernel", "status"])["os_pid"], pid, "{broken}: it never stopped");
    }
    // Where none runs there is none to spare, and the code says what is wrong.
    site.ok(&["kernel", "stop"]);
    site.fails(14, &["kernel", "restart"]);
    std::fs::write(&config, "review: {}\n").unwrap();
    site.ok(&["kernel", "restart"]);
    site.ok(&["kernel", "restart"]);
    assert_ne!(site.json(&["kernel", "status"])["os_pid"], pid, "the control");
}

#[test]
fn a_kernel_restarts_and_goes_on() {
    let site = Site::new(&[("a.txt", "a\n")]);
    let pid = |site: &Site| site.json(&["kernel", "status"])["os_pid"].as_u64().unwrap();
    site.ok(&["kernel", "start"]);
    let first = pid(&site);
    site.ok(&["kernel", "restart"]);
    assert_ne!(pid(&site), first);
    site.ok(&["kernel", "stop"]);
    site.ok(&["kernel", "restart"]);
    site.ok(&["journal", "verify"]);
}

/// A prompt comes from stdin too, and a model is named without naming the brain.
#[test]
fn a_prompt_comes_from_stdin() {
    let site = Site::new(&[("a.txt", "a\n")]);
    let brain = site.script("done read it\n");
    let mut skep = site.command(&["act", "-", "--brain", &brain, "--await"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    skep.stdin.take().unwrap().write_all(b"first line\nsecond line\n").unwrap();
    assert!(skep.wait_with_output().unwrap().status.success());
    assert_eq!(site.json(&["list", "tasks"])["tasks"][0]["prompt"], "first line\nsecond line");
    assert!(site.fails(5, &["act", "x", "--model", "nobody/none"]).contains("no model is set up yet"));
}

/// A provider that there is not is refused before anything is written, whether or not those that there are list their models.
#[test]
fn a_model_of_nobody_is_refused_before_anything_is_written() {
    let server = ModelServer::start("say fine\n", None);
    let site = Site::new(&[("a.txt", "a\n")]);
    std::fs::create_dir_all(site.home()).unwrap();
    for models in ["", ", models: [m]"] {
        let config =
            format!("providers: {{p: {{url: '{}', dialect: chat, free: true{models}}}}}\nmodels: {{tactical: p/m}}\n", server.url());
        std::fs::write(site.home().join("config.yml"), config).unwrap();
        for (verb, flag, model) in
            [("act", "--model", "nobody/none"), ("ask", "--model", "nobody/none"), ("act", "--brain", "native:nobody/none")]
        {
            let said = site.fails(5, &[verb, "x", flag, model]);
            let expected = "✗ no model answers to `nobody/none`: there is no provider `nobody`\n  \
                ↳ fix  name a model as PROVIDER/MODEL; there are `p`, and the names `tactical`; ";
            assert!(said.contains(expected), "{said}");
        }
        for empty in [" ", "p/", "/m"] {
            let said = site.fails(5, &["act", "x", "--model", empty]);
            assert!(said.contains("name a model as PROVIDER/MODEL"), "{empty}: {said}");
        }
        assert!(site.fails(2, &["act", "x", "--model", ""]).contains("a value is required for `--model <MODEL>`"));
    }
    let entries = std::fs::read_dir(site.project()).unwrap().count();
    assert_eq!((entries, site.count("task.queued"), site.count("zone.opened")), (2, 0, 0), "only .git and a.txt");
    // Which models a provider has that lists none, nobody knows before it is asked; that is said, and only then.
    let unknown = |said: &str| said.contains("`p` does not list its models: whether it has `other` shows at the first request");
    let config = format!("providers: {{p: {{url: '{}', dialect: chat, free: true}}}}\nmodels: {{tactical: p/m}}\n", server.url());
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    for (model, expected) in [("p/other", true), ("other", true), ("p/m", false), ("tactical", false)] {
        let said = site.ok(&["ask", "x", "--model", model]);
        assert_eq!(unknown(&said), expected, "{model}: {said}");
    }
    assert!(!unknown(&site.ok(&["ask", "x"])));
}

/// A model that a provider turns out not to have is told as that, with what helps; trying again alone does not.
#[test]
fn a_model_that_a_provider_does_not_have_is_told_as_that() {
    let server = ModelServer::start("error 404 model: other\n", None);
    let site = Site::new(&[("a.txt", "a\n")]);
    std::fs::create_dir_all(site.home()).unwrap();
    let config = format!("providers: {{p: {{url: '{}', dialect: chat, free: true}}}}\nmodels: {{tactical: p/m}}\n", server.url());
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    let said = site.fails(1, &["ask", "x", "--model", "p/other", "--await"]);
    assert!(said.contains("`p` does not have this model (404): model: other"), "{said}");
    assert!(said.contains("name another model") && !said.contains("the model answered"), "{said}");
}

/// Who says nothing is told how to say something to that task, and nothing is written for a task that cannot begin.
#[test]
fn an_empty_prompt_is_answered_with_the_verb_that_was_used() {
    let site = Site::new(&[("a.txt", "a\n")]);
    let brain = site.script("done\n");
    for verb in ["act", "ask"] {
        let said = site.fails(2, &[verb, " ", "--brain", &brain]);
        assert!(said.contains("the prompt is empty") && said.contains(&format!("`skep {verb} \"")), "{said}");
    }
    let tag = site.fails(2, &["act", "x", "--brain", &brain, "--tag", "no tag"]);
    assert!(tag.contains("`no tag` is not a tag"), "{tag}");
    let bad = site.script("dance\n");
    assert!(site.fails(2, &["act", "x", "--brain", &bad]).contains("is not a script"));
    let entries = std::fs::read_dir(site.project()).unwrap().count();
    assert_eq!((entries, site.count("zone.opened")), (2, 0), "only .git and a.txt");
    let brain = site.script("done\n");
    site.ok(&["ask", "x", "--brain", &brain, "--await"]);
    let said = site.fails(2, &["say", "task-1", ""]);
    assert!(said.contains("the prompt is empty") && said.contains("`skep say task-1 \"…\"`") && !said.contains("skep act"), "{said}");
}

/// Without systemd nothing is installed, and the words say what helps instead; with one, the unit is written and enabled.
#[test]
fn a_unit_is_installed_where_systemd_answers() {
    let site = Site::new(&[]);
    let bin = tempfile::tempdir().unwrap();
    let config = tempfile::tempdir().unwrap();
    let unit = config.path().join("systemd/user/skep.service");
    let run = |path: &std::path::Path, arguments: &[&str]| {
        site.command(arguments).env("PATH", path).env("XDG_CONFIG_HOME", config.path()).output().unwrap()
    };
    let without = run(bin.path(), &["kernel", "install"]);
    assert_eq!((without.status.code(), unit.exists()), (Some(12), false), "{}", text(&without));
    assert!(text(&without).contains("@reboot"), "{}", text(&without));

    let log = bin.path().join("log");
    let program = bin.path().join("systemctl");
    std::fs::write(&program, format!("#!/bin/sh\necho \"$@\" >> {}\n", log.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let with = run(bin.path(), &["kernel", "install"]);
    assert!(with.status.success(), "{}", text(&with));
    assert!(std::fs::read_to_string(&unit).unwrap().contains(&format!("SKEP_HOME={}", site.home().display())));
    assert!(run(bin.path(), &["kernel", "uninstall"]).status.success() && !unit.exists());
    let told = std::fs::read_to_string(&log).unwrap();
    assert!(told.contains("--user enable --now skep.service") && told.contains("--user disable --now skep.service"), "{told}");
}

/// A merge that would take nothing in is refused, and the work stays; with a side it goes in.
#[test]
fn a_merge_of_nothing_but_conflicts_keeps_the_work() {
    let site = Site::new(&[("a.txt", "old\n")]);
    act(&site, "call fs.write path=a.txt content=\"theirs\\n\"\ndone\n");
    site.write("a.txt", "mine\n");
    // The edit came after the question: the new question knows of it.
    assert!(site.fails(9, &["merge", "task-1", "--yes"]).contains("again"));
    let said = site.fails(9, &["merge", "task-1", "--yes"]);
    assert!(said.contains("every change is a conflict"), "{said}");
    assert_eq!(site.read("a.txt"), "mine\n");
    site.ok(&["merge", "task-1", "--theirs", "a.txt", "--yes"]);
    assert_eq!(site.read("a.txt"), "theirs\n");
}
