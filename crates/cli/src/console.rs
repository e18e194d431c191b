//! What every command is given: where the kernel lives, and where to print.

use crate::command_error::CommandError;
use crate::home;
use crate::show::{Line, Page, Screen, kernel, progress};
use crate::start;
use serde::Serialize;
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::method::Nothing;
use wire::table::JournalDoubts;
use wire::{ErrorCode, KernelClient};

#[derive(Clone, Debug)]
pub struct Console {
    pub home: PathBuf,
    pub json: bool,
    pub out: Screen,
    pub err: Screen,
}

/// How a command ends: with its exit code, or with an error, whose code says which exit code that is.
pub type ExitResult = Result<u8, CommandError>;
pub const OK: ExitResult = Ok(0);

impl Console {
    /// Connects to the kernel, which is started if there is none, and reports what is wrong with its journal.
    pub async fn kernel(&self) -> Result<KernelClient, CommandError> {
        let mut client = self.connect().await?;
        self.report_doubts(&mut client).await?;
        Ok(client)
    }

    /// Reports, once, what verification found and nobody has marked as seen.
    pub async fn report_doubts(&self, client: &mut KernelClient) -> Result<(), CommandError> {
        static REPORTED: AtomicBool = AtomicBool::new(false);
        if REPORTED.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let found = client.call::<JournalDoubts>(&Nothing {}).await?.doubts;
        let open: Vec<_> = found.into_iter().filter(|doubt| doubt.seen_by.is_none()).collect();
        if open.is_empty() {
            return Ok(());
        }
        if self.json {
            self.err.json(&serde_json::json!({"doubts": open}));
        } else {
            let lines: Vec<String> = open.iter().map(|doubt| format!("{}: {}", doubt.what, doubt.why)).collect();
            self.err.wrapped(&kernel::doubts(&lines));
        }
        Ok(())
    }

    /// Connects to the kernel without that report, for commands that show it themselves.
    pub async fn connect(&self) -> Result<KernelClient, CommandError> {
        let kernel = progress::wait(self.err, "starting the kernel", start::connect(&self.home)).await?;
        static REPORTED: Once = Once::new();
        if let Some(file) = home::newer(&self.home) {
            let text = format!("{file} was changed after the kernel started; it counts after `skep kernel stop`");
            REPORTED.call_once(|| self.note(Line::new().wait("◍ ").plain(text)));
        }
        Ok(kernel)
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

    /// Asks a yes-or-no question; only a terminal can answer, and silence is no.
    pub fn confirm(&self, question: &str, flag: &str) -> Result<bool, CommandError> {
        let line = Line::new().strong(question).faint(" [y/N]");
        Ok(matches!(self.ask(&line, question, flag)?.trim(), "y" | "Y" | "yes"))
    }

    /// Asks for a phrase, where a `y` would be too easy.
    pub fn confirm_by(&self, phrase: &str, flag: &str) -> Result<bool, CommandError> {
        self.confirm_typed("put this in force", phrase, flag)
    }

    /// The same with another aim: `to undo it all the same, type …`.
    pub fn confirm_typed(&self, aim: &str, phrase: &str, flag: &str) -> Result<bool, CommandError> {
        let line = Line::new().strong(format!("to {aim}, type ")).bad(phrase).plain(":");
        Ok(self.ask(&line, phrase, flag)?.trim() == phrase)
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
