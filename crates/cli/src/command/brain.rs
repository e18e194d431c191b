//! `skep brain`: which brains there are, whether one works, and how another is set up.

mod trial;

pub use trial::{BrainTrial, run as run_trial};

use crate::command::setup;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::remedy;
use crate::show::{Line, brain as page};
use clap::Subcommand;
use serde::Serialize;
use wire::code::EXIT_FAILED;
use wire::method::brain::BrainListParams;
use wire::table::BrainList;
use wire::{BrainReport, ErrorCode, KernelClient, PreflightCode};

/// List brains, check one, and add programs and names
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep brain\n  skep brain check claude\n  skep brain add goose -- goose acp\n\n\
A brain does the work of a task: `skep act \"…\" --brain claude`. Vendors' own clients run in sandboxes, and every tool they use is decided by the policy.")]
pub struct BrainArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    Check(Check),
    Add(Add),
}

/// List brains: how each runs, who pays, its version and state
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:\n  skep brain list\n  skep brain list --json\n\n\
The states are ready, NOT_INSTALLED, NOT_AUTHENTICATED, VERSION_MISMATCH (a warning) and UNKNOWN.")]
struct List {}

/// Check a brain, then ask it for one word
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep brain check                 all that are installed, without a trial\n  skep brain check claude          and a trial, which costs what one word costs\n  \
skep brain check opus --no-trial\n\nThe trial is a task like any other, in $SKEP_HOME/trial: in a sandbox, through the gateway, metered and recorded."
)]
struct Check {
    /// The brain, by any name that `--brain` takes
    #[arg(value_name = "NAME")]
    brain: Option<String>,
    /// Ask it for nothing
    #[arg(long)]
    no_trial: bool,
}

/// Write a program, or a name for a brain, into config.yml
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep brain add goose -- goose acp                 for --brain acp:goose\n  \
skep brain add claude -- /opt/claude/bin/claude   where a vendor's client is\n  \
skep brain add opus --alias claude@anthropic/claude/code/opus/v4.5\n\nIt shows what it would write, and asks.")]
struct Add {
    /// A name of your own, or the vendor's client: claude, codex, opencode, gemini
    name: String,
    /// What the name stands for
    #[arg(long, value_name = "BRAIN")]
    alias: Option<String>,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Program and arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// What `skep brain check` prints as JSON.
#[derive(Debug, Serialize)]
pub struct BrainCheckReport {
    #[serde(flatten)]
    pub brain: BrainReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<BrainTrial>,
}

impl BrainArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        match self.action.unwrap_or(Action::List(List {})) {
            Action::List(List {}) => list(console).await,
            Action::Check(check) => check.run(console).await,
            Action::Add(add) => add.run(console).await,
        }
    }
}

async fn list(console: &Console) -> ExitResult {
    let mut kernel = console.kernel().await?;
    let brains = reports(&mut kernel, None, console).await?;
    console.show(&serde_json::json!({ "brains": brains }), |_| page::list(&brains));
    OK
}

/// All brains, or one; the names of the project count where somebody stands in one.
pub async fn reports(kernel: &mut KernelClient, brain: Option<&str>, console: &Console) -> Result<Vec<BrainReport>, CommandError> {
    let path = std::env::current_dir().ok().and_then(|folder| folder.into_os_string().into_string().ok());
    let params = BrainListParams { path, brain: brain.map(str::to_owned) };
    let mut brains = console.wait("looking at brains", kernel.call::<BrainList>(&params)).await?.brains;
    brains.iter_mut().for_each(point_to_program);
    Ok(brains)
}

/// The kernel's PATH is that of the shell which started it. What is on ours only, is named.
fn point_to_program(report: &mut BrainReport) {
    let Some(problem) = report.problem.as_mut().filter(|problem| problem.code == PreflightCode::NotInstalled) else { return };
    if let Some(program) = setup::on_path(&report.name) {
        problem.fix = Some(format!("it is on your PATH: run `skep brain add {} -- {}`", report.name, program.display()));
    }
}

impl Check {
    async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        let brains = reports(&mut kernel, self.brain.as_deref(), console).await?;
        let Some(name) = self.brain else {
            // What is not installed is missing only to whoever asks for it.
            let is_there = |brain: &&BrainReport| brain.problem.as_ref().is_none_or(|problem| problem.code != PreflightCode::NotInstalled);
            let there: Vec<&BrainReport> = brains.iter().filter(is_there).collect();
            console.show_wrapped(&serde_json::json!({ "brains": there }), |_| {
                there.iter().map(|brain| page::check(brain)).fold(Default::default(), page::below)
            });
            return Ok(if there.iter().all(|brain| brain.is_ready()) { 0 } else { EXIT_FAILED });
        };
        let Some(brain) = brains.into_iter().next() else {
            return Err(CommandError::new(ErrorCode::NotFound, format!("there is no brain `{name}`")));
        };
        if let Some(problem) = brain.problem.as_ref().filter(|_| !brain.is_ready()) {
            let code = match problem.code {
                PreflightCode::NotInstalled => ErrorCode::BrainUnavailable,
                PreflightCode::NotAuthenticated => ErrorCode::BrainUnauthenticated,
                PreflightCode::VersionMismatch | PreflightCode::Unknown => ErrorCode::Failed,
            };
            let error = CommandError::new(code, format!("{}: {}", problem.code.as_str(), problem.why));
            return Err(match remedy::fix(problem.fix.as_deref(), problem.remedy.as_ref()) {
                Some(fix) => error.fix(fix),
                None => error,
            });
        }
        let trial = match self.no_trial {
            true => None,
            false => Some(trial::run(&mut kernel, &name, console).await?),
        };
        let report = BrainCheckReport { brain, trial };
        console.show_wrapped(&report, |report| {
            let mut page = page::check(&report.brain);
            report.trial.iter().for_each(|trial| page.push(page::tried(trial)));
            page
        });
        OK
    }
}

impl Add {
    async fn run(self, console: &Console) -> ExitResult {
        if self.name.trim().is_empty() {
            return Err(CommandError::new(ErrorCode::BadInput, "the brain has no name").fix("skep brain add NAME -- PROGRAM"));
        }
        if self.alias.is_none() && self.command.is_empty() {
            return Err(CommandError::new(ErrorCode::BadInput, format!("nothing says what `{}` is", self.name)).fix(format!(
                "name its program: `skep brain add {0} -- PROGRAM`, or the brain it stands for: `--alias BRAIN`",
                self.name
            )));
        }
        // First, so that a file that is broken already is told as that.
        console.kernel().await?;
        let changed = setup::add_brain(&self.name, &self.command, self.alias.as_deref(), self.yes, console).await?;
        if !changed {
            return OK;
        }
        let name =
            if self.alias.is_some() || page::CLIENTS.contains(&self.name.as_str()) { self.name } else { format!("acp:{}", self.name) };
        let mut kernel = console.connect().await?;
        let brains = reports(&mut kernel, Some(&name), console).await?;
        console.show_wrapped(&serde_json::json!({ "written": true, "brain": brains.first() }), |_| {
            let mut page = crate::show::Page(vec![
                Line::new().good("✓ ").name(&name).plain(" is set up: ").name(format!("skep act \"…\" --brain {name}")),
            ]);
            brains.iter().for_each(|brain| page.append(page::check(brain)));
            page
        });
        OK
    }
}
