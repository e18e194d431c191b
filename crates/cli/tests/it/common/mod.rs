//! A project, a home and the real `skep`, for tests that use it as a person does.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod model_server;
pub mod provider;
pub mod screen;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Everything goes, but a list of files waits for a person, and so does a merge: there a task can be caught.
pub const HOLDS: &str = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow, reason: a test}\n\
    - {name: hold, match: {syscall: fs.list}, action: require_review, reason: wait}\n\
    - {name: look, match: {syscall: merge.apply}, action: require_review, reason: look}\n";

/// Everything goes, but writing below `src` and a merge wait for a person.
pub const ASKS: &str = "\
capabilities:
- {name: all, match: {syscall: '*'}, action: allow, reason: a test}
- {name: ask-src, match: {syscall: fs.write, path_glob: 'src/**'}, action: require_review, reason: source is precious}
- {name: merges, match: {syscall: merge.apply}, action: require_review, reason: merges wait for a person}
";

/// A script for the scripted brain in a file of its own, so that several can be at work; gives the value of `--brain`.
pub fn script(site: &Site, name: &str, text: &str) -> String {
    let path = site.folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    format!("script:{}", path.display())
}

pub struct Site {
    pub folder: tempfile::TempDir,
}

impl Site {
    /// A git project with `files` committed. Also makes this test the parent of every orphan, so that `leftovers` can count them.
    pub fn new(files: &[(&str, &str)]) -> Site {
        Site::at(&std::env::temp_dir(), files)
    }

    /// The same in a folder of this one.
    pub fn at(parent: &Path, files: &[(&str, &str)]) -> Site {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
        let site = Site { folder: tempfile::Builder::new().prefix("skep-site-").tempdir_in(parent).unwrap() };
        std::fs::create_dir(site.project()).unwrap();
        site.git(&["init", "-q", "-b", "main"]);
        files.iter().for_each(|(path, text)| site.write(path, text));
        site.git(&["add", "-A"]);
        site.git(&["commit", "-q", "--allow-empty", "-m", "a start"]);
        site
    }

    pub fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.project().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.project().join(path)).unwrap()
    }

    pub fn git(&self, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.arg("-C").arg(self.project()).args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(arguments);
        let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// A script for the scripted brain; gives the value of `--brain`.
    pub fn script(&self, text: &str) -> String {
        script(self, "script", text)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
        command.args(arguments).current_dir(self.project()).stdin(Stdio::null());
        command.env("SKEP_HOME", self.home()).env("NO_COLOR", "1").env_remove("SKEP_FAULT");
        command
    }

    /// The same for somebody whose machine has no key, no login and no vendor's client; the home is the site's own folder.
    pub fn bare_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        forget_models(&mut command).env("HOME", self.folder.path()).env("PATH", path_without_clients());
        command
    }

    pub fn skep(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command that must succeed and gives what it printed.
    #[track_caller]
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.skep(arguments);
        assert!(output.status.success(), "skep {arguments:?}: {}\n{}", output.status, text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Puts the project's own policy files in force, with the phrase that they need.
    #[track_caller]
    pub fn trust(&self) -> String {
        let shown = self.skep(&["trust", "--json"]);
        let asked = serde_json::from_slice::<Value>(&shown.stderr).unwrap_or(Value::Null);
        // Without a terminal the error names what has to be typed.
        let fix = asked["fix"].as_str().or(asked["error"]["fix"].as_str()).unwrap_or_default();
        match fix.split_once("--phrase '").and_then(|(_, rest)| rest.split_once('\'')) {
            Some((phrase, _)) => self.ok(&["trust", "--phrase", phrase]),
            None => self.ok(&["trust", "--yes"]),
        }
    }

    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> Value {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let printed = self.ok(&arguments);
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {printed}"))
    }

    /// Runs a command that must fail with this exit code, and gives all it printed.
    #[track_caller]
    pub fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.skep(arguments);
        assert_eq!(output.status.code(), Some(code), "skep {arguments:?}\n{}", text(&output));
        text(&output)
    }

    /// A task as lists show it.
    #[track_caller]
    pub fn task(&self, id: &str) -> Value {
        let tasks = self.json(&["list", "tasks"])["tasks"].clone();
        tasks.as_array().unwrap().iter().find(|task| task["task"] == id).unwrap_or_else(|| panic!("no {id}: {tasks}")).clone()
    }

    /// Is a task in this state?
    #[track_caller]
    pub fn is(&self, id: &str, state: &str) -> bool {
        self.task(id)["state"] == state
    }

    /// A kernel of our own in the foreground, for tests that end it by force.
    pub fn kernel(&self, fault: Option<&str>) -> Child {
        let mut command = self.command(&["kernel", "run"]);
        if let Some(fault) = fault {
            command.env("SKEP_FAULT", fault);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        // An early death closes the pipe; whoever asked for a fault expects that.
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line).unwrap();
        assert!(fault.is_some() || line == "ready\n", "{line}");
        child
    }

    pub fn records(&self, arguments: &[&str]) -> Vec<Value> {
        let arguments: Vec<&str> = ["journal", "export"].iter().chain(arguments).copied().collect();
        self.ok(&arguments).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn count(&self, kind: &str) -> usize {
        self.records(&[]).iter().filter(|record| record["type"] == kind).count()
    }

    /// What is left when the kernel is stopped: processes, workspaces and mounts. Waits for those that are on their way out.
    pub fn leftovers(&self) -> Vec<String> {
        let end = Instant::now() + Duration::from_secs(60);
        // A kernel that is stopped while it keeps a task's changes leaves the folder to the next one.
        while self.is_closing_work() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(self.skep(&["kernel", "stop"]));
        loop {
            let mut left = children();
            left.extend(entries(&self.home().join("work")));
            // Of the whole host: another test's names may be no text.
            let mounts = std::fs::read("/proc/self/mounts").unwrap();
            let mounts = String::from_utf8_lossy(&mounts);
            left.extend(mounts.lines().filter(|line| line.contains(&*self.folder.path().to_string_lossy())).map(str::to_owned));
            if left.is_empty() || Instant::now() > end {
                return left;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Site {
    /// Whether a running kernel has yet to close the workspace of a task that ended.
    fn is_closing_work(&self) -> bool {
        if !self.skep(&["kernel", "status"]).status.success() {
            return false;
        }
        let shown = self.skep(&["list", "tasks", "--all", "--json"]);
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap_or(Value::Null);
        let ended = shown["tasks"].as_array().into_iter().flatten().filter(|task| !task["ended_ms"].is_null());
        ended.filter_map(|task| task["task"].as_str()).any(|task| self.home().join("work").join(task).exists())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.skep(&["kernel", "stop"]));
    }
}

/// Variables that lead to keys, logins and models of this machine.
pub const MODEL_VARIABLES: [&str; 10] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
    "OPENROUTER_API_KEY",
    "DBUS_SESSION_BUS_ADDRESS",
    "PASSWORD_STORE_DIR",
];

/// Takes them all away, so that a program finds what the test gives it and nothing of this machine.
pub fn forget_models(command: &mut Command) -> &mut Command {
    MODEL_VARIABLES.iter().fold(command, |command, name| command.env_remove(name))
}

/// This machine's PATH without the folders in which a vendor's client lies.
pub fn path_without_clients() -> String {
    let path = std::env::var("PATH").unwrap();
    let has_client = |folder: &str| ["claude", "codex", "opencode", "gemini"].iter().any(|name| Path::new(folder).join(name).exists());
    path.split(':').filter(|folder| !has_client(folder)).collect::<Vec<_>>().join(":")
}

fn entries(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path().display().to_string()).collect()
}

/// Processes below this test that still run; those that ended are collected on the way.
fn children() -> Vec<String> {
    use rustix::process::{WaitOptions, wait};
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    let me = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, after)) = stat.rsplit_once(") ") else { continue };
        if after.split(' ').nth(1) == Some(me.as_str()) {
            found.push(stat);
        }
    }
    found
}

/// A process of this machine with exactly these arguments.
pub fn pid_of(arguments: &[&str]) -> Option<i32> {
    let wanted = arguments.iter().map(|argument| format!("{argument}\0")).collect::<String>();
    let mut entries = std::fs::read_dir("/proc").unwrap().flatten();
    let found = entries.find(|entry| std::fs::read_to_string(entry.path().join("cmdline")).is_ok_and(|line| line == wanted))?;
    found.file_name().to_str()?.parse().ok()
}

pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
