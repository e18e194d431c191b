//! Where the only other implementation of seed 003 falls short (`contracts/fluffy.md`), by its numbers there. Most are scenarios
//! (`crates/testkit/scenarios/fluffy_*`); these have tables that a story would be too long for.

use crate::{check, facts, rules, show};
use policy::{Facts, Policy, RealPath, Standing, decide};

const ALL: &str = "name: all, match: { syscall: '*' }, action: allow";

#[test]
fn shortcoming_02_a_rule_without_a_condition_is_no_rule() {
    let error = Policy::parse("capabilities:\n  - name: oops\n    match: {}\n    action: allow\n", "p.yaml").unwrap_err();
    assert_eq!(error.to_string(), "p.yaml:3:12: the rule `oops` has no condition and would match everything");
    assert_eq!(error.hint.as_deref(), Some("write syscall: '*' if that is meant"));
}

#[test]
fn shortcoming_03_a_typo_in_match_is_an_error() {
    let error = Policy::parse("capabilities:\n  - name: typo\n    match: { sycall: fs.read }\n    action: allow\n", "p.yaml").unwrap_err();
    assert_eq!(error.to_string(), "p.yaml:3:14: nobody knows the key `sycall`");
    assert_eq!(error.hint.as_deref(), Some("did you mean `syscall`?"));
    check("name: idle, match: { state_machine_state: idle }, action: allow", &facts(), "allow [idle]");
    check("name: idle, match: { workflow_state: idle }, action: allow", &facts(), "allow [idle]");
    check(
        "name: idle, match: { workflow_state: planning }, action: allow",
        &facts(),
        "deny: `fs.write` on `src/lib.rs` is denied: no rule allows it []",
    );
}

/// Paths arrive real, so there is one spelling of each; `tool::place` makes them so. Here: every mutating call, every depth.
#[test]
fn shortcoming_04_builtins_hold_for_every_mutating_call() {
    let table = [
        (".skep/policy.yaml", "builtin:policy-files"),
        (".skep", "builtin:policy-files"),
        ("skep.yml", "builtin:policy-files"),
        ("packages/web/.skep/policy.yaml", "builtin:policy-files"),
        ("packages/web/skep.yml", "builtin:policy-files"),
        (".git/hooks/pre-commit", "builtin:git-directory"),
        ("vendor/x/.git", "builtin:git-directory"),
    ];
    let policy = rules(ALL);
    for (path, rule) in table {
        for tool in ["fs.write", "fs.delete", "fs.move", "fs.edit", "shell.run", "warp.engage"] {
            let paths = [RealPath::Inside(path)];
            let shown = show(&decide(&policy, &Facts { tool, paths: &paths, ..facts() }, &Standing::default()));
            assert!(shown.starts_with("deny") && shown.ends_with(&format!("[{rule}]")), "{tool} {path}: {shown}");
        }
        let paths = [RealPath::Inside(path)];
        let shown = show(&decide(&policy, &Facts { tool: "fs.read", read_only: true, paths: &paths, ..facts() }, &Standing::default()));
        assert_eq!(shown, "allow [all]", "reading {path}");
    }
    for path in ["src/skep.yml.rs", ".skepx/a", "gitx/.gitignore", "src/git/index.ts"] {
        let paths = [RealPath::Inside(path)];
        assert_eq!(show(&decide(&policy, &Facts { paths: &paths, ..facts() }, &Standing::default())), "allow [all]", "{path}");
    }
}

#[test]
fn shortcoming_22_constraints_are_enforced() {
    let lines = "name: small, match: { syscall: fs.write }, action: allow, constraints: { max_file_size: 100KiB }";
    check(lines, &Facts { size: Some(102_400), ..facts() }, "allow [small]");
    check(
        lines,
        &Facts { size: Some(102_401), ..facts() },
        "deny: `fs.write` on `src/lib.rs` is denied by `small`: 102401 bytes are more than the 102400 that are allowed [small]",
    );
    check(
        lines,
        &facts(),
        "deny: `fs.write` on `src/lib.rs` is denied by `small`: at most 102400 bytes are allowed, and its size is not known [small]",
    );
    for room in ["L2", "true", "[standard, strict]"] {
        let lines = format!("name: roomed, match: {{ syscall: fs.write }}, action: allow, constraints: {{ require_sandbox: {room} }}");
        check(&lines, &Facts { sandbox: Some("standard"), ..facts() }, "allow [roomed]");
        let shown = show(&decide(&rules(&lines), &facts(), &Standing::default()));
        assert!(shown.starts_with("deny: `fs.write` on `src/lib.rs` is denied by `roomed`: it must run in"), "{shown}");
    }
    check(
        "name: roomed, match: { syscall: fs.write }, action: allow, constraints: { require_sandbox: strict }",
        &Facts { sandbox: Some("standard"), ..facts() },
        "deny: `fs.write` on `src/lib.rs` is denied by `roomed`: it must run in sandbox `strict`, and would run in `standard` [roomed]",
    );
    check(
        "name: carried, match: { syscall: fs.write }, action: allow, constraints: { require_capability_token: true }",
        &facts(),
        "deny: `fs.write` on `src/lib.rs` is denied by `carried`: it needs a capability token that is valid for it [carried]",
    );
}
