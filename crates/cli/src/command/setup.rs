//! `skep setup`: from keys, model servers and vendors' clients that are there to a `config.yml` that works.
//!
//! Looks, shows what it would write, asks once, writes, asks a model and each client that works for one word. **Invariant.** No key is ever printed or written into
//! `config.yml`, and nothing that stands in that file is changed or lost.

mod add_brain;
mod config;
mod find;

pub use add_brain::add_brain;
pub use find::on_path;

use crate::command::brain::{self, BrainTrial};
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::show::brain::CLIENTS;
use crate::show::{Line, setup as page};
use config::{ConfigAdditions, ConfigEdit};
use find::{FoundKey, FoundProvider};
use serde::Serialize;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use wire::code::EXIT_FAILED;
use wire::method::Nothing;
use wire::method::model::{ModelTryParams, ModelTryResult};
use wire::table::{KernelStatus, ModelTry};
use wire::{BrainReport, ErrorCode, KernelClient, PreflightCode};

/// Find keys, model servers and clients; write config.yml
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  skep setup                                 looks, shows what it found, asks
  skep setup --yes                           without asking
  skep setup --only ollama                   of what it finds, only this
  skep setup --server http://127.0.0.1:9000  a model server on another port
  skep setup --json                          what it would write; writes nothing

It looks for ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY (or GOOGLE_API_KEY) and OPENROUTER_API_KEY, for Ollama, vLLM and LM Studio \
on this machine, and in your keyring (secret-tool, pass, security); and for claude, codex, opencode and gemini on your PATH. A subscription that \
claude or codex is logged in with serves that client alone. A key from a variable is copied into a file that only you can read, \
because the kernel runs on when this shell is gone; `--key env` leaves it where it is.")]
pub struct SetupArgs {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Of what is found, only this provider; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// A model server on this machine that speaks OpenAI's Chat Completions
    #[arg(long, value_name = "URL")]
    server: Vec<String>,
    /// Where a key from a variable is kept: a private file, or the variable itself
    #[arg(long, value_name = "WHERE", default_value = "file")]
    key: KeyKept,
    /// Make no trial request, and ask no client for a word
    #[arg(long)]
    no_trial: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum KeyKept {
    File,
    Env,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub struct SetupReport {
    pub found: Vec<FoundView>,
    /// The file.
    pub config: PathBuf,
    /// Lines that it gets, as they are written; empty when nothing is new.
    pub adds: String,
    /// They must be added by hand: the file is written in a way that cannot be added to.
    pub by_hand: bool,
    /// Files that get a key.
    pub keys: Vec<KeyCopy>,
    pub written: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<ModelTryResult>,
    /// Vendors' clients, as they are after it.
    pub clients: Vec<BrainReport>,
    /// The brain that tasks have from now on that name none, where it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brain: Option<String>,
    pub brain_trials: Vec<BrainTrial>,
    /// Clients that gave no answer, and why.
    pub brain_failures: Vec<BrainFailure>,
}

/// A client that gave no answer.
#[derive(Debug, Serialize)]
pub struct BrainFailure {
    pub brain: String,
    pub why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// What was found, without its key.
#[derive(Debug, Serialize)]
pub struct FoundView {
    pub provider: String,
    pub from: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// `config.yml` has a provider of this name.
    pub known: bool,
}

#[derive(Debug, Serialize)]
pub struct KeyCopy {
    pub variable: String,
    pub file: PathBuf,
}

impl SetupArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        // First, so that a file that is broken already is told as that.
        let mut kernel = console.kernel().await?;
        let mut found = console.wait("looking for keys and model servers", find::all(&self.server)).await?;
        let clients = clients(&mut kernel, console).await?;
        let elsewhere = elsewhere(&clients);
        let usable: Vec<&str> = clients
            .iter()
            .filter(|report| is_usable(report) || elsewhere.iter().any(|(name, _)| *name == report.name))
            .map(|report| report.name.as_str())
            .collect();
        found.extend(find::logins(|client| usable.contains(&client)));
        let found: Vec<FoundProvider> = found.into_iter().filter(|found| self.only.is_empty() || self.only.contains(&found.name)).collect();
        let file = console.home.join("config.yml");
        let current = read(&file)?;
        let known = config::providers(&current).map_err(|why| broken(&file, &why))?;
        let is_there = |name: &str| {
            let client = name.strip_suffix("-login").unwrap_or(name);
            found.iter().any(|found| found.name == name) || known.iter().any(|known| known == name) || usable.contains(&client)
        };
        let missing = self.only.iter().find(|name| !is_there(name));
        if missing.is_some() || (found.is_empty() && known.is_empty()) {
            return Err(nothing(missing.or(self.only.first()), &clients));
        }
        let fresh: Vec<&FoundProvider> = found.iter().filter(|found| !known.contains(&found.name)).collect();
        let keys = self.copies(&fresh, console);
        let additions = ConfigAdditions::of(&fresh, |found| self.key_of(found, console));
        let has_default = additions.has_tiers() || config::has_default(&current).map_err(|why| broken(&file, &why))?;
        let brain = if has_default { None } else { only_client(&clients, &usable, &fresh) };
        let additions = elsewhere
            .iter()
            .fold(additions.default_brain(brain), |additions, (name, program)| additions.brain(name, std::slice::from_ref(program), None));
        let merged = config::merge(&current, &additions).map_err(|why| broken(&file, &why))?;
        let mut report = SetupReport {
            found: found.iter().map(|found| FoundView { known: known.contains(&found.name), ..found.view() }).collect(),
            config: file.clone(),
            adds: additions.text(&current),
            by_hand: matches!(merged, ConfigEdit::ByHand),
            keys,
            written: false,
            trial: None,
            brain: brain.map(str::to_owned),
            clients: clients.clone(),
            brain_trials: Vec::new(),
            brain_failures: Vec::new(),
        };
        if console.json && !self.yes {
            console.out.json(&report);
            return OK;
        }
        if !console.json {
            console.out.wrapped(&page::plan(&report));
        }
        if let ConfigEdit::ByHand = merged {
            return Err(CommandError::new(ErrorCode::BadInput, format!("`{}` cannot be added to", file.display()))
                .why("its `providers` or `models` stand in one line")
                .fix("add the lines above by hand; they count at once"));
        }
        if let ConfigEdit::Text(text) = &merged {
            if !self.yes && !console.confirm("write this?", "--yes")? {
                console.note(Line::new().faint("nothing was written"));
                return OK;
            }
            self.write(&fresh, &file, text, console)?;
            if let Some(why) = rejected(console).await? {
                restore(&file, &current)?;
                return Err(CommandError::new(ErrorCode::BadInput, "the kernel does not take what was to be written")
                    .why(why)
                    .fix("config.yml is as it was before; add what you need by hand, see `skep help models`"));
            }
            report.written = true;
        }
        if !self.no_trial {
            self.try_out(&fresh, &found, &mut report, console).await?;
        }
        console.show_wrapped(&report, page::done);
        let is_broken = report.brain_failures.iter().any(|failure| Some(&failure.brain) == report.brain.as_ref());
        Ok(if is_broken { EXIT_FAILED } else { 0 })
    }

    /// One word from the built-in brain's model, if it has one, and from each client that works.
    async fn try_out(
        &self,
        fresh: &[&FoundProvider],
        found: &[FoundProvider],
        report: &mut SetupReport,
        console: &Console,
    ) -> Result<(), CommandError> {
        let mut kernel = console.connect().await?;
        report.clients = clients(&mut kernel, console).await?;
        let ready: Vec<String> = report.clients.iter().filter(|client| client.is_ready()).map(|client| client.name.clone()).collect();
        // One that was found is tried by its name: another may be the default.
        let named = fresh.iter().copied().chain(found).find(|found| !found.is_login());
        let model = named.map(|found| format!("{}/{}", found.name, found.models[1]));
        // Where only clients can ask a model, there is no other to be asked.
        if model.is_some() || ready.is_empty() || native_works(&mut kernel, console).await? {
            let tried = console.wait("asking for one word", kernel.call::<ModelTry>(&ModelTryParams { model })).await;
            report.trial = Some(tried.map_err(|error| failed(error.into(), report))?);
        }
        let is_wanted =
            |client: &String| self.only.is_empty() || self.only.iter().any(|only| only.strip_suffix("-login").unwrap_or(only) == client);
        for client in ready.iter().filter(|client| is_wanted(client)) {
            match brain::run_trial(&mut kernel, client, console).await {
                Ok(trial) => report.brain_trials.push(trial),
                Err(error) => {
                    let why = error.why.unwrap_or(error.what);
                    report.brain_failures.push(BrainFailure { brain: client.clone(), why, fix: error.fix });
                }
            }
        }
        Ok(())
    }

    /// How `config.yml` names the key.
    fn key_of(&self, found: &FoundProvider, console: &Console) -> Option<config::KeyName> {
        Some(match (&found.key, self.key) {
            (FoundKey::None, _) => return None,
            (FoundKey::Keyring(command), _) => config::KeyName::Keyring(command.clone()),
            (FoundKey::Login(client), _) => config::KeyName::Login(client),
            (FoundKey::Variable { name, .. }, KeyKept::Env) => config::KeyName::Env((*name).to_owned()),
            (FoundKey::Variable { .. }, KeyKept::File) => config::KeyName::File(key_file(&console.home, &found.name)),
        })
    }

    fn copies(&self, fresh: &[&FoundProvider], console: &Console) -> Vec<KeyCopy> {
        let copy = |found: &&FoundProvider| match (&found.key, self.key) {
            (FoundKey::Variable { name, .. }, KeyKept::File) => {
                Some(KeyCopy { variable: (*name).to_owned(), file: key_file(&console.home, &found.name) })
            }
            _ => None,
        };
        fresh.iter().filter_map(copy).collect()
    }

    /// Keys first, so that the file never names one that is not there.
    fn write(&self, fresh: &[&FoundProvider], file: &Path, text: &str, console: &Console) -> Result<(), CommandError> {
        for found in fresh {
            if let (FoundKey::Variable { value, .. }, KeyKept::File) = (&found.key, self.key) {
                write_private(&key_file(&console.home, &found.name), value.reveal())?;
            }
        }
        write_private(file, text)
    }
}

/// The vendors' clients as the kernel sees them.
async fn clients(kernel: &mut KernelClient, console: &Console) -> Result<Vec<BrainReport>, CommandError> {
    let mut brains = brain::reports(kernel, None, console).await?;
    brains.retain(|report| CLIENTS.contains(&report.name.as_str()));
    Ok(brains)
}

async fn native_works(kernel: &mut KernelClient, console: &Console) -> Result<bool, CommandError> {
    Ok(brain::reports(kernel, Some("native"), console).await?.iter().all(BrainReport::is_ready))
}

/// Is it there, and does it lack at most somebody who pays?
fn is_usable(report: &BrainReport) -> bool {
    report.is_ready() || report.problem.as_ref().is_some_and(|problem| problem.code == PreflightCode::NotAuthenticated)
}

/// Clients on the PATH of this shell that the kernel does not find on its own.
fn elsewhere(clients: &[BrainReport]) -> Vec<(String, String)> {
    let lost = clients.iter().filter(|report| report.problem.as_ref().is_some_and(|problem| problem.code == PreflightCode::NotInstalled));
    lost.filter_map(|report| Some((report.name.clone(), find::on_path(&report.name)?.to_str()?.to_owned()))).collect()
}

/// The one client that will work with what is written; none where it is several or none.
fn only_client<'a>(clients: &'a [BrainReport], usable: &[&str], fresh: &[&FoundProvider]) -> Option<&'a str> {
    let is_paid = |report: &BrainReport| report.is_ready() || fresh.iter().any(|found| found.serves(&report.name));
    let mut able = clients.iter().filter(|report| usable.contains(&report.name.as_str()) && is_paid(report));
    able.next().filter(|_| able.next().is_none()).map(|report| report.name.as_str())
}

/// Beside the kernel's own keys, in the home that no room sees.
fn key_file(home: &Path, provider: &str) -> PathBuf {
    home.join("keys").join("providers").join(provider)
}

fn read(file: &Path) -> Result<String, CommandError> {
    match yaml::read_file(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(CommandError::new(ErrorCode::BadConfig, format!("cannot read `{}`", file.display()))
            .why(error)
            .fix("put a text file there, or move it away")),
    }
}

fn restore(file: &Path, before: &str) -> Result<(), CommandError> {
    if before.is_empty() {
        return std::fs::remove_file(file).map_err(|error| unwritten(file, error));
    }
    write_private(file, before)
}

/// Replaces a file in one step; it is its owner's alone from its first byte on.
fn write_private(file: &Path, text: &str) -> Result<(), CommandError> {
    let fail = |error: std::io::Error| unwritten(file, error);
    let folder = file.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(fail)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let beside = folder.join(format!(".{name}.new"));
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fail(error)),
        _ => {}
    }
    let mut new = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).map_err(fail)?;
    new.write_all(text.as_bytes()).and_then(|()| new.sync_all()).map_err(fail)?;
    std::fs::rename(&beside, file).map_err(fail)?;
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(fail)
}

fn unwritten(file: &Path, error: std::io::Error) -> CommandError {
    CommandError::new(ErrorCode::Internal, format!("cannot write `{}`", file.display()))
        .why(error)
        .fix("look at the folder's owner and mode, and at the disk")
}

/// Why the kernel does not take the file as it is now. A new connection makes it look.
async fn rejected(console: &Console) -> Result<Option<String>, CommandError> {
    let mut kernel = crate::start::connect(&console.home).await?;
    let rejected = kernel.call::<KernelStatus>(&Nothing {}).await?.settings_rejected;
    // Who wrote the file need not be told by the next command that it changed.
    console.report_other_notices(&mut kernel, |settings| settings.taken = None).await?;
    Ok(rejected)
}

fn broken(file: &Path, why: &str) -> CommandError {
    CommandError::new(ErrorCode::BadInput, format!("`{}` cannot be read", file.display())).why(why).fix("mend the file first")
}

fn nothing(only: Option<&String>, clients: &[BrainReport]) -> CommandError {
    let what = match only {
        Some(name) => format!("nothing was found for `{name}`"),
        None => "no key and no model server was found".to_owned(),
    };
    let servers = find::SERVERS.iter().map(|server| format!("{} on port {}", server.shown, server.port)).collect::<Vec<_>>().join(", ");
    let there: Vec<&BrainReport> = clients.iter().filter(|client| client.program.is_some() && is_usable(client)).collect();
    let names = there.iter().map(|client| client.name.as_str()).collect::<Vec<_>>().join(", ");
    let paid = if there.is_empty() { String::new() } else { format!("; found {names}, and nobody pays for its models") };
    let error = CommandError::new(ErrorCode::NotFound, what)
        .why(format!("looked for the variables {}; for {servers}; in secret-tool, pass and security{paid}", find::variables().join(", ")));
    let logins: Vec<&str> = there.iter().filter_map(|client| client.problem.as_ref()?.fix.as_deref()).collect();
    match logins.is_empty() {
        true => error.fix(
            "set one of these variables or start a model server and run it again; or write config.yml yourself, see `skep help models`",
        ),
        false => error.fix(format!("{}; then run `skep setup` again", logins.join("; or "))),
    }
}

/// The trial failed; what was written stays.
fn failed(mut error: CommandError, report: &SetupReport) -> CommandError {
    // The kernel and this host are well; it is the model that gave no answer.
    if error.code == ErrorCode::BrainUnavailable {
        error.code = ErrorCode::Failed;
    }
    if report.written {
        let fix = error.fix.take().map(|fix| format!("{fix}; ")).unwrap_or_default();
        error.fix = Some(format!("{fix}{} is written: mend it there, then run `skep setup` again", report.config.display()));
    }
    error
}
