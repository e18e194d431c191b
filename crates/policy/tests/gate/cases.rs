//! The 26 normative cases of seed 003, by number.

use crate::{check, facts, rules};
use policy::{Action, Facts, Globs, Need, Opinion, Peer, Policy, RealPath, Standing, TokenFacts, Verdict, decide, preview};

const ALLOW: &str = "name: writes, match: { syscall: fs.write }, action: allow";
const REVIEW_EXCEPT: &str = "name: newcomers, match: { syscall: fs.write, caller_tag: [new] }, action: require_review, reason: new here, \
    except: [{ path_glob: ['src/tests/**'] }, { caller_tag: [trusted] }]";

fn opinion(says: Action) -> Opinion {
    Opinion { from: "house-style".into(), says, reason: "as I see it".into() }
}

fn token() -> TokenFacts {
    let peer = Peer { sandbox: "room-1".into(), pid: 40, started_ms: 7 };
    TokenFacts {
        id: "t-1".into(),
        syscall: "fs.write".into(),
        paths: Globs::parse(&["src/**", ".skep/**"]).ok(),
        ops_left: 1,
        expires_ms: 30_000,
        now_ms: 1_000,
        bound_to: peer.clone(),
        presented_by: peer,
    }
}

#[track_caller]
fn check_token(lines: &str, token: &TokenFacts, expect: &str) {
    check(lines, &Facts { token: Some(token), ..facts() }, expect);
}

fn tags(tags: &[&str]) -> Vec<String> {
    tags.iter().map(|tag| (*tag).to_owned()).collect()
}

const SILENCE: &str = "deny: `fs.write` on `src/lib.rs` is denied: no rule allows it []";

#[test]
fn case_01_no_rule_matches() {
    check("name: reads, match: { syscall: fs.read }, action: allow", &facts(), SILENCE);
}

#[test]
fn case_02_only_pass() {
    check("name: shrug, match: { syscall: fs.write }, action: pass", &facts(), SILENCE);
}

#[test]
fn case_03_allow_and_deny() {
    let lines = format!("{ALLOW}\nname: never, match: {{ syscall: fs.write }}, action: deny, reason: frozen");
    check(&lines, &facts(), "deny: `fs.write` on `src/lib.rs` is denied by `never`: frozen [never]");
}

#[test]
fn case_04_allow_and_review() {
    let lines = format!("{ALLOW}\nname: ask, match: {{ syscall: fs.write }}, action: require_review, reason: look first");
    check(&lines, &facts(), "review: look first [ask]");
}

#[test]
fn case_05_extension_deny_outweighs_an_allow() {
    let opinions = [opinion(Action::Deny)];
    check(
        ALLOW,
        &Facts { opinions: &opinions, ..facts() },
        "deny: `fs.write` on `src/lib.rs` is denied by `extension:house-style`: as I see it [extension:house-style]",
    );
}

#[test]
fn case_06_review_with_matching_except_passes() {
    let caller_tags = tags(&["new"]);
    let call = Facts { caller_tags: &caller_tags, paths: &[RealPath::Inside("src/tests/a.rs")], ..facts() };
    check(REVIEW_EXCEPT, &call, "deny: `fs.write` on `src/tests/a.rs` is denied: no rule allows it []");
    check(&format!("{ALLOW}\n{REVIEW_EXCEPT}"), &call, "allow [writes]");
}

#[test]
fn case_07_a_token_does_not_pass_a_builtin() {
    let token = token();
    let call = Facts { token: Some(&token), paths: &[RealPath::Inside(".skep/policy.yaml")], ..facts() };
    check(
        ALLOW,
        &call,
        "deny: `fs.write` on `.skep/policy.yaml` is denied by `builtin:policy-files`: policy files are not written by calls [builtin:policy-files]",
    );
}

#[test]
fn case_08_a_valid_token_skips_yaml_and_extensions() {
    let (token, opinions) = (token(), [opinion(Action::Deny)]);
    let call = Facts { token: Some(&token), opinions: &opinions, ..facts() };
    check("name: never, match: { syscall: '*' }, action: deny", &call, "allow [token:t-1]");
    assert_eq!(preview(&rules(ALLOW), &call), Need::Token, "no extension is asked");
    assert_eq!(preview(&rules(ALLOW), &Facts { token: None, ..call.clone() }), Need::Opinion);
    let Verdict::Allow(warrant) = decide(&Policy::empty(), &call, &Standing::default()) else { panic!() };
    assert_eq!(warrant.token(), Some("t-1"));
}

#[test]
fn case_09_expired_token() {
    check_token("", &TokenFacts { now_ms: 30_001, ..token() }, SILENCE);
    check_token(ALLOW, &TokenFacts { now_ms: 30_001, ..token() }, "allow [writes]");
}

#[test]
fn case_10_all_review_reasons_are_told() {
    let lines = "name: b, match: { syscall: fs.write }, action: require_review, reason: second\n\
                 name: a, match: { syscall: 'fs.*' }, action: require_review, reason: first\n\
                 name: c, match: { path_glob: 'src/**' }, action: require_review";
    check(lines, &facts(), "review: first; second; rule `c` asks for a review [a b c]");
}

#[test]
fn case_11_yaml_deny_and_extension_allow() {
    let opinions = [opinion(Action::Allow)];
    check(
        "name: never, match: { syscall: fs.write }, action: deny",
        &Facts { opinions: &opinions, ..facts() },
        "deny: `fs.write` on `src/lib.rs` is denied by `never` [never]",
    );
    assert_eq!(preview(&rules("name: never, match: { syscall: fs.write }, action: deny"), &facts()), Need::Denied, "it never runs");
}

#[test]
fn case_12_glob_does_not_match() {
    check("name: docs, match: { syscall: fs.write, path_glob: 'docs/**' }, action: allow", &facts(), SILENCE);
}

#[test]
fn case_13_except_does_not_match() {
    let caller_tags = tags(&["new"]);
    check(REVIEW_EXCEPT, &Facts { caller_tags: &caller_tags, ..facts() }, "review: new here [newcomers]");
}

#[test]
fn case_14_one_of_several_excepts_matches() {
    let caller_tags = tags(&["new", "trusted"]);
    check(&format!("{ALLOW}\n{REVIEW_EXCEPT}"), &Facts { caller_tags: &caller_tags, ..facts() }, "allow [writes]");
}

#[test]
fn case_15_none_of_several_excepts_matches() {
    let caller_tags = tags(&["new", "curious"]);
    check(&format!("{ALLOW}\n{REVIEW_EXCEPT}"), &Facts { caller_tags: &caller_tags, ..facts() }, "review: new here [newcomers]");
}

#[test]
fn case_16_several_allows() {
    check(&format!("{ALLOW}\nname: all, match: {{ syscall: '*' }}, action: allow"), &facts(), "allow [all writes]");
}

#[test]
fn case_17_yaml_and_extension_allow() {
    let opinions = [opinion(Action::Allow)];
    check(ALLOW, &Facts { opinions: &opinions, ..facts() }, "allow [extension:house-style writes]");
}

#[test]
fn case_18_builtins_have_nothing_to_say() {
    // They cannot be empty; a call that none of them concerns is weighed all the same.
    check(ALLOW, &Facts { paths: &[], ..facts() }, "allow [writes]");
}

#[test]
fn case_19_yaml_empty() {
    for text in ["", "# nothing\n", "capabilities:\n", "capabilities: []\n"] {
        let (policy, warnings) = Policy::parse(text, "policy.yaml").unwrap();
        assert!(warnings.len() == 1 && policy.rules().is_empty(), "it is told that everything is denied");
        assert_eq!(crate::show(&decide(&policy, &facts(), &Standing::default())), SILENCE, "{text:?}");
    }
}

#[test]
fn case_20_extension_crash() {
    let opinions = [Opinion::lost("house-style", "it crashed")];
    check(
        ALLOW,
        &Facts { opinions: &opinions, ..facts() },
        "deny: `fs.write` on `src/lib.rs` is denied by `extension:house-style`: the extension gave no answer: it crashed [extension:house-style]",
    );
}

#[test]
fn case_21_max_ops_exhausted() {
    check_token("", &TokenFacts { ops_left: 0, ..token() }, SILENCE);
    check_token("", &token(), "allow [token:t-1]");
}

#[test]
fn case_22_ttl_boundary_on_one_snapshot() {
    check_token("", &TokenFacts { now_ms: 29_999, ..token() }, "allow [token:t-1]");
    check_token("", &TokenFacts { now_ms: 30_000, ..token() }, SILENCE);
}

#[test]
fn case_23_token_of_another_peer() {
    let own = token();
    for other in [
        Peer { sandbox: "room-2".into(), ..own.bound_to.clone() },
        Peer { pid: 41, ..own.bound_to.clone() },
        Peer { started_ms: 8, ..own.bound_to.clone() },
    ] {
        check_token("", &TokenFacts { presented_by: other, ..token() }, SILENCE);
    }
    check_token("", &TokenFacts { syscall: "fs.read".into(), ..token() }, SILENCE);
    check_token("", &TokenFacts { paths: None, ..token() }, SILENCE);
}

#[test]
fn case_24_unknown_syscall() {
    check(ALLOW, &Facts { tool: "warp.engage", paths: &[], ..facts() }, "deny: `warp.engage` is denied: no rule allows it []");
}

#[test]
fn case_25_empty_path_glob() {
    let text = "capabilities:\n  - name: none\n    match: { syscall: fs.write, path_glob: [] }\n    action: allow\n";
    let (policy, warnings) = Policy::parse(text, "policy.yaml").unwrap();
    assert_eq!(warnings[0].to_string(), "policy.yaml:3:44: `path_glob` is an empty list and matches nothing");
    assert_eq!(crate::show(&decide(&policy, &facts(), &Standing::default())), SILENCE);
}

#[test]
fn case_26_match_equals_except() {
    let text =
        "capabilities:\n  - name: never\n    match: { syscall: fs.write }\n    action: deny\n    except:\n      - { syscall: fs.write }\n";
    let (policy, warnings) = Policy::parse(text, "policy.yaml").unwrap();
    assert_eq!(warnings[0].to_string(), "policy.yaml:6:9: the rule `never` never speaks: what it matches is what it excepts");
    assert_eq!(crate::show(&decide(&policy, &facts(), &Standing::default())), SILENCE);
    assert_eq!(rules(ALLOW).rules().len(), 1);
}
