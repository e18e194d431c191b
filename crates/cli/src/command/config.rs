//! `skep config show`: every setting, its value, and where it comes from.

mod layer;

use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::show::{Line, config};
use crate::start;
use clap::Subcommand;
use layer::SettingLayers;
use std::path::{Path, PathBuf};
use wire::method::zone::ZoneStatusParams;
use wire::near::distance;
use wire::table::ZoneStatus;
use wire::{Discipline, ErrorCode};

pub use layer::{Setting, SettingOrigin, SettingValue, from_environment};

/// Show settings and where they come from
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep config show\n  skep config show --origin\n  skep config show brain --origin --json\n\n\
A setting is taken from the first that has it: a flag of the command, the environment (SKEP_BRAIN, SKEP_MODEL, …), the project's skep.yml, \
config.yml in $SKEP_HOME, and what is built in. What you fix for all sandboxes (`runtime`) is taken from config.yml first. The rules are \
another file, and no setting widens them. Secrets are never printed.")]
pub struct ConfigArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show settings with their values
    #[command(after_help = "Examples:\n  skep config show\n  skep config show brain --origin\n  skep config show zone.limits --json")]
    Show(ShowArgs),
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// This setting, or all below it
    key: Option<String>,
    /// Where each value comes from, and what it takes precedence over
    #[arg(long)]
    origin: bool,
    /// As a command with this flag has it
    #[arg(long, value_name = "BRAIN")]
    brain: Option<String>,
    /// As a command with this flag has it
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// The project [default: the one you are in]
    #[arg(long, value_name = "DIR")]
    zone: Option<PathBuf>,
}

impl ConfigArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let Action::Show(show) = self.action;
        let project = project(show.zone.as_deref())?;
        let flags = [("brain", show.brain), ("model", show.model)];
        let settings = SettingLayers::read(flags, &console.home, project.as_deref())?.settings();
        let found: Vec<Setting> = match &show.key {
            None => settings,
            Some(key) => {
                let is_wanted =
                    |setting: &Setting| setting.key.strip_prefix(key.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
                let near = settings.iter().map(|setting| setting.key.clone()).min_by_key(|known| distance(known, key));
                let found: Vec<Setting> = settings.into_iter().filter(is_wanted).collect();
                if found.is_empty() {
                    let error = CommandError::new(ErrorCode::NotFound, format!("there is no setting `{key}`"));
                    return Err(error.fix(format!("`{}`, if you meant that; `skep config show` lists all", near.unwrap_or_default())));
                }
                found
            }
        };
        console.show(&found, |found| config::settings(found, show.origin, console.out.columns()));
        if let Some(project) = project.filter(|_| found.iter().any(Setting::is_of_project))
            && is_untrusted(console, &project).await
        {
            console.note(Line::new().wait("◍ ").plain("the project's files are not what you trusted: what was trusted is in force"));
            console.note(Line::new().faint("  ↳ next skep trust"));
        }
        OK
    }
}

/// The top of the repository that `folder` is in; `None` outside any.
pub fn project(folder: Option<&Path>) -> Result<Option<PathBuf>, CommandError> {
    let start = match folder {
        Some(folder) => std::path::absolute(folder),
        None => std::env::current_dir(),
    };
    let start = start.map_err(|error| CommandError::new(ErrorCode::NotFound, "there is no such folder").why(error))?;
    Ok(start.ancestors().find(|folder| folder.join(".git").exists()).map(Path::to_owned))
}

/// How strictly tests come first in tasks of a project for which nobody says so; `None` where they need not, and where its files are not trusted as
/// they are.
pub async fn usual_discipline(console: &Console, project: &Path) -> Option<Discipline> {
    let layers = SettingLayers::read([], &console.home, Some(project)).ok()?;
    let setting = layers.settings().into_iter().find(|setting| setting.key == "discipline")?;
    let mode = Discipline::parse(setting.counts.value.as_deref()?)?;
    (!setting.is_of_project() || !is_untrusted(console, project).await).then_some(mode)
}

/// Does a running kernel know other files of this project than it has now? Nobody starts one to be told.
async fn is_untrusted(console: &Console, project: &Path) -> bool {
    let Ok(Some(mut kernel)) = start::running(&console.home).await else { return false };
    let Some(path) = project.to_str().map(str::to_owned) else { return false };
    let params = ZoneStatusParams { path: Some(path), ..ZoneStatusParams::default() };
    kernel.call::<ZoneStatus>(&params).await.is_ok_and(|result| result.zones.iter().any(|zone| zone.drift))
}
