//! Rooms: our own, and containers of Podman. An ordinary user has no containers.

use std::time::Duration;

use sandbox::oci::{self, Engine, EngineKind, Settings};
use sandbox::{JobSpec, Launcher, Profile, WorkspaceSpec};

use super::attempt::Attempt;
use super::runtime::{Ran, Runtime};
use super::scene::{MASKED, Scene};

struct Rooms<Opener> {
    opener: Opener,
    runtime: tokio::runtime::Runtime,
}

struct Podman {
    rooms: Rooms<Engine>,
    /// Socket and profiles of the engine. Goes last, but for who runs its errands.
    _home: tempfile::TempDir,
    _launcher: Launcher,
}

pub fn native() -> Box<dyn Runtime> {
    Box::new(Rooms::new(Launcher::start().unwrap(), |launcher, _| launcher))
}

pub fn podman() -> Box<dyn Runtime> {
    let launcher = Launcher::start().unwrap();
    let home = tempfile::Builder::new().prefix("skep-escape-").tempdir_in("/var/tmp").unwrap();
    let settings = Settings { kind: EngineKind::Podman, home: home.path().join("engine"), program: std::env::current_exe().unwrap() };
    let rooms = Rooms::new((), |(), runtime| runtime.block_on(Engine::connect(&launcher, settings)).unwrap());
    Box::new(Podman { rooms, _home: home, _launcher: launcher })
}

impl<Opener> Rooms<Opener> {
    fn new<From>(from: From, opener: impl FnOnce(From, &tokio::runtime::Runtime) -> Opener) -> Rooms<Opener> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Rooms { opener: opener(from, &runtime), runtime }
    }
}

impl<Opener: oci::Runtime + Sync> Runtime for Rooms<Opener> {
    fn profiles(&self) -> &'static [&'static str] {
        &["standard", "standard-net"]
    }

    fn run(&self, scene: &Scene, attempt: &Attempt, argv: &[String], profile: &str) -> Ran {
        let work = scene.home().join("work").join(profile);
        let mut spec = WorkspaceSpec::new(scene.project(), &work);
        spec.masked = MASKED.iter().map(Into::into).collect();
        let job = job(scene, attempt, argv, profile);
        let outcome = self.runtime.block_on(async {
            let workspace = self.opener.open(spec).await.unwrap();
            let outcome = workspace.run(job, None).await.unwrap();
            workspace.close().await.unwrap();
            outcome
        });
        sandbox::sweep(&[work], |_| false);
        Ran::of(outcome)
    }
}

fn job(scene: &Scene, attempt: &Attempt, argv: &[String], profile: &str) -> JobSpec {
    let mut job = JobSpec::exec(argv);
    job.env = scene.env(true).iter().map(|(key, value)| (key.into(), value.into())).collect();
    job.limits = attempt.limits.clone();
    job.output_max = attempt.output_max.unwrap_or(job.output_max);
    job.profile = if profile == "standard-net" { Profile::StandardNet } else { Profile::Standard };
    job
}

impl Runtime for Podman {
    fn profiles(&self) -> &'static [&'static str] {
        self.rooms.profiles()
    }

    fn run(&self, scene: &Scene, attempt: &Attempt, argv: &[String], profile: &str) -> Ran {
        self.rooms.run(scene, attempt, argv, profile)
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let Rooms { opener, runtime } = &self.rooms;
        assert!(runtime.block_on(opener.rest(Duration::from_secs(30))), "containers are left");
    }
}
