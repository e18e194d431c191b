//! What a room shows agrees with what `fs.read` may read, whatever the rules.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

use policy::{HiddenBy, OwnedFacts, OwnedPath, Policy, ReadSilence, ReadView, Readers, Standing, Verdict, decide};
use proptest::prelude::*;
use std::sync::Arc;
use world::{Ban, BanId, CallPattern, Grant, GrantId, Pid, Scope, Terms};

fn parse(rules: &str) -> Policy {
    Policy::parse(&format!("capabilities:\n{rules}"), "p").unwrap().0
}

fn reader() -> OwnedFacts {
    OwnedFacts {
        read_only: true,
        caller: "foreman.1".into(),
        caller_tags: vec!["foreman".into(), "brain".into()],
        role: "foreman".into(),
        user: "u".into(),
        zone: "/p".into(),
        workflow_state: "idle".into(),
        session_mode: String::new(),
        sandbox: Some("code-executor".into()),
        network: Some("none".into()),
        ..OwnedFacts::of("fs.read")
    }
}

fn view(rules: &str) -> ReadView {
    of(rules, &[reader()], &[], &[], &[])
}

fn of(rules: &str, own: &[OwnedFacts], ancestors: &[OwnedFacts], bans: &[Ban], grants: &[Grant]) -> ReadView {
    ReadView::new(&parse(rules), Readers { own, ancestors, bans, grants })
}

fn rule(name: &str) -> Option<HiddenBy> {
    Some(HiddenBy::Rule(name.into()))
}

/// Some of the project may be read.
const ELSEWHERE: &str = "  - { name: elsewhere, match: { syscall: fs.read, path_glob: /elsewhere }, action: allow }\n";
const ALL: &str = "  - { name: all, match: { syscall: fs.read }, action: allow }\n";

#[test]
fn denied_asked_and_unspoken_paths_are_hidden() {
    let rules = "  - { name: src, match: { syscall: fs.read, path_glob: [src/**, private/**, asked/**] }, action: allow }\n  \
                 - { name: no, match: { syscall: \"fs.*\", path_glob: /private/** }, action: deny }\n  \
                 - { name: ask, match: { syscall: fs.read, path_glob: /asked/** }, action: require_review }\n";
    let view = view(rules);
    assert_eq!(view.at("src/a"), None, "the control");
    assert_eq!(view.at("private/x"), rule("no"));
    assert_eq!(view.at("asked/x"), Some(HiddenBy::Review("ask".into())));
    assert_eq!(view.at("else"), Some(SILENT));
    assert_eq!(view.below("private"), rule("no"));
    assert_eq!(view.below("private/deep"), rule("no"));
    assert_eq!(view.below("asked"), Some(HiddenBy::Review("ask".into())));
    assert_eq!(view.below("docs"), Some(SILENT), "nothing there could be allowed");
    assert_eq!(view.below("src"), None);
}

const SILENT: HiddenBy = HiddenBy::NoRule(ReadSilence { is_home: false, is_whole: false });
/// To who may read nothing at all.
const WHOLLY: HiddenBy = HiddenBy::NoRule(ReadSilence { is_home: false, is_whole: true });

#[test]
fn rules_that_let_nothing_be_read_hide_everything() {
    let view = view(
        "  - { name: run, match: { syscall: shell.run }, action: allow }\n  \
                     - { name: no, match: { syscall: fs.read, path_glob: /p/** }, action: deny }\n  \
                     - { name: ask, match: { syscall: fs.read, path_glob: /q/** }, action: require_review }\n",
    );
    assert_eq!((view.at("src/a"), view.below("src")), (Some(SILENT), Some(SILENT)));
    assert_eq!((view.at("p/x"), view.below("p")), (rule("no"), rule("no")));
    assert_eq!((view.at("q/x"), view.below("q")), (Some(HiddenBy::Review("ask".into())), Some(HiddenBy::Review("ask".into()))));
    let run = "  - { name: run, match: { syscall: shell.run }, action: allow }\n";
    for rules in [run.to_owned(), format!("{run}  - {{ name: no, match: {{ syscall: fs.read, path_glob: /p/** }}, action: deny }}\n")] {
        let view = of(&rules, &[reader()], &[], &[], &[]);
        assert_eq!((view.at("src/a"), view.below("src"), view.below("")), (Some(WHOLLY), Some(WHOLLY), Some(WHOLLY)), "{rules}");
    }
    assert_eq!(of(&format!("{run}{ALL}"), &[reader()], &[], &[], &[]).at("src/a"), None, "the control");
}

/// The operator's own policy hides what it is silent about where it bounds what projects may allow, and only there.
#[test]
fn silence_of_the_operators_own_policy_hides_where_it_is_a_bound() {
    let own = [reader()];
    let below =
        |home: &str| ReadView::new(&parse(ALL).under(Arc::new(parse(home))), Readers { own: &own, ancestors: &[], bans: &[], grants: &[] });
    let home = |is_whole| Some(HiddenBy::NoRule(ReadSilence { is_home: true, is_whole }));
    let writes = "  - { name: writes, match: { syscall: fs.write }, action: allow }\n";
    assert_eq!((below(writes).at("src/a"), below(writes).below("src")), (home(true), home(true)), "it allows something, and no read");
    assert_eq!((below(ELSEWHERE).at("src/a"), below(ELSEWHERE).at("elsewhere")), (home(false), None));
    let denies = "  - { name: no, match: { syscall: fs.read, path_glob: /p/** }, action: deny }\n";
    assert_eq!(
        (below(denies).at("src/a"), below(denies).at("p/x")),
        (None, rule("home:no")),
        "the control: it allows nothing, so it is none"
    );
}

/// A yes to somebody else, or in another room, is silence to this reader, and silence is a no.
#[test]
fn a_yes_to_others_shows_nothing_to_this_reader() {
    let to = |field: &str| format!("  - {{ name: some, match: {{ syscall: fs.read, {field} }}, action: allow }}\n");
    for field in
        ["caller_tag: operator", "role: kernel", "caller: else.1", "sandbox: other", "network: restricted", "workflow_state: planning"]
    {
        let view = view(&to(field));
        assert_eq!((view.at("src/a"), view.below("src")), (Some(WHOLLY), Some(WHOLLY)), "{field}");
    }
    for field in ["caller_tag: brain", "role: foreman", "sandbox: code-executor", "workflow_state: idle"] {
        assert_eq!(view(&to(field)).at("src/a"), None, "the control: {field}");
    }
    let other = OwnedFacts { sandbox: Some("install".into()), ..reader() };
    let both = of(&to("sandbox: code-executor"), &[reader(), other], &[], &[], &[]);
    assert_eq!(both.at("src/a"), Some(WHOLLY), "not allowed in one of its rooms");
}

#[test]
fn what_changes_counts_against_showing() {
    let deny = |field: &str| format!("{ALL}  - {{ name: no, match: {{ syscall: fs.read, path_glob: /p/**, {field} }}, action: deny }}\n");
    for field in ["size: '>1MiB'", "workflow_state: implementing", "sandbox: code-executor", "network: none", "mode: live"] {
        assert_eq!(view(&deny(field)).at("p/x"), rule("no"), "{field}");
        assert_eq!(view(&deny(field)).at("q/x"), None, "the control");
    }
    for field in ["sandbox: other", "network: restricted", "mode: dry_run", "caller: else.1", "command: [cat]", "host: a.test"] {
        assert_eq!(view(&deny(field)).at("p/x"), None, "{field} is not so");
    }
    for field in ["size: '<1MiB'", "workflow_state: implementing"] {
        let allow = format!("{ELSEWHERE}  - {{ name: some, match: {{ syscall: fs.read, {field} }}, action: allow }}\n");
        assert_eq!(view(&allow).at("x"), Some(SILENT), "{field}");
        let except = format!("  - {{ name: no, match: {{ syscall: fs.read }}, except: [{{ {field} }}], action: deny }}\n");
        assert_eq!(view(&format!("{ALL}{except}")).at("x"), rule("no"), "{field}");
    }
    let state = "  - { name: some, match: { syscall: fs.read, workflow_state: idle }, action: allow }\n";
    assert_eq!(view(state).at("x"), None, "the state it has");
    let token = "  - { name: some, match: { syscall: fs.read }, action: allow, constraints: { require_capability_token: true } }\n";
    assert_eq!(view(token).at("x"), rule("some"), "a room has no token");
}

/// What a rule asks of a file's size is asked of each call; a room that hid every file for it would show nothing at all.
#[test]
fn a_yes_up_to_a_size_shows_files() {
    let small = |more: &str| {
        format!("  - {{ name: small, match: {{ syscall: fs.read }}, action: allow, constraints: {{ max_file_size: 1KiB{more} }} }}\n")
    };
    assert_eq!(view(&small("")).at("x"), None);
    assert_eq!(view(&small("")).below("src"), None);
    let deny = format!("{}  - {{ name: no, match: {{ syscall: fs.read, path_glob: /p/** }}, action: deny }}\n", small(""));
    assert_eq!((view(&deny).at("p/x"), view(&deny).at("q")), (rule("no"), None), "the control: what is denied is hidden");
    assert_eq!(view(&small(", require_capability_token: true")).at("x"), rule("small"), "and so is what needs more than a size");
}

#[test]
fn every_room_and_every_ancestor_must_be_allowed() {
    let rules = format!("{ALL}  - {{ name: no, match: {{ syscall: fs.read, path_glob: /p/**, sandbox: install }}, action: deny }}\n");
    let install = OwnedFacts { sandbox: Some("install".into()), network: Some("restricted".into()), ..reader() };
    assert_eq!(of(&rules, &[reader(), install], &[], &[], &[]).at("p/x"), rule("no"));
    let rules = format!("{ALL}  - {{ name: no, match: {{ syscall: fs.read, path_glob: /p/**, caller: boss.1 }}, action: deny }}\n");
    let boss = OwnedFacts { caller: "boss.1".into(), ..reader() };
    assert_eq!(of(&rules, &[reader()], std::slice::from_ref(&boss), &[], &[]).at("p/x"), rule("no"));
    assert_eq!(of(&rules, &[reader()], &[], &[], &[]).at("p/x"), None, "the control");
    let asks = format!("{ALL}  - {{ name: ask, match: {{ syscall: fs.read, caller: boss.1 }}, action: require_review }}\n");
    assert_eq!(of(&asks, &[reader()], &[boss], &[], &[]).at("p/x"), None, "a question to a parent is no deny");
}

fn like(tool: &str, paths: &[&str]) -> CallPattern {
    CallPattern::Like {
        tool: tool.into(),
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        command: None,
        whole: false,
        host: None,
        port: None,
        method: None,
    }
}

fn grant(what: CallPattern, terms: Terms) -> Grant {
    Grant { id: GrantId(1), pid: Pid(3), task: None, scope: Scope::All, what, terms, used: Vec::new(), shown: None }
}

#[test]
fn bans_hide_and_grants_answer_reviews_alone() {
    let rules = format!(
        "{ALL}  - {{ name: ask, match: {{ syscall: fs.read, path_glob: /p/** }}, action: require_review }}\n  \
         - {{ name: no, match: {{ syscall: fs.read, path_glob: /p/never }}, action: deny }}\n"
    );
    let plain = Terms::default;
    let given = |what, terms| of(&rules, &[reader()], &[], &[], &[grant(what, terms)]);
    let open = given(like("fs.read", &["/p/**"]), plain());
    assert_eq!((open.at("p/x"), open.at("p/never")), (None, rule("no")));
    assert_eq!(open.below("p"), None, "part of it is shown");
    let one = given(like("fs.read", &["/p/x"]), plain());
    assert_eq!((one.at("p/x"), one.at("p/y")), (None, Some(HiddenBy::Review("ask".into()))));
    assert_eq!((one.below("p"), one.below("p/q")), (None, Some(HiddenBy::Review("ask".into()))));
    assert_eq!(given(like("fs.read", &["/p"]), plain()).at("p/x"), Some(HiddenBy::Review("ask".into())), "a yes to a folder alone");
    for (what, terms) in [
        (like("fs.write", &["/p/**"]), plain()),
        (CallPattern::Exact { tool: "fs.read".into(), bind: String::new() }, plain()),
        (like("fs.read", &["/p/**"]), Terms { uses_left: Some(3), ..plain() }),
        (like("fs.read", &["/p/**"]), Terms { rate: Some(world::Rate { max: 100, per_ms: 1_000 }), ..plain() }),
    ] {
        assert_eq!(given(what, terms).at("p/x"), Some(HiddenBy::Review("ask".into())));
    }
    let shown = |asked: &str| {
        let shown = world::ShownContext { room: None, rules: vec![asked.into()] };
        of(&rules, &[reader()], &[], &[], &[Grant { shown: Some(shown), ..grant(like("fs.read", &["/p/**"]), plain()) }])
    };
    assert_eq!(shown("ask").at("p/x"), None);
    assert_eq!(shown("another").at("p/x"), Some(HiddenBy::Review("ask".into())), "a rule that had not asked");
    let ban = Ban {
        id: BanId(1),
        pid: Pid(3),
        task: None,
        scope: Scope::All,
        what: like("fs.read", &["/src/a"]),
        reason: String::new(),
        alternative: None,
    };
    let banned = of(&rules, &[reader()], &[], std::slice::from_ref(&ban), &[]);
    assert_eq!((banned.at("src/a"), banned.at("src/b")), (Some(HiddenBy::Ban(BanId(1))), None));
    assert_eq!(banned.below("src/a"), Some(HiddenBy::Ban(BanId(1))));
    let broken = Ban { what: like("fs.read", &["["]), ..ban };
    assert_eq!(of(&rules, &[reader()], &[], &[broken], &[]).at("src/b"), Some(HiddenBy::Ban(BanId(1))), "what does not parse bans all");
}

fn a_rule() -> impl Strategy<Value = String> {
    let glob = "/?(a|b|\\*|\\*\\*|a\\*|\\*b)(/(a|b|\\*|\\*\\*)){0,2}";
    let action = prop_oneof![Just("allow"), Just("allow"), Just("deny"), Just("require_review"), Just("pass")];
    let field = prop_oneof![
        4 => Just(""),
        1 => Just(", sandbox: code-executor"),
        1 => Just(", sandbox: other"),
        1 => Just(", role: foreman"),
        1 => Just(", size: '>1'"),
        1 => Just(", workflow_state: idle"),
        1 => Just(", workflow_state: other"),
        1 => Just(", command: [x]"),
    ];
    let call = prop_oneof![3 => Just("fs.read"), 1 => Just("\"fs.*\""), 1 => Just("\"*\""), 1 => Just("fs.write")];
    let except = proptest::option::of((glob, field.clone()));
    (call, proptest::option::of(glob), field, except, action).prop_map(|(call, glob, field, except, action)| {
        let on = glob.map_or_else(String::new, |glob| format!(", path_glob: '{glob}'"));
        let except = except.map_or_else(String::new, |(glob, field)| format!(", except: [{{ path_glob: '{glob}'{field} }}]"));
        format!("match: {{ syscall: {call}{on}{field} }}{except}, action: {action} }}\n")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("SKEP_SOAK").is_some() { 20_000 } else { 300 }))]
    #[test]
    fn what_is_shown_may_be_read_and_what_is_covered_is_hidden(
        rules in proptest::collection::vec(a_rule(), 1..6),
        above in proptest::option::of(proptest::collection::vec(a_rule(), 1..4)),
        folder in "(a|b|ab)(/(a|b|ab)){0,2}",
        rest in "(a|b|ab|c)(/(a|b)){0,2}",
    ) {
        let listed = |rules: &[String]| rules.iter().enumerate().map(|(number, rule)| format!("  - {{ name: r{number}, {rule}")).collect::<String>();
        let Ok((mut policy, _)) = Policy::parse(&format!("capabilities:\n{}", listed(&rules)), "p") else { return Ok(()) };
        let mut text = listed(&rules);
        if let Some(above) = above {
            let Ok((home, _)) = Policy::parse(&format!("capabilities:\n{}", listed(&above)), "p") else { return Ok(()) };
            policy = policy.under(Arc::new(home));
            text = format!("{text}above:\n{}", listed(&above));
        }
        let own = [reader()];
        let view = ReadView::new(&policy, Readers { own: &own, ancestors: &[], bans: &[], grants: &[] });
        let path = format!("{folder}/{rest}");
        let facts = OwnedFacts { paths: vec![OwnedPath::Inside(path.clone())], ..reader() };
        let verdict = facts.with(|facts| decide(&policy, facts, &Standing::default()));
        let shown = view.at(&path);
        prop_assert!(shown.is_some() || matches!(verdict, Verdict::Allow(_)), "{path} is shown and {verdict:?}\n{text}");
        // Nothing else is hidden but what a state or a size could close.
        if !text.contains("size") && !text.contains("state") {
            prop_assert_eq!(shown.is_none(), matches!(verdict, Verdict::Allow(_)), "{}: {:?}\n{}", path, verdict, text);
        }
        prop_assert!(view.below(&folder).is_none() || view.at(&path).is_some(), "{folder} is hidden and {path} is not\n{text}");
    }
}
