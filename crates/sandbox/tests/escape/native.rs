//! Our own rooms.

use sandbox::{JobSpec, Launcher, Profile, WorkspaceSpec};

use super::attempt::Attempt;
use super::runtime::{Ran, Runtime};
use super::scene::{MASKED, Scene};

struct Native {
    launcher: Launcher,
    runtime: tokio::runtime::Runtime,
}

pub fn start() -> Box<dyn Runtime> {
    let launcher = Launcher::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    Box::new(Native { launcher, runtime })
}

impl Runtime for Native {
    fn profiles(&self) -> &'static [&'static str] {
        &["standard", "standard-net"]
    }

    fn run(&self, scene: &Scene, attempt: &Attempt, argv: &[String], profile: &str) -> Ran {
        let work = scene.home().join("work").join(profile);
        let mut spec = WorkspaceSpec::new(scene.project(), &work);
        spec.masked = MASKED.iter().map(Into::into).collect();
        let job = job(scene, attempt, argv, profile);
        let outcome = self.runtime.block_on(async {
            let workspace = self.launcher.open(spec).await.unwrap();
            let outcome = workspace.run(job, None).await.unwrap();
            workspace.close().await.unwrap();
            outcome
        });
        sandbox::sweep(&[work], |_| false);
        Ran::of(outcome)
    }
}

/// The attempt as a job of any runtime.
pub fn job(scene: &Scene, attempt: &Attempt, argv: &[String], profile: &str) -> JobSpec {
    let mut job = JobSpec::exec(argv);
    job.env = scene.env(true).iter().map(|(key, value)| (key.into(), value.into())).collect();
    job.limits = attempt.limits.clone();
    job.output_max = attempt.output_max.unwrap_or(job.output_max);
    job.profile = if profile == "standard-net" { Profile::StandardNet } else { Profile::Standard };
    job
}
