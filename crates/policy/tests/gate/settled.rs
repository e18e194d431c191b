//! What tokens, silence and previews settle, beside the 26 normative cases: those are scenarios (`crates/testkit/scenarios/case_*`).

use crate::{check, facts, rules};
use policy::{Action, Facts, Globs, Opinion, Peer, Policy, PreviewNeed, Standing, TokenFacts, Verdict, decide, preview};

const ALLOW: &str = "name: writes, match: { syscall: fs.write }, action: allow";
const SILENCE: &str = "deny: `fs.write` on `src/lib.rs` is denied: no rule allows it []";

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

#[test]
fn no_extension_is_asked_where_a_token_or_a_deny_settles_it() {
    let (token, opinions) = (token(), [Opinion { from: "house-style".into(), says: Action::Deny, reason: "as I see it".into() }]);
    let call = Facts { token: Some(&token), opinions: &opinions, ..facts() };
    assert_eq!(preview(&rules(ALLOW), &call), PreviewNeed::Token);
    assert_eq!(preview(&rules(ALLOW), &Facts { token: None, ..call.clone() }), PreviewNeed::Opinion, "the control");
    assert_eq!(preview(&rules("name: never, match: { syscall: fs.write }, action: deny"), &facts()), PreviewNeed::Denied);
    let Verdict::Allow(warrant) = decide(&Policy::empty(), &call, &Standing::default()) else { panic!() };
    assert_eq!(warrant.token(), Some("t-1"));
}

#[test]
fn a_token_is_for_its_tool_and_its_paths() {
    let check_token = |token: TokenFacts, expect: &str| check("", &Facts { token: Some(&token), ..facts() }, expect);
    check_token(token(), "allow [token:t-1]");
    check_token(TokenFacts { syscall: "fs.read".into(), ..token() }, SILENCE);
    check_token(TokenFacts { paths: None, ..token() }, SILENCE);
    check_token(TokenFacts { now_ms: 29_999, ..token() }, "allow [token:t-1]");
    check_token(TokenFacts { now_ms: 30_000, ..token() }, SILENCE);
}

#[test]
fn a_policy_without_rules_is_silent_and_says_so() {
    for text in ["", "# nothing\n", "capabilities:\n", "capabilities: []\n"] {
        let (policy, warnings) = Policy::parse(text, "policy.yaml").unwrap();
        assert!(warnings.len() == 1 && policy.rules().is_empty(), "it is told that everything is denied");
        assert_eq!(crate::show(&decide(&policy, &facts(), &Standing::default())), SILENCE, "{text:?}");
    }
}

#[test]
fn a_call_without_paths_or_of_an_unknown_name_is_weighed_too() {
    check(ALLOW, &Facts { paths: &[], ..facts() }, "allow [writes]");
    check(ALLOW, &Facts { tool: "warp.engage", paths: &[], ..facts() }, "deny: `warp.engage` is denied: no rule allows it []");
}
