//! `skep act` and `skep ask`: queue a task.

use crate::command::journal::next_line;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK, folder, utf8};
use crate::record::ParsedRecord;
use crate::show::{Line, Page, Tone, progress, spending, task};
use server::BrainSpec;
use std::convert::Infallible;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use wire::code::{EXIT_FAILED, EXIT_INTERRUPTED};
use wire::limits::INPUT_BYTES_MAX;
use wire::method::journal::RecordFilter;
use wire::method::task::{TaskAddParams, TaskAwaitParams, TaskStatus, TaskView};
use wire::table::{JournalFollow, TaskAdd, TaskAwait};
use wire::{ErrorCode, Event, KernelClient, MergeState, Mode, TaskId};

pub const ACT_EXAMPLES: &str = "\
Examples:
  skep act \"add a --version flag\"
  skep act \"fix the flaky test\" --priority 5
  skep act \"split this module\" --brain native:strategic --record
  skep act \"tidy up\" --brain script:tidy.skep --await
  skep act - < issue.md                      the prompt from a file
  skep act \"port it\" --model strategic

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
    prompt: String,
    /// Which brain does it: native, native:MODEL or script:FILE [default: `brain` in skep.yml, else native]
    #[arg(long, value_name = "BRAIN")]
    brain: Option<String>,
    /// Which model the built-in brain thinks with: a tier, an alias or provider/model
    #[arg(long, value_name = "MODEL", conflicts_with = "brain")]
    model: Option<String>,
    /// Wait for the end; the answer goes to stdout, everything else to stderr
    #[arg(long = "await")]
    wait: bool,
    /// Higher goes first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i64>,
    /// The most calls it may make
    #[arg(long, value_name = "N")]
    max_calls: Option<u64>,
    /// What kind of caller it is, for rules about `caller_tag`; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Record its requests to models, for `skep replay`
    #[arg(long)]
    record: bool,
    /// The repository to work in [default: where you are]
    #[arg(long, value_name = "DIR")]
    zone: Option<PathBuf>,
}

impl ActArgs {
    pub async fn run(self, mode: Mode, console: &Console) -> ExitResult {
        let native = self.model.map(|model| BrainSpec::Native { model: Some(model) }.to_string());
        let params = TaskAddParams {
            path: folder(self.zone.as_deref())?,
            mode,
            prompt: prompt(self.prompt)?,
            brain: self.brain.map(brain).transpose()?.or(native),
            priority: self.priority,
            calls_max: self.max_calls,
            record: self.record,
            tags: self.tags,
        };
        let mut kernel = console.kernel().await?;
        let added = kernel.call::<TaskAdd>(&params).await?;
        if !self.wait {
            console.show(&added, task::queued);
            return OK;
        }
        if !console.json {
            console.err.page(&task::added(&added));
        }
        finish(&mut kernel, added.task, console).await
    }
}

/// Waits for a task's end and prints its answer, and nothing but its answer, on stdout. Ctrl-c ends the waiting, never the work.
async fn finish(kernel: &mut KernelClient, id: TaskId, console: &Console) -> ExitResult {
    let (label, word) = (format!("{id} works"), Mutex::default());
    let params = TaskAwaitParams { task: id, timeout_ms: None };
    let view = tokio::select! {
        view = progress::wait_telling(console.err, &label, &word, kernel.call::<TaskAwait>(&params)) => view?,
        never = listen(id, &word, console) => match never {},
        _ = tokio::signal::ctrl_c() => {
            if console.err.tty {
                progress::clear(console.err);
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
        _ => EXIT_FAILED,
    })
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
    page.push(task::mark(view.state).name(view.task.to_string()).plain(" ").join(task::stand(view)));
    match (view.state, view.merge) {
        (TaskStatus::Parked, Some(MergeState::Proposed)) => page.because("next", &format!("skep diff {0}, then skep merge {0}", view.task)),
        (TaskStatus::Parked, _) => {
            let review = view.review.map(|review| review.to_string()).unwrap_or_default();
            page.because("next", &format!("skep review show {review}, then skep review allow {review} or deny {review}"));
        }
        (TaskStatus::Done, _) => {}
        _ if !summary.is_empty() => page.because("why", summary),
        _ => {}
    }
    console.err.wrapped(&page);
    if worked(view) {
        let mut answer = Page::new();
        answer.block("", Tone::Plain, summary);
        console.out.uncut(&answer);
    }
}

/// The prompt itself, or what stdin holds.
fn prompt(given: String) -> Result<String, CommandError> {
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

/// What `cancel`, `reject` and others say about a task after they changed it.
pub fn changed(view: &TaskView) -> Page {
    Page(vec![task::mark(view.state).name(view.task.to_string()).plain(" ").join(task::stand(view))])
}
