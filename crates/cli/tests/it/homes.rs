//! Homes that earlier versions left behind: today's opens each of them, finds its chain whole, and goes on with its work.
//!
//! `homes/make.sh` says how such a home was made: a merged task, a rejected one, one with an open question, one that waits for its merge,
//! one whose merge was cut off by SIGKILL between two files, a native brain's usage, a budget, and a lasting no.

use crate::common::text;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Records name the project by its path, so a kept home is always unpacked here.
const TOP: &str = "/var/tmp/skep-kept-home";

struct Kept {
    /// Held while the folder is in use: two checkouts on one machine take turns.
    _turn: std::fs::File,
}

impl Kept {
    fn unpack(archive: &Path) -> Kept {
        let turn = std::fs::File::create(format!("{TOP}.lock")).unwrap();
        turn.lock().unwrap();
        let kept = Kept { _turn: turn };
        kept.clear();
        std::fs::create_dir(TOP).unwrap();
        let unpacked = Command::new("tar").args(["-C", TOP, "-xzpf"]).arg(archive).output().unwrap();
        assert!(unpacked.status.success(), "{}", text(&unpacked));
        kept
    }

    fn clear(&self) {
        if Path::new(TOP).exists() {
            drop(self.skep(&["kernel", "stop"]));
            std::fs::remove_dir_all(TOP).unwrap();
        }
    }

    fn skep(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
        command.args(arguments).current_dir(project()).stdin(Stdio::null());
        command.env("SKEP_HOME", format!("{TOP}/home")).env("NO_COLOR", "1").env_remove("SKEP_FAULT").output().unwrap()
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.skep(arguments);
        assert!(output.status.success(), "skep {arguments:?}: {}\n{}", output.status, text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn records(&self) -> Vec<Value> {
        self.ok(&["journal", "export"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until the list of tasks says this of one.
    #[track_caller]
    fn until(&self, what: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.ok(&["list", "tasks"]).lines().any(|line| what.split("…").all(|part| line.contains(part))) {
            assert!(Instant::now() < end, "never saw {what}\n{}", self.ok(&["list", "tasks"]));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.clear();
    }
}

fn project() -> PathBuf {
    Path::new(TOP).join("project")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(project().join(path)).unwrap()
}

fn archives() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/homes");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "gz")).collect()
}

#[test]
fn kept_homes_open_verify_and_go_on() {
    let archives = archives();
    assert!(!archives.is_empty());
    for archive in archives {
        let kept = Kept::unpack(&archive);
        let before = kept.ok(&["journal", "verify", "--offline"]);
        assert!(before.contains("is whole"), "{before}");

        // The merge that was cut off between two files is finished by the boot.
        kept.until("task-5…merged");
        assert_eq!((read("c.txt"), read("m1.txt"), read("m2.txt")), ("three, merged\n".into(), "first\n".into(), "second\n".into()));
        assert!(
            std::fs::read_dir(project()).unwrap().all(|entry| !entry.unwrap().file_name().to_string_lossy().starts_with(".skep-merge"))
        );

        // What had ended stays as it ended.
        kept.until("task-1…merged");
        kept.until("task-2…changes rejected");
        assert_eq!((read("a.txt"), read("b.txt")), ("one, merged\n".into(), "two\n".into()));
        assert!(kept.ok(&["usage"]).contains("2,500"), "{}", kept.ok(&["usage"]));
        assert!(kept.ok(&["grant", "list"]).contains("never by itself"));

        // The open question takes its answer, the brain goes on behind it, and its work is merged with what it wrote before.
        kept.ok(&["review", "allow", "r-3"]);
        kept.until("task-3…changes wait for merge");
        kept.ok(&["merge", "task-3", "--yes"]);
        assert_eq!(
            (read("before.txt"), read("VERSION"), read("after.txt")),
            ("before the question\n".into(), "2\n".into(), "after the answer\n".into())
        );

        // A proposal from before takes its yes or its no.
        kept.ok(&["merge", "task-4", "--yes"]);
        assert_eq!((read("w.txt"), read("deep/er/f")), ("waits\n".into(), "x\n".into()));
        assert!(!project().join("b.txt").exists());
        assert_eq!(std::fs::read_link(project().join("link")).unwrap(), Path::new("a.txt"));
        kept.ok(&["reject", "task-7"]);
        assert!(!project().join("other.txt").exists());

        // A merge of then is taken back now.
        kept.ok(&["merge", "undo", "task-1"]);
        assert_eq!(read("a.txt"), "one\n");

        let records = kept.records();
        assert!(records.iter().any(|record| record["type"] == "merge.undone"));
        kept.ok(&["kernel", "stop"]);
        assert!(kept.ok(&["journal", "verify", "--offline"]).contains("is whole"));
        let work = Path::new(TOP).join("home/work");
        assert_eq!(std::fs::read_dir(work).unwrap().count(), 0, "every task has ended, and none left its workspace");
    }
}
