//! What no rule can loosen, and what the world adds: grants and budgets.

use crate::{check, facts, read, rules, show};
use policy::{Builtin, Facts, Guard, RealPath, Standing, TreeFacts, Verdict, decide};
use world::{Code, GrantId, Mode, TargetRelation};

const ALL: &str = "name: all, match: { syscall: '*' }, action: allow";
const ASK: &str = "name: ask, match: { syscall: fs.write }, action: require_review, reason: look first";
const GRANTED: Standing = Standing { grant: Some(GrantId(4)), calls_left: None };

#[test]
fn ask_mode_only_reads() {
    check(
        ALL,
        &Facts { mode: Mode::Ask, ..facts() },
        "deny: `fs.write` on `src/lib.rs` is denied by `builtin:ask-mode`: `ask` only reads [builtin:ask-mode]",
    );
    check(ALL, &Facts { mode: Mode::Ask, ..read(&[RealPath::Inside("a")]) }, "allow [all]");
}

#[test]
fn a_change_of_policy_always_asks() {
    let call = Facts { tool: "policy.update", paths: &[], ..facts() };
    check("", &call, "review: a change of policy is always a person's decision [builtin:policy-update]");
    check(ALL, &call, "review: a change of policy is always a person's decision [builtin:policy-update]");
    let named = Facts { paths: &[RealPath::Inside(".skep/policy.yaml")], ..call.clone() };
    check(ALL, &named, "review: a change of policy is always a person's decision [builtin:policy-update]");
    let asking = Facts { mode: Mode::Ask, ..call };
    check(ALL, &asking, "deny: `policy.update` is denied by `builtin:ask-mode`: `ask` only reads [builtin:ask-mode]");
}

#[test]
fn nothing_outside_the_project() {
    let outside = &[RealPath::Outside("/etc/passwd")];
    check(
        ALL,
        &Facts { paths: outside, ..facts() },
        "deny: `fs.write` on `/etc/passwd` is denied by `builtin:outside-project`: it lies outside the project [builtin:outside-project]",
    );
    check(ALL, &read(outside), "deny: `fs.read` on `/etc/passwd` is denied: it lies outside the project []");
    check(
        "name: any, match: { path_glob: '**' }, action: allow",
        &read(outside),
        "deny: `fs.read` on `/etc/passwd` is denied: it lies outside the project []",
    );
    check(
        "name: never, match: { syscall: fs.read }, action: deny",
        &read(outside),
        "deny: `fs.read` on `/etc/passwd` is denied by `never` [never]",
    );
}

#[test]
fn the_kernels_own_files_are_closed_when_they_lie_in_the_project() {
    let guard = |path: &str, rule| Guard { path: path.into(), rule };
    let policy = rules(ALL).guarded(vec![
        guard("target/debug/skep", Builtin::Bootstrap),
        guard("home", Builtin::KernelFiles),
        guard("log/journal.db", Builtin::Journal),
    ]);
    let say = |call: &Facts<'_>| show(&decide(&policy, call, &Standing::default()));
    let write = |path| say(&Facts { paths: &[RealPath::Inside(path)], ..facts() });
    let look = |path| say(&Facts { tool: "fs.read", read_only: true, paths: &[RealPath::Inside(path)], ..facts() });
    assert!(write("target/debug/skep").ends_with("[builtin:bootstrap]"));
    assert!(write("home/keys/seal").ends_with("[builtin:kernel-files]"));
    assert!(look("home/keys/seal").ends_with("[builtin:kernel-files]"));
    assert!(write("log/journal.db-wal").ends_with("[builtin:journal]"));
    assert_eq!(look("target/debug/skep"), "allow [all]");
    assert_eq!(write("homework.md"), "allow [all]");
    assert_eq!(write("target/debug/skep.d"), "allow [all]");
}

#[test]
fn every_path_of_a_call_must_pass() {
    let lines = "name: src, match: { path_glob: 'src/**' }, action: allow\n\
                 name: ci, match: { path_glob: '.github/**' }, action: require_review, reason: CI";
    let call = |paths| Facts { tool: "fs.move", paths, ..facts() };
    check(lines, &call(&[RealPath::Inside("src/a"), RealPath::Inside("src/b")]), "allow [src]");
    check(lines, &call(&[RealPath::Inside("src/a"), RealPath::Inside(".github/x")]), "review: CI [ci]");
    check(
        lines,
        &call(&[RealPath::Inside("docs/a"), RealPath::Inside(".github/x")]),
        "deny: `fs.move` on `docs/a` is denied: no rule allows it []",
    );
    check(
        lines,
        &call(&[RealPath::Inside("src/a"), RealPath::Inside("docs/a")]),
        "deny: `fs.move` on `docs/a` is denied: no rule allows it []",
    );
}

#[test]
fn a_path_rule_does_not_speak_about_a_call_without_paths() {
    let call = Facts { tool: "git.log", read_only: true, paths: &[], ..facts() };
    check("name: any, match: { path_glob: '**' }, action: allow", &call, "deny: `git.log` is denied: no rule allows it []");
}

#[test]
fn a_grant_answers_a_review_and_nothing_else() {
    let Verdict::Allow(warrant) = decide(&rules(&format!("{ALL}\n{ASK}")), &facts(), &GRANTED) else { panic!() };
    assert_eq!((warrant.rules(), warrant.grant()), (&["ask".to_owned()][..], Some(GrantId(4))));

    let Verdict::Allow(warrant) = decide(&rules(ALL), &facts(), &GRANTED) else { panic!() };
    assert_eq!(warrant.grant(), None, "a grant nobody asked for is not used up");

    let silence = decide(&rules(""), &facts(), &GRANTED);
    assert_eq!(show(&silence), "deny: `fs.write` on `src/lib.rs` is denied: no rule allows it []");
    let denied = decide(&rules("name: never, match: { syscall: fs.write }, action: deny"), &facts(), &GRANTED);
    assert_eq!(show(&denied), "deny: `fs.write` on `src/lib.rs` is denied by `never` [never]");
}

#[test]
fn an_empty_budget_refuses_what_policy_would_allow() {
    let broke = Standing { grant: None, calls_left: Some(0) };
    for lines in [ALL, ASK] {
        let Verdict::Deny { refusal, .. } = decide(&rules(lines), &facts(), &broke) else { panic!() };
        assert_eq!(refusal.code, Code::Exhausted);
        assert_eq!(refusal.reason, "`fs.write` is refused: no calls are left in the budget of `foreman.1`");
        assert!(refusal.advice().is_some());
    }
    let one = Standing { grant: None, calls_left: Some(1) };
    assert_eq!(show(&decide(&rules(ALL), &facts(), &one)), "allow [all]");
    let Verdict::Deny { refusal, .. } = decide(&rules(""), &facts(), &broke) else { panic!() };
    assert_eq!(refusal.code, Code::Denied, "what is denied anyway is not blamed on the budget");
}

#[test]
fn every_refusal_says_what_would_help() {
    let hint = |lines: &str, call: &Facts<'_>| match decide(&rules(lines), call, &Standing::default()) {
        Verdict::Deny { refusal, .. } => refusal.advice().unwrap_or_default(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        hint("", &facts()),
        "only the operator can add a rule with `syscall: fs.write` and `action: allow` to .skep/policy.yaml and trust it"
    );
    assert_eq!(
        hint("name: never, match: { syscall: fs.write }, action: deny", &facts()),
        "do it another way; only the operator can change rule `never` in .skep/policy.yaml and trust it"
    );
    assert_eq!(hint("name: never, match: { syscall: fs.write }, action: deny, hint: try later", &facts()), "try later");
    let opinions = [policy::Opinion { from: "not-today".into(), says: policy::Action::Deny, reason: "it is Friday".into() }];
    assert_eq!(
        hint(ALL, &Facts { opinions: &opinions, ..facts() }),
        "do it another way; only the operator can change the extension rule `not-today` in .skep/rules and trust it"
    );
}

#[test]
fn commands_hosts_methods_and_sizes() {
    let argv: Vec<String> = ["/usr/bin/npm", "install", "x"].map(str::to_owned).to_vec();
    let call = Facts { tool: "shell.run", paths: &[], command: Some(&argv), ..facts() };
    let silence = "deny: `shell.run` is denied: no rule allows it []";
    check("name: npm, match: { command: [npm, install] }, action: require_review, reason: new code", &call, "review: new code [npm]");
    check("name: npm, match: { command: [npm, install] }, action: allow", &call, silence);
    check("name: npm, match: { command: [[git], [/usr/bin/npm]] }, action: allow", &call, "allow [npm]");

    let call = Facts { tool: "http.request", read_only: true, paths: &[], host: Some("API.Example.com"), method: Some("get"), ..facts() };
    check("name: api, match: { host: '*.example.com', method: [GET, HEAD] }, action: allow", &call, "allow [api]");
    check(
        "name: api, match: { host: '*.example.com', method: POST }, action: allow",
        &call,
        "deny: `http.request` to `API.Example.com` is denied: no rule allows it []",
    );

    let lines = "name: small, match: { syscall: fs.write, size: '<=1KiB' }, action: allow";
    check(lines, &Facts { size: Some(1024), ..facts() }, "allow [small]");
    check(lines, &Facts { size: Some(1025), ..facts() }, "deny: `fs.write` on `src/lib.rs` is denied: no rule allows it []");
}

/// One field, a value that fits the ordinary call of these tests, and one that does not.
#[test]
fn every_field_of_a_condition_is_matched() {
    let table = [
        ("syscall", "[fs.read, fs.write]", "fs.read"),
        ("path_glob", "['docs/**', 'src/**']", "docs/**"),
        ("caller", "foreman.1", "foreman.2"),
        ("role", "[boss, worker]", "boss"),
        ("tier", "operational", "strategic"),
        ("user", "'a*'", "bob"),
        ("zone", "zone-1", "zone-2"),
        ("mode", "live", "[mock, dry_run]"),
        ("mode", "real", "mock"),
        ("workflow_state", "idle", "planning"),
        ("state_machine_state", "idle", "planning"),
        ("session_mode", "strict", "[explore, debug]"),
        ("size", "['<5', '>=7']", "'>7'"),
    ];
    let call = Facts { size: Some(7), ..facts() };
    for (field, fits, differs) in table {
        check(&format!("name: r, match: {{ {field}: {fits} }}, action: allow"), &call, "allow [r]");
        check(
            &format!("name: r, match: {{ {field}: {differs} }}, action: allow"),
            &call,
            "deny: `fs.write` on `src/lib.rs` is denied: no rule allows it []",
        );
        // Fields are AND.
        check(
            &format!("name: r, match: {{ {field}: {fits}, caller_tag: absent }}, action: allow"),
            &call,
            "deny: `fs.write` on `src/lib.rs` is denied: no rule allows it []",
        );
    }
}

#[test]
fn calls_of_the_tree_are_allowed_where_nobody_speaks() {
    let own = TreeFacts { relation: Some(TargetRelation::Child), ..TreeFacts::default() };
    let kill = Facts { tool: "proc.kill", paths: &[], tree: Some(&own), ..facts() };
    check("", &kill, "allow [builtin:tree]");
    check("", &Facts { of_ancestor: true, ..kill.clone() }, "allow [builtin:tree]");
    check("", &Facts { tool: "log.write", tree: None, ..kill.clone() }, "allow [builtin:tree]");
    check("", &Facts { tool: "shell.run", ..kill.clone() }, "deny: `shell.run` is denied: no rule allows it []");
    check("name: no, match: { syscall: 'proc.*' }, action: deny", &kill, "deny: `proc.kill` is denied by `no` [no]");
    check("name: ask, match: { syscall: proc.kill }, action: require_review, reason: look first", &kill, "review: look first [ask]");
    let foreign = TreeFacts { relation: Some(TargetRelation::Sibling), ..TreeFacts::default() };
    let denied =
        "deny: `proc.kill` is denied by `builtin:own-branch`: a process directs only itself and those below it [builtin:own-branch]";
    check(ALL, &Facts { tree: Some(&foreign), ..kill.clone() }, denied);
    check("", &Facts { tree: Some(&foreign), ..kill }, denied);
}
