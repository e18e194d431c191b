//! What a decision costs: one JSON line for each size of policy.
//!
//! `literal` policies have globs with a literal first or last segment, the promise of SPEC.md. `host` and `command` rules differ only
//! in that. `wildcard` ones have letters but no whole segment. `unindexed` ones differ in nothing that is looked up, so every rule is
//! asked: the worst case.

use policy::{Facts, Policy, RealPath, Standing, Verdict, decide};
use std::error::Error;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;
use world::Mode;

const SAMPLES: usize = 20_000;
/// Decisions between two looks at the clock, which itself costs about 25 ns.
const BATCH: u32 = 16;

type Write = fn(usize) -> String;

fn main() -> Result<(), Box<dyn Error>> {
    let kinds: [(&str, Write); 5] =
        [("literal", literal), ("host", host), ("command", command), ("wildcard", wildcard), ("unindexed", unindexed)];
    for (kind, rule) in kinds {
        for rules in [10, 1_000, 10_000] {
            let samples = if kind == "unindexed" { 4_000_000 / (rules * 10) } else { SAMPLES };
            let (p50_ns, p99_ns) = measure(rules, rule, samples)?;
            println!("{}", serde_json::json!({ "kind": kind, "rules": rules, "p50_ns": p50_ns, "p99_ns": p99_ns }));
        }
    }
    Ok(())
}

/// First segment, last segment and extension by turns, all for the same syscall; a third below one common directory.
fn literal(number: usize) -> String {
    let glob = match number % 4 {
        0 => format!("src/module{number}/**"),
        1 => format!("**/file{number}.rs"),
        2 => format!("*.ext{number}"),
        _ => format!("package{number}/**/*.rs"),
    };
    format!("path_glob: '{glob}'")
}

fn host(number: usize) -> String {
    let star = if number.is_multiple_of(2) { "" } else { "*." };
    format!("host: '{star}host{number}.example.com'")
}

fn command(number: usize) -> String {
    format!("command: [npm, run, job{number}]")
}

fn wildcard(number: usize) -> String {
    format!("path_glob: '**/*part{number}*/**'")
}

fn unindexed(number: usize) -> String {
    format!("path_glob: '**', caller: '*helper{number}*'")
}

fn measure(rules: usize, condition: Write, samples: usize) -> Result<(u64, u64), Box<dyn Error>> {
    let mut text = "capabilities:\n  - { name: base, match: { syscall: fs.write, path_glob: 'src/**' }, action: allow }\n".to_owned();
    for number in 1..rules {
        let action = if number % 3 == 0 { "deny" } else { "require_review" };
        writeln!(text, "  - {{ name: r{number}, match: {{ syscall: '*', {} }}, action: {action} }}", condition(number))?;
    }
    let (policy, _) = Policy::parse(&text, "bench.yaml")?;
    let paths = [RealPath::Inside("src/server/http/routes.rs")];
    let argv = ["npm", "run", "build"].map(str::to_owned);
    let facts = Facts {
        tool: "fs.write",
        read_only: false,
        paths: &paths,
        caller: "foreman.1",
        caller_tags: &[],
        role: "worker",
        tier: "operational",
        user: "ada",
        zone: "zone-1",
        mode: Mode::Act,
        run_mode: "live",
        workflow_state: "idle",
        session_mode: "",
        command: Some(&argv),
        host: Some("api.example.com"),
        method: Some("GET"),
        size: Some(1_000),
        sandbox: Some("standard-net"),
        network: None,
        port: None,
        token: None,
        opinions: &[],
        tree: None,
        of_ancestor: false,
    };
    let standing = Standing::default();
    assert!(matches!(decide(&policy, &facts, &standing), Verdict::Allow(_)), "the bench measures an allow");

    let batch = if samples == SAMPLES { BATCH } else { 1 };
    let mut times: Vec<u64> = Vec::with_capacity(samples);
    for _ in 0..samples {
        let start = Instant::now();
        for _ in 0..batch {
            black_box(decide(black_box(&policy), black_box(&facts), black_box(&standing)));
        }
        times.push(u64::try_from(start.elapsed().as_nanos())? / u64::from(batch));
    }
    times.sort_unstable();
    Ok((times[times.len() / 2], times[times.len() * 99 / 100]))
}
