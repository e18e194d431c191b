//! Screens as a person sees them, in real terminals of 80 by 24 and 120 by 40.

use crate::common::screen::{LARGE, SMALL, Screen};
use crate::common::{ASKS, Site, pid_of};
use std::time::Duration;
use wire::method::task::TaskIdParams;
use wire::method::work::{LongWorkKind, WorkListParams};

fn site() -> Site {
    let site = Site::new(&[(".skep/policy.yaml", ASKS), ("a.txt", "old\n"), ("src/a.txt", "old\n")]);
    site.trust();
    site
}

fn act(site: &Site, script: &str) -> String {
    let brain = site.script(script);
    site.json(&["act", "change what is old", "--brain", &brain])["task"].as_str().unwrap().to_owned()
}

/// A command that says seven lines and then waits until the test lets it go on.
struct Held {
    sleep: String,
}

impl Held {
    fn new(number: u32) -> Held {
        Held { sleep: format!("{}.{}", 7_000 + number, std::process::id()) }
    }

    fn call(&self) -> String {
        format!("call shell.run command=[\"sh\",\"-c\",\"for n in 1 2 3 4 5 6 7; do echo line $n; done; sleep {}; true\"]\n", self.sleep)
    }

    fn let_go(&self) {
        let pid = loop {
            match pid_of(&["sleep", &self.sleep]).and_then(rustix::process::Pid::from_raw) {
                Some(pid) => break pid,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}

/// While a command runs its last lines stand below the story, with the time; then the question, and the answer is taken where it is asked.
#[test]
fn watch_shows_output_as_it_comes_and_takes_the_answer() {
    for (number, size) in [SMALL, LARGE].into_iter().enumerate() {
        let site = site();
        let held = Held::new(number as u32);
        let task = act(&site, &format!("{}call fs.write path=src/a.txt content=\"new\\n\"\ndone wrote it\n", held.call()));
        let screen = Screen::sized(&site, "xterm-256color", &format!("watch {task}"), size);
        let text = screen.shows(&["Running sh -c", "│ line 7", " in all; ctrl-c returns"]);
        assert!(text.contains("│ line 3") && !text.contains("│ line 2"), "the last five lines:\n{text}");
        held.let_go();
        let asked = [
            "✓ Running sh -c",
            "◍ Writing src/a.txt  asks r-1",
            "source is precious",
            "[a]llow this call  [s] this task  [d]eny",
            "[q] later",
        ];
        let text = screen.shows(&asked);
        assert!(!text.contains("│ line"), "the foot is gone:\n{text}");
        screen.press(&["a", "Enter"]);
        // A merge has no wider answer, and shows what it would change.
        screen.shows(&["✓ Writing src/a.txt", "+new", "[a]llow this merge  [d]eny  [?] keys"]);
        screen.press(&["a", "Enter"]);
        screen.shows(&["✓ done  wrote it", "left with 0"]);
        assert_eq!(site.read("src/a.txt"), "new\n");
    }
}

/// `--await` takes it too; what is left open is told, and somebody else's answer is seen.
#[test]
fn await_takes_the_answer_where_it_is_asked() {
    let site = site();
    let brain =
        site.script("call fs.write path=src/a.txt content=\"new\\n\"\ncall fs.write path=src/b.txt content=\"b\\n\"\ndone wrote it\n");
    let screen = Screen::sized(&site, "xterm-256color", &format!("act 'change it' --brain {brain} --await"), SMALL);
    screen.shows(&["◍ r-1  Writing src/a.txt", "[a]llow this call  [s] this task  [d]eny"]);
    site.ok(&["review", "allow", "r-1"]);
    screen.shows(&["r-1 was allowed by operator meanwhile", "◍ r-2  Writing src/b.txt"]);
    screen.press(&["d", "Enter"]);
    screen.press(&["-l", "not that one"]);
    screen.press(&["Enter"]);
    screen.shows(&["r-2 denied", "changes wait for merge", "left with 0"]);
    let answers = site.records(&["--kind", "review.answered"]);
    assert_eq!(answers[1]["payload"]["reason"], "not that one");
}

#[test]
fn plain_watch_says_what_it_follows() {
    let site = site();
    act(&site, "call fs.write path=src/a.txt content=x\ndone\n");
    while site.count("task.parked") == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let screen = Screen::sized(&site, "xterm-256color", "watch", SMALL);
    screen.shows(&["lets watch... every task in every repository", "◍ task-1  waits for r-1", "\"change what is old\""]);
    screen.press(&["C-c"]);
    screen.shows(&["left with 0"]);
}

/// What a newcomer meets first, with the words of the field, and whole at both sizes.
#[test]
fn status_names_what_runs_and_one_task_is_told_in_full() {
    let site = site();
    let prompt = "change what is old into something new, and keep everything else as it stands in this repository";
    let held = Held::new(9);
    let brain = site.script(&format!("{}call fs.write path=a.txt content=new\ndone changed it\n", held.call()));
    site.ok(&["act", prompt, "--brain", &brain]);
    while site.count("call.admitted") == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = site.ok(&["status"]);
    assert!(text.starts_with("repository @main (local)") && text.contains("● worker.1  task-1 \"change what is old"), "{text}");
    held.let_go();
    while site.count("task.parked") == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    for size in [SMALL, LARGE] {
        let screen = Screen::sized(&site, "xterm-256color", "--no-pager status task-1", size);
        let text = screen.shows(&["task task-1", "├─ status      ◍ changes wait for merge", "summary     changed it", "left with 0"]);
        assert!(text.contains("├─ next        skep diff task-1, then skep merge task-1") && text.contains("├─ review      r-1"), "{text}");
        assert!(!text.contains('…'), "nothing of it is cut:\n{text}");
        let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "│").collect();
        assert!(words.join(" ").contains(prompt), "the whole prompt:\n{text}");
        drop(screen);
        let screen = Screen::sized(&site, "xterm-256color", "list tasks", size);
        let text = screen.shows(&["◍ task-1  changes wait for merge", "left with 0"]);
        assert!(text.contains("\"change what is old into"), "{text}");
    }
    for word in ["zone @", "episode", " room"] {
        assert!(!site.ok(&["status", "task-1"]).contains(word) && !site.ok(&["status"]).contains(word), "{word}");
    }
}

/// The names that a shell completes come from a kernel that runs; without one nothing starts.
#[test]
fn completions_know_names_and_start_nothing() {
    let site = site();
    act(&site, "call fs.write path=src/a.txt content=x\ndone\n");
    while site.count("task.parked") == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(site.ok(&["__complete", "watch", ""]), "task-1\n");
    assert_eq!(site.ok(&["__complete", "review", "allow", "r"]), "r-1\n");
    assert_eq!(site.ok(&["__complete", "review", "allow", "x"]), "");
    site.ok(&["review", "allow", "r-1", "--for", "zone"]);
    assert_eq!(site.ok(&["__complete", "grant", "revoke", ""]), "g-1\n");
    assert!(site.ok(&["__complete", "act", "x", "--brain", "nat"]).contains("native:tactical\n"));
    site.ok(&["kernel", "stop"]);
    assert_eq!(site.ok(&["__complete", "watch", ""]), "");
    assert!(!site.home().join("kernel.sock").exists(), "a tab key starts no kernel");
}

/// Who leaves at a question hears that it stays open, on a line of its own.
#[test]
fn ctrl_c_at_a_question_leaves_it_open() {
    let site = site();
    let brain = site.script("call fs.write path=src/a.txt content=x\ndone\n");
    let left = |arguments: &str, exit: &str| {
        let screen = Screen::sized(&site, "xterm-256color", arguments, SMALL);
        screen.shows(&["Writing src/a.txt", "[q] later ›"]);
        screen.press(&["C-c"]);
        let text = screen.shows(&[exit]);
        assert!(text.contains("\n◍ r-1 stays open: skep review\n"), "{text}");
    };
    left(&format!("act write --brain {brain} --await"), "left with 130");
    left("watch task-1", "left with 0");
    assert_eq!(site.json(&["review"])["reviews"][0]["review"], "r-1");
}

/// The demo waits for its reader on a terminal, and can be left.
#[test]
fn the_demo_is_paced_on_a_terminal() {
    let site = Site::new(&[]);
    let screen = Screen::sized(&site, "xterm-256color", "demo", SMALL);
    screen.shows(&["━ 1  A project", "any key goes on, q leaves"]);
    screen.press(&["Space"]);
    screen.shows(&["━ 2  A kernel", "✓ the kernel runs", "any key goes on, q leaves"]);
    screen.press(&["Enter"]);
    screen.shows(&["policy version 2 is in force", "any key goes on"]);
    screen.press(&["q"]);
    screen.shows(&["left with 0"]);
    let fast = Screen::sized(&site, "xterm-256color", "demo --fast", LARGE);
    let text = fast.shows(&["two things to try in a repository of your own", "skep init", "skep act", "left with 0"]);
    assert!(!text.contains("any key goes on"), "{text}");
}

/// How far long work is can be asked while it goes on, by a command beside it.
#[test]
fn long_work_says_how_far_it_is() {
    let site = site();
    let make = "mkdir -p many; n=0; while [ $n -lt 3000 ]; do echo $n > many/$n; n=$((n+1)); done";
    let task = act(&site, &format!("call shell.run command=[\"sh\",\"-c\",\"{make}\"]\ndone made them\n"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let seen = runtime.block_on(async {
        let task = task.parse().unwrap();
        let mut kernel = wire::KernelClient::connect(&site.home()).await.unwrap();
        loop {
            // As every face asks: over the kernel's socket.
            let now = kernel.call::<wire::table::WorkList>(&WorkListParams { task: Some(task) }).await.unwrap();
            if let Some(work) = now.works.iter().find(|work| work.what == LongWorkKind::Freezing) {
                return work.total;
            }
            let view = kernel.call::<wire::table::TaskShow>(&TaskIdParams { task }).await.unwrap();
            assert_eq!(view.merge, None, "the changes were collected, and nobody was told how far");
        }
    });
    assert_eq!(seen, Some(3_000));
    crate::common::provider::eventually("its changes wait", || site.is(&task, "parked"));
    site.ok(&["merge", &task, "--yes"]);
    assert_eq!(site.read("many/2999"), "2999\n");
}
