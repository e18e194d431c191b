//! What every command is given: where the kernel lives, and where to print.

use crate::command_error::CommandError;
use crate::show::{Line, Page, Screen, kernel, measure, progress, work};
use crate::start;
use jiff::tz::TimeZone;
use serde::Serialize;
use std::convert::Infallible;
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use wire::method::Nothing;
use wire::method::kernel::{KernelNoticesResult, SettingsView};
use wire::method::work::WorkListParams;
use wire::table::{KernelNotices, WorkList};
use wire::{ErrorCode, KernelClient, TaskId};

/// How often long work is asked how far it is.
const COUNT_MS: u64 = 250;

#[derive(Clone, Debug)]
pub struct Console {
    pub home: PathBuf,
    pub json: bool,
    pub out: Screen,
    pub err: Screen,
}

/// Where a command tells of doubts about the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoubtReport {
    Reported,
    /// They are part of its own result.
    InTheResult,
}

/// How a command ends: with its exit code, or with an error, whose code says which exit code that is.
pub type ExitResult = Result<u8, CommandError>;
pub const OK: ExitResult = Ok(0);

/// What came of the wish for a phrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhraseAnswer {
    Right,
    /// Silence is no.
    Empty,
    /// Somebody wanted to say yes, and did not.
    Wrong,
}

impl PhraseAnswer {
    pub fn of(typed: &str, phrase: &str) -> PhraseAnswer {
        match typed.trim() {
            typed if typed == phrase => PhraseAnswer::Right,
            "" => PhraseAnswer::Empty,
            _ => PhraseAnswer::Wrong,
        }
    }
}

impl Console {
    /// Connects to the kernel, which is started if there is none, and reports what is wrong with its journal.
    pub async fn kernel(&self) -> Result<KernelClient, CommandError> {
        let mut client = self.connect().await?;
        self.report_notices(&mut client, DoubtReport::Reported).await?;
        Ok(client)
    }

    /// Reports, once, what the kernel has to say beside any result: doubts that nobody has marked as seen, a crash, and how the operator's own
    /// files stand.
    pub async fn report_notices(&self, client: &mut KernelClient, doubts: DoubtReport) -> Result<(), CommandError> {
        static REPORTED: AtomicBool = AtomicBool::new(false);
        if REPORTED.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let mut notices = client.call::<KernelNotices>(&Nothing {}).await?;
        if doubts == DoubtReport::InTheResult {
            notices.doubts.clear();
        }
        self.print_notices(&notices);
        Ok(())
    }

    /// The same without what the command itself is about.
    pub async fn report_other_notices(&self, client: &mut KernelClient, known: impl FnOnce(&mut SettingsView)) -> Result<(), CommandError> {
        let mut notices = client.call::<KernelNotices>(&Nothing {}).await?;
        if let Some(settings) = &mut notices.settings {
            known(settings);
        }
        let says = |settings: &SettingsView| settings.rejected.is_some() || settings.taken.is_some() || settings.policy_drifts;
        notices.settings = notices.settings.filter(says);
        self.print_notices(&notices);
        Ok(())
    }

    fn print_notices(&self, notices: &KernelNoticesResult) {
        if notices.doubts.is_empty() && notices.crash.is_none() && notices.settings.is_none() && !notices.disk_full {
            return;
        }
        if self.json {
            self.err.json(notices);
        } else {
            self.err.wrapped(&kernel::notices(notices, measure::now_ms(), &TimeZone::system()));
        }
    }

    /// Connects to the kernel without that report, for commands that show it themselves.
    pub async fn connect(&self) -> Result<KernelClient, CommandError> {
        progress::wait(self.err, "starting the kernel", start::connect(&self.home)).await
    }

    /// Prints a result: as a page, through a pager where it is longer than the screen, or as JSON with `--json`. Lines are cut at the edge of a terminal.
    pub fn show<T: Serialize>(&self, result: &T, page: impl FnOnce(&T) -> Page) {
        if self.json { self.out.json(result) } else { self.out.long(&self.out.render_cut(&page(result))) }
    }

    /// The same, and no line is cut.
    pub fn show_uncut<T: Serialize>(&self, result: &T, page: impl FnOnce(&T) -> Page) {
        if self.json { self.out.json(result) } else { self.out.long(&self.out.render_uncut(&page(result))) }
    }

    /// The same, and lines that are too long are wrapped between words.
    pub fn show_wrapped<T: Serialize>(&self, result: &T, page: impl FnOnce(&T) -> Page) {
        if self.json { self.out.json(result) } else { self.out.long(&self.out.render_wrapped(&page(result))) }
    }

    /// Prints a text that a program reads as it is; with `--json` it is a field.
    pub fn print_text(&self, text: &str) {
        if self.json { self.out.json(&serde_json::json!({ "text": text })) } else { self.out.write(text.as_bytes()) }
    }

    /// Prints a remark on stderr, unless with `--json`.
    pub fn note(&self, line: Line) {
        if !self.json {
            self.err.wrapped(&Page(vec![line]));
        }
    }

    pub fn report(&self, error: &CommandError) {
        if self.json { self.err.json(&error.json()) } else { self.err.wrapped(&error.page()) }
    }

    /// Waits for `work` beside a spinner.
    pub async fn wait<F: Future>(&self, label: &str, work: F) -> F::Output {
        progress::wait(self.err, label, work).await
    }

    /// Waits for long work of the kernel's: after a second the spinner says how far it is.
    pub async fn wait_counting<F: Future>(&self, label: &str, task: Option<TaskId>, work: F) -> F::Output {
        let word = Mutex::default();
        tokio::select! {
            output = progress::wait_telling(self.err, label, &word, work) => output,
            never = self.count(task, &word) => match never {},
        }
    }

    /// Keeps how far the kernel's long work is, for as long as anybody waits. Nobody is told why it is not known.
    async fn count(&self, task: Option<TaskId>, word: &Mutex<String>) -> Infallible {
        if self.err.is_lively() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut kernel = start::running(&self.home).await.ok().flatten();
            while let Some(client) = &mut kernel {
                let Ok(now) = client.call::<WorkList>(&WorkListParams { task }).await else { break };
                let far = now.works.first().map(work::how_far).unwrap_or_default();
                *word.lock().unwrap_or_else(PoisonError::into_inner) = far;
                tokio::time::sleep(Duration::from_millis(COUNT_MS)).await;
            }
        }
        std::future::pending().await
    }

    /// Asks a yes-or-no question; only a terminal can answer, and silence is no.
    pub fn confirm(&self, question: &str, flag: &str) -> Result<bool, CommandError> {
        let line = Line::new().strong(question).faint(" [y/N]");
        Ok(matches!(self.ask(&line, question, flag)?.trim(), "y" | "Y" | "yes"))
    }

    /// Asks for a phrase, where a `y` would be too easy: `to undo it all the same, type …`.
    pub fn confirm_typed(&self, aim: &str, phrase: &str, flag: &str) -> Result<PhraseAnswer, CommandError> {
        let line = Line::new().strong(format!("to {aim}, type ")).bad(phrase).plain(":");
        Ok(PhraseAnswer::of(&self.ask(&line, phrase, flag)?, phrase))
    }

    fn ask(&self, line: &Line, question: &str, flag: &str) -> Result<String, CommandError> {
        if !std::io::stdin().is_terminal() || self.json {
            let error = CommandError::new(ErrorCode::BadInput, format!("`{question}` needs an answer"));
            return Err(error.why("there is no terminal to ask").fix(format!("add `{flag}`")));
        }
        self.err.write(line.render(self.err.colour).as_bytes());
        self.err.write(b" ");
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer).map_err(|error| {
            CommandError::new(ErrorCode::BadInput, format!("`{question}` got no answer")).why(error).fix(format!("add `{flag}`"))
        })?;
        // Whoever ends the input instead has not ended the line.
        if !answer.ends_with('\n') {
            self.err.write(b"\n");
        }
        Ok(answer)
    }
}

/// The folder a command works in, absolute and free of links.
pub fn folder(zone: Option<&Path>) -> Result<String, CommandError> {
    let given = zone.unwrap_or(Path::new("."));
    let what = |path: &Path| format!("cannot work in `{}`", path.display());
    let real = given
        .canonicalize()
        .map_err(|error| CommandError::new(ErrorCode::NotFound, what(given)).why(error).fix("name an existing folder with `--zone DIR`"))?;
    if !real.is_dir() {
        return Err(CommandError::new(ErrorCode::BadInput, what(&real)).why("it is not a folder").fix("name a folder with `--zone DIR`"));
    }
    utf8(real)
}

/// A path as text, as it is sent.
pub fn utf8(path: PathBuf) -> Result<String, CommandError> {
    path.into_os_string().into_string().map_err(|path| {
        CommandError::new(ErrorCode::BadInput, format!("cannot name `{}`", path.display()))
            .why("its name is not UTF-8")
            .fix("rename it, or work through a folder with another name")
    })
}
