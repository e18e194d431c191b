//! Four people and what they see: `tests/people/*.txt` is what each does, line by line, and what was printed.
//!
//! A step begins with `==`. `issue` is the line of the requirement that it plays, `expected` says in words what should come of it. Then,
//! each at the beginning of a line:
//!
//! | written | does |
//! |---|---|
//! | `$ COMMAND` | runs it in a pipe, from the project's folder |
//! | `80x24$ COMMAND` | runs it in a terminal of that size |
//! | `> see TEXT` | waits until the terminal shows it, and keeps the screen |
//! | `> wait TEXT` | the same without keeping it |
//! | `> wait line TEXT` | the same, until a line is just that |
//! | `> press KEYS` | after that, presses keys, as tmux names them |
//! | `> type TEXT` | the same with text |
//! | `> run COMMAND` | meanwhile somebody else runs a command |
//! | `until TEXT: COMMAND` | repeats a command until it prints that |
//! | `write FILE` | writes the lines `  \| …` below it to a file |
//! | `model [KEY]` | starts a model server that follows the lines `  \| …`; it wants that key. Its address is `$MODEL` |
//! | `env NAME=VALUE`, `env NAME` | sets a variable, or takes it away |
//! | `power loss` | ends the kernel and all below it by SIGKILL |
//! | `power returns, and the kernel asks REVIEW` | starts it again, and waits for that question |
//!
//! What was printed stands below, set in by four blanks; `SKEP_UPDATE=1` rewrites it. [`normal`] is all that is made alike.

mod normal;

use crate::common::model_server::ModelServer;
use crate::common::screen::Screen;
use crate::common::{Site, forget_models, text};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/people");
struct Person {
    site: Site,
    variables: Vec<(String, String)>,
    model: Option<ModelServer>,
    /// What is shown in a terminal right now.
    screen: Option<Screen>,
    told: String,
}

#[test]
fn a_developer_without_a_key() {
    play("without_key.txt");
}

#[test]
fn a_developer_with_a_model() {
    play("with_model.txt");
}

#[test]
fn a_team_lead_who_writes_policy() {
    play("team_lead.txt");
}

#[test]
fn somebody_after_a_power_loss() {
    play("power_loss.txt");
}

/// Every line of the requirement is played by somebody, in at least forty steps, and no printed text has words of ours.
#[test]
fn forty_steps_play_every_line() {
    let files = ["without_key.txt", "with_model.txt", "team_lead.txt", "power_loss.txt"];
    let all: String = files.iter().map(|name| std::fs::read_to_string(PathBuf::from(FOLDER).join(name)).unwrap()).collect();
    let steps = all.lines().filter(|line| line.starts_with("== ")).count();
    assert!(steps >= 40, "{steps} steps");
    let played = |part: &str| all.lines().filter(|line| line.starts_with("issue ")).any(|line| line.contains(part));
    let lines = std::fs::read_to_string(PathBuf::from(FOLDER).join("lines.txt")).unwrap();
    let missing: Vec<&str> = lines.lines().filter(|line| !line.is_empty() && !line.starts_with('#') && !played(line)).collect();
    assert!(missing.is_empty(), "nobody plays {missing:#?}");
    // A diff shows what stands in a file.
    let printed = all.lines().filter(|line| line.starts_with("    ") && !line.trim_start().starts_with(['+', '-']));
    for line in printed {
        let mut words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '-' && letter != '.');
        let ours = words.find(|word| ["zone", "zones", "room", "rooms", "foreman", "episode", "episodes"].contains(word));
        assert_eq!(ours, None, "{line}");
    }
}

fn play(name: &str) {
    let path = PathBuf::from(FOLDER).join(name);
    let held = std::fs::read_to_string(&path).unwrap();
    let mut person = Person::new();
    let script: Vec<&str> = held.lines().filter(|line| !line.is_empty() && !line.starts_with("    ")).collect();
    let mut at = 0;
    while at < script.len() {
        let line = script[at];
        let below = script[at + 1..].iter().take_while(|line| line.starts_with("  |")).count();
        let block: String =
            script[at + 1..=at + below].iter().map(|line| format!("{}\n", line[3..].strip_prefix(' ').unwrap_or(""))).collect();
        if !line.starts_with("> ") {
            person.close_screen();
        }
        if line.starts_with("== ") {
            person.told.push('\n');
        }
        script[at..=at + below].iter().for_each(|line| person.told.push_str(&format!("{line}\n")));
        person.act(line, &block);
        at += below + 1;
    }
    person.close_screen();
    let told = std::mem::take(&mut person.told);
    if std::env::var_os("SKEP_UPDATE").is_some() {
        std::fs::write(&path, &told).unwrap();
        return;
    }
    let differs = told.lines().zip(held.lines()).position(|(now, then)| now != then);
    let differs = differs.or((told != held).then(|| told.lines().count().min(held.lines().count())));
    if let Some(at) = differs {
        let near = |text: &str| text.lines().skip(at.saturating_sub(6)).take(14).collect::<Vec<_>>().join("\n");
        panic!("{name}:{} is another story (SKEP_UPDATE=1 rewrites it). Now:\n{}\n\nKept:\n{}", at + 1, near(&told), near(&held));
    }
}

impl Person {
    fn new() -> Person {
        let site = Site::at(PathBuf::from("/tmp").as_path(), &[("README.md", "# A project\n")]);
        // Found by its name, and by no path of this machine.
        std::fs::create_dir(site.folder.path().join("bin")).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_skep"), site.folder.path().join("bin/skep")).unwrap();
        let variables = vec![
            ("HOME".to_owned(), site.folder.path().display().to_string()),
            // It is noon for everybody, so that no midnight falls between two steps.
            ("TZ".to_owned(), noon()),
            ("GIT_CONFIG_GLOBAL".to_owned(), "/dev/null".to_owned()),
            ("GIT_AUTHOR_NAME".to_owned(), "Ann".to_owned()),
            ("GIT_AUTHOR_EMAIL".to_owned(), "ann@example.org".to_owned()),
            ("GIT_COMMITTER_NAME".to_owned(), "Ann".to_owned()),
            ("GIT_COMMITTER_EMAIL".to_owned(), "ann@example.org".to_owned()),
        ];
        Person { site, variables, model: None, screen: None, told: String::new() }
    }

    fn act(&mut self, line: &str, block: &str) {
        if let Some(command) = line.strip_prefix("$ ") {
            let output = self.shell(command);
            let exit = output.status.code().filter(|code| *code != 0).map(|code| format!("[exit {code}]\n")).unwrap_or_default();
            self.tell(&format!("{}{exit}", text(&output)));
        } else if let Some((size, command)) = line.split_once("$ ").filter(|(size, _)| size.starts_with(|c: char| c.is_ascii_digit())) {
            let (columns, rows) = size.split_once('x').unwrap();
            self.screen = Some(self.open(command, (columns.parse().unwrap(), rows.parse().unwrap())));
        } else if let Some(part) = line.strip_prefix("> see ") {
            let shown = self.screen.as_ref().expect("a terminal is open").shows(&[part]);
            self.tell(shown.trim_start_matches("$\n"));
        } else if let Some(whole) = line.strip_prefix("> wait line ") {
            self.screen.as_ref().expect("a terminal is open").shows(&[&format!("\n{whole}\n")]);
        } else if let Some(part) = line.strip_prefix("> wait ") {
            self.screen.as_ref().expect("a terminal is open").shows(&[part]);
        } else if let Some(keys) = line.strip_prefix("> press ") {
            self.screen.as_ref().expect("a terminal is open").press(&keys.split(' ').collect::<Vec<_>>());
        } else if let Some(typed) = line.strip_prefix("> type ") {
            self.screen.as_ref().expect("a terminal is open").press(&["-l", typed]);
        } else if let Some(command) = line.strip_prefix("> run ") {
            let output = self.shell(command);
            assert!(output.status.success(), "{command}: {}", text(&output));
        } else if let Some((part, command)) = line.strip_prefix("until ").and_then(|rest| rest.split_once(": ")) {
            self.until(part, command);
        } else if let Some(file) = line.strip_prefix("write ") {
            let path = self.expanded(file);
            let path = self.site.project().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, self.expanded(block)).unwrap();
        } else if let Some(key) = line.strip_prefix("model") {
            let key = Some(key.trim()).filter(|key| !key.is_empty()).map(|key| &*key.to_owned().leak());
            self.model = Some(ModelServer::start(block, key));
        } else if let Some(setting) = line.strip_prefix("env ") {
            let (name, value) = setting.split_once('=').map_or((setting, None), |(name, value)| (name, Some(self.expanded(value))));
            self.variables.retain(|(own, _)| own != name);
            self.variables.extend(value.map(|value| (name.to_owned(), value)));
        } else if line == "power loss" {
            self.power_loss();
        } else if let Some(review) = line.strip_prefix("power returns, and the kernel asks ") {
            self.power_returns(review);
        } else {
            let known = ["== ", "# ", "issue ", "expected "];
            assert!(known.iter().any(|word| line.starts_with(word)), "`{line}` is nothing that a person does");
        }
    }

    fn expanded(&self, text: &str) -> String {
        let model = self.model.as_ref().map(ModelServer::url).unwrap_or_default();
        text.replace("$MODEL", &model).replace("$SKEP_HOME", &self.site.home().display().to_string())
    }

    fn environment(&self, command: &mut Command) {
        forget_models(command).env_remove("SKEP_FAULT").env_remove("PAGER");
        command.env("PATH", format!("{}/bin:/usr/local/bin:/usr/bin:/bin", self.site.folder.path().display()));
        command.env("SKEP_HOME", self.site.home()).env("NO_COLOR", "1").env("LC_ALL", "C.UTF-8");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env("MODEL", self.model.as_ref().map(ModelServer::url).unwrap_or_default());
    }

    /// What it prints, in the order in which it does.
    fn shell(&self, line: &str) -> std::process::Output {
        // What never ends fails with 124 and does not hang.
        let mut command = Command::new("timeout");
        command.args(["60", "sh", "-c", &format!("exec 2>&1\n{line}")]).current_dir(self.site.project()).stdin(Stdio::null());
        self.environment(&mut command);
        command.output().unwrap()
    }

    fn open(&self, line: &str, size: (u16, u16)) -> Screen {
        let file = self.site.folder.path().join("line.sh");
        // Below a prompt, as everything on a terminal.
        std::fs::write(&file, format!("echo '$'\n{line}\nprintf '[exit %s]\\n' \"$?\"\nsleep 600\n")).unwrap();
        Screen::shell(&self.site, &format!("sh {}", file.display()), size, |tmux| self.environment(tmux))
    }

    /// Keeps what a terminal shows when its command has ended.
    fn close_screen(&mut self) {
        let Some(screen) = self.screen.take() else { return };
        screen.shows(&["\n[exit "]);
        let all = screen.history();
        let (shown, exit) = all.trim_start_matches("$\n").rsplit_once("[exit ").unwrap();
        let code = exit.split(']').next().unwrap_or_default();
        let exit = if code == "0" { String::new() } else { format!("[exit {code}]\n") };
        self.tell(&format!("{}\n{exit}", shown.trim_end()));
    }

    fn until(&self, part: &str, command: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let said = text(&self.shell(command));
            if said.contains(part) {
                return;
            }
            assert!(Instant::now() < end, "`{command}` never said `{part}`:\n{said}\n\n{}", self.told);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn power_loss(&self) {
        let status: serde_json::Value = serde_json::from_slice(&self.shell("skep kernel status --json").stdout).unwrap();
        let pid = i32::try_from(status["os_pid"].as_u64().unwrap()).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
        // Its first thread is gone before its last, and what it had open goes with the last.
        let lock = std::fs::File::open(self.site.home().join("run/kernel.lock")).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    }

    /// The kernel starts, as a machine that boots starts it; nobody has looked at it when its question is there.
    fn power_returns(&self, review: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
        command.args(["kernel", "run", "--detached"]).current_dir(self.site.project());
        self.environment(&mut command);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        // Collected when it ends, after this person's last command.
        std::thread::spawn(move || drop(child.wait()));
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        assert_eq!(line, "ready\n");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut kernel = wire::KernelClient::connect(&self.site.home()).await.unwrap();
            let params = wire::method::task::TaskListParams::default();
            loop {
                // The question is on record a moment before its task waits for it.
                let listed = kernel.call::<wire::table::TaskList>(&params).await.unwrap();
                if listed.tasks.iter().any(|task| task.review.is_some_and(|parked_on| parked_on.to_string() == review)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }

    fn tell(&mut self, printed: &str) {
        let printed = normal::normal(printed, &self.site.folder.path().display().to_string());
        for line in printed.trim_end().lines() {
            let line = line.trim_end();
            self.told.push_str(&if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") });
        }
    }
}

impl Drop for Person {
    /// Whoever looks for what went wrong reads how far it came.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.told);
        }
    }
}

/// A time zone in which it is a little past noon.
fn noon() -> String {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() % 86_400;
    let west = i64::try_from(seconds).unwrap() - 12 * 3_600;
    let sign = if west < 0 { "-" } else { "" };
    format!("<NOON>{sign}{}:{:02}", west.abs() / 3_600, west.abs() / 60 % 60)
}
