//! The sandbox's promised numbers, measured side by side: `cargo run --release -p benches --bin bench-sandbox`.
//!
//! Prints medians as JSON. All contenders start `/bin/true` and wait for its end, interleaved in one loop, so that a busy
//! machine is busy for all of them. `fifty_at_once_ms` is the wall time of fifty concurrent jobs.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use sandbox::{JobSpec, Launcher, Workspace, WorkspaceSpec};

const ROUNDS: usize = 200;
const AT_ONCE: usize = 50;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Fallible<()> {
    let launcher = Launcher::start()?;
    let folder = tempfile::tempdir_in("/var/tmp")?;
    let project = folder.path().join("project");
    std::fs::create_dir(&project)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (work, opened) = (folder.path().join("work"), folder.path().join("opened"));
    let measured: Fallible<()> = runtime.block_on(async {
        let workspace = Arc::new(launcher.open(WorkspaceSpec::new(project, &work)).await?);
        // The main task has a thread of its own; measure where the kernel would be, on a worker.
        let mut report = tokio::spawn(measure(workspace)).await??;
        report["open_empty_ms"] = openings(&launcher, &folder.path().join("empty"), &opened, 0).await?.into();
        report["open_large_ms"] = openings(&launcher, &folder.path().join("large"), &opened, 100_000).await?.into();
        println!("{report}");
        Ok(())
    });
    // An ordinary user cannot simply remove what overlayfs leaves.
    sandbox::sweep(&[work, opened], |_| false);
    measured
}

/// Opening a workspace over a project of so many files, a job in it, and closing it.
async fn openings(launcher: &Launcher, project: &Path, work: &Path, files: usize) -> Fallible<f64> {
    std::fs::create_dir(project)?;
    for n in 0..files {
        let folder = project.join((n / 100).to_string());
        if n % 100 == 0 {
            std::fs::create_dir(&folder)?;
        }
        std::fs::write(folder.join(n.to_string()), "")?;
    }
    let mut times = Vec::new();
    for _ in 0..31 {
        let began = Instant::now();
        let workspace = launcher.open(WorkspaceSpec::new(project, work)).await?;
        room(&workspace).await?;
        workspace.close().await?;
        times.push(ms(began));
    }
    Ok(median(times))
}

async fn measure(workspace: Arc<Workspace>) -> Fallible<serde_json::Value> {
    let has_bwrap = bwrap().is_ok();
    let (mut ours, mut plain, mut theirs, mut fifty) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS + 10 {
        let began = Instant::now();
        room(&workspace).await?;
        let mine = ms(began);
        let began = Instant::now();
        run(&mut Command::new("/bin/true"))?;
        let forked = ms(began);
        let wrapped = if has_bwrap && round % 4 == 0 {
            let began = Instant::now();
            bwrap()?;
            Some(ms(began))
        } else {
            None
        };
        // The first rounds fill caches.
        if round >= 10 {
            ours.push(mine);
            plain.push(forked);
            theirs.extend(wrapped);
        }
    }
    for _ in 0..5 {
        let began = Instant::now();
        let jobs: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let workspace = Arc::clone(&workspace);
                tokio::spawn(async move { room(&workspace).await })
            })
            .collect();
        for job in jobs {
            job.await??;
        }
        fifty.push(ms(began));
    }
    Ok(serde_json::json!({
        "ours_ms": median(ours),
        "fork_exec_ms": median(plain),
        "bwrap_ms": if theirs.is_empty() { None } else { Some(median(theirs)) },
        "fifty_at_once_ms": median(fifty),
    }))
}

async fn room(workspace: &Workspace) -> Fallible<()> {
    let outcome = workspace.run(JobSpec::exec(["/bin/true"]), None).await?;
    if outcome.exit.success() { Ok(()) } else { Err("the job failed".into()) }
}

fn bwrap() -> Fallible<()> {
    run(Command::new("bwrap").args(["--unshare-all", "--ro-bind", "/", "/", "true"]))
}

fn run(command: &mut Command) -> Fallible<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err("a command failed".into()) }
}

fn ms(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1000.0
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    (times.get(times.len() / 2).copied().unwrap_or_default() * 1000.0).round() / 1000.0
}
