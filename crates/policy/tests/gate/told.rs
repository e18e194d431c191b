//! What people are told: explanations, trials of a candidate, suggestions.

use crate::{facts, rules};
use policy::{
    Action, Asked, Case, Facts, Layer, Opinion, OwnedFacts, OwnedPath, Policy, PreviewNeed, RealPath, Standing, Trial, VerdictChangeKind,
    decide, default_policy, explain, preview, suggest,
};
use world::GrantId;

/// One line for each voice: `layer name says: why`.
fn voices(policy: &Policy, call: &Facts<'_>, standing: &Standing) -> Vec<String> {
    let told = explain(policy, call, standing);
    let voices = told.weighed.iter().flat_map(|weighed| &weighed.voices).chain(&told.standing);
    voices
        .map(|voice| {
            let says = voice.says.map_or("-", Action::as_str);
            format!("{:?} {} {says}: {}", voice.layer, voice.name, voice.why).to_lowercase()
        })
        .collect()
}

#[test]
fn an_explanation_says_which_field_kept_a_rule_silent() {
    let policy = rules(
        "name: docs, match: { syscall: fs.write, path_glob: 'docs/**', caller: bob }, action: allow\n\
         name: writes, match: { syscall: 'fs.*' }, action: allow, reason: fine\n\
         name: tests, match: { syscall: fs.write }, action: deny, except: [{ path_glob: 'lib/**' }, { path_glob: 'src/**' }]\n\
         name: small, match: { syscall: fs.write }, action: allow, constraints: { max_file_size: 5 }\n\
         name: shrug, match: { syscall: fs.write }, action: pass\n\
         name: reads, match: { syscall: fs.read }, action: allow",
    );
    let opinions = [Opinion { from: "style".into(), says: Action::RequireReview, reason: "tabs".into() }];
    let call = Facts { opinions: &opinions, size: Some(7), ..facts() };
    let standing = Standing { grant: Some(GrantId(4)), calls_left: Some(0) };
    assert_eq!(
        voices(&policy, &call, &standing),
        [
            "rule docs -: its `path_glob`, `caller` do not fit",
            "rule writes allow: fine",
            "rule tests -: its exception 2 fits",
            "rule small deny: 7 bytes are more than the 5 that are allowed",
            "rule shrug -: it abstains",
            "extension extension:style require_review: tabs",
            "grant g-4 allow: a person agreed; it answers reviews and nothing else",
            "budget calls deny: 0 calls are left",
        ]
    );
    let told = explain(&policy, &call, &standing);
    assert_eq!((told.verdict, told.rules, told.weighed[0].others), (Action::Deny, vec!["small".to_owned()], 1));
    assert_eq!(told.weighed[0].voices[0].line, Some(2));
    assert!(told.hint.is_some() || told.remedy.is_some());
}

#[test]
fn after_a_builtin_nobody_is_asked() {
    let call = Facts { paths: &[RealPath::Inside(".git/config")], ..facts() };
    let told = explain(&rules("name: all, match: { syscall: '*' }, action: allow"), &call, &Standing::default());
    assert_eq!(told.weighed[0].voices.len(), 1);
    assert_eq!(told.weighed[0].voices[0].layer, Layer::Builtin);
    assert_eq!(told.weighed[0].path, Some(OwnedPath::Inside(".git/config".into())));
}

/// Cases 8, 11 and the order of seed 003: an extension is not even asked.
#[test]
fn extensions_are_asked_only_where_they_matter() {
    let table = [
        ("name: never, match: { syscall: fs.write }, action: deny", "src/a", PreviewNeed::Denied),
        ("name: small, match: { syscall: fs.write }, action: allow, constraints: { max_file_size: 5 }", "src/a", PreviewNeed::Denied),
        ("name: all, match: { syscall: fs.write }, action: allow", ".skep/policy.yaml", PreviewNeed::Denied),
        ("name: all, match: { syscall: fs.write }, action: allow", "src/a", PreviewNeed::Opinion),
        ("name: ask, match: { syscall: fs.write }, action: require_review", "src/a", PreviewNeed::Opinion),
        ("", "src/a", PreviewNeed::Opinion),
    ];
    for (lines, path, expect) in table {
        assert_eq!(preview(&rules(lines), &Facts { paths: &[RealPath::Inside(path)], ..facts() }), expect, "{lines} on {path}");
    }
    let outside = Facts { tool: "fs.read", read_only: true, paths: &[RealPath::Outside("/etc/passwd")], ..facts() };
    assert_eq!(preview(&rules(""), &outside), PreviewNeed::Opinion, "an extension may want a person to look");
}

fn case(name: &str, tool: &str, path: &str, then: Action) -> Case {
    let mut facts = OwnedFacts::of(tool);
    facts.paths = vec![OwnedPath::Inside(path.into())];
    Case { name: name.into(), facts, then, by_token: false }
}

fn trial(candidate: &Policy, cases: &[Case]) -> Trial {
    policy::trial(cases, |at| cases[at].facts.with(|facts| decide(candidate, facts, &Standing::default())))
}

#[test]
fn a_trial_shows_only_what_would_change() {
    let candidate = rules(
        "name: writes, match: { syscall: fs.write }, action: allow\n\
         name: frozen, match: { path_glob: 'gen/**' }, action: deny, reason: generated\n\
         name: ci, match: { path_glob: 'ci/**' }, action: require_review, reason: CI",
    );
    let mut by_token = case("c-6", "fs.write", "gen/x", Action::Allow);
    by_token.by_token = true;
    let found = trial(
        &candidate,
        &[
            case("c-1", "fs.write", "src/a", Action::Allow),
            case("c-2", "fs.write", "gen/a", Action::Allow),
            case("c-3", "fs.write", "ci/a", Action::Allow),
            case("c-4", "fs.write", "src/b", Action::Deny),
            case("c-5", "fs.write", "gen/b", Action::RequireReview),
            by_token,
            case("c-7", "fs.read", "src/a", Action::RequireReview),
        ],
    );
    let shown: Vec<_> =
        found.changes.iter().map(|change| (change.name.as_str(), change.now, change.kind, change.rules.join(" "))).collect();
    assert_eq!(
        shown,
        [
            ("c-2", Action::Deny, VerdictChangeKind::Breaking, "frozen".into()),
            ("c-3", Action::RequireReview, VerdictChangeKind::Stricter, "ci".into()),
            ("c-4", Action::Allow, VerdictChangeKind::Looser, "writes".into()),
            ("c-5", Action::Deny, VerdictChangeKind::Stricter, "frozen".into()),
            ("c-7", Action::Deny, VerdictChangeKind::Stricter, String::new()),
        ]
    );
    assert_eq!((found.cases, found.by_token, found.breaking, found.stricter, found.looser), (7, 1, 1, 3, 1));
    assert_eq!(found.phrase(), None);
    let many: Vec<Case> = (0..6).map(|n| case(&format!("c-{n}"), "fs.write", "gen/a", Action::Allow)).collect();
    assert_eq!(trial(&candidate, &many).phrase().as_deref(), Some("break 6 calls"));
    assert_eq!(trial(&candidate, &many[..5]).phrase(), None);
}

fn asked(tool: &str, allowed: bool, fill: impl FnOnce(&mut OwnedFacts)) -> Asked {
    let mut facts = OwnedFacts::of(tool);
    facts.sandbox = Some("code-executor".into());
    fill(&mut facts);
    Asked { facts, allowed }
}

fn argv(text: &str) -> Option<Vec<String>> {
    Some(text.split(' ').map(str::to_owned).collect())
}

#[test]
fn questions_that_were_always_allowed_are_suggested_away() {
    let (policy, _) = Policy::parse(default_policy(), "p.yaml").unwrap();
    let mut history = Vec::new();
    for _ in 0..3 {
        history.push(asked("http.request", true, |facts| (facts.host, facts.method) = (Some("docs.rs".into()), Some("get".into()))));
    }
    for package in ["serde", "tokio", "regex"] {
        history.push(asked("shell.run", true, |facts| facts.command = argv(&format!("cargo add {package}"))));
    }
    // One bad apple keeps `npm install` a question; the package that was allowed twice is not.
    for (package, allowed) in [("left-pad", true), ("left-pad", true), ("react", true), ("evil", false)] {
        history.push(asked("shell.run", allowed, |facts| facts.command = argv(&format!("npm install {package}"))));
    }
    history.push(asked("merge.apply", true, |facts| facts.paths = vec![OwnedPath::Inside("src/a".into())]));
    let found = suggest(&policy, &history, &[]);
    assert_eq!(
        found.yaml(),
        r#"# would have saved 8 of 11 questions and let none of the 1 denied through
#
# below `except:` of `install-dependencies`:
#   - { syscall: "shell.run", command: ["cargo", "add"] }
#   - { syscall: "shell.run", command: ["npm", "install", "left-pad"] }
#
# below `except:` of `new-host`:
#   - { syscall: "http.request", host: "docs.rs", method: "GET" }

capabilities:
  - name: suggested-http.request-1
    match: { syscall: "http.request", host: "docs.rs", method: "GET" }
    action: allow
    reason: allowed 3 times in review and never refused
"#
    );
    let after = found.applied(&policy);
    let evil = asked("shell.run", false, |facts| facts.command = argv("npm install evil"));
    assert_eq!(evil.facts.with(|facts| decide(&after, facts, &Standing::default()).action()), Action::RequireReview);
}

#[test]
fn folders_are_generalised_as_far_as_the_answers_allow() {
    let policy = rules("name: ask, match: { syscall: fs.write }, action: require_review");
    let write = |path: &str, allowed| asked("fs.write", allowed, |facts| facts.paths = vec![OwnedPath::Inside(path.into())]);
    let conditions = |history: &[Asked]| suggest(&policy, history, &[]).proposals.into_iter().map(|p| p.condition).collect::<Vec<_>>();
    let mut history = vec![write("src/a/x.rs", true), write("src/a/y.rs", true), write("src/b/z.toml", true)];
    assert_eq!(conditions(&history), [r#"{ syscall: "fs.write", path_glob: "/src/**" }"#]);
    history.push(write("src/b/key.rs", false));
    assert_eq!(conditions(&history), [""; 0], "two files are no kind");
    history.push(write("src/a/w.rs", true));
    assert_eq!(conditions(&history), [r#"{ syscall: "fs.write", path_glob: "/src/a/*.rs" }"#]);
    // A name with the signs of globs in it, and a dot-folder: exact only.
    let odd: Vec<Asked> = [".github/a.yml", ".github/b.yml", ".github/c.yml", "w[1]*.rs", "w[1]*.rs"].map(|path| write(path, true)).into();
    assert_eq!(conditions(&odd), [r#"{ syscall: "fs.write", path_glob: "/w\\[1\\]\\*.rs" }"#]);
    assert_eq!(conditions(&[]), [""; 0]);
}

#[test]
fn interpreters_are_never_generalised() {
    let policy = rules("name: ask, match: { syscall: shell.run }, action: require_review");
    let run = |line: &str| asked("shell.run", true, |facts| facts.command = argv(line));
    for program in ["sh -c", "/bin/bash -c", "python3.12 -m", "env FOO=1", "git push", "xargs rm", "make -C", "ls"] {
        let history: Vec<Asked> = ["a", "b", "c"].map(|last| run(&format!("{program} {last}"))).into();
        let found = suggest(&policy, &history, &[]);
        let wide = found.proposals.iter().filter(|proposal| proposal.saved > 1).count();
        assert_eq!(wide, 0, "{program}: {}", found.yaml());
    }
    let history: Vec<Asked> = ["a", "b", "c"].map(|last| run(&format!("cargo test {last}"))).into();
    assert_eq!(suggest(&policy, &history, &[]).saved, 3);
}

/// What policy refused by itself was denied as much as what a person refused.
#[test]
fn a_suggestion_is_about_no_call_that_policy_refused() {
    let policy = rules("name: asks, match: { syscall: fs.write, path_glob: '*.rs' }, action: require_review");
    let write = |path: &str| OwnedFacts { paths: vec![OwnedPath::Inside(path.into())], ..OwnedFacts::of("fs.write") };
    let history: Vec<Asked> = ["src/a.rs", "src/b.rs", "src/sub/c.rs"].map(|path| Asked { facts: write(path), allowed: true }).to_vec();
    let conditions = |refused: &[OwnedFacts]| {
        let found = suggest(&policy, &history, refused);
        let conditions: Vec<String> = found.proposals.into_iter().map(|proposal| proposal.condition).collect();
        (found.denied, conditions.join(" "))
    };
    assert_eq!(conditions(&[]), (0, r#"{ syscall: "fs.write", path_glob: "/src/**" }"#.to_owned()), "the control");
    let (denied, found) = conditions(&[write("src/secret.txt")]);
    assert!(denied == 1 && !found.contains("/src/**"), "{found}");
}
