//! One question put to three gates: ours, Cedar and regorus. One JSON line for each gate and size of policy.
//!
//! The policies are equivalent: one rule allows all writes below `src/`, each other one denies one prefix or one name. Cedar says it
//! with `like`, Rego with `startswith` and `endswith`, which cost it less than its `glob.match`. Requests and inputs are made before
//! the clock runs, for all three. All must agree on a write that is allowed and on one that is denied before any of them is timed.
#![forbid(unsafe_code)]

use cedar_policy::{Authorizer, Context, Decision, Entities, EntityUid, PolicySet, Request, RestrictedExpression};
use policy::{Facts, Policy, RealPath, Standing, Verdict, decide};
use regorus::languages::rego::compiler::Compiler;
use regorus::rvm::vm::RegoVM;
use regorus::{Engine, Rc, Value};
use std::error::Error;
use std::fmt::Write as _;
use std::hint::black_box;
use std::str::FromStr;
use std::time::{Duration, Instant};
use world::Mode;

const ALLOWED: &str = "src/server/http/routes.rs";
const DENIED: &str = "src/module4/lib.rs";
const SIZES: [usize; 3] = [10, 1_000, 10_000];
/// For each gate and size; a gate that is too slow for many samples is measured by few.
const TIME_MAX: Duration = Duration::from_secs(3);
const SAMPLES_MAX: usize = 20_000;

type Fallible<T> = Result<T, Box<dyn Error>>;

fn main() -> Fallible<()> {
    for rules in SIZES {
        report("ours", rules, ours(rules))?;
        report("cedar", rules, cedar(rules))?;
        report("regorus", rules, regorus(rules))?;
        report("regorus_vm", rules, regorus_vm(rules))?;
    }
    Ok(())
}

fn report(gate: &str, rules: usize, p50: Fallible<u64>) -> Fallible<()> {
    let line = match p50 {
        Ok(p50_ns) => serde_json::json!({ "gate": gate, "rules": rules, "p50_ns": p50_ns }),
        Err(why) => serde_json::json!({ "gate": gate, "rules": rules, "cannot": why.to_string() }),
    };
    println!("{line}");
    Ok(())
}

/// What rule `number` denies.
enum Deny {
    Prefix(String),
    Name(String),
}

fn deny(number: usize) -> Deny {
    if number.is_multiple_of(2) { Deny::Prefix(format!("src/module{number}/")) } else { Deny::Name(format!("/file{number}.rs")) }
}

/// The median of single decisions; `ask` says whether the write is allowed.
fn measure(mut ask: impl FnMut(&'static str) -> Fallible<bool>) -> Fallible<u64> {
    for (path, expect) in [(ALLOWED, true), (DENIED, false)] {
        if ask(path)? != expect {
            return Err(format!("{path}: not {expect}").into());
        }
    }
    let (begin, mut times) = (Instant::now(), Vec::new());
    while times.len() < SAMPLES_MAX && (begin.elapsed() < TIME_MAX || times.len() < 5) {
        let start = Instant::now();
        black_box(ask(black_box(ALLOWED))?);
        times.push(u64::try_from(start.elapsed().as_nanos())?);
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

fn ours(rules: usize) -> Fallible<u64> {
    let mut text = "capabilities:\n  - { name: base, match: { syscall: fs.write, path_glob: 'src/**' }, action: allow }\n".to_owned();
    for number in 1..rules {
        let glob = match deny(number) {
            Deny::Prefix(prefix) => format!("{prefix}**"),
            Deny::Name(name) => format!("**{name}"),
        };
        writeln!(text, "  - {{ name: r{number}, match: {{ syscall: fs.write, path_glob: '{glob}' }}, action: deny }}")?;
    }
    let (policy, _) = Policy::parse(&text, "rivals.yaml")?;
    measure(|path| {
        let facts = Facts {
            tool: "fs.write",
            read_only: false,
            paths: &[RealPath::Inside(path)],
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
            command: None,
            host: None,
            method: None,
            size: Some(1_000),
            sandbox: Some("code-executor"),
            network: Some("none"),
            port: None,
            token: None,
            opinions: &[],
            tree: None,
            of_ancestor: false,
        };
        Ok(matches!(decide(&policy, &facts, &Standing::default()), Verdict::Allow(_)))
    })
}

fn cedar(rules: usize) -> Fallible<u64> {
    let write = |kind: &str, like: &str| format!("{kind}(principal, action == Action::\"fs.write\", resource) when {{ context.path like \"{like}\" }};\n");
    let mut text = write("permit", "src/*");
    for number in 1..rules {
        text += &match deny(number) {
            Deny::Prefix(prefix) => write("forbid", &format!("{prefix}*")),
            Deny::Name(name) => write("forbid", &format!("*{name}")),
        };
    }
    let policies = PolicySet::from_str(&text)?;
    let request = |path: &str| -> Fallible<Request> {
        let context = Context::from_pairs([("path".to_owned(), RestrictedExpression::new_string(path.to_owned()))])?;
        let uid = EntityUid::from_str;
        Ok(Request::new(uid("Process::\"foreman.1\"")?, uid("Action::\"fs.write\"")?, uid("Zone::\"zone-1\"")?, context, None)?)
    };
    let (allowed, denied) = (request(ALLOWED)?, request(DENIED)?);
    let (authorizer, entities) = (Authorizer::new(), Entities::empty());
    measure(|path| {
        let request = if path == ALLOWED { &allowed } else { &denied };
        Ok(authorizer.is_authorized(request, &policies, &entities).decision() == Decision::Allow)
    })
}

fn rego(rules: usize) -> Fallible<String> {
    let mut text = "package gate\nimport rego.v1\ndefault verdict := false\nverdict if { allow; not deny }\n\
                    allow if { input.tool == \"fs.write\"; startswith(input.path, \"src/\") }\n"
        .to_owned();
    for number in 1..rules {
        let test = match deny(number) {
            Deny::Prefix(prefix) => format!("startswith(input.path, \"{prefix}\")"),
            Deny::Name(name) => format!("endswith(input.path, \"{name}\")"),
        };
        writeln!(text, "deny if {{ input.tool == \"fs.write\"; {test} }}")?;
    }
    Ok(text)
}

fn inputs() -> Fallible<(Value, Value)> {
    let input = |path: &str| Value::from_json_str(&serde_json::json!({ "tool": "fs.write", "path": path }).to_string());
    Ok((input(ALLOWED)?, input(DENIED)?))
}

fn engine(rules: usize) -> Fallible<Engine> {
    let mut engine = Engine::new();
    engine.add_policy("gate.rego".to_owned(), rego(rules)?)?;
    Ok(engine)
}

fn regorus(rules: usize) -> Fallible<u64> {
    let compiled = engine(rules)?.compile_with_entrypoint(&Rc::from("data.gate.verdict"))?;
    let (allowed, denied) = inputs()?;
    measure(|path| {
        let input = if path == ALLOWED { &allowed } else { &denied };
        Ok(compiled.eval_with_input(input.clone())? == Value::from(true))
    })
}

fn regorus_vm(rules: usize) -> Fallible<u64> {
    let compiled = engine(rules)?.compile_with_entrypoint(&Rc::from("data.gate.verdict"))?;
    let mut vm = RegoVM::new();
    vm.load_program(Compiler::compile_from_policy(&compiled, &["data.gate.verdict"])?);
    let (allowed, denied) = inputs()?;
    measure(|path| {
        vm.set_input(if path == ALLOWED { allowed.clone() } else { denied.clone() });
        Ok(vm.execute()? == Value::from(true))
    })
}
