//! What an opinion costs, from the kernel's side of the pipe: `cargo run --release -p benches --bin bench-plugin`.
//!
//! Prints one JSON line. `p50_us` is for one call after the other without a pause, the worst for a child that sets the next stage
//! between calls; `paced_p50_us` for calls with a little time between them, as an agent makes them; `hundred_ms` for a hundred at
//! once, all answered; `start_ms` for a child from nothing to ready.

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use plugin::Extensions;
use policy::Action;
use sandbox::Launcher;
use serde_json::{Value, json};

const ROUNDS: usize = 2_000;
const AT_ONCE: usize = 100;
const CHILD: &str = "extension-child";

/// A file as a project might have it: three rules with some work to do.
const RULES: &str = r#"
const keys: readonly string[] = ["id_rsa", ".pem", ".key", "secrets/"];
const hosts: RegExp = /(^|\.)(example|internal)\.(com|net)$/;
export const force = rule("no-force-push", (call: Call) =>
  call.tool === "shell.run" && call.command?.includes("--force") ? deny("no force pushes", "push without --force") : pass());
export const secret = rule("keys-stay", (call: Call) =>
  call.paths.some((path) => keys.some((key) => path.includes(key))) ? deny("keys stay where they are") : pass());
export const write = rule("small-writes", (call: Call) =>
  call.host && !hosts.test(call.host) ? review("a new host") : (call.size ?? 0) > 100000 ? review("a large write") : allow("small"));
"#;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Fallible<ExitCode> {
    if std::env::args().nth(1).as_deref() == Some(CHILD) {
        return Ok(plugin::child_main());
    }
    let launcher = Launcher::start()?;
    let folder = tempfile::tempdir_in("/var/tmp")?;
    let program = std::env::current_exe()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let began = Instant::now();
        let files = vec![("rules.ts".to_owned(), RULES.to_owned())];
        let bounds = sandbox::Template::built_in().into_iter().find(|template| template.name == "policy-sandbox");
        let bounds = bounds.ok_or("there is no template for rules")?;
        let rules = Extensions::start(&launcher, &folder.path().join("extensions"), &program, &[CHILD], files, &bounds).await?;
        let start_ms = began.elapsed().as_secs_f64() * 1000.0;
        // The main task has a thread of its own; measure where the kernel would be, on a worker.
        let report = tokio::spawn(measure(rules.clone())).await??;
        rules.stop().await;
        println!("{}", json!({ "p50_us": report.0, "p99_us": report.1, "paced_p50_us": report.2, "hundred_ms": report.3, "start_ms": start_ms.round() }));
        Ok(ExitCode::SUCCESS)
    })
}

async fn measure(rules: Extensions) -> Fallible<(u64, u64, u64, u64)> {
    let call = json!({
        "tool": "fs.write", "paths": ["src/server/http/routes.rs"], "size": 1_000, "caller": "foreman.1", "role": "worker", "zone": "zone-1",
        "mode": "act", "workflow_state": "idle", "input": { "path": "src/server/http/routes.rs", "content": "x".repeat(1_000) },
    });
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        times.push(ask(&rules, &call).await?);
    }
    let mut paced = Vec::new();
    for _ in 0..ROUNDS / 10 {
        tokio::time::sleep(Duration::from_millis(3)).await;
        paced.push(ask(&rules, &call).await?);
    }
    let began = Instant::now();
    let asked: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (rules, call) = (rules.clone(), call.clone());
            tokio::spawn(async move { ask(&rules, &call).await })
        })
        .collect();
    for call in asked {
        call.await??;
    }
    let hundred_ms = u64::try_from(began.elapsed().as_millis())?;
    times.sort_unstable();
    paced.sort_unstable();
    Ok((times[times.len() / 2], times[times.len() * 99 / 100], paced[paced.len() / 2], hundred_ms))
}

/// Microseconds of one call; its answer must be the right one.
async fn ask(rules: &Extensions, call: &Value) -> Fallible<u64> {
    let began = Instant::now();
    let said = rules.opinions(call).await;
    let took = u64::try_from(began.elapsed().as_micros())?;
    let says: Vec<Action> = said.iter().map(|said| said.says).collect();
    if says != [Action::Pass, Action::Pass, Action::Allow] {
        return Err(format!("{said:?}").into());
    }
    Ok(took)
}
