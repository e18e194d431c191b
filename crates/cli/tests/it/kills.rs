//! Vendors' own clients and their kernel, killed at random instants of a task: each task comes to its end after all, is merged once, and
//! nothing is left of those who died.
//!
//! Five kills for each vendor here, fifty by `cargo xtask soak brains`. A failure prints its seed; `SKEP_SEED` plays it again: the
//! same kills in the same order, each at the same number of records.

use crate::brains::{CLAUDE, CODEX, Client, GEMINI, OPENCODE, of, site};
use crate::common::Site;
use crate::common::provider::eventually;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

/// Records that a turn makes, about: a kill comes after any number of them, also before the first.
const RECORDS_OF_A_TURN: u64 = 30;

/// Who dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Client,
    Kernel,
}

/// Numbers that follow from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

/// Says at a panic which seed it was.
struct SeedOnPanic<'a>(&'a str, u64);

impl Drop for SeedOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: play it again with SKEP_SEED={}", self.0, self.1);
        }
    }
}

/// Writes a file and looks twice whether it is there: a call that died with its client was never made, though the model remembers it. One that
/// was interrupted begins again, and reads what is there before it writes.
fn script(n: usize) -> String {
    let write = format!("call write path=one.txt content=\"one {n}\\n\"");
    let look = "delay 50ms\n  call read path=one.txt\nthen\n";
    let steps = format!(
        "  {look}  say I write it.\n  {write}\nthen\n  {look}  on result contains \"one {n}\"\n    say It is there.\n    call read path=one.txt\n  \
         else\n    say Once more.\n    {write}\nthen\n  {look}  on result contains \"one {n}\"\n    say It is done.\n  else\n    {write}\nthen\n  \
         say It is done.\n"
    );
    format!("on \"continue from where you left off\"\n{steps}on \"greeting\"\n{steps}")
}

fn survives_kills(client: &Client) {
    let tasks = if std::env::var_os("SKEP_SOAK").is_some() { 10 } else { 1 };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = std::env::var("SKEP_SEED").map_or(u64::from(now.subsec_nanos()), |seed| seed.parse().unwrap());
    let _seed = SeedOnPanic(client.name, seed);
    let mut dice = Dice(seed);
    let site = site(client, "", None);
    site.ok(&["init"]);
    let before = names(&site);
    site.ok(&["kernel", "stop"]);
    let mut kernel = site.kernel(None);
    for n in 1..=tasks {
        fs::write(site.folder.path().join("model"), script(n)).unwrap();
        let task = site.json(&["act", "Please write the greeting", "--brain", client.brain])["task"].as_str().unwrap().to_owned();
        // Both die twice while it works, in any order: a client that dies four times in a row is given up.
        let mut left = vec![Victim::Client, Victim::Client, Victim::Kernel, Victim::Kernel];
        while !left.is_empty() {
            let victim = left.remove(usize::try_from(dice.below(left.len() as u64)).unwrap());
            wait_for_records(&site, &task, dice.below(RECORDS_OF_A_TURN));
            std::thread::sleep(Duration::from_millis(dice.below(40)));
            match victim {
                Victim::Client => kill_client(&site, client, &kernel, &task, &mut dice),
                Victim::Kernel => kernel = killed_and_started(&site, kernel),
            }
        }
        eventually("its changes wait", || is_proposed(&site, &task));

        // The fifth comes while the changes go into the project.
        let mut merge = site.command(&["merge", &task, "--yes"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(dice.below(60)));
        kernel = killed_and_started(&site, kernel);
        merge.wait().unwrap();
        eventually("it is merged", || {
            // Whoever was not answered asks again.
            drop(site.skep(&["merge", &task, "--yes"]));
            site.count("merge.finished") >= n
        });
        eventually("it is over", || site.is(&task, "done"));
        assert_eq!(site.read("one.txt"), format!("one {n}\n"));
        assert_eq!((site.count("merge.finished"), site.count("task.finished")), (n, n), "each task is merged once");
    }
    assert_eq!(json!([of(&site, "task.failed"), of(&site, "task.stopped")]), json!([[], []]));
    let mut expected = before;
    expected.push("one.txt".to_owned());
    expected.sort();
    // Not even what a client had written beside the file when it was killed before it replaced it.
    assert_eq!(names(&site), expected, "nothing else is in the project");
    assert_eq!(site.json(&["journal", "verify"])["findings"], json!([]));
    assert_eq!(site.count("kernel.started"), 2 + 3 * tasks, "each kernel that died was followed by one");
    site.ok(&["kernel", "stop"]);
    kernel.wait().unwrap();
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

fn names(site: &Site) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(site.project()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn is_proposed(site: &Site, task: &str) -> bool {
    let records = site.records(&["--task", task]);
    let count = |kind: &str| records.iter().filter(|record| record["type"] == kind).count();
    assert_eq!(count("task.failed") + count("task.stopped"), 0, "{}", site.ok(&["log"]));
    count("merge.proposed") > 0
}

/// Comes back when the journal has so many records more, or the changes wait before that.
fn wait_for_records(site: &Site, task: &str, more: u64) {
    let count = || site.records(&[]).len() as u64;
    let begun = count();
    eventually("the task goes on", || count() >= begun + more || is_proposed(site, task));
}

/// Kills one of the processes that the client has now.
fn kill_client(site: &Site, client: &Client, kernel: &Child, task: &str, dice: &mut Dice) {
    let package = client.package.replace(['/', '@'], "_");
    let is_client =
        |pid: &i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(&package));
    let running = || below(kernel.id()).into_keys().filter(is_client).collect::<Vec<i32>>();
    eventually("a client runs", || !running().is_empty() || is_proposed(site, task));
    let running = running();
    // One whose work is done may have been let go.
    if running.is_empty() {
        return;
    }
    let pid = running[usize::try_from(dice.below(running.len() as u64)).unwrap()];
    // It may have ended this very moment.
    let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL);
}

/// Kills the kernel, waits until everything that it had started is gone, and starts another.
fn killed_and_started(site: &Site, mut kernel: Child) -> Child {
    // A command that comes meanwhile waits for the next kernel, and starts none of its own.
    let start = fs::File::create(site.home().join("run/start.lock")).unwrap();
    start.lock().unwrap();
    let had = below(kernel.id());
    assert!(!had.is_empty(), "the control: a kernel has a launcher");
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    eventually("all that it had started is gone", || had.iter().all(|(pid, start)| start_of(*pid).is_none_or(|now| now != *start)));
    site.kernel(None)
}

/// All processes below one, each with the time of its start.
fn below(root: u32) -> BTreeMap<i32, String> {
    let mut parents: Vec<(i32, i32, String)> = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some((parent, start)) = parent_and_start(pid) {
            parents.push((pid, parent, start));
        }
    }
    let mut found = BTreeMap::new();
    let mut next = vec![i32::try_from(root).unwrap()];
    while let Some(parent) = next.pop() {
        for (pid, _, start) in parents.iter().filter(|(_, of, _)| *of == parent) {
            found.insert(*pid, start.clone());
            next.push(*pid);
        }
    }
    found
}

/// The start of a process that runs; one that ended and waits to be buried does not.
fn start_of(pid: i32) -> Option<String> {
    parent_and_start(pid).map(|(_, start)| start)
}

fn parent_and_start(pid: i32) -> Option<(i32, String)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    (fields[0] != "Z").then(|| Some((fields[1].parse().ok()?, fields[19].to_owned()))).flatten()
}

#[test]
fn claude_survives_kills() {
    survives_kills(&CLAUDE);
}

#[test]
fn codex_survives_kills() {
    survives_kills(&CODEX);
}

#[test]
fn opencode_survives_kills() {
    survives_kills(&OPENCODE);
}

#[test]
fn gemini_survives_kills() {
    survives_kills(&GEMINI);
}
