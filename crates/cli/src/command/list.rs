//! `skep list`: repositories, work trees, workers, tasks, skills and tools.

use crate::command::status::here;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::place::{AbsentTree, PlaceArgs};
use crate::show::{call, measure, site, skill, task};
use clap::Subcommand;
use wire::method::Nothing;
use wire::method::skill::SkillListParams;
use wire::method::task::{TaskListParams, TaskListResult};
use wire::method::zone::{WholeSite, ZoneStatusParams, ZoneStatusResult};
use wire::table::{SkillList, TaskList, ToolList, ZoneStatus};

/// List repositories, workers, tasks, skills or tools
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep list tasks\n  skep list tasks --all\n  skep list sites        every repository\n  \
skep list zones        the work trees of this one\n  skep list crews        who works here\n  skep list skills\n  skep list tools")]
pub struct ListArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Repositories, with their work trees and workers
    #[command(after_help = "Examples:\n  skep list sites\n  skep list sites --json")]
    Sites,
    /// Work trees of this repository, with their workers
    #[command(after_help = "Examples:\n  skep list zones\n  skep list zones --site org/repo")]
    Zones {
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Workers of this work tree, with their brains and tasks
    #[command(after_help = "Examples:\n  skep list crews\n  skep list crews --zone @feat/auth")]
    Crews {
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Tasks of this work tree, or of all
    #[command(after_help = "Examples:\n  skep list tasks\n  skep list tasks --all --json\n  skep list tasks --zone @feat/auth")]
    Tasks {
        /// Of every repository
        #[arg(long, conflicts_with_all = ["zone", "site"])]
        all: bool,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Skills that the roles of this repository know
    #[command(after_help = "Examples:\n  skep list skills\n\n`skep help roles` explains roles and skills.")]
    Skills {
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Tools that a process can call
    #[command(after_help = "Examples:\n  skep list tools")]
    Tools,
}

impl ListArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        match self.action {
            Action::Sites => {
                let result = console.kernel().await?.call::<ZoneStatus>(&ZoneStatusParams::default()).await?;
                console.show(&result, |result| site::sites(&result.zones, &console.home, measure::now_ms()));
            }
            Action::Zones { place } => {
                let result = zones(&place, Some(WholeSite::Always), console).await?;
                console.show(&result, |result| site::zones(&result.zones));
            }
            Action::Crews { place } => {
                let result = zones(&place, None, console).await?;
                console.show(&result, |result| site::crews(&result.zones));
            }
            Action::Tasks { place: PlaceArgs { zone: None, site: Some(site) }, .. } => {
                let params = ZoneStatusParams { site: Some(site), ..ZoneStatusParams::default() };
                let zones = console.kernel().await?.call::<ZoneStatus>(&params).await?.zones;
                let result = TaskListResult { tasks: zones.into_iter().flat_map(|zone| zone.tasks).collect() };
                console.show(&result, |result| task::list(&result.tasks, measure::now_ms()));
            }
            Action::Tasks { all, place } => {
                let path = match place.is_given() {
                    true => Some(place.folder(console, AbsentTree::Refuse).await?),
                    false => here(all)?,
                };
                let result = console.kernel().await?.call::<TaskList>(&TaskListParams { path }).await?;
                console.show(&result, |result| task::list(&result.tasks, measure::now_ms()));
            }
            Action::Skills { place } => {
                let params = SkillListParams { path: place.folder(console, AbsentTree::Refuse).await? };
                let result = console.kernel().await?.call::<SkillList>(&params).await?;
                console.show_wrapped(&result, skill::list);
            }
            Action::Tools => {
                let result = console.kernel().await?.call::<ToolList>(&Nothing {}).await?;
                console.show_wrapped(&result, call::tools);
            }
        }
        OK
    }
}

/// The zones that are meant: of a named repository, of a named work tree, of where one is; all outside a repository.
async fn zones(place: &PlaceArgs, whole_site: Option<WholeSite>, console: &Console) -> Result<ZoneStatusResult, CommandError> {
    let params = match place {
        PlaceArgs { zone: None, site: Some(site) } => ZoneStatusParams { site: Some(site.clone()), ..ZoneStatusParams::default() },
        PlaceArgs { zone: None, site: None } => ZoneStatusParams { path: here(false)?, whole_site, ..ZoneStatusParams::default() },
        named => {
            let path = Some(named.folder(console, AbsentTree::Refuse).await?);
            ZoneStatusParams { path, whole_site, ..ZoneStatusParams::default() }
        }
    };
    Ok(console.kernel().await?.call::<ZoneStatus>(&params).await?)
}
