//! Changes of phase in a kernel of this process, on a project of so many files, beside `git status` of the same project outside. Prints one JSON
//! line for each measure; `cargo xtask bench` reads them.
//!
//! A change of phase is the call `plan.complete` from its admission to its end, by the journal, without what the tests themselves took in it.

use journal::Filter;
use kernel::{Home, Kernel, NewTask, Stop, Tuning};
use serde_json::{Value, json};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;
use world::{Discipline, TaskId};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const TASKS: usize = 7;
/// The changes of a strict task, by the state that each leads to.
const PHASES: [&str; 3] = ["test_writing", "code_writing", "reviewing"];

pub(crate) fn run(words: &[&str]) -> Fallible<()> {
    let [folder, files] = words else { return Err("usage: phase FOLDER FILES".into()) };
    let files: usize = files.parse()?;
    // Forked before there is a second thread.
    let launcher = sandbox::Launcher::start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let bench = PhaseBench::open(Path::new(folder), files, launcher).await?;
        bench.measure().await?;
        bench.kernel.stop("the bench is over").await.map_err(|fault| fault.to_string().into())
    })
}

struct PhaseBench {
    kernel: Arc<Kernel>,
    project: PathBuf,
    script: PathBuf,
}

impl PhaseBench {
    async fn open(folder: &Path, files: usize, launcher: sandbox::Launcher) -> Fallible<PhaseBench> {
        let (project, script) = (folder.join("project"), folder.join("script"));
        make_project(&project, files)?;
        std::fs::write(&script, SCRIPT)?;
        let home = Home::open(&folder.join("home")).map_err(|fault| fault.to_string())?;
        let booted = Kernel::boot_tuned(home, launcher, journal::Options::default(), None, Tuning::default()).await;
        let kernel = booted.map_err(|fault| fault.to_string())?;
        let trusted = async {
            let proposal = kernel.gate.init(&project).await?;
            let phrase = kernel.gate.try_proposal(&project).await?.phrase();
            kernel.gate.trust(&project, &proposal.hash, phrase.as_deref()).await
        };
        trusted.await.map_err(|stop: Stop| stop.to_string())?;
        Ok(PhaseBench { kernel, project, script })
    }

    async fn measure(&self) -> Fallible<()> {
        let mut took: [Vec<f64>; PHASES.len()] = Default::default();
        let mut outside = Vec::new();
        for _ in 0..TASKS {
            let start = Instant::now();
            if !Command::new("git").arg("-C").arg(&self.project).args(["status", "--porcelain"]).output()?.status.success() {
                return Err("git has no status".into());
            }
            outside.push(start.elapsed().as_secs_f64() * 1000.0);
            for (all, ms) in took.iter_mut().zip(self.task().await?) {
                all.push(ms);
            }
        }
        for (phase, all) in PHASES.iter().zip(&mut took) {
            let (ms, git_status_ms) = (median(all), median(&mut outside));
            // In their order by now.
            println!("{}", json!({"what": phase, "ms": ms, "least_ms": all.first(), "git_status_ms": git_status_ms}));
        }
        Ok(())
    }

    /// One strict task, and what each of its changes of phase took beside the tests.
    async fn task(&self) -> Fallible<Vec<f64>> {
        let brain = Some(format!("script:{}", self.script.display()));
        let mut new = NewTask::new(self.project.clone(), world::Mode::Act, "bench".to_owned(), brain);
        new.shape.discipline = Some(Discipline::Strict);
        let id = self.kernel.add(new).await.map_err(|stop| stop.to_string())?.task;
        self.kernel.tasks.settled(id).await.map_err(|stop| stop.to_string())?;
        // No rule lets a merge pass, so the next task begins with the same project.
        self.phases(id)
    }

    fn phases(&self, id: TaskId) -> Fallible<Vec<f64>> {
        let filter = Filter { task: Some(id.to_string()), ..Filter::default() };
        let records = self.kernel.ledger.read(&filter).map_err(|fault| fault.to_string())?;
        let (mut took, mut began, mut tests) = (Vec::new(), None, 0.0);
        for record in records {
            let body: Value = serde_json::from_str(record.payload()?)?;
            match record.kind.as_str() {
                "call.admitted" if body["tool"] == "plan.complete" => (began, tests) = (Some((record.at_ms, body["call"].clone())), 0.0),
                "tests.ran" => tests += body["run"]["ms"].as_f64().unwrap_or_default(),
                "call.finished" => {
                    if let Some((at_ms, _)) = began.take_if(|(_, call)| *call == body["call"]) {
                        took.push((record.at_ms - at_ms) as f64 - tests);
                    }
                }
                _ => {}
            }
        }
        if took.len() != PHASES.len() {
            return Err(format!("{id} has {} changes of phase: {}", took.len(), self.script.display()).into());
        }
        Ok(took)
    }
}

fn median(all: &mut [f64]) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}

/// Committed files, a hundred to a folder, and a command that says what tests say in no time.
fn make_project(project: &Path, files: usize) -> Fallible<()> {
    for n in 0..files {
        let folder = project.join(format!("{}/{}", n / 10_000, n / 100));
        if n % 100 == 0 {
            std::fs::create_dir_all(&folder)?;
        }
        std::fs::write(folder.join(format!("{n}.txt")), n.to_string())?;
    }
    std::fs::create_dir_all(project.join("tests"))?;
    std::fs::create_dir_all(project.join(".skep"))?;
    std::fs::write(
        project.join(".skep/policy.yaml"),
        "capabilities:\n  - { name: runs, match: { syscall: ['fs.*', shell.run] }, action: allow }\n",
    )?;
    std::fs::write(project.join("run.sh"), "for test in tests/*.sh; do sh \"$test\" || exit 1; done\n")?;
    std::fs::write(project.join("tests/old.sh"), "echo '1..1'; echo 'ok 1 - old'\n")?;
    std::fs::write(project.join("skep.yml"), "test: { command: [sh, run.sh] }\n")?;
    for arguments in [&["init", "-q"][..], &["add", "-A"], &["-c", "user.name=b", "-c", "user.email=b@b", "commit", "-qm", "b"]] {
        if !Command::new("git").arg("-C").arg(project).args(arguments).status()?.success() {
            return Err("git could not make a repository".into());
        }
    }
    Ok(())
}

/// A test that fails until the source is there. What the project held is looked at beside the brain, which thinks for a while as brains do.
const SCRIPT: &str = "call shell.run command=[\"sleep\",\"3\"]
call plan.complete
call fs.write path=tests/old.sh content=\"echo '1..2'; echo 'ok 1 - old'; if [ -e source.txt ]; then echo 'ok 2 - new'; else echo 'not ok 2 - new'; exit 1; fi\\n\"
call plan.complete
call fs.write path=source.txt content=\"here\\n\"
call plan.complete
done
";
