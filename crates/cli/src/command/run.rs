//! `skep run`: has a task done by plans, and shows the plan while it is carried out.

use crate::command::act::{discipline, discipline_mode, prompt};
use crate::command::session::follow::{FollowOptions, follow, tell_end};
use crate::command::session::terms::TermsArgs;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::place::{AbsentTree, PlaceArgs};
use crate::show::measure::count;
use crate::show::{Line, Page};
use std::io::Read;
use std::path::{Path, PathBuf};
use wire::limits::PLAN_BYTES_MAX;
use wire::method::session::SessionStartParams;
use wire::method::task::TaskAddResult;
use wire::table::SessionStart;
use wire::{Discipline, ErrorCode};

/// Have a task done by plans, step by step
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep run \"write a report of the prices\"\n  skep run \"fix the build\" --agentic --max-cost 2\n  \
skep run --plan plan.yml                    a plan of yours\n  skep run --plan plan.yml --mode dry_run     what each step would do\n  \
skep run \"tidy up\" --allow-path 'src/**' --ask-writes --no-tool 'net.*'\n  skep run \"port it\" --brain claude --detach     return at once\n\n\
A plan is made, judged, and carried out: steps that wait for nothing run side\nby side. Changes stay in the session's workspace until you take them:\n\
`skep diff`, `skep merge`. Ctrl-c returns; the session goes on. `skep help\nplans` tells the format of plans; exit codes are those of `skep act --await`.")]
pub struct RunArgs {
    /// What to do, in your own words; `-` reads it from stdin
    #[arg(required_unless_present = "plan", default_value = "", hide_default_value = true)]
    task: String,
    /// Carry out this plan: YAML or JSON; `-` reads it from stdin
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Return at once; `skep session watch` shows it
    #[arg(long)]
    detach: bool,
    /// Record its requests to models, for a replay
    #[arg(long)]
    record: bool,
    /// What kind of caller it is, for rules about `caller_tag`; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// How strictly tests come first: strict, explore or debug [default: SKEP_DISCIPLINE, skep.yml, config.yml]
    #[arg(long, value_name = "MODE", value_parser = discipline_mode)]
    discipline: Option<Discipline>,
    #[command(flatten)]
    terms: TermsArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

impl RunArgs {
    /// `skep plan run FILE`.
    pub fn of_file(file: PathBuf, task: String, detach: bool, terms: TermsArgs, place: PlaceArgs) -> RunArgs {
        RunArgs { task, plan: Some(file), detach, record: false, tags: Vec::new(), discipline: None, terms, place }
    }

    pub async fn run(self, console: &Console) -> ExitResult {
        let plan = self.plan.as_deref().map(plan_text).transpose()?;
        let text = match (&self.plan, self.task.is_empty()) {
            (Some(file), true) => format!("carry out {}", file.display()),
            _ => prompt(self.task)?,
        };
        let params = SessionStartParams {
            path: self.place.folder(console, AbsentTree::Make).await?,
            text,
            terms: self.terms.terms(plan.is_some())?,
            plan,
            record: self.record,
            tags: self.tags,
            discipline: discipline(self.discipline)?,
        };
        let mut kernel = console.kernel().await?;
        let added = kernel.call::<SessionStart>(&params).await?;
        if self.detach {
            console.show_wrapped(&added, started);
            return OK;
        }
        if !console.json {
            console.err.page(&begun(&added));
        }
        let end = follow(added.task, FollowOptions::of_run(0), console).await?;
        tell_end(&end, console)
    }
}

fn begun(added: &TaskAddResult) -> Page {
    let line = Line::new().good("✓ ").name(added.task.to_string()).plain(" → ").strong(&added.process);
    let mut page = Page(vec![line.plain(" (").name(format!("@{}", added.branch)).plain(")")]);
    if added.drifts {
        page.because("note", "the project's policy files differ from what is in force: skep trust");
    }
    page
}

/// What is said where nobody waits.
pub fn started(added: &TaskAddResult) -> Page {
    let mut page = begun(added);
    page.because("next", &format!("skep session watch {}", added.task));
    page
}

/// The text of a plan file, which the kernel reads.
pub fn plan_text(file: &Path) -> Result<String, CommandError> {
    let what = || format!("cannot read the plan `{}`", file.display());
    let limit = PLAN_BYTES_MAX as u64 + 1;
    let mut text = String::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().take(limit).read_to_string(&mut text),
        false => std::fs::File::open(file).and_then(|open| open.take(limit).read_to_string(&mut text)),
    };
    read.map_err(|error| {
        let code = if error.kind() == std::io::ErrorKind::NotFound { ErrorCode::NotFound } else { ErrorCode::BadInput };
        CommandError::new(code, what()).why(error).fix("name a plan in YAML or JSON; `skep help plans` tells how one is written")
    })?;
    if text.len() > PLAN_BYTES_MAX {
        return Err(CommandError::new(ErrorCode::TooLarge, what())
            .why(format!("it is longer than {} bytes", count(PLAN_BYTES_MAX as u64)))
            .fix("write a shorter plan"));
    }
    Ok(text)
}
