//! A small project on disk, and its tests run as the kernel would run them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testing::{CommandEnd, ReportPlace, RunOutput, RunVerdict, TestResult, TestRun, TestRunner, read_run};

/// Longer than a busy machine needs; it only ends what hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder of the build's own, the same in each run.
pub fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("runners").join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

pub struct Project {
    pub folder: PathBuf,
    pub environment: Vec<(String, String)>,
    /// Where the command leaves its report by itself.
    pub report: Option<&'static str>,
}

impl Project {
    /// A new folder with these files.
    pub fn new(name: &str, files: &[(&str, &str)]) -> Project {
        let folder = scratch(name);
        fs::remove_dir_all(&folder).unwrap();
        for (path, text) in files {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Project { folder, environment: Vec::new(), report: None }
    }

    pub fn with(mut self, name: &str, value: impl AsRef<Path>) -> Project {
        self.environment.push((name.to_owned(), value.as_ref().to_str().unwrap().to_owned()));
        self
    }

    fn files(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        entries.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap())).collect()
    }

    pub fn run(&self, command: &str) -> TestRun {
        self.run_for(command, PATIENCE)
    }

    /// Runs the tests, and reads what they leave.
    pub fn run_for(&self, command: &str, limit: Duration) -> TestRun {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let mut runner = TestRunner::recognise(&words, &self.files());
        runner.report = self.report.map(str::to_owned);
        let aside = self.folder.with_extension("aside");
        let _ = fs::remove_dir_all(&aside);
        fs::create_dir_all(&aside).unwrap();
        let reporting = runner.reporting(aside.join("report").to_str().unwrap());
        let (stdout, stderr) = (aside.join("stdout"), aside.join("stderr"));
        if let ReportPlace::File(path) = &reporting.place {
            let _ = fs::remove_file(self.folder.join(path));
        }
        let mut process = Command::new(&reporting.command[0]);
        process.args(&reporting.command[1..]).current_dir(&self.folder).env_clear().process_group(0);
        for name in ["PATH", "HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "CARGO_HOME"] {
            if let Some(value) = std::env::var_os(name) {
                process.env(name, value);
            }
        }
        process.envs(reporting.environment.iter().cloned()).envs(self.environment.iter().cloned());
        process.stdin(Stdio::null()).stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
        let end = match process.spawn() {
            Err(error) => CommandEnd::NotStarted(error.to_string()),
            Ok(mut child) => {
                let began = Instant::now();
                loop {
                    if let Some(status) = child.try_wait().unwrap() {
                        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
                        break signal.map_or_else(|| CommandEnd::Exited(status.code().unwrap()), CommandEnd::Signalled);
                    }
                    if began.elapsed() > limit {
                        let group = format!("-{}", child.id());
                        assert!(Command::new("kill").args(["-KILL", "--", &group]).status().unwrap().success());
                        child.wait().unwrap();
                        break CommandEnd::TimedOut;
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        };
        let (stdout, stderr) = (fs::read(stdout).unwrap(), fs::read(stderr).unwrap());
        let report = match &reporting.place {
            ReportPlace::Stdout => None,
            ReportPlace::File(path) => fs::read(self.folder.join(path)).ok(),
        };
        let root = self.folder.to_str().unwrap();
        let output = RunOutput { end: end.clone(), stdout: &stdout, stderr: &stderr, report: report.as_deref(), is_cut: false, root };
        let run = read_run(&runner, &reporting, &output);
        println!(
            "{command}: {end:?}: {}\n{:#?}\n{}\n{}",
            run.summary(),
            run.remarks,
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        );
        run
    }
}

/// The verdict, and the tests as `outcome name`, in the order of their names.
#[track_caller]
pub fn check(run: &TestRun, verdict: RunVerdict, tests: &[&str]) {
    assert_eq!(run.verdict, verdict, "{:?}", run.remarks);
    let shown = |test: &TestResult| format!("{:?} {}", test.outcome, test.name).to_lowercase();
    let mut found: Vec<String> = run.tests.iter().map(shown).collect();
    found.sort();
    assert_eq!(found, tests);
}
