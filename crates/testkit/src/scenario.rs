//! Scenarios: text in, journal out, readable by someone who knows no Rust.
//!
//! Above the line `----` stands what happens, below it the journal that must come of it. `SKEP_UPDATE=1` rewrites the lower half.
//!
//! | word | means |
//! |---|---|
//! | `file PATH TEXT` | a committed file of the project |
//! | `rule ACTION TOOL [GLOB…]` | a rule of the policy, named `rule-1`, `rule-2`, …; without any, the default policy holds |
//! | `policy` | the indented lines that follow are rules as they stand in a policy file, before those of `rule` |
//! | `extension` | the indented lines that follow are an extension rule in TypeScript |
//! | `test WORD…` | the project's test command |
//! | `mode ask` | the task only reads (it acts otherwise) |
//! | `limit N` | the most calls the task may make |
//! | `brain MOVE` | a line of the scripted brain |
//! | `edit PATH TEXT` | a person edits a file when the next question is open |
//! | `restart` | the kernel is stopped and started when the next question is open |
//! | `human allow`, `human allow session`, `human allow always` | yes to this call, or to calls like it |
//! | `human deny [WHY]`, `human ban [WHY]`, `human silent` | no, no for good, or no answer at all |

mod journal;

use crate::bed::Bed;
use crate::harness::{self, Test};
use kernel::{Kernel, NewTask, Reply, Stop};
use sandbox::Launcher;
use similar::TextDiff;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use world::{Mode, ReviewId, Scope, TaskId, TaskState, Terms};

/// One scenario, parsed.
#[derive(Debug, Default)]
struct Scenario {
    files: Vec<(String, String)>,
    rules: Vec<String>,
    /// There are rules, even if they are none: the default policy does not hold.
    policy: bool,
    extension: String,
    test: Option<Vec<String>>,
    ask: bool,
    limit: Option<u64>,
    brain: String,
    people: Vec<Person>,
}

/// What people do, each when a question is open.
#[derive(Debug, Clone)]
enum Person {
    Answer(Answered, Option<String>),
    Silent,
    Edit(String, String),
    Restart,
}

/// How far an answer reaches.
#[derive(Debug, Clone, Copy)]
enum Answered {
    Once,
    Session,
    Always,
    No,
    Never,
}

/// Runs every `.scn` file of a folder as a test.
pub fn main(folder: &Path) -> ExitCode {
    if let Some(ended) = harness::child() {
        return ended;
    }
    let mut files: Vec<PathBuf> = match std::fs::read_dir(folder) {
        Ok(entries) => entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|e| e == "scn"))
            .collect(),
        Err(error) => {
            eprintln!("{}: {error}", folder.display());
            return ExitCode::FAILURE;
        }
    };
    files.sort();
    if files.is_empty() {
        eprintln!("{} holds no scenario", folder.display());
        return ExitCode::FAILURE;
    }
    let tests: Vec<Test> = files.into_iter().map(|file| Test::new(name_of(&file), move || check(&file))).collect();
    harness::main(&tests)
}

fn name_of(file: &Path) -> String {
    file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

fn check(file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let (above, expected) = text.split_once("----\n").unwrap_or((&text, ""));
    let found = run(&parse(above)?)?;
    if found == expected {
        return Ok(());
    }
    if std::env::var_os("SKEP_UPDATE").is_some() {
        return std::fs::write(file, format!("{above}----\n{found}")).map_err(|error| error.to_string());
    }
    let diff = TextDiff::from_lines(expected, &found).unified_diff().header("expected", "found").to_string();
    Err(format!("{} tells another story (SKEP_UPDATE=1 rewrites it):\n{diff}", file.display()))
}

fn parse(text: &str) -> Result<Scenario, String> {
    let mut scenario = Scenario::default();
    let (mut in_policy, mut in_extension, mut numbered) = (false, false, 0);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.starts_with("  ") && in_policy {
            scenario.rules.push(format!("{line}\n"));
            continue;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with("  ") && in_extension {
            scenario.extension.push_str(line);
            scenario.extension.push('\n');
            continue;
        }
        in_policy = line == "policy";
        in_extension = line == "extension";
        let fail = |what: &str| format!("line {}: {what}: `{line}`", index + 1);
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let pair = || rest.split_once(' ').map(|(path, text)| (path.to_owned(), unescape(text))).ok_or_else(|| fail("wants PATH TEXT"));
        match word {
            "file" => scenario.files.push(pair()?),
            "edit" => scenario.people.push(pair().map(|(path, text)| Person::Edit(path, text))?),
            "policy" => scenario.policy = true,
            "extension" => {}
            "rule" => {
                numbered += 1;
                scenario.policy = true;
                scenario.rules.push(rule(rest, numbered).ok_or_else(|| fail("wants ACTION TOOL [GLOB…]"))?);
            }
            "test" => scenario.test = Some(rest.split(' ').map(str::to_owned).collect()),
            "mode" => scenario.ask = rest == "ask",
            "limit" => scenario.limit = Some(rest.parse().map_err(|_| fail("wants a number"))?),
            "brain" => {
                scenario.brain.push_str(rest);
                scenario.brain.push('\n');
            }
            "restart" => scenario.people.push(Person::Restart),
            "human" => scenario.people.push(person(rest).ok_or_else(|| fail("wants allow, deny or silent"))?),
            _ => return Err(fail("not a word of scenarios")),
        }
    }
    Ok(scenario)
}

/// `\n` in a scenario's text is a line break, and every file ends with one.
fn unescape(text: &str) -> String {
    format!("{}\n", text.replace("\\n", "\n"))
}

fn person(text: &str) -> Option<Person> {
    let (word, why) = text.split_once(' ').unwrap_or((text, ""));
    let reason = (!why.is_empty()).then(|| why.to_owned());
    match (word, why) {
        ("allow", "session") => Some(Person::Answer(Answered::Session, None)),
        ("allow", "always") => Some(Person::Answer(Answered::Always, None)),
        ("allow", _) => Some(Person::Answer(Answered::Once, reason)),
        ("deny", _) => Some(Person::Answer(Answered::No, reason)),
        ("ban", _) => Some(Person::Answer(Answered::Never, reason)),
        ("silent", "") => Some(Person::Silent),
        _ => None,
    }
}

/// What the kernel is told for it.
fn reply(kernel: &Kernel, review: ReviewId, answer: Answered) -> Result<Reply, Stop> {
    let pid = kernel.review(review)?.pid;
    let terms = Terms::default();
    Ok(match answer {
        Answered::Once => Reply::yes(),
        Answered::No => Reply::no(),
        Answered::Session => {
            let session = kernel.ledger.look(|world| world.session(pid));
            Reply::Wide { scope: Scope::Session { session }, what: None, terms }
        }
        Answered::Always => Reply::Wide { scope: Scope::All, what: None, terms },
        Answered::Never => Reply::Never { scope: Scope::All, what: None, alternative: None },
    })
}

fn rule(text: &str, number: usize) -> Option<String> {
    let mut words = text.split_whitespace();
    let action = match words.next()? {
        "review" => "require_review",
        other => other,
    };
    let tool = words.next()?;
    let globs: Vec<String> = words.map(|glob| format!("\"{glob}\"")).collect();
    let paths = if globs.is_empty() { String::new() } else { format!(", path_glob: [{}]", globs.join(", ")) };
    Some(format!(
        "  - {{ name: rule-{number}, match: {{ syscall: \"{tool}\"{paths} }}, action: {action}, reason: rule {number} says so }}\n"
    ))
}

fn run(scenario: &Scenario) -> Result<String, String> {
    let mut files = scenario.files.clone();
    if !scenario.extension.is_empty() {
        files.push((".skep/rules/rule.ts".into(), scenario.extension.clone()));
    }
    if scenario.policy {
        files.push((".skep/policy.yaml".into(), format!("capabilities:\n{}", scenario.rules.concat())));
    } else if scenario.test.is_some() {
        files.push((".skep/policy.yaml".into(), policy::default_policy().to_owned()));
    }
    if let Some(command) = &scenario.test {
        files.push((
            "skep.yml".into(),
            format!("test:\n  command: {}\n", serde_json::to_string(command).map_err(|error| error.to_string())?),
        ));
    }
    let bed = Bed::new(&files)?;
    let script = bed.home().with_extension("script");
    std::fs::write(&script, &scenario.brain).map_err(|error| error.to_string())?;
    // A restart needs a fresh launcher, and one can only be forked while this process has no thread: so all are forked now.
    let restarts = scenario.people.iter().filter(|person| matches!(person, Person::Restart)).count();
    let launchers = (0..=restarts).map(|_| Launcher::start()).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(play(scenario, &bed, &script, launchers)).map_err(|stop| stop.to_string())
}

async fn play(scenario: &Scenario, bed: &Bed, script: &Path, launchers: Vec<Launcher>) -> Result<String, Stop> {
    let mut launchers = launchers.into_iter();
    let mut kernel = boot(bed, &mut launchers).await?;
    let proposal = kernel.init(&bed.project()).await?;
    if !proposal.ready() {
        kernel.trust(&bed.project(), &proposal.hash).await?;
    }
    let new = NewTask {
        path: bed.project(),
        mode: if scenario.ask { Mode::Ask } else { Mode::Act },
        prompt: "play the scenario".into(),
        brain: Some(format!("script:{}", script.display())),
        priority: 0,
        calls_max: scenario.limit,
    };
    let id = kernel.add(new).await?.task;
    let mut people = scenario.people.iter();
    while let Some(review) = question(&kernel, id).await? {
        loop {
            match people.next() {
                Some(Person::Edit(path, text)) => {
                    bed.write(path, text).map_err(|why| kernel::Fault::new(kernel::FaultKind::Io, "no edit", why))?
                }
                Some(Person::Restart) => {
                    kernel.stop("scenario").await?;
                    drop(kernel);
                    kernel = boot(bed, &mut launchers).await?;
                }
                Some(Person::Answer(answer, why)) => {
                    let reply = reply(&kernel, review, *answer)?;
                    kernel.answer(review, reply, "human", why.clone()).await?;
                    break;
                }
                Some(Person::Silent) | None => return Ok(journal::told(&kernel, bed)?),
            }
        }
    }
    Ok(journal::told(&kernel, bed)?)
}

async fn boot(bed: &Bed, launchers: &mut impl Iterator<Item = Launcher>) -> Result<Arc<Kernel>, Stop> {
    let launcher =
        launchers.next().ok_or_else(|| kernel::Fault::new(kernel::FaultKind::Bug, "no launcher is left", "too many restarts"))?;
    // The old kernel's last task may still hold the home for a moment.
    for _ in 0..200 {
        if kernel::Home::open(&bed.home()).is_ok() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    Ok(bed.boot(launcher).await?)
}

/// Waits for the task and gives its open question; `None` when it has ended.
async fn question(kernel: &Kernel, id: TaskId) -> Result<Option<ReviewId>, Stop> {
    match kernel.settled(id).await?.state {
        TaskState::Parked { review } => Ok(Some(review)),
        _ => Ok(None),
    }
}
