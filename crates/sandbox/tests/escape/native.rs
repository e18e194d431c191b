//! Our own rooms.

use std::path::PathBuf;

use sandbox::{Exit, JobSpec, Launcher, Profile, WorkspaceSpec};

use super::attempt::Attempt;
use super::runtime::{Ran, Runtime};
use super::scene::{MASKED, Scene};

struct Native {
    launcher: Launcher,
    runtime: tokio::runtime::Runtime,
    project: PathBuf,
    work: PathBuf,
}

pub fn start(scene: &Scene) -> Box<dyn Runtime> {
    let launcher = Launcher::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    Box::new(Native { launcher, runtime, project: scene.project(), work: scene.home().join("work") })
}

impl Runtime for Native {
    fn profiles(&self) -> &'static [&'static str] {
        &["standard", "standard-net"]
    }

    fn run(&self, attempt: &Attempt, argv: &[String], env: &[(String, String)], profile: &str) -> Ran {
        let mut spec = WorkspaceSpec::new(&self.project, self.work.join(profile));
        spec.masked = MASKED.iter().map(Into::into).collect();
        let mut job = JobSpec::exec(argv);
        job.env = env.iter().map(|(key, value)| (key.into(), value.into())).collect();
        job.limits = attempt.limits.clone();
        job.output_max = attempt.output_max.unwrap_or(job.output_max);
        job.profile = if profile == "standard-net" { Profile::StandardNet } else { Profile::Standard };
        let outcome = self.runtime.block_on(async {
            let workspace = self.launcher.open(spec).await.unwrap();
            let outcome = workspace.run(job, None).await.unwrap();
            workspace.close().await.unwrap();
            outcome
        });
        Ran {
            exit: match outcome.exit {
                Exit::Code(code) => Ok(code),
                Exit::Signal(signal) => Err(signal),
            },
            stdout: outcome.stdout,
            stderr: outcome.stderr,
            cut: outcome.truncated,
            timed_out: outcome.timed_out,
            out_of_memory: outcome.out_of_memory,
        }
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        let works = self.profiles().iter().map(|profile| self.work.join(profile));
        sandbox::sweep(&works.collect::<Vec<_>>(), |_| false);
    }
}
