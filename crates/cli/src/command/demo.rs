//! `skep demo`: everything once, for real, in a temporary folder.
//!
//! Speaks to its own kernel over `wire` as every other command does; nothing here is faked. The kernel is stopped and the folder
//! removed on every way out (`ending.rs`).

mod ending;
mod performer;
mod presenter;
mod project;

use crate::command::journal::next_line;
use crate::command::journal::page::Pages;
use crate::command::review::answer;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult};
use crate::record::ParsedRecord;
use crate::show::measure::{self, duration_us, now_ms};
use crate::show::transcript::Transcript;
use crate::show::{Line, Page, Tone, call, diff, journal, process, review, task, zone};
use crate::start;
use ending::{DemoFolder, EndSignals};
use jiff::tz::TimeZone;
use performer::Performer;
use presenter::{PersonLeft, Presenter};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Instant;
use wire::code::{EXIT_FAILED, EXIT_INTERRUPTED};
use wire::method::Nothing;
use wire::method::call::CallRunParams;
use wire::method::journal::RecordFilter;
use wire::method::merge::APPLY_TOOL;
use wire::method::review::{ReviewAnswerParams, ReviewShowParams};
use wire::method::task::{TaskAddParams, TaskAwaitParams, TaskIdParams, TaskMergeParams};
use wire::method::zone::{ZoneInitParams, ZoneTrustParams};
use wire::table::{
    CallRun, JournalFollow, JournalVerify, KernelStatus, ProcList, ReviewAnswer, ReviewShow, TaskAdd, TaskAwait, TaskDiff, TaskMerge,
    ZoneInit, ZoneTrust,
};
use wire::{Answer, ClientError, ErrorCode, Event, KernelClient, Mode, ReviewId, TaskId};

/// Records shown of the journal's end.
const TAIL_RECORDS: u64 = 12;

/// See everything once: a real task in a sample project
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep demo\n  skep demo --brain claude   the same task by Claude Code, on the scripted model\n  \
skep demo --keep           leaves the folder, to look around\n  skep demo --fast           without a pause between its parts\n\n\
On a terminal each part waits for a key. Works in a temporary folder with a kernel of its own. Needs git and sh, and a host that `skep doctor` is content with; \
no key, no login and no network, whichever brain does the work.")]
pub struct DemoArgs {
    /// Leave the folder and its kernel's home behind
    #[arg(long)]
    keep: bool,
    /// Do not wait for a key between its parts
    #[arg(long)]
    fast: bool,
    /// Who does the task: the built-in brain, or a vendor's own client on your PATH
    #[arg(long, value_name = "NAME", default_value = "native", value_parser = Performer::NAMES)]
    brain: String,
}

impl DemoArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        project::find_git()?;
        let performer = Performer::find(&self.brain)?;
        // Before there is anything that could be left behind.
        let mut signals = EndSignals::open()?;
        let folder = DemoFolder::make(self.keep)?;
        let console = Console { home: folder.home(), out: console.out.without_pager(), ..console.clone() };
        tokio::select! {
            outcome = play(&console, &folder, performer, self.fast) => match outcome {
                Ok(exit) | Err(DemoStop::Left(PersonLeft(exit))) => Ok(exit),
                Err(DemoStop::Failed(error)) => Err(error),
            },
            () = signals.next() => Ok(EXIT_INTERRUPTED),
        }
    }
}

/// Why the demo ended before its end.
enum DemoStop {
    Left(PersonLeft),
    Failed(CommandError),
}

impl From<PersonLeft> for DemoStop {
    fn from(left: PersonLeft) -> DemoStop {
        DemoStop::Left(left)
    }
}

impl From<CommandError> for DemoStop {
    fn from(error: CommandError) -> DemoStop {
        DemoStop::Failed(error)
    }
}

impl From<ClientError> for DemoStop {
    fn from(error: ClientError) -> DemoStop {
        DemoStop::Failed(error.into())
    }
}

async fn play(console: &Console, folder: &DemoFolder, performer: Performer, fast: bool) -> Result<u8, DemoStop> {
    let project = &folder.project();
    let mut presenter = Presenter::new(console, fast);
    let about = format!("{} does real work on a scripted model: real kernel, real sandbox, real journal", performer.title());
    presenter.title("skep demo", &about);

    presenter.act("A project", "a calculator in sh that can add; nobody taught it to subtract").await?;
    project::write(project)?;
    let path = project.display().to_string();
    presenter.page(Page(vec![Line::new().faint("in ").plain(&path)]));
    presenter.command("sh tests/run.sh");
    presenter.page(said(&project::test(project)?.1));

    presenter.act("A kernel", "one for each user; any command starts it").await?;
    set_model(&console.home, performer)?;
    let asked = Instant::now();
    let mut kernel = console.wait("starting the kernel", start::connect_for(&console.home, folder.kernel_life())).await?;
    let started = elapsed_us(asked);
    let status = kernel.call::<KernelStatus>(&Nothing {}).await?;
    let aside = format!("{}  os pid {}  {}", duration_us(started), status.os_pid, measure::bytes(status.rss_bytes));
    presenter.good("the kernel runs", &aside);

    presenter.act("A policy", "what no rule allows is denied; the files in a project are proposals until you trust them").await?;
    set_policy(&mut kernel, &presenter, project, &path).await?;

    presenter.act("A task", "the brain acts through one door: each call is decided, run in a sandbox and recorded").await?;
    let task = work(&mut kernel, console, &presenter, performer, &path).await?;
    let view = kernel.call::<TaskAwait>(&TaskAwaitParams { task, timeout_ms: None }).await?;
    if view.merge.is_none() {
        let why = view.summary.unwrap_or_else(|| view.state.as_str().to_owned());
        return Err(CommandError::new(ErrorCode::Unsupported, "the demo's task did not end well")
            .why(why)
            .fix("see what this host lacks with `skep doctor`")
            .into());
    }

    presenter.act("The changes", "nothing in the project has changed so far; you look, then you take them").await?;
    let passed = take(&mut kernel, &presenter, project, task).await?;

    presenter.act("What happened", "every process, every decision, in a chain that can be proven").await?;
    presenter.command("skep ps --tree");
    presenter.table(process::list(&kernel.call::<ProcList>(&Nothing {}).await?.processes, now_ms()));
    presenter.blank();
    presenter.command(&format!("skep journal log --limit {TAIL_RECORDS}"));
    // The table is set in by two columns.
    presenter.table(tail(&mut kernel, console.out.columns().map(|columns| columns.saturating_sub(2))).await?);
    presenter.blank();
    presenter.command("skep journal verify");
    let asked = Instant::now();
    let verified = kernel.call::<JournalVerify>(&Nothing {}).await?;
    presenter.page(journal::verdict(&verified, elapsed_us(asked) / 1_000));
    presenter.blank();
    presenter.command("skep call fs.read path=VERSION");
    let params =
        CallRunParams { tool: "fs.read".into(), input: serde_json::json!({"path": "VERSION"}), path, task: None, mode: None, token: None };
    let ran = kernel.call::<CallRun>(&params).await?;
    presenter.page(Page(call::ran("fs.read", &ran).0.into_iter().skip(1).collect()));

    let view = kernel.call::<TaskAwait>(&TaskAwaitParams { task, timeout_ms: None }).await?;
    let well = passed && verified.findings.is_empty();
    if console.json {
        console
            .out
            .json(&serde_json::json!({"ok": well, "brain": performer.name(), "task": view, "journal": verified, "start_us": started}));
    }
    next(&mut presenter, folder, performer).await?;
    Ok(if well { 0 } else { EXIT_FAILED })
}

/// Puts the model's script and the settings that lead to it into the demo's own home.
fn set_model(home: &Path, performer: Performer) -> Result<(), CommandError> {
    let model = home.join("demo.model");
    let written = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(home)
        .and_then(|()| std::fs::write(&model, performer.model()))
        .and_then(|()| std::fs::write(home.join("config.yml"), project::settings(&model)));
    written.map_err(|error| CommandError::new(ErrorCode::Unavailable, "cannot write the demo's settings").why(error))
}

async fn set_policy(kernel: &mut KernelClient, presenter: &Presenter<'_>, project: &Path, path: &str) -> Result<(), CommandError> {
    presenter.command("skep init");
    let init = kernel.call::<ZoneInit>(&ZoneInitParams { path: path.to_owned() }).await?;
    presenter.page(Page(zone::opened(&init).0.into_iter().skip(1).collect()));
    presenter.blank();
    let file = project.join(".skep/policy.yaml");
    let added = std::fs::OpenOptions::new().append(true).open(&file).and_then(|mut file| file.write_all(project::RULE.as_bytes()));
    added.map_err(|error| CommandError::new(ErrorCode::Unavailable, format!("cannot add a rule to `{}`", file.display())).why(error))?;
    presenter.page(Page(vec![Line::new().faint("you add a rule to .skep/policy.yaml, then:")]));
    presenter.command("skep trust");
    let shown = kernel.call::<ZoneTrust>(&ZoneTrustParams { path: path.to_owned(), hash: None, phrase: None }).await?;
    presenter.page(diff::unified(&shown.diff));
    let trusted =
        kernel.call::<ZoneTrust>(&ZoneTrustParams { path: path.to_owned(), hash: Some(shown.hash), phrase: shown.phrase }).await?;
    presenter.page(zone::trusted(&trusted));
    Ok(())
}

/// Queues the task, tells its story as it happens and answers what it asks.
async fn work(
    kernel: &mut KernelClient,
    console: &Console,
    presenter: &Presenter<'_>,
    performer: Performer,
    path: &str,
) -> Result<TaskId, CommandError> {
    presenter.command(&format!("skep act \"{}\" --brain {}", project::PROMPT, performer.name()));
    let params = TaskAddParams {
        new_worker: false,
        placement: wire::TaskPlacement::default(),
        role: None,
        skill: None,
        params: Default::default(),
        tools: None,
        path: path.to_owned(),
        mode: Mode::Act,
        prompt: project::PROMPT.into(),
        brain: Some(performer.name().into()),
        priority: None,
        calls_max: None,
        record: false,
        tags: Vec::new(),
        budget: None,
        discipline: None,
    };
    let added = kernel.call::<TaskAdd>(&params).await?;
    presenter.page(Page(task::added(&added).0.into_iter().skip(1).collect()));
    presenter.blank();
    presenter.command(&format!("skep watch {}", added.task));

    let mut follower = KernelClient::connect(&console.home).await?;
    follower.call::<JournalFollow>(&RecordFilter { task: Some(added.task), after_seq: Some(0), ..RecordFilter::default() }).await?;
    let mut transcript = Transcript::default();
    while let Some(line) = console.wait("the brain works", next_line(&mut follower)).await? {
        let Some(record) = ParsedRecord::parse(&line) else { continue };
        presenter.page(transcript.add(&record));
        match record.event {
            // The merge is the next part of the demo.
            Some(Event::ReviewAsked(e)) if e.tool == APPLY_TOOL => break,
            Some(Event::ReviewAsked(e)) => answer(kernel, presenter, e.review).await?,
            Some(Event::TaskFinished(_) | Event::TaskFailed(_) | Event::TaskCancelled(_) | Event::TaskStopped(_)) => break,
            _ => {}
        }
    }
    Ok(added.task)
}

async fn answer(kernel: &mut KernelClient, presenter: &Presenter<'_>, id: ReviewId) -> Result<(), CommandError> {
    let view = kernel.call::<ReviewShow>(&ReviewShowParams { review: id, full: false }).await?;
    presenter.blank();
    presenter.command(&format!("skep review show {id}"));
    presenter.page(review::detail(&view, now_ms()));
    presenter.blank();
    presenter.command(&format!("skep review allow {id}"));
    let reason = Some("the demo answers for you".to_owned());
    kernel.call::<ReviewAnswer>(&ReviewAnswerParams { reason, ..answer::exactly(id, Answer::Allow) }).await?;
    Ok(())
}

/// Shows and merges the changes; do the project's own tests pass afterwards?
async fn take(kernel: &mut KernelClient, presenter: &Presenter<'_>, project: &Path, task: TaskId) -> Result<bool, CommandError> {
    presenter.command(&format!("skep diff {task}"));
    let changes = kernel.call::<TaskDiff>(&TaskIdParams { task }).await?;
    presenter.page(diff::full(&changes));
    presenter.blank();
    presenter.command(&format!("skep merge {task}"));
    let merged = kernel
        .call::<TaskMerge>(&TaskMergeParams { task, digest: changes.digest, sides: Default::default(), only: Vec::new(), commit: None })
        .await?;
    presenter.page(diff::merged(task, &merged));
    presenter.blank();
    presenter.command("sh tests/run.sh");
    let (passed, text) = project::test(project)?;
    presenter.page(said(&text));
    Ok(passed)
}

async fn tail(kernel: &mut KernelClient, columns: Option<usize>) -> Result<Page, CommandError> {
    let filter = RecordFilter { limit: Some(TAIL_RECORDS), reverse: true, ..RecordFilter::default() };
    let mut lines = Pages::new(filter).all(kernel).await?;
    lines.reverse();
    let records: Vec<_> = lines.iter().filter_map(|line| ParsedRecord::parse(line)).collect();
    Ok(journal::log(&records, now_ms(), &TimeZone::system(), columns))
}

/// The two things to try next, in a repository of the reader's own.
const NEXT: [(&str, &str); 2] = [
    ("skep init", "finds your tests and writes a policy that you can read"),
    ("skep act \"add a test for …\"", "real work; `skep setup` finds a model for it"),
];

async fn next(presenter: &mut Presenter<'_>, folder: &DemoFolder, performer: Performer) -> Result<(), PersonLeft> {
    presenter.act("Next", "two things to try in a repository of your own: cd YOUR/REPOSITORY").await?;
    let rows = NEXT.iter().map(|(command, about)| vec![Line::new().name(*command), Line::new().faint(*about)]);
    presenter.page(crate::show::table(rows.collect()));
    if let Some(line) = performer.second_act() {
        presenter.page(Page(vec![Line::new(), line]));
    }
    if folder.is_kept() {
        let (project, home) = (folder.project(), folder.home());
        presenter.page(Page(vec![
            Line::new(),
            Line::new().faint("kept: ").plain(format!("cd {}; export SKEP_HOME={}", project.display(), home.display())),
        ]));
    }
    presenter.blank();
    Ok(())
}

fn said(text: &str) -> Page {
    let mut page = Page::new();
    page.block("  ", Tone::Faint, text);
    page
}

fn elapsed_us(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
