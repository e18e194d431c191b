//! `skep spawn`: starts a process of the tree.

use crate::bounded_input;
use crate::command::budget::micros;
use crate::command::whom;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK, utf8};
use crate::show::{Line, Page};
use crate::units::{duration_ms, mebibytes, processors_milli};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use wire::limits::INPUT_BYTES_MAX;
use wire::method::program::ProcSpawnParams;
use wire::table::ProcSpawn;
use wire::{Budget, ErrorCode, ProcessRole, ProgramLimits, ProgramRuntime, ProgramSchedule, Tier};

/// Start a process: a program in a sandbox, or a virtual one
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep spawn queen --role daemon --tier tactical\n  \
skep spawn price --python shop:PriceChecker --parent queen\n  skep spawn bot --custom /opt/bot/run --env LANG=C\n  \
skep spawn night --python shop:Report --cron '0 3 * * *' --tokens 50000\n\n\
Without a program it is virtual: it stands in the table, has a mailbox and\nchildren, and runs nothing. A program says READY and its port; see\n`docs/tree.md`. `skep exec` gives it a task, `skep kill` ends it.")]
pub struct SpawnArgs {
    /// What it is called
    name: String,
    /// daemon, agent, architect, lead, worker or task
    #[arg(long, default_value = "agent", value_parser = role)]
    role: ProcessRole,
    /// strategic, tactical or operational
    #[arg(long, default_value = "operational", value_parser = tier)]
    tier: Tier,
    /// Whose child it is, by name or pid [default: the kernel's]
    #[arg(long, value_name = "PROCESS")]
    parent: Option<String>,
    /// A Python agent: module:Class
    #[arg(long, value_name = "MODULE:CLASS", group = "program")]
    python: Option<String>,
    /// Any program that speaks the contract
    #[arg(long, value_name = "PATH", group = "program")]
    custom: Option<String>,
    /// A claw agent, by the path of its program
    #[arg(long, value_name = "PATH", group = "program")]
    claw: Option<String>,
    /// Where its code lies; its sandbox shows it [default: where you are]
    #[arg(long, value_name = "DIR", requires = "program")]
    folder: Option<PathBuf>,
    /// Its model [default: its tier's]
    #[arg(long)]
    model: Option<String>,
    /// What it is told about itself
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt_file")]
    prompt: Option<String>,
    /// The same, from a file
    #[arg(long, value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    /// A tool it may use
    #[arg(long = "tool", value_name = "NAME")]
    tools: Vec<String>,
    /// A variable of its environment
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// What it does first
    #[arg(long, value_name = "TEXT", requires = "program")]
    task: Option<String>,
    /// When it runs by itself, in five or six fields
    #[arg(long, value_name = "EXPRESSION", requires = "program")]
    cron: Option<String>,
    /// Its program sleeps between two runs instead of ending
    #[arg(long, requires = "cron")]
    keep_alive: bool,
    /// Tokens it may use in all, taken from its parent's budget
    #[arg(long, value_name = "N")]
    tokens: Option<u64>,
    /// Tokens it and everything below it may use in one hour
    #[arg(long, value_name = "N")]
    tokens_per_hour: Option<u64>,
    /// Tokens of one day, taken from its parent's
    #[arg(long, value_name = "N")]
    tokens_per_day: Option<u64>,
    /// Dollars of one day, taken from its parent's
    #[arg(long, value_name = "DOLLARS", value_parser = micros)]
    money_per_day: Option<u64>,
    /// Memory of its program and all below it together: 512M or 2G
    #[arg(long, value_name = "SIZE", value_parser = mebibytes)]
    memory: Option<u64>,
    /// Processors they may use together: 0.5 or 2
    #[arg(long, value_name = "N", value_parser = processors_milli)]
    cpu: Option<u64>,
    /// The most children it may have at once
    #[arg(long, value_name = "N")]
    children: Option<u64>,
    /// How long a task of it may take
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    timeout: Option<u64>,
    /// For whom it acts [default: as its parent]
    #[arg(long)]
    user: Option<String>,
    /// Run it outside the sandbox, with all of your rights
    #[arg(long)]
    unconfined: bool,
}

pub fn role(text: &str) -> Result<ProcessRole, String> {
    let known: Vec<&str> = ProcessRole::ALL.iter().map(|role| role.as_str()).filter(|role| *role != "kernel").collect();
    ProcessRole::parse(text).filter(|role| *role != ProcessRole::Kernel).ok_or_else(|| format!("`{text}` is none of {}", known.join(", ")))
}

pub fn tier(text: &str) -> Result<Tier, String> {
    Tier::parse(text).ok_or_else(|| format!("`{text}` is none of strategic, tactical, operational"))
}

/// `NAME=VALUE`
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` has no name: write NAME=VALUE")),
    }
}

/// One value for each name; two are a mistake, not a choice.
pub fn by_name(pairs: Vec<(String, String)>) -> Result<BTreeMap<String, String>, CommandError> {
    let mut by_name = BTreeMap::new();
    for (name, value) in pairs {
        if by_name.insert(name.clone(), value).is_some() {
            return Err(CommandError::new(ErrorCode::BadInput, format!("`{name}` is given twice"))
                .why("each name has one value")
                .fix("name it once"));
        }
    }
    Ok(by_name)
}

/// The folder that a program's sandbox shows, as the kernel names it.
const SHOWN: &str = "skep.shown";

/// The kernel works in another folder, so a program is named from the root; a bare name is looked up by the system.
fn program_path(path: String) -> Result<String, CommandError> {
    if !path.contains('/') {
        return Ok(path);
    }
    real(Path::new(&path), "program", "--custom PATH")
}

fn real(path: &Path, what: &str, flag: &str) -> Result<String, CommandError> {
    let found = path.canonicalize().map_err(|error| {
        let what = format!("there is no {what} `{}`", path.display());
        CommandError::new(ErrorCode::NotFound, what).why(error).fix(format!("name one that exists with `{flag}`"))
    })?;
    utf8(found)
}

/// The virtual environment of Python that is active where the command runs. One whose path has a colon cannot be named.
fn active_environment() -> Option<String> {
    let folder = std::env::var("VIRTUAL_ENV").ok().filter(|folder| !folder.is_empty())?;
    utf8(Path::new(&folder).canonicalize().ok()?).ok().filter(|folder| !folder.contains(':'))
}

impl SpawnArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let system_prompt = match &self.prompt_file {
            None => self.prompt.unwrap_or_default(),
            Some(path) => String::from_utf8(bounded_input::read(Some(path), INPUT_BYTES_MAX)?).map_err(|error| {
                CommandError::new(ErrorCode::BadInput, format!("`{}` is no text", path.display()))
                    .why(error)
                    .fix("name a text file with `--prompt-file`")
            })?,
        };
        let (runtime, image) = match (self.python, self.custom, self.claw) {
            (Some(image), ..) => (ProgramRuntime::Python, image),
            (_, Some(path), _) => (ProgramRuntime::Custom, program_path(path)?),
            (.., Some(path)) => (ProgramRuntime::Claw, program_path(path)?),
            _ => (ProgramRuntime::Virtual, String::new()),
        };
        let mut metadata = BTreeMap::new();
        if runtime != ProgramRuntime::Virtual {
            let mut shown = real(self.folder.as_deref().unwrap_or(Path::new(".")), "folder", "--folder DIR")?;
            // A person who has a virtual environment active means its packages.
            if let Some(active) = active_environment().filter(|_| runtime == ProgramRuntime::Python) {
                shown = format!("{shown}:{active}");
            }
            metadata.insert(SHOWN.to_owned(), shown);
        }
        let mut kernel = console.kernel().await?;
        let parent = match &self.parent {
            Some(parent) => Some(whom::process(&mut kernel, parent).await?),
            None => None,
        };
        let of_all = |tokens: Option<u64>| tokens.map(|tokens| ("all".to_owned(), tokens)).into_iter().collect();
        let budget = Budget {
            tokens: of_all(self.tokens),
            tokens_per_day: of_all(self.tokens_per_day),
            micros_per_day: self.money_per_day,
            ..Budget::default()
        };
        let params = ProcSpawnParams {
            name: self.name.clone(),
            role: self.role,
            tier: self.tier,
            parent,
            model: self.model.unwrap_or_default(),
            system_prompt,
            tools: self.tools,
            env: by_name(self.env)?,
            metadata,
            limits: ProgramLimits {
                children: self.children,
                timeout_ms: self.timeout,
                tokens_total: self.tokens,
                tokens_per_hour: self.tokens_per_hour,
                memory_mb: self.memory,
                cpu_milli: self.cpu,
                ..ProgramLimits::default()
            },
            budget: Some(budget).filter(|budget| *budget != Budget::default()),
            runtime,
            image,
            initial_task: self.task,
            schedule: self.cron.map(|cron| ProgramSchedule { cron, keep_alive: self.keep_alive }),
            user: self.user,
            confined: !self.unconfined,
        };
        let spawned = console.wait("starting", kernel.call::<ProcSpawn>(&params)).await;
        let spawned = spawned.map_err(|error| whom::explain(error, format!("`{}` was not started", self.name), "see `skep help spawn`"))?;
        console.show(&spawned, |spawned| {
            let line = Line::new().good("✓ ").strong(&self.name).faint(format!("  pid {}", spawned.pid));
            Page(vec![if params.confined { line } else { line.wait("  outside the sandbox") }])
        });
        OK
    }
}
