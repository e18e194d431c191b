//! What holds for every policy and every call.

use crate::{facts, parse};
use policy::{Facts, Globs, Peer, Policy, RealPath, Standing, TokenFacts, Verdict, decide};
use proptest::prelude::*;
use world::GrantId;

const PATHS: &[&str] = &["src/lib.rs", "src/tests/a.rs", "docs/a.md", ".env", ".skep/policy.yaml", ".", "a.pem"];
const TOOLS: &[&str] = &["fs.read", "fs.write", "shell.run", "policy.update"];

/// The body of a rule, without its name.
fn rule() -> impl Strategy<Value = String> {
    let syscall = prop::sample::select(vec!["fs.read", "fs.write", "'fs.*'", "'*'", "[fs.read, shell.run]", "[]"]);
    let glob = prop::sample::select(vec![
        "",
        ", path_glob: 'src/**'",
        ", path_glob: ['**', '!docs']",
        ", path_glob: ['.env*', '*.pem']",
        ", path_glob: []",
    ]);
    let caller = prop::sample::select(vec!["", ", caller: 'foreman.*'", ", caller: other"]);
    let action = prop::sample::select(vec!["allow", "deny", "require_review", "pass"]);
    let except =
        prop::sample::select(vec!["", ", except: [{ path_glob: 'src/tests/**' }]", ", except: [{ syscall: fs.read }, { role: boss }]"]);
    let constraint = prop::sample::select(vec!["", "", ", constraints: { max_file_size: 10 }", ", constraints: { require_sandbox: true }"]);
    (syscall, glob, caller, action, except, constraint).prop_map(|(syscall, glob, caller, action, except, constraint)| {
        format!("match: {{ syscall: {syscall}{glob}{caller} }}, action: {action}{except}{constraint}")
    })
}

fn build<'a>(bodies: impl IntoIterator<Item = (usize, &'a String)>) -> Policy {
    let lines: String = bodies.into_iter().map(|(number, body)| format!("  - {{ name: r{number}, {body} }}\n")).collect();
    if lines.is_empty() { Policy::empty() } else { parse(&format!("capabilities:\n{lines}")) }
}

type Numbered = Vec<(usize, String)>;

/// The same rules in two orders.
fn shuffled() -> impl Strategy<Value = (Numbered, Numbered)> {
    let numbered = prop::collection::vec(rule(), 0..7).prop_map(|bodies| bodies.into_iter().enumerate().collect::<Vec<_>>());
    numbered.prop_flat_map(|rules| (Just(rules.clone()), Just(rules).prop_shuffle()))
}

fn call() -> impl Strategy<Value = (usize, Vec<usize>, Option<u64>, bool)> {
    (0..TOOLS.len(), prop::collection::vec(0..PATHS.len(), 0..3), prop::option::of(0_u64..20), any::<bool>())
}

/// Runs `test` with the facts that `call` stands for.
fn with_facts<T>(call: &(usize, Vec<usize>, Option<u64>, bool), test: impl FnOnce(&Facts<'_>) -> T) -> T {
    let (tool, paths, size, outside) = call;
    let mut paths: Vec<RealPath<'_>> = paths.iter().map(|number| RealPath::Inside(PATHS[*number])).collect();
    if *outside && paths.len() > 1 {
        paths.push(RealPath::Outside("/etc/passwd"));
    }
    let tool = TOOLS[*tool];
    test(&Facts { tool, read_only: tool == "fs.read", paths: &paths, size: *size, ..facts() })
}

fn rank(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Allow(_) => 0,
        Verdict::Review { .. } => 1,
        Verdict::Deny { .. } => 2,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn deny_is_final(bodies in prop::collection::vec(rule(), 0..6), more in prop::collection::vec(rule(), 0..4), call in call()) {
        let before = build(bodies.iter().enumerate());
        let after = build(bodies.iter().chain(&more).enumerate());
        with_facts(&call, |facts| {
            let Verdict::Deny { rules, .. } = decide(&before, facts, &Standing::default()) else { return Ok(()) };
            // Silence is a no too, and the only one that a rule can break.
            if rules.is_empty() {
                return Ok(());
            }
            let again = decide(&after, facts, &Standing::default());
            prop_assert!(matches!(again, Verdict::Deny { .. }), "{again:?}");
            Ok(())
        })?;
    }

    #[test]
    fn nothing_is_allowed_without_an_allow(bodies in prop::collection::vec(rule(), 0..6), call in call()) {
        let policy = build(bodies.iter().enumerate().filter(|(_, body)| !body.contains("action: allow")));
        with_facts(&call, |facts| {
            let verdict = decide(&policy, facts, &Standing::default());
            prop_assert!(!matches!(verdict, Verdict::Allow(_)), "{verdict:?}");
            Ok(())
        })?;
    }

    #[test]
    fn more_grants_never_forbid(bodies in prop::collection::vec(rule(), 0..6), call in call(), left in prop::option::of(0_u64..2)) {
        let policy = build(bodies.iter().enumerate());
        with_facts(&call, |facts| {
            let without = decide(&policy, facts, &Standing { grant: None, calls_left: left });
            let with = decide(&policy, facts, &Standing { grant: Some(GrantId(1)), calls_left: left });
            prop_assert!(rank(&with) <= rank(&without));
            // And they answer reviews only.
            prop_assert_eq!(matches!(with, Verdict::Deny { .. }), matches!(without, Verdict::Deny { .. }));
            Ok(())
        })?;
    }

    #[test]
    fn order_does_not_matter((one, other) in shuffled(), call in call()) {
        let one = build(one.iter().map(|(number, body)| (*number, body)));
        let other = build(other.iter().map(|(number, body)| (*number, body)));
        with_facts(&call, |facts| {
            prop_assert_eq!(decide(&one, facts, &Standing::default()), decide(&other, facts, &Standing::default()));
            Ok(())
        })?;
    }

    #[test]
    fn the_same_question_has_the_same_answer(bodies in prop::collection::vec(rule(), 0..6), call in call()) {
        let (one, other) = (build(bodies.iter().enumerate()), build(bodies.iter().enumerate()));
        with_facts(&call, |facts| {
            let first = decide(&one, facts, &Standing::default());
            prop_assert_eq!(&first, &decide(&one, facts, &Standing::default()));
            prop_assert_eq!(&first, &decide(&other, facts, &Standing::default()));
            Ok(())
        })?;
    }

    #[test]
    fn a_token_never_passes_a_builtin(call in call()) {
        let peer = Peer { sandbox: "room-1".into(), pid: 1, started_ms: 0 };
        let token = TokenFacts {
            id: "t".into(),
            syscall: "*".into(),
            paths: Globs::parse(&["**"]).ok(),
            ops_left: 1,
            expires_ms: 1,
            now_ms: 0,
            bound_to: peer.clone(),
            presented_by: peer,
        };
        with_facts(&call, |facts| {
            let by_builtin = |verdict: &Verdict| match verdict {
                Verdict::Deny { rules, .. } | Verdict::Review { rules, .. } => rules.iter().any(|rule| rule.starts_with("builtin:")),
                Verdict::Allow(_) => false,
            };
            let without = decide(&Policy::empty(), facts, &Standing::default());
            let with = decide(&Policy::empty(), &Facts { token: Some(&token), ..facts.clone() }, &Standing::default());
            prop_assert_eq!(by_builtin(&without), by_builtin(&with), "{:?} became {:?}", without, with);
            Ok(())
        })?;
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[ -~\n]{0,80}|(capabilities:|match:|- |name: |\\[|\\]|\\{|\\}|,|a|\n|  |'|\"|&a|\\*a|<<: ){0,30}") {
        let _ = Policy::parse(&text, "p.yaml");
    }
}
