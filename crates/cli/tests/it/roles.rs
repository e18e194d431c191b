//! Roles, skills, tool lists and what a task is asked at its end, as people use them and as each client is told of them.

use crate::common::model_server::ModelServer;
use crate::common::{Site, text};
use serde_json::{Value, json};
use std::fs;

const POLICY: &str = "capabilities:\n\
    - {name: all, match: {syscall: '*'}, action: allow}\n\
    - {name: merge, match: {syscall: merge.apply}, action: require_review}\n";

const REVIEW: &str = "---\ndescription: reads code\nparams:\n  what: {type: string}\n  depth: {type: number, default: 2}\n---\nReview {{what}} {{depth}} deep.\n";
const LINT: &str = "---\ncommand: [sh, -c, 'echo linted $1 for $SKEP_WHO', sh, '{{what}}']\nparams: {what: {}}\n---\n";

fn crew() -> Site {
    let site = Site::new(&[
        ("a.txt", "a\n"),
        (".skep/policy.yaml", POLICY),
        (".skep/roles/reviewer/role.md", "---\ntools: [fs.*, shell.run]\n---\nBe strict.\n"),
        (".skep/roles/reviewer/skills/code.review.md", REVIEW),
        (".skep/roles/mechanic/skills/code.review.md", "Look at it.\n"),
        (".skep/roles/mechanic/skills/lint.md", LINT),
    ]);
    site.trust();
    site
}

#[test]
fn a_skill_goes_to_the_role_that_knows_it() {
    let site = crew();
    let listed = site.ok(&["list", "skills"]);
    for part in ["code.review", "reviewer", "mechanic", "reads code; it takes depth (number, default 2), what (string)", "lint"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    let said = site.ok(&["act", "--skill", "lint", "--param", "what=src"]);
    assert!(said.contains("✓ enrolled mechanic.1") && said.contains("✓ task-1 → mechanic.1 (skill lint)"), "{said}");
    assert_eq!(
        site.ok(&["act", "--skill", "lint", "--param", "what=src; false", "--await"]).lines().last(),
        Some("linted src; false for mechanic.1")
    );
    let view = site.json(&["status", "task-2"]);
    assert_eq!((&view["process"], &view["skill"]), (&json!("mechanic.1"), &json!("lint")));
    let spawned: Vec<Value> =
        site.records(&["--kind", "proc.spawned"]).into_iter().map(|record| record["payload"]["name"].clone()).collect();
    assert!(spawned.contains(&json!("mechanic.1")) && !spawned.contains(&json!("mechanic.2")), "found the second time: {spawned:?}");
}

#[test]
fn a_skill_that_cannot_be_used_says_why() {
    let site = crew();
    let several = site.fails(2, &["act", "--skill", "code.review"]);
    assert!(several.contains("✗ ambiguous  code.review known by [mechanic, reviewer]"), "{several}");
    assert!(several.contains("use --who mechanic++ or --who reviewer++"), "{several}");
    let none = site.fails(5, &["act", "--skill", "unknown.skill"]);
    assert!(none.contains("✗ no role knows skill unknown.skill") && none.contains("available  code.review, lint"), "{none}");
    for (params, why) in [
        (vec![], "lint: `what` is missing"),
        (vec!["--param", "what=a", "--param", "wat=b"], "lint: there is no parameter `wat`"),
        (vec!["--param", "what"], "write it as NAME=VALUE"),
        (vec!["--param", "what=a", "--param", "what=b"], "the parameter `what` is given twice"),
    ] {
        let told = site.fails(2, &[&["act", "--skill", "lint"], params.as_slice()].concat());
        assert!(told.contains(why), "{why}: {told}");
    }
    site.fails(2, &["act", "look", "--param", "what=a"]);
    assert_eq!(site.count("task.queued"), 0, "nothing was queued");
    site.ok(&["act", "--skill", "lint", "--param", "what=a", "--await"]);
}

/// What a worker writes for itself is no role: it is not merged, and a pull counts only when it is trusted.
#[test]
fn a_role_counts_once_it_is_trusted_and_no_worker_writes_one() {
    let site = crew();
    let script =
        site.script("call fs.write path=.skep/roles/king/skills/rule.md content=\"Rule.\"\ncall fs.write path=ok.txt content=x\ndone\n");
    site.ok(&["act", "write a role", "--brain", &script, "--await"]);
    drop(site.skep(&["merge", "task-1", "--yes"]));
    assert_eq!(site.read("ok.txt"), "x", "the control: the rest of it is merged");
    assert!(!site.project().join(".skep/roles/king").exists());
    site.write(".skep/roles/king/skills/rule.md", "---\ncommand: [echo, ruled]\n---\n");
    let untrusted = site.fails(5, &["act", "--skill", "rule"]);
    assert!(untrusted.contains("no role knows skill rule"), "{untrusted}");
    site.trust();
    assert_eq!(site.ok(&["act", "--skill", "rule", "--await"]).lines().last(), Some("ruled"));
}

#[test]
fn a_tool_list_narrows_and_is_explained() {
    let site = crew();
    let script = site.script("call fs.write path=b.txt content=x\ncall fs.list path=.\ndone\n");
    let typo = site.fails(5, &["act", "look", "--brain", &script, "--tools", "fs.raed"]);
    assert!(typo.contains("there is no tool `fs.raed`") && typo.contains("did you mean `fs.read`?"), "{typo}");
    site.ok(&["act", "look", "--brain", &script, "--tools", "fs.write,git.*", "--await"]);
    let refused = site.records(&["--kind", "call.refused"]);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0]["payload"]["reason"], "`fs.list` is not on the tool list of the task");
    assert_eq!(refused[0]["payload"]["rules"], json!(["tool-list"]));
    let told = site.ok(&["status", "task-1"]);
    assert!(told.contains("fs.write, git.*  of the task"), "{told}");
    let explain = |more: &[&str]| text(&site.skep(&[&["policy", "explain", "fs.list", "path=."], more].concat()));
    let (of_task, of_mine) = (explain(&["--task", "task-1"]), explain(&[]));
    assert!(of_task.contains("is not on the tool list of the task"), "{of_task}");
    assert!(!of_mine.contains("tool list"), "the control: {of_mine}");
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!(site.read("b.txt"), "x", "the list is about the calls of the brain, and a merge is none");
}

#[test]
fn what_a_task_is_asked_at_its_end_is_in_its_status() {
    let hooks = "crew: {hooks: {onStop: [{prompt: 1-line summary, artifact: summary}, {prompt: really?, artifact: missing}, {prompt: fully done?, artifact: complete}]}}\n";
    let site = Site::new(&[("a.txt", "a\n"), (".skep/policy.yaml", POLICY), ("skep.yml", hooks)]);
    site.trust();
    let long = "x".repeat(20_000);
    let script =
        site.script(&format!("done\nhook summary\ndone created src/ \u{1b}[31mwith\u{1b}[0m auth\nhook complete\ndone yes {long}\n"));
    let awaited = text(&site.skep(&["act", "setup project structure", "--brain", &script, "--await"]));
    assert!(awaited.contains("↳ warn no missing: it said nothing"), "{awaited}");
    let told = site.ok(&["status", "task-1"]);
    for part in ["artifacts", "summary   created src/ with auth", "missing   ✗ it said nothing", "complete  yes xxx"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let view = site.json(&["status", "task-1"]);
    assert_eq!(view["artifacts"]["summary"], "created src/ with auth", "nothing of it acts on a terminal");
    assert_eq!(view["artifacts"]["complete"], format!("yes {long}"), "whole, though its record is short");
    assert_eq!(view["artifact_errors"], json!({"missing": "it said nothing"}));
    assert_eq!(view["state"], "done");
}

/// A client, or the built-in brain, is told its role, and asked for artifacts in the conversation of its task.
fn is_told(brain: &str, program: Option<(&str, &str)>) {
    let yml = "crew: {hero: {role: reviewer}, hooks: {onStop: [{prompt: Give me your 1-line summary, artifact: summary}, \
               {prompt: Now change hello.txt, artifact: changed}]}}\n";
    let brief = "Speak of zebras ZB-7411 only.\n";
    let site = Site::new(&[
        ("a.txt", "a\n"),
        (".skep/policy.yaml", POLICY),
        ("skep.yml", yml),
        (".skep/roles/reviewer/role.md", brief),
        (".skep/roles/reviewer/skills/stripes.md", "Count the stripes SK-2290.\n"),
    ]);
    let script = "on \"1-line summary\"\n  say I wrote the greeting.\non \"Now change\"\n  call write path=hello.txt content=\"changed\\n\"\nthen\n  \
                  say I tried.\non \"greeting\"\n  call write path=hello.txt content=\"hello\\n\"\nthen\n  say All done.\n";
    let server = ModelServer::start(script, None);
    let program = program.map(|(name, package)| (name, crate::npm::installed(name, package)));
    let brains = program.map_or_else(String::new, |(name, path)| format!("brains: {{{name}: {{command: ['{}']}}}}\n", path.display()));
    fs::create_dir_all(site.home()).unwrap();
    let config = format!(
        "providers:\n  s: {{url: '{}', dialect: [anthropic, responses, chat, gemini], free: true}}\nmodels: {{tactical: s/any, operational: s/any}}\n{brains}",
        server.url()
    );
    fs::write(site.home().join("config.yml"), config).unwrap();
    site.trust();
    let said = site.ok(&["act", "Please write the greeting", "--brain", brain, "--await"]);
    assert!(said.contains("All done."), "{said}\n{}", site.ok(&["log"]));
    // Some clients ask for a title or a plan beside it.
    let is_told = |body: &String| body.contains("Please write the greeting") && body.contains("ZB-7411") && body.contains("SK-2290");
    assert!(server.asked().iter().any(is_told), "its model hears of its role and its skills: {:#?}", server.asked());
    let hook = server.asked().into_iter().find(|body| body.contains("Give me your 1-line summary")).unwrap();
    assert!(hook.contains("Please write the greeting"), "the same conversation: {hook}");
    let view = site.json(&["status", "task-1"]);
    assert_eq!(view["artifacts"]["summary"], "I wrote the greeting.", "{view}\n{}", site.ok(&["log"]));
    assert!(view["artifacts"]["tokens"].as_str().unwrap().parse::<u64>().unwrap() > 0, "{view}");
    assert!(view["artifacts"]["changed"].is_string() || view["artifact_errors"]["changed"].is_string(), "{view}");
    let refused = site.records(&["--kind", "call.refused"]);
    assert!(
        refused.iter().any(|no| no["payload"]["rules"] == json!(["builtin:ask-mode"]) && no["payload"]["task"] == "task-1"),
        "{refused:?}"
    );
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!(site.read("hello.txt"), "hello\n", "a hook changes nothing");
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn claude_is_told_its_role_and_asked_at_its_end() {
    is_told("claude", Some(("claude", "@anthropic-ai/claude-code@2.1.197")));
}

#[test]
fn codex_is_told_its_role_and_asked_at_its_end() {
    is_told("codex:gpt-5.5", Some(("codex", "@openai/codex@0.166.0")));
}

#[test]
fn opencode_is_told_its_role_and_asked_at_its_end() {
    is_told("opencode", Some(("opencode", "opencode-ai@1.18.33")));
}

/// With a model of its own: without one it asks a model which model to ask, and wants an answer that no script of ours gives.
#[test]
fn gemini_is_told_its_role_and_asked_at_its_end() {
    is_told("gemini:gemini-3.8-flash", Some(("gemini", "@google/gemini-cli@0.61.0")));
}

#[test]
fn the_built_in_brain_is_told_its_role_and_asked_at_its_end() {
    is_told("native", None);
}
