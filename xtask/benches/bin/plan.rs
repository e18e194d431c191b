//! Plans of a session in a kernel of this process, beside a bare loop of the same calls at the same door, five at once. Prints one JSON line for each
//! measure; `cargo xtask bench` reads them.
//!
//! A durable effect is `fs.write` in mode `mock`: its admission and its end are on disk, and no tool runs, so that what is measured is the kernel's own.

use journal::Filter;
use kernel::{CallEnd, Home, Kernel, NewSession, NewTask, Request, Stop, Tuning};
use serde_json::{Value, json};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;
use tool::RunMode;
use world::{Pid, PlanConstraints, PolicyProfile, SessionLimits, SessionMode, SessionTerms, TaskId, TaskState, ZoneId};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// As many as a session has at once.
const ABREAST: usize = 5;
const READS: usize = 5_000;
const EFFECTS: usize = 2_000;
const LAYERS: usize = 20;
const LONG: usize = 10_000;

pub(crate) fn run(words: &[&str]) -> Fallible<()> {
    let [folder] = words else { return Err("usage: plan FOLDER".into()) };
    // Forked before there is a second thread.
    let launcher = sandbox::Launcher::start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let bench = Bench::open(Path::new(folder), launcher).await?;
        bench.measure().await?;
        bench.kernel.stop("the bench is over").await.map_err(|fault| fault.to_string().into())
    })
}

struct Bench {
    kernel: Arc<Kernel>,
    project: PathBuf,
    zone: ZoneId,
    task: TaskId,
}

impl Bench {
    async fn open(folder: &Path, launcher: sandbox::Launcher) -> Fallible<Bench> {
        let (project, script) = (folder.join("project"), folder.join("script"));
        std::fs::create_dir_all(project.join(".skep"))?;
        let parks = "  - { name: parks, match: { syscall: fs.list }, action: require_review, reason: park }\n";
        let runs = "  - { name: runs, match: { syscall: 'fs.*' }, action: allow }\n";
        std::fs::write(project.join(".skep/policy.yaml"), format!("capabilities:\n{parks}{runs}"))?;
        std::fs::write(project.join("a.txt"), "one line\n")?;
        std::fs::write(&script, "call fs.list path=.\ndone\n")?;
        if !Command::new("git").args(["init", "-q"]).arg(&project).status()?.success() {
            return Err("git could not make a repository".into());
        }
        let home = Home::open(&folder.join("home")).map_err(|fault| fault.to_string())?;
        let booted = Kernel::boot_tuned(home, launcher, journal::Options::default(), None, Tuning::default()).await;
        let kernel = booted.map_err(|fault| fault.to_string())?;
        let opened = async {
            let proposal = kernel.gate.init(&project).await?;
            let phrase = kernel.gate.try_proposal(&project).await?.phrase();
            let zone = kernel.gate.trust(&project, &proposal.hash, phrase.as_deref()).await?.zone;
            let brain = Some(format!("script:{}", script.display()));
            let task = kernel.add(NewTask::new(project.clone(), world::Mode::Act, "park".to_owned(), brain)).await?.task;
            kernel.tasks.settled(task).await?;
            Ok((zone, task))
        };
        let (zone, task) = opened.await.map_err(|stop: Stop| stop.to_string())?;
        Ok(Bench { kernel, project, zone, task })
    }

    async fn measure(&self) -> Fallible<()> {
        let read = ("fs.read", json!({"path": "a.txt"}), SessionMode::Live);
        let effect = ("fs.write", json!({"path": "b.txt", "content": "one line\n"}), SessionMode::Mock);
        for (what, count, (tool, input, mode)) in [("reads", READS, read), ("effects", EFFECTS, effect)] {
            // Side by side: they name different files, or the session would make one after the other.
            let inputs: Vec<Value> = (0..count).map(|n| spread(&input, n)).collect();
            let bare = self.bare_loop(tool, &inputs, mode).await?;
            let steps = inputs.iter().enumerate().map(|(n, input)| step(&format!("s{n}"), tool, input, &[])).collect();
            let (_, ms) = self.session(steps, mode).await?;
            println!("{}", json!({"what": what, "steps_per_s": per_s(count, ms), "calls_per_s": per_s(count, bare)}));
        }
        let layered = (0..LAYERS * ABREAST).map(|n| {
            let before = (n / ABREAST).checked_sub(1);
            let after: Vec<String> =
                before.into_iter().flat_map(|layer| (0..ABREAST).map(move |m| format!("s{}", layer * ABREAST + m))).collect();
            step(&format!("s{n}"), "fs.write", &json!({"path": format!("f{n}.txt"), "content": "x"}), &after)
        });
        let (_, ms) = self.session(layered.collect(), SessionMode::Mock).await?;
        println!("{}", json!({"what": "layers", "ms": ms / LAYERS as f64}));
        for (what, tool, mode) in [("flat", "fs.read", SessionMode::Live), ("flat_effects", "fs.write", SessionMode::Mock)] {
            let input =
                |n: usize| if tool == "fs.read" { json!({"path": "a.txt"}) } else { json!({"path": format!("g{n}.txt"), "content": "x"}) };
            let long = (0..LONG).map(|n| step(&format!("s{n}"), tool, &input(n), &[]));
            let (ends, _) = self.session(long.collect(), mode).await?;
            let at = |n: usize| ends.get(n).copied().unwrap_or_default() as f64;
            let each = |from: usize, to: usize| (at(to) - at(from)) * 1000.0 / (to - from) as f64;
            let (first, last) = (each(0, LONG / 5), each(LONG - LONG / 5, LONG - 1));
            println!("{}", json!({"what": what, "steps": ends.len(), "first_us": first, "last_us": last}));
        }
        Ok(())
    }

    /// How many milliseconds the calls take without a plan, five at once.
    async fn bare_loop(&self, tool: &str, inputs: &[Value], mode: SessionMode) -> Fallible<f64> {
        let run_mode = if mode == SessionMode::Mock { RunMode::Mock } else { RunMode::Live };
        let start = Instant::now();
        let mut asking = Vec::new();
        for part in 0..ABREAST {
            let own: Vec<Value> = inputs.iter().skip(part).step_by(ABREAST).cloned().collect();
            let (kernel, tool, zone, task) = (self.kernel.clone(), tool.to_owned(), self.zone, self.task);
            asking.push(tokio::spawn(async move {
                for input in own {
                    let request = Request { run_mode, ..Request::new(Pid::OPERATOR, Some(task), zone, &tool, input) };
                    let outcome = kernel.call_as(&request).await.map_err(|fault| fault.to_string())?;
                    if !matches!(outcome.end, CallEnd::Done { ok: true, .. }) {
                        return Err(format!("a call failed: {:?}", outcome.end));
                    }
                }
                Ok(())
            }));
        }
        for asked in asking {
            asked.await??;
        }
        Ok(start.elapsed().as_secs_f64() * 1000.0)
    }

    /// Carries out a plan. Gives when each step ended, and how many milliseconds passed from the plan's acceptance to its end.
    async fn session(&self, steps: Vec<Value>, mode: SessionMode) -> Fallible<(Vec<i64>, f64)> {
        let plan = json!({"schema_version": "0.1", "goal": "bench", "steps": steps}).to_string();
        let new = NewSession { plan: Some(plan), ..NewSession::new(self.project.clone(), "bench".to_owned(), terms(mode)) };
        let id = self.kernel.add_session(new).await.map_err(|stop| stop.to_string())?.task;
        let task = self.kernel.tasks.settled(id).await.map_err(|stop| stop.to_string())?;
        if task.state != TaskState::Done {
            return Err(format!("the session is {}: {:?}", task.state.as_str(), task.summary).into());
        }
        let times = |kind: &str| -> Fallible<Vec<i64>> {
            let filter = Filter { task: Some(id.to_string()), kinds: vec![kind.to_owned()], ..Filter::default() };
            let records = self.kernel.ledger.read(&filter).map_err(|fault| fault.to_string())?;
            Ok(records.iter().map(|record| record.at_ms).collect())
        };
        let (accepted, over) = (times("plan.accepted")?, times("session.checkpointed")?);
        let (Some(accepted), Some(over)) = (accepted.first(), over.first()) else { return Err("the session has no plan".into()) };
        Ok((times("step.finished")?, (over - accepted).max(1) as f64))
    }
}

fn spread(input: &Value, n: usize) -> Value {
    let mut input = input.clone();
    if input.get("content").is_some() {
        input["path"] = json!(format!("file-{n}.txt"));
    }
    input
}

fn step(id: &str, tool: &str, input: &Value, after: &[String]) -> Value {
    json!({"step_id": id, "title": id, "tool_ref": {"name": tool}, "input": input, "depends_on": after})
}

fn per_s(count: usize, ms: f64) -> f64 {
    count as f64 * 1000.0 / ms
}

fn terms(mode: SessionMode) -> SessionTerms {
    SessionTerms {
        agentic: false,
        mode,
        planner: "file".to_owned(),
        limits: SessionLimits { max_steps: 10_000, max_iterations: 1, max_duration_ms: None, max_cost_micros: None, max_tokens: None },
        profile: PolicyProfile::default(),
        constraints: PlanConstraints::default(),
        critics: false,
        model_critic: false,
        memory: false,
        context_tokens: None,
        plan_only: false,
        unattended: true,
        priority: 3,
    }
}
