//! The corpus of hostile names, commands and secrets, each through the code that meets it in earnest. The data lies in
//! `crates/policy/corpus`; hosts are in `crates/tool/corpus`, beside their own test.
#![expect(clippy::unwrap_used, reason = "what a test can't do, it fails at")]

use journal::{REDACTED, Redactor};
use policy::{OwnedFacts, OwnedPath, Policy, Standing, decide, default_policy};
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use tool::{Access, NamedPath, Real, ResolvedPath};

const PATHS: &str = include_str!("../../policy/corpus/paths.txt");
const COMMANDS: &str = include_str!("../../policy/corpus/commands.txt");
const SECRETS: &str = include_str!("../../policy/corpus/secrets.txt");

/// A strict list: three programs, and a few that are denied by name wherever they lie.
const STRICT: &str = "capabilities:
  - { name: looks, match: { syscall: shell.run, command: [[ls], [cargo, test], [git, status]] }, action: allow }
  - { name: never, match: { syscall: shell.run, command: [[rm], [sudo], [curl], [wget], [nc], [dd], [mkfs]] }, action: deny }
";

/// The fields of each line that is no comment.
fn lines<const N: usize>(text: &str) -> Vec<[&str; N]> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split('\t').collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("{N} fields: {line}"))).collect()
}

fn policy(text: &str) -> Policy {
    let (policy, warnings) = Policy::parse(text, "policy.yaml").unwrap();
    assert_eq!(warnings, []);
    policy
}

fn word(policy: &Policy, facts: &OwnedFacts) -> &'static str {
    match facts.with(|facts| decide(policy, facts, &Standing::default()).action()) {
        policy::Action::RequireReview => "review",
        action => action.as_str(),
    }
}

#[track_caller]
fn none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} are not as expected:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_corpus_is_large_enough() {
    let count = lines::<4>(PATHS).len() + lines::<3>(COMMANDS).len() + lines::<2>(SECRETS).len();
    assert!(count >= 200, "{count}");
}

/// A project with links out of it, in circles, and to what is protected.
fn project(at: &Path) {
    for folder in ["src", "docs", ".skep", ".git/hooks", "vendor/lib"] {
        std::fs::create_dir_all(at.join(folder)).unwrap();
    }
    for file in ["src/lib.rs", ".skep/policy.yaml", "skep.yml", ".git/config", ".env"] {
        std::fs::write(at.join(file), "x").unwrap();
    }
    for (target, link) in [
        ("src", "link"),
        (".skep", "rules"),
        ("rules", "chain"),
        ("../chain", "src/rules2"),
        ("skep.yml", "config-link"),
        (".git", "dotgit"),
        ("dotgit/hooks", "hooks"),
        (".env", "secret-link"),
        ("../.env", "src/to-env"),
        ("/etc", "etc"),
        ("etc", "deepetc"),
        ("..", "up"),
        ("loop", "loop"),
        ("ring-b", "ring-a"),
        ("ring-a", "ring-b"),
    ] {
        symlink(target, at.join(link)).unwrap();
    }
    symlink(at.join("src"), at.join("abs")).unwrap();
}

#[test]
fn names_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().canonicalize().unwrap().join("project");
    project(&at);
    let (root, policy) = (std::fs::File::open(&at).unwrap(), policy(default_policy()));
    let mut wrong = Vec::new();
    for [name, read, write, real] in lines::<4>(PATHS) {
        let path = serde_json::from_str::<String>(name).unwrap().replace("@PROJECT", &at.to_string_lossy());
        let place = ResolvedPath::open(root.as_fd(), &at, &NamedPath { path, access: Access::Read });
        let found = match place.map(|place| place.real) {
            Err(_) => ["refuse", "refuse", "-"].map(str::to_owned),
            Ok(place) => {
                let say = |tool: &str, read_only| {
                    let mut facts = OwnedFacts::of(tool);
                    facts.read_only = read_only;
                    facts.paths = vec![match &place {
                        Real::Inside(path) => OwnedPath::Inside(path.clone()),
                        Real::Outside(path) => OwnedPath::Outside(path.clone()),
                    }];
                    word(&policy, &facts).to_owned()
                };
                let shown = match &place {
                    Real::Inside(path) => path.clone(),
                    Real::Outside(_) => "outside".to_owned(),
                };
                [say("fs.read", true), say("fs.write", false), shown]
            }
        };
        let real = serde_json::from_str(real).unwrap_or_else(|_| real.to_owned());
        if found != [read, write, &real] {
            wrong.push(format!("{name}: {found:?}, expected {read}, {write}, {real:?}"));
        }
    }
    none(&wrong);
}

#[test]
fn commands() {
    let (default, strict) = (policy(default_policy()), policy(STRICT));
    let mut wrong = Vec::new();
    for [argv, by_default, by_strict] in lines::<3>(COMMANDS) {
        let mut facts = OwnedFacts::of("shell.run");
        facts.command = Some(serde_json::from_str(argv).unwrap());
        facts.sandbox = Some("code-executor".into());
        let found = [word(&default, &facts), word(&strict, &facts)];
        if found != [by_default, by_strict] {
            wrong.push(format!("{argv}: {found:?}, expected {by_default}, {by_strict}"));
        }
    }
    none(&wrong);
}

#[test]
fn secrets() {
    let redactor = Redactor::new();
    let mut wrong = Vec::new();
    for [text, secret] in lines::<2>(SECRETS) {
        let plain: String = serde_json::from_str(text).unwrap();
        let found = redactor.text(&plain);
        let holds = match secret {
            "keep" => found == plain,
            secret => !found.contains(&serde_json::from_str::<String>(secret).unwrap()) && found.contains(REDACTED),
        };
        if !holds {
            wrong.push(format!("{text} became {found:?}"));
        }
    }
    none(&wrong);
}
