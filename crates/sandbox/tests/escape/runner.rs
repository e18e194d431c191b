//! A test main: one test per attempt, runtime and user, or per folder of attempts; each prints its rows and fails on any difference.

use std::cell::OnceCell;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::attempt::{Attempt, Outside};
use super::runtime::{CHILD, RUNTIMES, Ran, Runtime};
use super::scene::{SECRET, Scene, VARIABLE};

/// Where attempts are, unless `SKEP_ESCAPES` says another place.
pub fn own() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/escape/attempts")
}

struct Test {
    name: String,
    runtime: usize,
    root: bool,
    attempts: Vec<usize>,
}

pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == [sandbox::oci::GUEST] {
        return ExitCode::from(u8::try_from(sandbox::oci::guest()).unwrap_or(1));
    }
    if let [flag, library, profile] = arguments.as_slice()
        && flag == super::child::FLAG
    {
        super::child::main(Path::new(library), profile);
    }
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let attempts = Attempt::all(&std::env::var_os("SKEP_ESCAPES").map_or_else(own, Into::into));
    let tests = tests(&attempts);
    if has("--list") {
        let listed = if has("--ignored") { &[][..] } else { &tests };
        listed.iter().for_each(|test| println!("{}: test", test.name));
        return ExitCode::SUCCESS;
    }
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    if has("--exact") {
        let test = tests.iter().find(|test| Some(&test.name) == wanted).expect("a test's full name");
        if std::env::var_os(VARIABLE).is_none() {
            // The secret must be in the memory that this process was started with, as a real one would be.
            let me = std::env::current_exe().unwrap();
            panic!("{}", Command::new(me).args(&arguments).env(VARIABLE, SECRET).exec());
        }
        return run(test, &attempts);
    }
    each(&tests, wanted)
}

/// Without root there are no rooms of root's, and attempts that only root can make outside have no proof. Nor has one for which
/// this host lacks what it needs.
fn tests(attempts: &[Attempt]) -> Vec<Test> {
    let is_root = rustix::process::geteuid().is_root();
    let users: &[&str] = if is_root { &["root", "user"] } else { &["user"] };
    let provable =
        |attempt: &Attempt| (is_root || attempt.outside.0 != Outside::Root) && attempt.needs.as_ref().is_none_or(|file| file.exists());
    let mut tests = Vec::new();
    for (runtime, kind) in RUNTIMES.iter().enumerate() {
        let made = |attempt: &Attempt| provable(attempt) && attempt.is_for(kind.name == CHILD);
        for user in users.iter().filter(|user| kind.of_users || **user == "root") {
            let some = if kind.dear { stride() } else { 1 };
            for (index, attempt) in attempts.iter().enumerate().filter(|(index, attempt)| made(attempt) && index % some == 0) {
                let unit = if kind.dear { attempt.name.split("::").next().unwrap() } else { &attempt.name };
                let name = format!("{}::{user}::{unit}", kind.name);
                match tests.last_mut() {
                    // Attempts come in the order of names.
                    Some(Test { name: last, attempts, .. }) if *last == name => attempts.push(index),
                    _ => tests.push(Test { name, runtime, root: *user == "root", attempts: vec![index] }),
                }
            }
        }
    }
    tests
}

/// In containers, where an attempt takes seconds: every third in the tests, each in `cargo xtask soak` and of a folder of one's own.
fn stride() -> usize {
    if ["SKEP_SOAK", "SKEP_ESCAPES"].iter().any(|name| std::env::var_os(name).is_some()) { 1 } else { 3 }
}

/// `cargo test`: one after another, which makes the table.
fn each(tests: &[Test], part: Option<&String>) -> ExitCode {
    let (mut passed, mut failed) = (0, 0);
    for test in tests.iter().filter(|test| part.is_none_or(|part| test.name.contains(part.as_str()))) {
        let status = std::env::current_exe().and_then(|me| Command::new(me).args(["--exact", &test.name]).status());
        *(if status.is_ok_and(|status| status.success()) { &mut passed } else { &mut failed }) += 1;
    }
    println!("\n{passed} as they must be; {failed} not");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Attempts of one test that are made at once where each spends most of its time waiting.
const AT_ONCE: usize = 4;

fn run(test: &Test, attempts: &[Attempt]) -> ExitCode {
    let kind = &RUNTIMES[test.runtime];
    let all: Vec<&Attempt> = test.attempts.iter().map(|index| &attempts[*index]).collect();
    let all_well = if kind.dear {
        // Before anything that makes threads. The user is root's, so nobody has to become another.
        let runtime = (kind.start)();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut well = true;
            while let Some(attempt) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                well &= Made::new(test, attempt).make(|| &*runtime).tell();
            }
            well
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).fold(true, |all, well| all & well)
        })
    } else {
        let started = OnceCell::new();
        all.iter().fold(true, |well, attempt| well & Made::new(test, attempt).make(|| &**started.get_or_init(kind.start)).tell())
    };
    if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One attempt, inside and outside, and what is to be told of it.
struct Made<'a> {
    test: &'a Test,
    attempt: &'a Attempt,
    told: String,
    all_well: bool,
}

impl<'a> Made<'a> {
    fn new(test: &'a Test, attempt: &'a Attempt) -> Made<'a> {
        Made { test, attempt, told: String::new(), all_well: true }
    }

    fn user(&self) -> &'static str {
        if self.test.root { "root" } else { "user" }
    }

    /// `runtime` forks a launcher when it is first asked, so it is asked as the tested user and before anything makes threads.
    fn make<'r>(mut self, runtime: impl FnOnce() -> &'r dyn Runtime) -> Made<'a> {
        let (test, attempt, user) = (self.test, self.attempt, self.user());
        let kind = &RUNTIMES[test.runtime];
        let scene = Scene::new(test.root);
        let [inside, outside] = attempt.place(scene.places(), &own());
        let (how, proof) = &attempt.outside;
        if *how == Outside::Root {
            self.check("outside, root", proof, &scene.run_outside(*how, &outside), true);
        }
        scene.become_user(test.root);
        let runtime = runtime();
        for profile in runtime.profiles() {
            let family = profile.split_once("-unix").map_or(*profile, |(family, _)| family);
            let wanted = attempt.wanted(&[kind.name, user, profile, family]);
            let ran = runtime.run(&scene, attempt, &inside, profile);
            self.check(&format!("{}, {user}, {profile}", kind.name), wanted, &ran, false);
        }
        for harm in scene.harm() {
            self.say(&format!("    the host: {harm:<66} DIFFERENT"));
            self.all_well = false;
        }
        if *how != Outside::Root {
            let place = if *how == Outside::Plain { format!("outside, {user}") } else { "outside, own namespaces".to_owned() };
            self.check(&place, proof, &scene.run_outside(*how, &outside), true);
        }
        self
    }

    fn check(&mut self, place: &str, wanted: &str, ran: &Ran, may_tell: bool) {
        let shown = ran.shown();
        let stderr = String::from_utf8_lossy(&ran.stderr);
        let leaked = !may_tell && (shown.contains(SECRET) || stderr.contains(SECRET));
        let well = wanted.split(" | ").any(|wanted| shown == wanted) && !leaked;
        self.say(&format!("    {place:<28} {shown:<48} {}", if well { "ok" } else { "DIFFERENT" }));
        if !well {
            self.say(&format!("    {:<28} {wanted}\n{stderr}{}", "wanted", if leaked { "THE SECRET WAS TOLD" } else { "" }));
        }
        self.all_well &= well;
    }

    fn say(&mut self, line: &str) {
        self.told.push_str(line);
        self.told.push('\n');
    }

    /// Prints it in one piece, and gives whether all was as it must be.
    fn tell(self) -> bool {
        let Made { test, attempt, told, all_well } = &self;
        print!("{}::{}::{}\n    tries {}\n{told}", RUNTIMES[test.runtime].name, self.user(), attempt.name, attempt.tries);
        *all_well
    }
}
