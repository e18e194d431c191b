//! A test main that forks a launcher before it has threads, and what every test needs.
//!
//! Each test exists twice, `root::NAME` and `user::NAME`; the second gives up root first. Without root only the second is listed.

use std::fs;
use std::future::Future;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

use rustix::fs::{Gid, Uid};
use sandbox::oci::{self, Engine, Runtime};
use sandbox::{JobSpec, Launcher, Outcome, SandboxError, Workspace, WorkspaceSpec};

/// An id that owns nothing on this host.
pub const ORDINARY: u32 = 64_999;

pub type Test = (&'static str, fn(&Host));

/// The place of one test: a project, room for workspaces, a launcher and a runtime.
pub struct Host {
    pub folder: tempfile::TempDir,
    pub launcher: Launcher,
    /// Where containers are under test, their engine.
    pub engine: Option<Engine>,
    pub root: bool,
    runtime: tokio::runtime::Runtime,
}

impl Host {
    pub fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// A project of the test's user with one file that belongs to another.
    pub fn foreign_project(&self) -> PathBuf {
        self.folder.path().join("foreign")
    }

    pub fn work(&self, name: &str) -> PathBuf {
        self.folder.path().join("home/work").join(name)
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.project().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn spec(&self, name: &str) -> WorkspaceSpec {
        WorkspaceSpec::new(self.project(), self.work(name))
    }

    pub fn open(&self) -> Workspace {
        self.open_with(self.spec("t1")).unwrap()
    }

    /// By whichever runtime is under test.
    pub fn open_with(&self, spec: WorkspaceSpec) -> Result<Workspace, SandboxError> {
        match &self.engine {
            Some(engine) => self.block_on(Runtime::open(engine, spec)),
            None => self.block_on(Runtime::open(&self.launcher, spec)),
        }
    }

    /// Runs a shell script in a room.
    pub fn sh(&self, workspace: &Workspace, script: &str) -> Outcome {
        self.run(workspace, sh(script)).unwrap()
    }

    pub fn run(&self, workspace: &Workspace, spec: JobSpec) -> Result<Outcome, SandboxError> {
        self.block_on(workspace.run(spec, None))
    }
}

/// An ordinary user can only remove what overlayfs left if its folders are unlocked first.
impl Drop for Host {
    fn drop(&mut self) {
        if let Some(engine) = &self.engine {
            assert!(self.block_on(engine.rest(std::time::Duration::from_secs(60))) || std::thread::panicking(), "containers are left");
        }
        let works = fs::read_dir(self.work("")).into_iter().flatten().flatten().map(|entry| entry.path());
        sandbox::sweep(&works.collect::<Vec<_>>(), |_| false);
    }
}

pub fn sh(script: &str) -> JobSpec {
    JobSpec::exec(["sh", "-c", script])
}

/// Standard output as text of a job that went well.
#[track_caller]
pub fn text(outcome: &Outcome) -> String {
    assert!(outcome.exit.success(), "{:?}\n{}", outcome.exit, String::from_utf8_lossy(&outcome.stderr));
    String::from_utf8(outcome.stdout.clone()).unwrap().trim_end().to_owned()
}

/// `tests` run once for each kind of user, `own` once as whoever runs the suite, those in `contained` once more in containers.
pub fn main(tests: &[Test], own: &[Test], contained: &[Test]) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == [oci::GUEST] {
        exit(oci::guest());
    }
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let root = rustix::process::geteuid().is_root();
    let variants: &[&str] = if root { &["root", "user"] } else { &["user"] };
    let each = tests.iter().flat_map(|(name, _)| variants.iter().map(move |variant| format!("{variant}::{name}")));
    // Containers take root, for whom this suite runs wherever it counts.
    let contained: &[Test] = if root { contained } else { &[] };
    let own_names = own.iter().map(|(name, _)| format!("{}::{name}", variants[0]));
    let names: Vec<String> = each.chain(own_names).chain(contained.iter().map(|(name, _)| format!("podman::{name}"))).collect();
    if let Some(place) = arguments.iter().position(|argument| argument == "--kernel") {
        return super::death::kernel(&arguments[place + 1..]);
    }
    if let Some(place) = arguments.iter().position(|argument| argument == "--container-kernel") {
        return super::oci::kernel(&arguments[place + 1..]);
    }
    if let Some(place) = arguments.iter().position(|argument| argument == "--busy-kernel") {
        return super::leave::busy_kernel(&arguments[place + 1..]);
    }
    if has("--list") {
        if !has("--ignored") {
            names.iter().for_each(|name| println!("{name}: test"));
        }
        return;
    }
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    if has("--exact") {
        let (variant, name) = wanted.and_then(|name| name.split_once("::")).expect("a test's full name");
        let (_, test) = tests.iter().chain(own).chain(contained).find(|(known, _)| *known == name).expect("a known test");
        test(&host(variant));
        return;
    }
    // `cargo test`: each test in a process of its own, one after another.
    let me = std::env::current_exe().unwrap();
    let chosen = names.iter().filter(|name| wanted.is_none_or(|part| name.contains(part.as_str())));
    let failed: Vec<&String> = chosen.filter(|name| !Command::new(&me).args(["--exact", name]).status().unwrap().success()).collect();
    if !failed.is_empty() {
        println!("failed: {failed:?}");
        exit(1);
    }
}

/// Root's projects lie outside /tmp and the user's inside, because rooms treat the two differently.
fn host(variant: &str) -> Host {
    let root = variant != "user";
    let parent = if root { Path::new("/var/tmp") } else { Path::new("/tmp") };
    let folder = tempfile::Builder::new().prefix("skep-room-").tempdir_in(parent).unwrap();
    let (project, home) = (folder.path().join("project"), folder.path().join("home"));
    fs::create_dir(&project).unwrap();
    let foreign = folder.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("file"), "of somebody else\n").unwrap();
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    if !root && rustix::process::geteuid().is_root() {
        for path in [folder.path(), &project, &home, &foreign] {
            chown(path, Some(ORDINARY), Some(ORDINARY)).unwrap();
        }
        let (uid, gid) = (Uid::from_raw(ORDINARY), Gid::from_raw(ORDINARY));
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        // As in a process that this user has started: it may read its own /proc.
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable).unwrap();
    }
    if root {
        chown(foreign.join("file"), Some(ORDINARY), Some(ORDINARY)).unwrap();
    }
    let launcher = Launcher::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let engine = (variant == "podman").then(|| runtime.block_on(Engine::connect(&launcher, settings(&home))).unwrap());
    Host { folder, launcher, engine, root, runtime }
}

pub fn settings(home: &Path) -> oci::Settings {
    oci::Settings { kind: oci::EngineKind::Podman, home: home.join("engine"), program: std::env::current_exe().unwrap() }
}
