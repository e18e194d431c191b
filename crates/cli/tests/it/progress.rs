//! Long work says how far it is, wherever somebody waits for it. The kernel holds the work at a step (`SKEP_HOLD`) until the screen was read.

use crate::common::Site;
use crate::common::screen::Screen;
use std::path::PathBuf;

const SMALL: (u16, u16) = (80, 24);
/// Five files at once.
const WRITES: &str = "call shell.run command=[\"sh\",\"-c\",\"for n in 1 2 3 4 5; do echo new > $n.txt; done\"]\ndone wrote them\n";

struct Held {
    site: Site,
    pipe: PathBuf,
}

impl Held {
    /// A project whose owner has edited three files, and where merges wait for a person.
    fn site() -> Site {
        let policy = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow, reason: a test}\n\
            - {name: look, match: {syscall: merge.apply}, action: require_review, reason: look}\n";
        let site = Site::new(&[(".skep/policy.yaml", policy), ("a.txt", "a\n"), ("b.txt", "b\n"), ("c.txt", "c\n")]);
        site.trust();
        ["a.txt", "b.txt", "c.txt"].iter().for_each(|path| site.write(path, "mine\n"));
        site
    }

    /// Its kernel holds this work once so many steps are done.
    fn at(work: &str, steps: u64, site: Site) -> Held {
        drop(site.skep(&["kernel", "stop"]));
        let pipe = site.folder.path().join("hold");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        let started = site.command(&["kernel", "start"]).env("SKEP_HOLD", format!("{work}:{steps}:{}", pipe.display())).output().unwrap();
        assert!(started.status.success(), "{}", crate::common::text(&started));
        Held { site, pipe }
    }

    /// The work goes on.
    fn let_go(&self) {
        drop(std::fs::OpenOptions::new().write(true).open(&self.pipe).unwrap());
    }

    /// While the command waits its screen shows all of `during`, and when the work goes on all of `after`, and none of `during` is left.
    fn shows(&self, command: &str, during: &[&str], after: &[&str]) {
        let screen = Screen::sized(&self.site, "xterm-256color", command, SMALL);
        screen.shows(during);
        self.let_go();
        let text = screen.shows(after);
        assert!(!text.contains(during[0]), "what moved is gone when the work is done:\n{text}");
    }
}

fn acted() -> Site {
    let site = Held::site();
    let brain = site.script(WRITES);
    site.skep(&["act", "write five", "--brain", &brain, "--await"]);
    site
}

#[test]
fn recording_a_base_says_how_far_it_is() {
    let held = Held::at("recording", 2, Held::site());
    let brain = held.site.script(WRITES);
    held.site.ok(&["act", "write five", "--brain", &brain]);
    held.shows("watch task-1", &["recording where the project stands  2 files", "in all; ctrl-c returns"], &["[a]llow this"]);
}

#[test]
fn collecting_changes_says_how_far_it_is() {
    let held = Held::at("freezing", 3, Held::site());
    let brain = held.site.script(WRITES);
    held.site.ok(&["act", "write five", "--brain", &brain]);
    held.shows("watch task-1", &["collecting the changes  3 of 5 files", "✓ Running sh -c"], &["[a]llow this"]);
}

#[test]
fn a_merge_says_how_far_it_is() {
    let held = Held::at("merging", 3, acted());
    held.shows("merge task-1 --yes", &["merging  ", "s  3 of 5 files"], &["5 files", "left with 0"]);
    assert_eq!(held.site.read("5.txt"), "new\n");
}

#[test]
fn an_undo_says_how_far_it_is() {
    let site = acted();
    site.ok(&["merge", "task-1", "--yes"]);
    let held = Held::at("undoing", 2, site);
    held.shows("merge undo task-1", &["undoing  ", "s  2 of 5 files"], &["left with 0"]);
    assert!(!held.site.project().join("5.txt").exists());
}

#[test]
fn a_verification_says_how_far_it_is() {
    let held = Held::at("verifying", 0, acted());
    let records = held.site.json(&["journal", "log", "--limit", "1"])["seq"].as_u64().unwrap() + 1;
    held.shows("journal verify", &["verifying the chain  ", &format!("s  0 of {records} records")], &["is whole", "left with 0"]);
}

#[test]
fn an_export_says_how_far_it_is() {
    let held = Held::at("reading", 1, Held::site());
    let records = held.site.json(&["journal", "log", "--limit", "1"])["seq"].as_u64().unwrap() + 1;
    let told = format!("{records} records");
    held.shows("journal export --out out.jsonl", &["exporting  ", &told], &[&format!("✓ {told} in out.jsonl"), "left with 0"]);
}
