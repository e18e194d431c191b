//! A test main that forks a launcher before it has threads, and that is the children's main as well.
//!
//! Speaks as much of libtest's command line as nextest and `cargo test` need. Each test gets a process of its own.

use std::future::Future;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use plugin::{EngineState, Extensions, PluginError, Status};
use policy::{Action, Opinion};
use rustix::fs::{Gid, Uid};
use sandbox::Launcher;
use serde_json::{Value, json};

/// What makes this program a child.
const CHILD: &str = "extension-child";
/// An id that owns nothing on this host.
const ORDINARY: u32 = 64_999;

pub type Test = (&'static str, fn(&Host));

/// The place of one test: a folder, a launcher and a runtime.
pub struct Host {
    pub folder: tempfile::TempDir,
    pub launcher: Launcher,
    runtime: tokio::runtime::Runtime,
}

impl Host {
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub fn dir(&self) -> PathBuf {
        self.folder.path().join("extensions")
    }

    /// Workspaces that are there now.
    pub fn works(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.dir()).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("work-"))).collect()
    }

    pub fn try_start(&self, files: &[(&str, &str)]) -> Result<Extensions, PluginError> {
        self.start_with(&[CHILD], files)
    }

    /// A child with other arguments than it should have.
    pub fn start_with(&self, args: &[&str], files: &[(&str, &str)]) -> Result<Extensions, PluginError> {
        let program = std::env::current_exe().unwrap();
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        self.block_on(Extensions::start(&self.launcher, &self.dir(), &program, args, files, &bounds()))
    }

    #[track_caller]
    pub fn start(&self, rules: &str) -> Extensions {
        self.try_start(&[("rules/a.ts", rules)]).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A rule that does this with `fs.write`; any other call is its control.
    #[track_caller]
    pub fn start_one(&self, body: &str) -> Extensions {
        self.start(&format!(
            "export const r = rule('r', (call: Call): Answer => {{ if (call.tool !== 'fs.write') return allow('well'); {body} }});"
        ))
    }

    pub fn ask(&self, extensions: &Extensions, call: &Value) -> Vec<Opinion> {
        self.block_on(extensions.opinions(call))
    }

    /// The only opinion about a call of `tool`.
    #[track_caller]
    pub fn one(&self, extensions: &Extensions, tool: &str) -> (Action, String) {
        let mut said = self.ask(extensions, &call(tool));
        assert_eq!(said.len(), 1, "{said:?}");
        let Opinion { says, reason, .. } = said.remove(0);
        (says, reason)
    }

    /// The rule denies because it was lost, with these words; its control shows that it works otherwise.
    #[track_caller]
    pub fn lost(&self, extensions: &Extensions, why: &str) {
        let (says, reason) = self.one(extensions, "fs.write");
        assert!(says == Action::Deny && reason.starts_with("the extension gave no answer: ") && reason.contains(why), "{says:?} {reason}");
    }

    #[track_caller]
    pub fn control(&self, extensions: &Extensions) {
        assert_eq!(self.one(extensions, "control"), (Action::Allow, "well".to_owned()));
    }

    /// Waits until the child is as wanted.
    #[track_caller]
    pub fn until(&self, extensions: &Extensions, wanted: impl Fn(&Status) -> bool) -> Status {
        let began = Instant::now();
        loop {
            let status = extensions.status();
            if wanted(&status) {
                return status;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{status:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn up(&self, extensions: &Extensions) -> Status {
        self.until(extensions, |status| status.state == EngineState::Up)
    }
}

/// An ordinary user can only remove what overlayfs left if its folders are unlocked first.
impl Drop for Host {
    fn drop(&mut self) {
        sandbox::sweep(&self.works(), |_| false);
    }
}

pub fn call(tool: &str) -> Value {
    json!({
        "tool": tool, "paths": ["src/lib.rs"], "command": ["git", "push", "--force"], "caller": "foreman.1", "role": "worker",
        "zone": "zone-1", "mode": "act", "workflow_state": "idle", "input": { "path": "src/lib.rs", "deep": { "list": [1, 2] } },
    })
}

pub fn main(tests: &[Test]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    match arguments.first().map(String::as_str) {
        Some(CHILD) => return plugin::child_main(),
        Some(super::lock::PROBE) => return super::lock::probe(),
        _ => {}
    }
    let root = rustix::process::geteuid().is_root();
    // A user's child differs in how its room is built, not in what it does: two tests are enough.
    let twice = ["the_four_answers", "nothing_is_left_after_stop"];
    let names = tests.iter().flat_map(|(name, _)| {
        let user = !root || twice.contains(name);
        [root.then(|| format!("root::{name}")), user.then(|| format!("user::{name}"))].into_iter().flatten()
    });
    let names: Vec<String> = names.collect();
    if has("--list") {
        if !has("--ignored") {
            names.iter().for_each(|name| println!("{name}: test"));
        }
        return ExitCode::SUCCESS;
    }
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    if has("--exact") {
        let (variant, name) = wanted.and_then(|name| name.split_once("::")).expect("a test's full name");
        let (_, test) = tests.iter().find(|(known, _)| *known == name).expect("a known test");
        test(&host(variant == "root"));
        return ExitCode::SUCCESS;
    }
    // `cargo test`: each test in a process of its own, one after another.
    let me = std::env::current_exe().unwrap();
    let chosen = names.iter().filter(|name| wanted.is_none_or(|part| name.contains(part.as_str())));
    let failed: Vec<&String> = chosen.filter(|name| !Command::new(&me).args(["--exact", name]).status().unwrap().success()).collect();
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("failed: {failed:?}");
    ExitCode::FAILURE
}

fn host(root: bool) -> Host {
    let folder = tempfile::Builder::new().prefix("skep-rules-").tempdir_in("/var/tmp").unwrap();
    if !root && rustix::process::geteuid().is_root() {
        chown(folder.path(), Some(ORDINARY), Some(ORDINARY)).unwrap();
        let (uid, gid) = (Uid::from_raw(ORDINARY), Gid::from_raw(ORDINARY));
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        // As in a process that this user has started: it may read its own /proc.
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable).unwrap();
    }
    let launcher = Launcher::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    Host { folder, launcher, runtime }
}

/// What such a child has when nobody changes it.
pub fn bounds() -> sandbox::Template {
    sandbox::Template::built_in().into_iter().find(|template| template.name == "policy-sandbox").unwrap()
}
