//! What holds for every policy and every call.

use crate::{facts, parse};
use policy::{
    Action, Asked, Case, Explanation, Facts, Globs, Opinion, OwnedFacts, Peer, Policy, RealPath, Standing, TokenFacts, Verdict, Weighed,
    decide, explain, preview, suggest, trial,
};
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
        ", path_glob: ['*li*', 'd*', '*ts', 'nope*', '*x*', '*y*', '*z*', '*w*', '*v*']",
    ]);
    let caller = prop::sample::select(vec![
        "",
        ", caller: 'foreman.*'",
        ", caller: other",
        ", caller: foreman.1",
        ", caller_tag: [core, new]",
        ", role: worker, user: bob",
        ", host: ['*.example.com', docs.rs]",
        ", host: 'ap*'",
        ", command: [npm]",
        ", command: [[npm, install], [/usr/bin/npm, install, x]]",
        ", command: [make]",
    ]);
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

/// A call in numbers; `with_facts` says what they stand for.
#[derive(Debug, Clone)]
struct Call {
    tool: usize,
    paths: Vec<usize>,
    size: Option<u64>,
    outside: bool,
    program: usize,
    host: usize,
    tag: bool,
}

const PROGRAMS: &[&[&str]] = &[&[], &["npm"], &["npm", "install", "x"], &["/usr/bin/npm", "install", "x"], &["make", "all"]];
const HOSTS: &[Option<&str>] = &[None, Some("docs.rs"), Some("API.Example.com."), Some("example.com")];

fn call() -> impl Strategy<Value = Call> {
    let paths = prop::collection::vec(0..PATHS.len(), 0..3);
    let size = prop::option::of(0_u64..20);
    (0..TOOLS.len(), paths, size, any::<bool>(), 0..PROGRAMS.len(), 0..HOSTS.len(), any::<bool>())
        .prop_map(|(tool, paths, size, outside, program, host, tag)| Call { tool, paths, size, outside, program, host, tag })
}

/// Runs `test` with the facts that `call` stands for.
fn with_facts<T>(call: &Call, test: impl FnOnce(&Facts<'_>) -> T) -> T {
    let mut paths: Vec<RealPath<'_>> = call.paths.iter().map(|number| RealPath::Inside(PATHS[*number])).collect();
    if call.outside && paths.len() > 1 {
        paths.push(RealPath::Outside("/etc/passwd"));
    }
    let argv: Vec<String> = PROGRAMS[call.program].iter().map(|word| (*word).to_owned()).collect();
    let tags: Vec<String> = if call.tag { vec!["new".into()] } else { Vec::new() };
    let tool = TOOLS[call.tool];
    test(&Facts {
        tool,
        read_only: tool == "fs.read",
        paths: &paths,
        size: call.size,
        command: (!argv.is_empty()).then_some(&argv),
        host: HOSTS[call.host],
        caller_tags: &tags,
        ..facts()
    })
}

fn opinions() -> impl Strategy<Value = Vec<Opinion>> {
    let says = prop::sample::select(vec![Action::Pass, Action::Allow, Action::RequireReview, Action::Deny]);
    let opinion = (says, 0..3_u8).prop_map(|(says, from)| Opinion { from: format!("e{from}"), says, reason: "so".into() });
    prop::collection::vec(opinion, 0..3)
}

fn token() -> TokenFacts {
    let peer = Peer { sandbox: "room-1".into(), pid: 1, started_ms: 0 };
    TokenFacts {
        id: "t".into(),
        syscall: "*".into(),
        paths: Globs::parse(&["**"]).ok(),
        ops_left: 1,
        expires_ms: 1,
        now_ms: 0,
        bound_to: peer.clone(),
        presented_by: peer,
    }
}

fn rank(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Allow(_) => 0,
        Verdict::Review { .. } => 1,
        Verdict::Deny { .. } => 2,
    }
}

/// So many in the tests, and so many in `cargo xtask soak`.
fn cases() -> u32 {
    if std::env::var_os("SKEP_SOAK").is_some() { 10_000 } else { 96 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

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
        let token = token();
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

    /// `explain` asks every rule, `decide` only those that the index gives it: they must agree.
    #[test]
    fn an_explanation_tells_what_was_decided(
        bodies in prop::collection::vec(rule(), 0..8), call in call(), opinions in opinions(), with_token in any::<bool>(), left in prop::option::of(0_u64..2),
    ) {
        let (policy, token) = (build(bodies.iter().enumerate()), token());
        with_facts(&call, |facts| {
            let facts = Facts { opinions: &opinions, token: with_token.then_some(&token), ..facts.clone() };
            let standing = Standing { grant: None, calls_left: left };
            let verdict = decide(&policy, &facts, &standing);
            let told = explain(&policy, &facts, &standing);
            prop_assert_eq!(told.verdict, verdict.action());
            let says = |weighed: &Weighed| weighed.voices.iter().filter_map(|voice| voice.says).max();
            let worst = told.weighed.iter().map(|weighed| says(weighed).unwrap_or(Action::Deny)).max().unwrap_or(Action::Deny);
            let expect = if left == Some(0) { Action::Deny } else { worst };
            prop_assert_eq!(verdict.action(), expect, "{:#?}", told);
            let text = serde_json::to_string(&told).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(serde_json::from_str::<Explanation>(&text).ok(), Some(told));
            Ok(())
        })?;
    }

    /// Where `preview` says that extensions need not be asked, they could not have changed anything.
    #[test]
    fn what_is_settled_no_opinion_changes(
        bodies in prop::collection::vec(rule(), 0..6), call in call(), opinions in opinions(), with_token in any::<bool>(),
    ) {
        let (policy, token) = (build(bodies.iter().enumerate()), token());
        with_facts(&call, |facts| {
            let facts = Facts { token: with_token.then_some(&token), ..facts.clone() };
            let asked = Facts { opinions: &opinions, ..facts.clone() };
            prop_assert_eq!(preview(&policy, &facts), preview(&policy, &asked));
            if preview(&policy, &facts).is_settled() {
                let action = |facts: &Facts<'_>| decide(&policy, facts, &Standing::default()).action();
                prop_assert_eq!(action(&facts), action(&asked));
            }
            Ok(())
        })?;
    }

    #[test]
    fn kept_facts_are_decided_like_fresh_ones(bodies in prop::collection::vec(rule(), 0..6), call in call(), opinions in opinions()) {
        let policy = build(bodies.iter().enumerate());
        with_facts(&call, |facts| {
            let facts = Facts { opinions: &opinions, ..facts.clone() };
            let kept = serde_json::to_string(&OwnedFacts::from(&facts)).map_err(|error| TestCaseError::fail(error.to_string()))?;
            let kept: OwnedFacts = serde_json::from_str(&kept).map_err(|error| TestCaseError::fail(error.to_string()))?;
            let fresh = decide(&policy, &facts, &Standing::default());
            prop_assert_eq!(kept.with(|facts| decide(&policy, facts, &Standing::default())), fresh);
            Ok(())
        })?;
    }

    /// A policy tried on what it decided itself changes nothing.
    #[test]
    fn a_trial_of_the_same_policy_is_silent(bodies in prop::collection::vec(rule(), 0..6), calls in prop::collection::vec(call(), 0..6)) {
        let policy = build(bodies.iter().enumerate());
        let cases: Vec<Case> = calls.iter().map(|call| with_facts(call, |facts| Case {
            name: "c".into(),
            facts: OwnedFacts::from(facts),
            then: decide(&policy, facts, &Standing::default()).action(),
            by_token: false,
        })).collect();
        let found = trial(&cases, |at| cases[at].facts.with(|facts| decide(&policy, facts, &Standing::default())));
        prop_assert_eq!(found.changes, vec![]);
        prop_assert_eq!(found.cases, cases.len());
    }

    #[test]
    fn a_suggestion_never_lets_a_denied_call_through(
        bodies in prop::collection::vec(rule(), 0..6), calls in prop::collection::vec((call(), prop::bool::weighted(0.8)), 0..40),
    ) {
        let policy = build(bodies.iter().enumerate());
        let history: Vec<Asked> =
            calls.iter().map(|(call, allowed)| Asked { facts: with_facts(call, |facts| OwnedFacts::from(facts)), allowed: *allowed }).collect();
        let found = suggest(&policy, &history, &[]);
        prop_assert_eq!(found.yaml(), suggest(&policy, &history, &[]).yaml());
        let after = found.applied(&policy);
        let verdict = |policy: &Policy, asked: &Asked| asked.facts.with(|facts| decide(policy, facts, &Standing::default()).action());
        for asked in history.iter().filter(|asked| !asked.allowed) {
            prop_assert_eq!(verdict(&after, asked), verdict(&policy, asked), "{}", found.yaml());
        }
        let saved = history.iter().filter(|asked| asked.allowed && verdict(&policy, asked) == Action::RequireReview && verdict(&after, asked) == Action::Allow);
        prop_assert_eq!(saved.count(), found.saved);
        // And the text itself is a policy whose rules touch none of the denied.
        let pasted = parse(&found.yaml());
        for asked in history.iter().filter(|asked| !asked.allowed) {
            prop_assert_ne!(verdict(&pasted, asked), Action::Allow, "{}", found.yaml());
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[ -~\n]{0,80}|(capabilities:|match:|- |name: |\\[|\\]|\\{|\\}|,|a|\n|  |'|\"|&a|\\*a|<<: ){0,30}") {
        let _ = Policy::parse(&text, "p.yaml");
    }
}
