//! The policy of `skep init`: a first `act` on an ordinary repository asks nothing before its merge.

use crate::{facts, show};
use policy::{Facts, Policy, RealPath, Standing, decide, default_policy};

#[track_caller]
fn check(call: &Facts<'_>, expect: &str) {
    let (policy, warnings) = Policy::parse(default_policy(), ".skep/policy.yaml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(warnings, []);
    let shown = show(&decide(&policy, call, &Standing::default()));
    let word = shown.split([':', ' ']).next().unwrap_or_default();
    assert_eq!(word, expect, "{shown}");
}

#[test]
fn every_rule_says_why() {
    let (policy, _) = Policy::parse(default_policy(), ".skep/policy.yaml").unwrap();
    assert!(policy.rules().iter().all(|rule| rule.reason.is_some()));
}

#[test]
fn reads_writes_and_rooms_need_no_question() {
    for path in ["README.md", ".", "src/a/b.rs", ".env.example", ".skep/policy.yaml", "Cargo.lock"] {
        for tool in ["fs.read", "fs.list", "search.grep", "search.glob"] {
            check(&Facts { tool, read_only: true, paths: &[RealPath::Inside(path)], ..facts() }, "allow");
        }
    }
    for path in ["src/lib.rs", "Cargo.toml", "package-lock.json", ".github/workflows/ci.yml"] {
        check(&Facts { paths: &[RealPath::Inside(path)], ..facts() }, "allow");
    }
    for tool in ["shell.run", "test.run"] {
        let call = Facts { tool, paths: &[RealPath::Inside(".")], sandbox: Some("standard-net"), ..facts() };
        check(&call, "allow");
        check(&Facts { sandbox: None, ..call }, "deny");
    }
    check(&Facts { tool: "git.log", read_only: true, paths: &[], ..facts() }, "allow");
}

#[test]
fn merges_dependencies_and_hosts_ask() {
    check(&Facts { tool: "merge.apply", paths: &[], ..facts() }, "review");
    check(&Facts { tool: "http.request", paths: &[], host: Some("example.com"), ..facts() }, "review");
    for line in ["npm install left-pad", "pip install x", "/usr/bin/python3 -m pip install x", "cargo add serde"] {
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let call =
            Facts { tool: "shell.run", paths: &[RealPath::Inside(".")], sandbox: Some("standard-net"), command: Some(&argv), ..facts() };
        check(&call, "review");
    }
    let argv = ["npm".to_owned(), "test".to_owned()];
    check(&Facts { tool: "shell.run", paths: &[RealPath::Inside(".")], sandbox: Some("x"), command: Some(&argv), ..facts() }, "allow");
}

#[test]
fn secrets_and_protected_paths_are_denied() {
    for path in [".env", "deploy/.env.production", "tls/server.pem", "id.key", ".npmrc", "web/.netrc"] {
        check(&Facts { tool: "fs.read", read_only: true, paths: &[RealPath::Inside(path)], ..facts() }, "deny");
        check(&Facts { paths: &[RealPath::Inside(path)], ..facts() }, "deny");
    }
    for path in ["skep.yml", ".skep/policy.yaml", ".git/config"] {
        check(&Facts { paths: &[RealPath::Inside(path)], ..facts() }, "deny");
    }
    check(&Facts { tool: "fs.read", read_only: true, paths: &[RealPath::Outside("/etc/passwd")], ..facts() }, "deny");
    check(&Facts { tool: "nuke.launch", paths: &[], ..facts() }, "deny");
}

#[test]
fn a_room_with_a_way_out_asks_and_so_does_each_host() {
    let room = |tool, network| Facts { tool, paths: &[RealPath::Inside(".")], sandbox: Some("install"), network: Some(network), ..facts() };
    for tool in ["shell.run", "test.run"] {
        check(&room(tool, "none"), "allow");
        check(&room(tool, "restricted"), "review");
    }
    let out = |tool, sandbox, host, port| Facts { tool, paths: &[], sandbox: Some(sandbox), host: Some(host), port: Some(port), ..facts() };
    check(&out("net.connect", "install", "pypi.org", 443), "allow");
    check(&out("net.connect", "install", "pypi.org", 80), "review");
    check(&out("net.connect", "install", "pypi.org.evil.example", 443), "review");
    check(&out("net.connect", "integration-test", "pypi.org", 443), "review");
    check(&out("net.request", "install", "pypi.org", 80), "review");
}
