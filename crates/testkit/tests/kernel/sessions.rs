//! Sessions whose kernel dies at every commit: the next one carries them to the same end, and no step is made twice.
//!
//! A kernel that dies is a process of its own: this program, told by its environment what it is.

mod attacked;
mod exact;
mod forks;
mod killed;
mod planners;
mod preempted;
mod steps;

use journal::{Faults, Filter, Options, Point};
use kernel::{Home, Kernel, NewSession, Reply, Stop, Tuning};
use sandbox::Launcher;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use testkit::bed::Bed;
use testkit::harness::Test;
use world::{
    Event, PlanConstraints, PolicyProfile, SessionLimits, SessionMode, SessionTerms, StepRef, StepStatus, TaskId, TaskState, Terms,
};

pub fn tests() -> Vec<Test> {
    let crashes = vec![
        Test::new("killed_before_each_write", || dies_at(Point::BeforeWrite, 1)),
        Test::new("killed_before_each_sync", || dies_at(Point::BeforeSync, 2)),
        Test::new("killed_before_each_answer", || dies_at(Point::BeforeAck, 3)),
        Test::new("killed_in_an_agentic_session", || agentic_dies_at(Point::BeforeAck, 2)),
    ];
    crashes
        .into_iter()
        .chain(steps::tests())
        .chain(planners::tests())
        .chain(exact::tests())
        .chain(attacked::tests())
        .chain(forks::tests())
        .chain(killed::tests())
        .collect()
}

const VICTIM: &str = "SKEP_TEST_SESSION";
const KILL: &str = "SKEP_TEST_KILL";

/// Twelve steps in two plans: two of them fail, and one of those has the second plan made.
const PLANS: &str = r#"
schema_version: "0.1"
goal: first
steps:
  - {step_id: s1, title: s1, tool_ref: {name: fs.read}, input: {path: a.txt}}
  - {step_id: s2, title: s2, tool_ref: {name: fs.write}, input: {path: b.txt, content: b ghp_0123456789abcdefghijklmnopqrstuvwxyzAB}}
  - {step_id: s3, title: s3, tool_ref: {name: shell.run}, input: {command: [sh, -c, "echo s3 >> log"]}, depends_on: [s1, s2]}
  - {step_id: s4, title: s4, tool_ref: {name: fs.read}, input: {path: none.txt}, failure_policy: continue, max_retries: 1}
  - {step_id: s5, title: s5, tool_ref: {name: fs.read}, input: {path: b.txt}, depends_on: [s3]}
  - {step_id: s6, title: s6, tool_ref: {name: shell.run}, input: {command: [sh, -c, "echo s6 >> log; exit 4"]}, failure_policy: replan, depends_on: [s5]}
  - {step_id: s7, title: s7, tool_ref: {name: fs.write}, input: {path: never.txt, content: x}, depends_on: [s6]}
---
schema_version: "0.1"
goal: second
steps:
  - {step_id: t1, title: t1, tool_ref: {name: fs.read}, input: {path: a.txt}}
  - {step_id: t2, title: t2, tool_ref: {name: search.glob}, input: {pattern: "*.txt"}}
  - {step_id: t3, title: t3, tool_ref: {name: fs.write}, input: {path: c.txt}, input_from: {content: t1.content}}
  - {step_id: t4, title: t4, tool_ref: {name: shell.run}, input: {command: [sh, -c, "echo t4 >> log"]}, depends_on: [t3, t2]}
  - {step_id: t5, title: t5, tool_ref: {name: fs.read}, input: {path: c.txt}, depends_on: [t4]}
"#;

/// An agentic session: two plans, of which one fails, and one without steps, which is the end.
const AGENTIC: &str = r#"
schema_version: "0.1"
goal: first
steps:
  - {step_id: s1, title: s1, tool_ref: {name: fs.write}, input: {path: b.txt, content: b ghp_0123456789abcdefghijklmnopqrstuvwxyzAB}}
  - {step_id: s3, title: s3, tool_ref: {name: shell.run}, input: {command: [sh, -c, "echo s3 >> log; echo s6 >> log"]}, depends_on: [s1]}
  - {step_id: s4, title: s4, tool_ref: {name: fs.read}, input: {path: none.txt}, depends_on: [s3]}
---
schema_version: "0.1"
goal: second
steps:
  - {step_id: t1, title: t1, tool_ref: {name: fs.read}, input: {path: a.txt}}
  - {step_id: t3, title: t3, tool_ref: {name: fs.write}, input: {path: c.txt}, input_from: {content: t1.content}}
  - {step_id: t4, title: t4, tool_ref: {name: shell.run}, input: {command: [sh, -c, "echo t4 >> log"]}, depends_on: [t3]}
---
schema_version: "0.1"
goal: nothing is left to do
steps: []
"#;

/// Stands in what a step writes and in what another one reads: no record may have it, and each file must.
const SECRET: &str = "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB";

pub(crate) const POLICY: &str = "capabilities:\n  - { name: all, match: { syscall: '*' }, action: allow }\n  - { name: asks, match: { syscall: merge.apply }, action: require_review, reason: look }\n";

/// What stays the same whatever happened on the way.
type Ends = BTreeMap<(u32, String), (StepStatus, u32)>;

/// Dies at commits until a kernel lives through everything: every third one, from another one on for each point, and each in a soak.
fn dies_at(point: Point, first: u64) -> Result<(), String> {
    comes_to_its_end("plans", 12, point, first)
}

fn agentic_dies_at(point: Point, first: u64) -> Result<(), String> {
    comes_to_its_end("agentic", 6, point, first)
}

fn comes_to_its_end(what: &str, steps: usize, point: Point, first: u64) -> Result<(), String> {
    let ends = |kill| {
        let ends = live(what, kill)?;
        assert!(ends.as_ref().is_none_or(|ends| ends.len() == steps), "{ends:?}");
        Ok(ends)
    };
    dies_through(point, first, ends)
}

/// Plays it once without a fault, then kills the kernel at one commit after the other: every third one, and each in a soak. What is told of it must be the same each time.
fn dies_through<T: PartialEq + std::fmt::Debug>(
    point: Point,
    first: u64,
    live: impl Fn(Option<(Point, u64)>) -> Result<Option<T>, String>,
) -> Result<(), String> {
    let expected = live(None)?.ok_or("a kernel without a fault died")?;
    let stride = if std::env::var_os("SKEP_SOAK").is_some() { 1 } else { 3 };
    let mut deaths = 0;
    for nth in (first..300).step_by(stride) {
        match live(Some((point, nth)))? {
            Some(ends) if ends == expected => deaths += 1,
            Some(ends) => return Err(format!("killed at {point:?} {nth} it comes to another end: {ends:?} and not {expected:?}")),
            None => {
                let least = 20 / stride as u64;
                return if deaths >= least { Ok(()) } else { Err(format!("only {deaths} deaths: the fault is not injected")) };
            }
        }
    }
    Err("the kernel still dies at the 300th commit".to_owned())
}

/// A session from its start to its end, with a kernel that dies at this point and one that does not. `None` where the first one survived; without a fault its ends.
fn live(what: &str, kill: Option<(Point, u64)>) -> Result<Option<Ends>, String> {
    let old = format!("old {SECRET}\n");
    let files = [("a.txt", old.as_str()), (".skep/policy.yaml", POLICY)].map(|(path, text)| (path.to_owned(), text.to_owned()));
    let bed = Bed::new(&files)?;
    run_kernel(&bed, "trust", None)?;
    if let Some((point, nth)) = kill
        && !run_kernel(&bed, what, Some(format!("{point:?}:{nth}")))?
    {
        return Ok(None);
    }
    if run_kernel(&bed, what, None)? {
        return Err("a kernel without a fault died".to_owned());
    }
    look(&bed, kill).map(Some)
}

/// Runs a kernel in a process of its own. Says whether it was killed.
pub(crate) fn run_kernel(bed: &Bed, what: &str, kill: Option<String>) -> Result<bool, String> {
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(me);
    command.env(VICTIM, format!("{what}:{}", bed.folder().display()));
    if let Some(kill) = kill {
        command.env(KILL, kill);
    }
    let output = command.output().map_err(|error| error.to_string())?;
    match (output.status.success(), output.status.signal()) {
        (true, _) => Ok(false),
        (_, Some(9)) => Ok(true),
        _ => Err(format!("{what}: {} {}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}

/// Whether this process is such a kernel.
pub fn child() -> Option<ExitCode> {
    let told = std::env::var(VICTIM).ok()?;
    let (what, folder) = told.split_once(':')?;
    Some(match play(what, Path::new(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    })
}

fn play(what: &str, folder: &Path) -> Result<(), String> {
    let launcher = Launcher::start().map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| error.to_string())?;
    let faults = Faults { kill_at: std::env::var(KILL).ok().and_then(|text| kill_of(&text)), ..Faults::default() };
    runtime.block_on(async {
        let home = Home::open(&folder.join("home")).map_err(|fault| fault.to_string())?;
        let options = Options { faults, ..Options::default() };
        let kernel = Kernel::boot_tuned(home, launcher, options, None, Tuning::default()).await.map_err(|fault| fault.to_string())?;
        let project = folder.join("project");
        let done = match what {
            "trust" => trust(&kernel, &project).await,
            crate::own_calls::CALLS => crate::own_calls::call(&kernel, &project).await,
            "agentic" => work(&kernel, project, Some(AGENTIC), SessionTerms { agentic: true, ..terms() }).await,
            killed::DELEGATES => work(&kernel, project, None, killed::terms_of(what)).await,
            killed::LOSES => work(&kernel, project, Some(killed::WRITES), terms()).await,
            killed::SUMS_UP => work(&kernel, project, Some(&killed::plans()), killed::terms_of(what)).await,
            _ => work(&kernel, project, Some(PLANS), terms()).await,
        };
        done.map_err(|stop| stop.to_string())?;
        kernel.stop("test").await.map_err(|fault| fault.to_string())
    })
}

fn kill_of(text: &str) -> Option<(Point, u64)> {
    let (point, nth) = text.split_once(':')?;
    let points = [Point::BeforeWrite, Point::BeforeSync, Point::BeforeAck];
    Some((points.into_iter().find(|known| format!("{known:?}") == point)?, nth.parse().ok()?))
}

async fn trust(kernel: &Arc<Kernel>, project: &Path) -> Result<(), Stop> {
    let proposal = kernel.gate.init(project).await?;
    testkit::trust(kernel, project, &proposal.hash).await.map(drop)
}

/// Starts the session, unless a kernel before this one did, and says yes to everything until it has ended: but where it is to lose a write, that is not made again. What it
/// did follows from its record.
async fn work(kernel: &Arc<Kernel>, project: PathBuf, plans: Option<&str>, terms: SessionTerms) -> Result<(), Stop> {
    let known: Option<TaskId> = kernel.ledger.look(|world| world.tasks.values().find(|task| task.session.is_some()).map(|task| task.id));
    let id = match known {
        Some(id) => id,
        None => {
            let plan = plans.map(str::to_owned);
            kernel.add_session(NewSession { plan, ..NewSession::new(project, "some steps".to_owned(), terms) }).await?.task
        }
    };
    loop {
        let task = kernel.tasks.settled(id).await?;
        match task.state {
            TaskState::Parked { review } => {
                let is_lost = kernel.ledger.review(review)?.rules.iter().any(|rule| rule == "lost-call");
                let reply = match is_lost && plans == Some(killed::WRITES) {
                    true => Reply::No { alternative: None },
                    false => Reply::Once { terms: Terms::default() },
                };
                drop(kernel.answer(review, reply, "test", None).await?);
            }
            state if state.ended() => {
                let again = kernel.reexecute_session(id).await?;
                assert_eq!(again.divergence, None, "what it did follows from its record");
                return Ok(());
            }
            state => panic!("{id} is {}: {:?}", state.as_str(), task.summary),
        }
    }
}

fn terms() -> SessionTerms {
    SessionTerms {
        agentic: false,
        mode: SessionMode::Live,
        planner: "file".to_owned(),
        limits: SessionLimits { max_steps: 100, max_iterations: 10, max_duration_ms: None, max_cost_micros: None, max_tokens: None },
        profile: PolicyProfile::default(),
        constraints: PlanConstraints::default(),
        critics: true,
        model_critic: false,
        memory: false,
        context_tokens: None,
        plan_only: false,
        unattended: false,
        priority: 3,
    }
}

/// What the journal and the project say in the end.
fn look(bed: &Bed, kill: Option<(Point, u64)>) -> Result<Ends, String> {
    let read = |path: &str| std::fs::read_to_string(bed.project().join(path)).map_err(|error| format!("{kill:?}: {path}: {error}"));
    let (journal, _) = journal::Journal::open(&bed.home(), Options::default()).map_err(|error| error.to_string())?;
    let records = journal.read(&Filter::default()).map_err(|error| error.to_string())?;
    let events = records.iter().map(|record| serde_json::from_str::<Event>(&record.line).map_err(|error| error.to_string()));
    let events = events.collect::<Result<Vec<Event>, String>>()?;
    let (mut ends, mut admitted, mut lost) = (Ends::new(), Vec::new(), Vec::new());
    let mut finished = 0;
    for event in events {
        match event {
            Event::StepFinished(end) => {
                let before = ends.insert((end.plan, end.step.clone()), (end.status, end.attempts));
                assert_eq!(before, None, "{kill:?}: step {} ended twice", end.step);
            }
            Event::CallAdmitted(call) => admitted.extend(call.step.map(|step| (call.call, step))),
            Event::CallLost(call) => lost.push(call.call),
            Event::TaskFinished(_) => finished += 1,
            Event::TaskFailed(end) => return Err(format!("{kill:?}: it failed: {}", end.reason)),
            _ => {}
        }
    }
    assert_eq!(finished, 1, "{kill:?}: it ends once");
    // Each attempt was made once, but for those that a crash cut off.
    let mut made: BTreeMap<(u32, String, u32), usize> = BTreeMap::new();
    for (_, StepRef { plan, step, attempt }) in admitted.iter().filter(|(call, _)| !lost.contains(call)) {
        *made.entry((*plan, step.clone(), *attempt)).or_default() += 1;
    }
    assert!(made.values().all(|count| *count == 1), "{kill:?}: {made:?}");
    let log = read("log")?;
    for step in ["s3", "t4"] {
        let ran = log.lines().filter(|line| *line == step).count();
        let asked = admitted.iter().filter(|(_, place)| place.step == step).count();
        assert!(ran >= 1 && ran <= asked, "{kill:?}: {step} ran {ran} times and was admitted {asked} times");
    }
    assert_eq!((read("b.txt")?, read("c.txt")?), (format!("b {SECRET}"), format!("old {SECRET}\n")), "{kill:?}");
    assert!(!records.iter().any(|record| record.line.contains(SECRET)), "{kill:?}: a record has the secret");
    let left = std::fs::read_dir(bed.home().join("vault")).map_err(|error| error.to_string())?.count();
    // A kernel that dies while a session comes to be leaves its plan file, as it leaves a prompt.
    let is_unborn = kill.is_some_and(|(_, nth)| nth <= 3);
    assert!(left == 0 || is_unborn, "{kill:?}: what was kept exactly goes with the session");
    assert!(!bed.project().join("never.txt").exists(), "{kill:?}");
    Ok(ends)
}
