//! A kernel of our own in the foreground whose tree runs real Python agents, for tests that show the tree at work and end its kernel by force.

use crate::common::{Site, text};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// As the tests of `testkit` install them.
const PACKAGES: [&str; 2] = ["grpcio==1.78.0", "protobuf==6.33.6"];
const AGENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python");
const SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/python");

/// Where Python finds grpc: installed once.
fn packages() -> PathBuf {
    let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("grpc").join(PACKAGES.join("_").replace('=', ""));
    fs::create_dir_all(&shared).unwrap();
    let lock = fs::File::create(shared.join("lock")).unwrap();
    lock.lock().unwrap();
    let (packages, is_done) = (shared.join("packages"), shared.join("installed"));
    if !is_done.exists() {
        let mut install = Command::new("python3");
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]).arg(&packages).args(PACKAGES);
        assert!(install.status().unwrap().success(), "pip could not install grpc; is its index in reach?");
        fs::write(&is_done, PACKAGES.join("\n")).unwrap();
    }
    packages
}

pub struct TreeSite {
    pub site: Site,
    kernel: Option<Child>,
}

impl TreeSite {
    /// A kernel with these settings.
    pub fn new(settings: &str) -> TreeSite {
        let site = Site::new(&[]);
        fs::create_dir_all(site.home()).unwrap();
        fs::set_permissions(site.home(), PermissionsExt::from_mode(0o700)).unwrap();
        fs::write(site.home().join("config.yml"), settings).unwrap();
        let mut tree = TreeSite { site, kernel: None };
        tree.start();
        tree
    }

    pub fn start(&mut self) {
        let mut command = self.site.command(&["kernel", "run"]);
        let python = format!("{}:{AGENTS}", packages().display());
        command.env("PYTHONPATH", python).env("SKEP_SDK_PATH", SDK).env("PYTHONDONTWRITEBYTECODE", "1");
        let log = fs::File::options().create(true).append(true).open(self.site.folder.path().join("kernel.log")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{}", self.log());
        self.kernel = Some(child);
    }

    /// What the kernel had to say.
    pub fn log(&self) -> String {
        fs::read_to_string(self.site.folder.path().join("kernel.log")).unwrap_or_default()
    }

    /// Ends the kernel as a failure of power would: nothing of it runs on.
    pub fn kill(&mut self) {
        let mut kernel = self.kernel.take().unwrap();
        kernel.kill().unwrap();
        kernel.wait().unwrap();
    }

    pub fn stop(&mut self) {
        self.site.ok(&["kernel", "stop"]);
        let ended = self.kernel.take().unwrap().wait().unwrap();
        assert!(ended.success(), "{ended}: {}", self.log());
    }

    #[track_caller]
    pub fn spawn(&self, arguments: &[&str]) -> u64 {
        self.site.json(&[&["spawn"], arguments].concat())["pid"].as_u64().unwrap()
    }

    #[track_caller]
    pub fn exec(&self, process: &str, arguments: &[&str]) -> String {
        self.site.ok(&[&["exec", process], arguments].concat()).trim_end().to_owned()
    }

    /// A task that somebody waits for elsewhere.
    pub fn exec_beside(&self, process: &str, arguments: &[&str]) -> Child {
        let all = [&["exec", process], arguments].concat();
        self.site.command(&all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Processes of the table that live, with their programs.
    pub fn living(&self) -> Vec<Value> {
        let all = self.site.json(&["ps"])["processes"].as_array().unwrap().clone();
        let lives = |one: &Value| one["program"].is_object() && !["dead", "zombie"].contains(&one["state"].as_str().unwrap_or_default());
        all.into_iter().filter(lives).collect()
    }

    pub fn process(&self, name: &str) -> Option<Value> {
        self.living().into_iter().find(|one| one["name"] == name)
    }

    pub fn state(&self, name: &str) -> String {
        self.process(name).map_or_else(String::new, |one| one["state"].as_str().unwrap_or_default().to_owned())
    }

    /// What the records of one kind say.
    pub fn records(&self, kind: &str) -> Vec<Value> {
        let records = self.site.records(&[]).into_iter().filter(|record| record["type"] == kind);
        records.map(|mut record| record["payload"].take()).collect()
    }

    #[track_caller]
    pub fn until(&self, what: &str, mut is: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(180);
        while !is() {
            assert!(Instant::now() < end, "never: {what}\n{}\n{}", self.site.ok(&["ps"]), self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until nothing of this is left; no kernel need run.
    #[track_caller]
    pub fn until_gone<T: std::fmt::Debug>(&self, left: impl Fn() -> Vec<T>) {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let found = left();
            if found.is_empty() {
                return;
            }
            assert!(Instant::now() < end, "left behind: {found:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Everything is over: the chain holds, and no process, mount or folder of an agent is left.
    #[track_caller]
    pub fn ends_clean(mut self) {
        assert!(self.site.ok(&["journal", "verify"]).starts_with('✓'));
        self.stop();
        let left = self.site.leftovers();
        assert!(left.is_empty(), "{left:#?}");
    }
}

impl Drop for TreeSite {
    fn drop(&mut self) {
        if let Some(mut kernel) = self.kernel.take() {
            drop(kernel.kill());
            drop(kernel.wait());
        }
    }
}

/// What a task that was run beside came to.
pub fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), text(&output).trim_end().to_owned())
}
