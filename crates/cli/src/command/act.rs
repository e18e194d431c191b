//! `skep act` and `skep ask`: queue a task.

use crate::command::budget;
use crate::command::config;
use crate::command::journal::next_line;
use crate::command::review::ask::{self, AnswerOutcome, Asker};
use crate::command::talk::{self, TalkArgs};
use crate::command::watch::WatchArgs;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK, utf8};
use crate::full_disk;
use crate::interrupt::Interrupt;
use crate::place::{AbsentTree, PlaceArgs};
use crate::record::ParsedRecord;
use crate::show::progress::Footer;
use crate::show::{Line, Page, Tone, progress, spending, task};
use crate::units;
use clap::builder::NonEmptyStringValueParser;
use server::BrainSpec;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use wire::code::{EXIT_FAILED, EXIT_INTERRUPTED};
use wire::limits::INPUT_BYTES_MAX;
use wire::method::journal::RecordFilter;
use wire::method::task::{TaskAddParams, TaskAwaitParams, TaskContinueResult, TaskStatus, TaskView};
use wire::table::{JournalFollow, TaskAdd, TaskAwait};
use wire::{Budget, Discipline, ErrorCode, Event, KernelClient, MergeState, Mode, RetryCause, TaskId, TaskPlacement};

pub const ACT_EXAMPLES: &str = "\
Examples:
  skep act \"add a --version flag\"
  skep act \"fix the flaky test\" --priority 5
  skep act \"split this module\" --brain native:strategic --record
  skep act \"fix the build\" --brain claude     a vendor's client: `skep brain`
  skep act \"tidy up\" --brain script:tidy.skep --await
  skep act - < issue.md                      the prompt from a file
  skep act \"port it\" --model strategic --budget 2
  skep act \"write the docs\" --new            beside other work, not after it
  skep act \"research it\" --who researcher++  one more worker of a role
  skep act \"hotfix\" --when disrupt           at once; the rest goes on after it
  skep act \"then test\" --after task-3        when that is done
  skep act \"try it\" --zone @feat/auth        in the work tree of a branch
  skep act --skill code.review --param what=src   a skill of a role
  skep act \"look around\" --tools fs.*,git.log   with these tools and no others
  skep act \"compare prices\" --agents        with agents: `skep help tree`
  skep act \"add a flag\" --discipline strict   tests first

Changes stay in the task's workspace until you take them: `skep diff TASK`, `skep merge TASK`.

A script, one move a line (a refused call does not stop it):
  say TEXT
  call TOOL key=value key=\"quoted\" key=[\"json\"]
  call fs.write path=a.txt content=<<END
  …
  END
  done TEXT";

pub const ASK_EXAMPLES: &str = "\
Examples:
  skep ask \"where are tokens checked?\"
  skep ask \"list the public API\" --await > api.md";

#[derive(Debug, clap::Args)]
pub struct ActArgs {
    /// What to do, in your own words; `-` reads it from stdin
    #[arg(required_unless_present = "skill", default_value = "", hide_default_value = true)]
    prompt: String,
    /// A skill of one of the project's roles does it; `skep list skills` shows them
    #[arg(long, value_name = "SKILL")]
    skill: Option<String>,
    /// A parameter of the skill, as NAME=VALUE; may be given several times
    #[arg(long = "param", value_name = "NAME=VALUE", requires = "skill", value_parser = param)]
    params: Vec<(String, String)>,
    /// The only tools that it may use: fs.read,fs.* takes away all others
    #[arg(long, value_name = "TOOL,…", value_delimiter = ',')]
    tools: Option<Vec<String>>,
    /// Have agents work for it: the built-in brain gets the tools of the process tree
    #[arg(long)]
    agents: bool,
    /// Which brain does it: claude, codex:MODEL, native, native:MODEL, script:FILE or a name of yours [default: `brain` in skep.yml or config.yml]
    #[arg(long, value_name = "BRAIN", value_parser = NonEmptyStringValueParser::new())]
    brain: Option<String>,
    /// Which model the built-in brain thinks with: a tier, an alias or provider/model
    #[arg(long, value_name = "MODEL", conflicts_with = "brain", value_parser = NonEmptyStringValueParser::new())]
    model: Option<String>,
    /// Wait for the end; the answer goes to stdout, everything else to stderr
    #[arg(long = "await")]
    wait: bool,
    /// Higher goes first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i64>,
    /// The most calls it may make
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_calls: Option<u64>,
    /// Dollars that it may spend on models: 2 or 0.50
    #[arg(long, value_name = "DOLLARS", value_parser = budget::micros, allow_hyphen_values = true)]
    budget: Option<u64>,
    /// What kind of caller it is, for rules about `caller_tag`; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Record its requests to models, for `skep replay`
    #[arg(long)]
    record: bool,
    /// Have another worker do it at once, not behind what the first one does
    #[arg(long)]
    new: bool,
    /// Who does it: [role][.n][@brain][++], such as worker.2, researcher, @codex or researcher++ for one more [default: the first worker]
    #[arg(long, value_name = "WHO", conflicts_with = "new")]
    who: Option<String>,
    /// Before all that is queued
    #[arg(long, conflicts_with = "priority")]
    prioritize: bool,
    /// `disrupt` has the worker leave what it does, do this, and go on with that
    #[arg(long, value_name = "WHEN", value_enum, default_value = "enqueue", hide_default_value = true)]
    when: When,
    /// Not before this task is done; may be given several times
    #[arg(long, value_name = "TASK")]
    after: Vec<TaskId>,
    /// The longest that it may be worked on: 30s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = units::duration_ms)]
    timeout: Option<u64>,
    /// How strictly tests come first: strict, explore or debug [default: SKEP_DISCIPLINE, skep.yml, config.yml]
    #[arg(long, value_name = "MODE", value_parser = discipline_mode)]
    discipline: Option<Discipline>,
    /// Follow it as `skep watch` does
    #[arg(long, conflicts_with_all = ["talk", "wait"])]
    watch: bool,
    /// Talk with the worker when it has done it
    #[arg(long, conflicts_with = "wait")]
    talk: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// A mode of test-first.
pub fn discipline_mode(word: &str) -> Result<Discipline, String> {
    Discipline::parse(word).ok_or_else(|| "there are strict, explore and debug".to_owned())
}

/// The mode that was named with the command, or else in the environment.
pub fn discipline(named: Option<Discipline>) -> Result<Option<Discipline>, CommandError> {
    let Some(word) = std::env::var("SKEP_DISCIPLINE").ok().filter(|word| named.is_none() && !word.is_empty()) else { return Ok(named) };
    let wrong = |why: String| {
        CommandError::new(ErrorCode::BadInput, format!("SKEP_DISCIPLINE is `{word}`: {why}")).fix("unset it, or set it to one of them")
    };
    discipline_mode(&word).map(Some).map_err(wrong)
}

/// When a task is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum When {
    /// When it is its turn
    Enqueue,
    /// At once
    Disrupt,
}

/// The calls of the process tree, as tool lists have them.
const TREE_CALLS: [&str; 4] = ["proc.*", "message.*", "artifact.*", "escalation.*"];

/// The tools of a task, with those of the process tree if it is to have agents.
fn tools(listed: Option<Vec<String>>, agents: bool) -> Option<Vec<String>> {
    if !agents {
        return listed;
    }
    let listed = listed.unwrap_or_else(|| vec![wire::EVERY_TOOL.to_owned()]);
    Some(listed.into_iter().chain(TREE_CALLS.map(str::to_owned)).collect())
}

impl ActArgs {
    pub async fn run(self, mode: Mode, console: &Console) -> ExitResult {
        if self.talk {
            talk::check_terminal()?;
        }
        let (brain_named, model) = chosen(self.brain, self.model);
        let native = model.map(|model| BrainSpec::Native { model: Some(model) }.to_string());
        let params = TaskAddParams {
            path: self.place.folder(console, AbsentTree::Make).await?,
            mode,
            prompt: prompt(self.prompt)?,
            brain: brain_named.map(brain).transpose()?.or(native),
            priority: self.priority,
            calls_max: self.max_calls,
            record: self.record,
            tags: self.tags,
            budget: self.budget.map(|micros| Budget { micros: Some(micros), ..Budget::default() }),
            new_worker: self.new,
            role: None,
            skill: self.skill,
            params: params(self.params)?,
            tools: tools(self.tools, self.agents),
            placement: TaskPlacement {
                who: self.who.map(worker).transpose()?,
                prioritize: self.prioritize,
                disrupt: self.when == When::Disrupt,
                after: self.after,
                timeout_ms: self.timeout,
            },
            discipline: discipline(self.discipline)?,
        };
        let path = params.path.clone();
        let mut kernel = console.kernel().await?;
        let added = kernel.call::<TaskAdd>(&params).await?;
        if self.watch || self.talk {
            if !console.json {
                console.err.page(&task::added(&added));
            }
            return match self.watch {
                true => WatchArgs::task(added.task).run(console).await,
                false => {
                    begun(&mut kernel, added.task).await?;
                    TalkArgs::with_worker(path, added.process, mode).run(console).await
                }
            };
        }
        if !self.wait {
            console.show_wrapped(&added, task::queued);
            return OK;
        }
        let interrupt = Interrupt::open()?;
        if !console.json {
            console.err.page(&task::added(&added));
        }
        finish(&mut kernel, added.task, interrupt, console).await
    }
}

/// The brain and the model that flags name; without either, those of the environment.
pub fn chosen(brain: Option<String>, model: Option<String>) -> (Option<String>, Option<String>) {
    match (brain, model) {
        (None, None) => match config::from_environment("brain") {
            Some(brain) => (Some(brain), None),
            None => (None, config::from_environment("model")),
        },
        given => given,
    }
}

/// Waits until somebody works on a task: a talk that is asked for before that goes first.
async fn begun(kernel: &mut KernelClient, id: TaskId) -> Result<(), CommandError> {
    let kinds = vec!["task.".into()];
    kernel.call::<JournalFollow>(&RecordFilter { task: Some(id), kinds, after_seq: Some(0), ..RecordFilter::default() }).await?;
    while let Some(line) = next_line(kernel).await? {
        let event = ParsedRecord::parse(&line).and_then(|record| record.event);
        if event.is_some_and(|event| !matches!(event.kind(), "task.queued" | "task.scheduled" | "task.tagged" | "task.narrowed")) {
            return Ok(());
        }
    }
    Ok(())
}

/// `NAME=VALUE`.
fn param(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn params(given: Vec<(String, String)>) -> Result<BTreeMap<String, String>, CommandError> {
    let mut all = BTreeMap::new();
    for (name, value) in given {
        if all.insert(name.clone(), value).is_some() {
            return Err(CommandError::new(ErrorCode::BadInput, format!("the parameter `{name}` is given twice")).fix("give it once"));
        }
    }
    Ok(all)
}

/// Waits for a task that goes on, as `act --await` does for a new one.
pub async fn await_end(kernel: &mut KernelClient, continued: &TaskContinueResult, console: &Console) -> ExitResult {
    let interrupt = Interrupt::open()?;
    if !console.json {
        console.err.page(&task::taken_up(continued));
    }
    finish(kernel, continued.task.task, interrupt, console).await
}

/// Waits for a task's end and prints its answer, and nothing but its answer, on stdout. Ctrl-c ends the waiting, never the work.
async fn finish(kernel: &mut KernelClient, id: TaskId, mut interrupt: Interrupt, console: &Console) -> ExitResult {
    let mut asker = Asker::open(console).await?;
    let asking = Cell::new(None);
    let work = async {
        loop {
            let view = settled(kernel, id, console).await?;
            // A question of the work is answered here; whether to take the changes is the next step.
            let question = view.review.filter(|_| view.state == TaskStatus::Parked && view.merge != Some(MergeState::Proposed));
            let asked = match (question, &mut asker) {
                (Some(review), Some(asker)) => {
                    asking.set(Some(review));
                    asker.ask(review).await?
                }
                _ => AnswerOutcome::Later,
            };
            asking.set(None);
            if asked == AnswerOutcome::Later {
                return Ok::<TaskView, CommandError>(view);
            }
        }
    };
    let view = tokio::select! {
        view = work => view?,
        () = interrupt.pressed() => {
            if let Some(review) = asking.get() {
                ask::interrupted(review, console);
                return Ok(EXIT_INTERRUPTED);
            }
            if console.err.is_lively() {
                Footer::wipe(console.err);
            }
            let mut page = Page(vec![Line::new().name(id.to_string()).plain(" works on")]);
            page.because("next", &format!("skep watch {id}, or skep cancel {id}"));
            console.err.page(&page);
            return Ok(EXIT_INTERRUPTED);
        }
    };
    if console.json {
        console.out.json(&view);
    } else {
        tell(&view, console);
    }
    Ok(match view.state {
        _ if worked(&view) => 0,
        TaskStatus::Parked => ErrorCode::Pending.exit(),
        TaskStatus::Stopped => stop_code(view.stopped_by),
        _ => EXIT_FAILED,
    })
}

/// The exit code of a wait for a task that stopped.
pub fn stop_code(cause: Option<RetryCause>) -> u8 {
    match cause {
        Some(RetryCause::Time) => ErrorCode::Timeout.exit(),
        Some(RetryCause::Budget | RetryCause::Calls) => ErrorCode::Exhausted.exit(),
        Some(RetryCause::Model | RetryCause::After | RetryCause::Fault) | None => EXIT_FAILED,
    }
}

/// The exit code of a session that failed because this limit of its own is used up, such as `max_tokens`.
pub fn limit_code(limit: &str) -> u8 {
    match limit {
        "max_duration_ms" => ErrorCode::Timeout.exit(),
        "max_tokens" | "max_cost_micros" => ErrorCode::Exhausted.exit(),
        _ => EXIT_FAILED,
    }
}

/// The task once it has ended or waits for a person.
async fn settled(kernel: &mut KernelClient, id: TaskId, console: &Console) -> Result<TaskView, CommandError> {
    let (label, word) = (format!("{id} works"), Mutex::default());
    let params = TaskAwaitParams { task: id, timeout_ms: None };
    tokio::select! {
        view = progress::wait_telling(console.err, &label, &word, kernel.call::<TaskAwait>(&params)) => Ok(view?),
        never = listen(id, &word, console) => match never {},
        never = full_disk::report(console, &word) => match never {},
    }
}

/// Keeps the last line that the brain said, or what it waits for; for as long as anybody waits.
async fn listen(id: TaskId, word: &Mutex<String>, console: &Console) -> Infallible {
    let kinds = vec!["brain.said".into(), "budget.asked".into(), "call.admitted".into()];
    let filter = RecordFilter { task: Some(id), kinds, ..RecordFilter::default() };
    let say = |text: String| *word.lock().unwrap_or_else(PoisonError::into_inner) = text;
    // Without this the spinner turns as well, only without a word.
    if let Ok(mut kernel) = console.kernel().await
        && kernel.call::<JournalFollow>(&filter).await.is_ok()
    {
        while let Ok(Some(line)) = next_line(&mut kernel).await {
            match ParsedRecord::parse(&line).and_then(|record| record.event) {
                Some(Event::BrainSaid(said)) => {
                    if let Some(last) = said.text.lines().rfind(|line| !line.trim().is_empty()) {
                        say(format!("› {last}"));
                    }
                }
                Some(Event::BudgetAsked(asked)) if console.err.tty => say(format!("◍ {}", spending::asked(&asked))),
                Some(Event::BudgetAsked(asked)) => console.note(Line::new().wait("◍ ").plain(spending::asked(&asked))),
                Some(_) if word.lock().is_ok_and(|word| word.starts_with('◍')) => say(String::new()),
                _ => {}
            }
        }
    }
    std::future::pending().await
}

/// Has the brain done its work? Whether to take the changes is the person's next step and no failure of this one.
fn worked(view: &TaskView) -> bool {
    view.state == TaskStatus::Done || (view.state == TaskStatus::Parked && view.merge == Some(MergeState::Proposed))
}

fn tell(view: &TaskView, console: &Console) {
    let mut page = Page::new();
    let summary = view.summary.as_deref().unwrap_or_default();
    page.push(task::sign(view).name(view.task.to_string()).plain(" ").join(task::stand(view)));
    if !worked(view) && view.state.at_rest() && !summary.is_empty() {
        page.because("why", summary);
    }
    for (artifact, why) in &view.artifact_errors {
        page.because("warn", &format!("no {artifact}: {why}"));
    }
    if let Some(kept) = task::kept_files(view) {
        page.because("kept", &kept);
    }
    if let Some(next) = task::next_step(view) {
        page.because("next", &next);
    }
    console.err.wrapped(&page);
    if worked(view) {
        let mut answer = Page::new();
        answer.block("", Tone::Plain, summary);
        console.out.uncut(&answer);
    }
}

/// The prompt itself, or what stdin holds.
pub fn prompt(given: String) -> Result<String, CommandError> {
    if given != "-" {
        return Ok(given);
    }
    let mut text = String::new();
    let read = std::io::stdin().take(INPUT_BYTES_MAX as u64 + 1).read_to_string(&mut text);
    read.map_err(|error| {
        CommandError::new(ErrorCode::BadInput, "cannot read the prompt from stdin").why(error).fix("give it as UTF-8 text")
    })?;
    if text.len() > INPUT_BYTES_MAX {
        return Err(CommandError::new(ErrorCode::TooLarge, format!("the prompt on stdin is longer than {INPUT_BYTES_MAX} bytes"))
            .fix("put what is long into a file of the project, and name that file in the prompt"));
    }
    Ok(text.trim_end().to_owned())
}

/// A script is named relative to where the person stands; the kernel stands elsewhere.
pub fn brain(brain: String) -> Result<String, CommandError> {
    // What is no brain, the kernel refuses with a list of those there are.
    let Ok(BrainSpec::Script(file)) = BrainSpec::parse(&brain) else { return Ok(brain) };
    let path = PathBuf::from(&file).canonicalize().map_err(|error| {
        CommandError::new(ErrorCode::NotFound, format!("cannot read the script `{file}`"))
            .why(error)
            .fix("name an existing file after `script:`")
    })?;
    Ok(BrainSpec::Script(utf8(path)?).to_string())
}

/// A worker's address, with a script that it names as the kernel finds it.
pub fn worker(who: String) -> Result<String, CommandError> {
    let (rest, plus) = who.strip_suffix("++").map_or((who.as_str(), ""), |rest| (rest, "++"));
    match rest.split_once('@') {
        Some((role, name)) => Ok(format!("{role}@{}{plus}", brain(name.to_owned())?)),
        None => Ok(who),
    }
}

/// What `cancel`, `reject` and others say about a task after they changed it.
pub fn changed(view: &TaskView) -> Page {
    let line = task::sign(view).name(view.task.to_string()).plain(" ").join(task::stand(view));
    Page(vec![match task::kept(view) {
        Some(kept) => line.plain(format!("; {kept}")),
        None => line,
    }])
}
