//! Containers of Podman. Only root's: an ordinary user is refused.

use sandbox::oci::{Engine, Kind, Settings};
use sandbox::{Launcher, WorkspaceSpec};

use super::attempt::Attempt;
use super::native;
use super::runtime::{Ran, Runtime};
use super::scene::{MASKED, Scene};

struct Podman {
    engine: Engine,
    runtime: tokio::runtime::Runtime,
    /// Socket and profiles of the engine. Goes last.
    _home: tempfile::TempDir,
    _launcher: Launcher,
}

pub fn start() -> Box<dyn Runtime> {
    let launcher = Launcher::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let home = tempfile::Builder::new().prefix("skep-escape-").tempdir_in("/var/tmp").unwrap();
    let settings = Settings { kind: Kind::Podman, home: home.path().join("engine"), program: std::env::current_exe().unwrap() };
    let engine = runtime.block_on(Engine::connect(&launcher, settings)).unwrap();
    Box::new(Podman { engine, runtime, _home: home, _launcher: launcher })
}

impl Runtime for Podman {
    fn profiles(&self) -> &'static [&'static str] {
        &["standard", "standard-net"]
    }

    fn run(&self, scene: &Scene, attempt: &Attempt, argv: &[String], profile: &str) -> Ran {
        let work = scene.home().join("work").join(profile);
        let mut spec = WorkspaceSpec::new(scene.project(), &work);
        spec.masked = MASKED.iter().map(Into::into).collect();
        let job = native::job(scene, attempt, argv, profile);
        let outcome = self.runtime.block_on(async {
            let workspace = self.engine.open(spec).await.unwrap();
            let outcome = workspace.run(job, None).await.unwrap();
            workspace.close().await.unwrap();
            outcome
        });
        sandbox::sweep(&[work], |_| false);
        Ran::of(outcome)
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        assert!(self.runtime.block_on(self.engine.rest(std::time::Duration::from_secs(30))), "containers are left");
    }
}
