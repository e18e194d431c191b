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
//! | `config` | the indented lines that follow are the operator's own `config.yml` |
//! | `tool` | the indented lines that follow are a `tool.yaml` in the operator's own folder |
//! | `test WORD…` | the project's test command |
//! | `coverage PATH [WORD…]` | where the run of the tests leaves its report of coverage, and the command that writes it, if it is another |
//! | `safe GLOB…` | paths that may be merged unread |
//! | `mode ask` | the task only reads (it acts otherwise) |
//! | `limit N` | the most calls the task may make |
//! | `tag WORD…` | what the operator calls the task's caller |
//! | `tools TOOL…` | the only tools that the task may use |
//! | `discipline MODE` | how strictly tests come first: `strict`, `explore` or `debug`; where that needs an answer, there is a task after it |
//! | `skill NAME [key=value…]` | the task is this skill of a role, which `file .skep/roles/…` writes; a scripted brain is still one |
//! | `whole` | the journal is told from its first record on, and not from the task's |
//! | `brain MOVE` | a line of the scripted brain; without any there is no task |
//! | `model` | the indented lines that follow are what a scripted model answers, and the built-in brain works on the task |
//! | `client` | the indented lines that follow are a program that plays Claude Code, and it works on the task |
//! | `record` | the traffic with the model is recorded |
//! | `session [WORD…]` | the task is a session: `agentic`, `dry_run`, `mock`, `no_critics`, `plan_only`, `memory`, `unattended`, `approve_writes`, `planner=NAME`, `steps=N`, `iterations=N`, `ms=N`, `tokens=N`, `micros=N`, `context=N`, `priority=N`, and lists by commas: `paths=`, `commands=`, `endpoints=`, `tools=`, `no_tools=`, `scope=` |
//! | `plan` | the indented lines that follow are its plan file |
//!
//! What people do comes in its order: when the task waits for an answer, when it has ended, or at once where there is none.
//!
//! | word | means |
//! |---|---|
//! | `human allow`, `human allow session`, `human allow always` | yes to this call, or to calls like it; terms may follow as JSON |
//! | `human deny [WHY]`, `human ban [WHY]`, `human silent` | no, no for good, or no answer at all |
//! | `deny ID` | no to a review that the task does not wait for |
//! | `edit PATH TEXT`, `trust` | a person edits a file; the project's own files are put in force |
//! | `commit` | a person commits everything, so HEAD moves |
//! | `mine PATH`, `theirs PATH` | yes to the merge, with one side of a conflict |
//! | `switch MODE` | a person wants tests to come first in another way from here on |
//! | `next MODE` | when the task is over, another one begins in this mode; the lines of `brain` behind it are its script |
//! | `again`, `forget LESSON` | the session is started once more when it is over; the operator forgets what one taught |
//! | `undo [PHRASE]` | the merge is taken back, by a typed phrase where it is denied |
//! | `stored` | the masked files that git's store gives away are told below the journal, or that no file may be read |
//! | `show PATH` | what the project holds there is told below the journal |
//! | `token NAME TOOL [GLOB…] [ops=N] [ttl=30s]` | the operator is issued a token |
//! | `operator [with NAME] TOOL key=value…` | the operator's call, in the task while it waits; `with` presents a token |
//! | `thief …`, `stranger …`, `reborn …` | the same from another process, another sandbox, or a later process with the same pid |
//! | `ban brain TOOL [GLOB…]`, `ban operator …`, `ban all …` | calls like these are refused for good to these callers |
//! | `revoke ID` | a grant, ban or token is taken back |
//! | `cancel` | the task is cancelled |
//! | `pause`, `resume` | what runs in the task's room is stopped, and goes on |
//! | `budget set N`, `budget ask N`, `budget grant N` | everything may use N tokens, then it is refused or waits; N more |
//! | `replay` | the task is run again on its recorded model |
//! | `acknowledge N` | a person has seen the doubts up to the Nth |
//! | `wait 30s` | time passes |
//! | `restart` | the kernel is stopped and started |
//! | `verify` | the whole journal is proven, and what is wrong with it told |
//! | `tamper record N`, `tamper cut N` | between two kernels somebody changes record N of the story, or takes the last N away |

mod discipline_line;
mod journal;
mod new_task;
mod parse;
mod session;
mod step;
mod tree_line;

use crate::bed::Bed;
use crate::harness::{self, Test};
use kernel::Stop;
use sandbox::Launcher;
use similar::TextDiff;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use step::{ScenarioStep, Story};

/// One scenario, parsed.
#[derive(Debug, Default)]
struct Scenario {
    files: Vec<(String, String)>,
    rules: Vec<String>,
    /// There are rules, even if they are none: the default policy does not hold.
    policy: bool,
    extension: String,
    config: String,
    tools: Vec<String>,
    test: Option<Vec<String>>,
    /// The report of coverage, and the command that writes it.
    coverage: Option<(String, Vec<String>)>,
    safe: Vec<String>,
    ask: bool,
    limit: Option<u64>,
    tags: Vec<String>,
    /// Who does the task, with what.
    shape: kernel::TaskShape,
    brain: String,
    /// It is a session within these terms, and this is its plan file.
    session: Option<world::SessionTerms>,
    plan: String,
    /// What a model says; the built-in brain asks it.
    model: String,
    /// A program that plays a vendor's client.
    client: String,
    /// The traffic with the model is recorded.
    record: bool,
    /// What comes before the task is part of the story.
    whole: bool,
    steps: Vec<ScenarioStep>,
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

/// Plays one scenario and gives the journal that came of it. Once a process: its kernels' launchers are forked before there are threads.
pub fn tell(story: &str) -> Result<String, String> {
    run(&parse::scenario(story)?)
}

fn name_of(file: &Path) -> String {
    file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

fn check(file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let (above, expected) = text.split_once("----\n").unwrap_or((&text, ""));
    let found = run(&parse::scenario(above)?)?;
    if found == expected {
        return Ok(());
    }
    if std::env::var_os("SKEP_UPDATE").is_some() {
        return std::fs::write(file, format!("{above}----\n{found}")).map_err(|error| error.to_string());
    }
    let diff = TextDiff::from_lines(expected, &found).unified_diff().header("expected", "found").to_string();
    Err(format!("{} tells another story (SKEP_UPDATE=1 rewrites it):\n{diff}", file.display()))
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
        let words = |words: &[String]| serde_json::to_string(words).map_err(|error| error.to_string());
        let coverage = match &scenario.coverage {
            Some((report, own)) if own.is_empty() => format!("  coverage: {{ report: {report} }}\n"),
            Some((report, own)) => format!("  coverage: {{ report: {report}, command: {} }}\n", words(own)?),
            None => String::new(),
        };
        let text = format!("test:\n  command: {}\n{coverage}merge:\n  safe: {}\n", words(command)?, words(&scenario.safe)?);
        files.push(("skep.yml".into(), text));
    }
    let bed = Bed::new(&files)?;
    let mut config = scenario.config.clone();
    if !scenario.model.is_empty() {
        bed.write_home("answers.txt", &scenario.model)?;
        let answers = bed.home().join("answers.txt");
        config.push_str(&format!("providers: {{p: {{url: 'script:{}', dialect: anthropic}}}}\n", answers.display()));
        config.push_str("models: {tactical: p/m, operational: p/m}\n");
    }
    if !scenario.client.is_empty() {
        let client = bed.client(&scenario.client)?;
        config.push_str(&format!("brains: {{claude: {{command: ['{}']}}}}\n", client.display()));
        // Nobody works without somebody who pays, though this client asks no model.
        bed.write_home("answers.txt", "say Nobody asks me.\n")?;
        let answers = bed.home().join("answers.txt");
        config.push_str(&format!("providers: {{p: {{url: 'script:{}', dialect: anthropic, free: true}}}}\n", answers.display()));
    }
    if !config.is_empty() {
        bed.write_home("config.yml", &config)?;
    }
    for (index, tool) in scenario.tools.iter().enumerate() {
        bed.write_home(&format!("tools/tool-{index}/tool.yaml"), tool)?;
    }
    let script = bed.home().with_extension("script");
    std::fs::write(&script, &scenario.brain).map_err(|error| error.to_string())?;
    // A restart needs a fresh launcher, and one can only be forked while this process has no thread: so all are forked now.
    let restarts = scenario.steps.iter().filter(|step| step.restarts()).count();
    let launchers = (0..=restarts).map(|_| Launcher::start()).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(play(scenario, &bed, &script, launchers)).map_err(|stop| stop.to_string())
}

async fn play(scenario: &Scenario, bed: &Bed, script: &Path, launchers: Vec<Launcher>) -> Result<String, Stop> {
    let mut story = Story::open(bed, launchers).await?;
    let warnings = match story.trust().await {
        Ok(warnings) => warnings,
        Err(Stop::Refused(no)) => return Ok(format!("not trusted: {}\n", no.reason)),
        Err(stop) => return Err(stop),
    };
    if !scenario.whole {
        story.begin()?;
    }
    // What the operator caps is capped before the task has its turn.
    let ahead = scenario.steps.iter().take_while(|step| step.comes_first()).count();
    for step in &scenario.steps[..ahead] {
        story.take(step).await?;
    }
    let has_brain =
        !scenario.brain.is_empty() || scenario.shape.skill.is_some() || !scenario.model.is_empty() || !scenario.client.is_empty();
    let is_task = scenario.session.is_none() && has_brain;
    if let Some(terms) = &scenario.session {
        story.add_session(scenario, terms, bed.project()).await?;
    } else if is_task {
        story.add(scenario, script).await?;
    }
    for step in &scenario.steps[ahead..] {
        let goes_on = match step {
            ScenarioStep::Session(step) => story.take_session(step, scenario).await,
            step => story.take(step).await,
        };
        if !goes_on? {
            break;
        }
        if is_task && !story.has_task() && matches!(step, ScenarioStep::Answer { .. }) {
            story.add(scenario, script).await?;
        }
    }
    Ok(format!("{warnings}{}", story.told().await?))
}
