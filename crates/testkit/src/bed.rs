//! A kernel in a temporary home beside a temporary project: everything real, nothing shared.

use journal::Options;
use kernel::{Fault, Home, Kernel, NewTask, Tuning};
use sandbox::Launcher;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Where one test lives. The folder goes when this does.
pub struct Bed {
    folder: tempfile::TempDir,
}

impl Bed {
    /// An empty project under git, with one commit of `files`.
    pub fn new(files: &[(String, String)]) -> Result<Bed, String> {
        let bed = Bed { folder: tempfile::Builder::new().prefix("skep-bed-").tempdir().map_err(|error| error.to_string())? };
        std::fs::create_dir(bed.project()).map_err(|error| error.to_string())?;
        bed.git(&["init", "-q", "-b", "main"])?;
        for (path, text) in files {
            bed.write(path, text)?;
        }
        bed.commit()?;
        Ok(bed)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// A task for the brain that this script is, without limits and marks.
    pub fn task(&self, prompt: &str, script: &Path) -> NewTask {
        let brain = Some(format!("script:{}", script.display()));
        NewTask::new(self.project(), world::Mode::Act, prompt.to_owned(), brain)
    }

    pub fn write(&self, path: &str, text: &str) -> Result<(), String> {
        put(&self.project().join(path), text)
    }

    pub fn commit(&self) -> Result<(), String> {
        self.git(&["add", "-A"])?;
        self.git(&["commit", "-q", "--allow-empty", "-m", "a start"])
    }

    /// The last commit of a branch: its author, its first line and its paths; then what git sees of the work tree.
    pub fn committed(&self, branch: &str) -> Result<String, String> {
        let log = self.git_says(&["log", "-1", "--format=%an: %s", "--name-status", branch])?;
        let status = self.git_says(&["status", "--porcelain"])?;
        let told = |text: &str| text.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join(", ").replace('\t', " ");
        Ok(format!("{}; status: {}", told(&log), told(&status)))
    }

    fn git(&self, arguments: &[&str]) -> Result<(), String> {
        self.git_says(arguments).map(drop)
    }

    fn git_says(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("git");
        command.arg("-C").arg(self.project()).args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(arguments);
        let output = command
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .map_err(|error| format!("git: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }

    /// Boots a kernel in this bed. The launcher must be fresh: it ends with its kernel.
    pub async fn boot(&self, launcher: Launcher) -> Result<Arc<Kernel>, Fault> {
        self.boot_tuned(launcher, Tuning::default()).await
    }

    pub async fn boot_tuned(&self, launcher: Launcher, tuning: Tuning) -> Result<Arc<Kernel>, Fault> {
        Kernel::boot_tuned(Home::open(&self.home())?, launcher, Options::default(), None, tuning).await
    }

    /// A file of the operator's own, below `$SKEP_HOME`.
    /// A program that plays a vendor's client, in a folder of its own.
    pub fn client(&self, text: &str) -> Result<PathBuf, String> {
        let path = self.folder.path().join("client/claude");
        put(&path, text)?;
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, executable).map_err(|error| error.to_string())?;
        Ok(path)
    }

    pub fn write_home(&self, path: &str, text: &str) -> Result<(), String> {
        put(&self.home().join(path), text)
    }
}

fn put(path: &Path, text: &str) -> Result<(), String> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(parent).and_then(|()| std::fs::write(path, text)).map_err(|error| format!("{}: {error}", path.display()))
}
