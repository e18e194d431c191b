//! The gate from outside: policy text in, verdict out.

mod builtins;
mod defaults;
mod file;
mod flawed;
mod large;
mod laws;
mod settled;
mod shortcomings;
mod told;
mod tree;
mod written;

use policy::{Facts, Policy, RealPath, Standing, Verdict, decide};
use world::Mode;

/// A live `fs.write` of an ordinary agent on `src/lib.rs`; tests change what they are about.
pub fn facts() -> Facts<'static> {
    Facts {
        tool: "fs.write",
        read_only: false,
        paths: &[RealPath::Inside("src/lib.rs")],
        caller: "foreman.1",
        caller_tags: &[],
        role: "worker",
        tier: "operational",
        user: "ada",
        zone: "zone-1",
        mode: Mode::Act,
        run_mode: "live",
        workflow_state: "idle",
        session_mode: "strict",
        command: None,
        host: None,
        method: None,
        size: None,
        sandbox: None,
        network: None,
        port: None,
        token: None,
        opinions: &[],
        tree: None,
        of_ancestor: false,
    }
}

pub fn read(paths: &'static [RealPath<'static>]) -> Facts<'static> {
    Facts { tool: "fs.read", read_only: true, paths, ..facts() }
}

/// `allow`, `review: reason; reason` or `deny: reason`, with who spoke in brackets.
pub fn show(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Allow(warrant) => format!("allow [{}]", warrant.rules().join(" ")),
        Verdict::Review { reasons, rules } => format!("review: {} [{}]", reasons.join("; "), rules.join(" ")),
        Verdict::Deny { refusal, rules } => format!("deny: {} [{}]", refusal.reason, rules.join(" ")),
    }
}

pub fn parse(rules: &str) -> Policy {
    let (policy, _) = Policy::parse(rules, "policy.yaml").unwrap_or_else(|error| panic!("{error} ({:?})\n{rules}", error.hint));
    policy
}

/// Short form of a policy file: one rule in each line, in flow style and without `capabilities:`.
pub fn rules(lines: &str) -> Policy {
    let body: String = lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| format!("  - {{ {line} }}\n")).collect();
    if body.is_empty() { parse("") } else { parse(&format!("capabilities:\n{body}")) }
}

#[track_caller]
pub fn check(lines: &str, facts: &Facts<'_>, expect: &str) {
    assert_eq!(show(&decide(&rules(lines), facts, &Standing::default())), expect);
}
