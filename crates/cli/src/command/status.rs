//! `skep status`: who works on what, here or everywhere, or one task in full.

use crate::command::act::worker;
use crate::command_error::CommandError;
use crate::console::{Console, DoubtReport, ExitResult, OK, folder};
use crate::place::{AbsentTree, PlaceArgs};
use crate::show::{kernel, measure, queue, site, task, zone};
use jiff::tz::TimeZone;
use std::path::Path;
use std::str::FromStr;
use wire::TaskId;
use wire::method::queue::QueueListParams;
use wire::method::task::TaskIdParams;
use wire::method::zone::{WholeSite, ZoneStatusParams};
use wire::table::{QueueList, TaskShow, ZoneStatus};

/// Show who works on what
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep status            this work tree; on main, all of its repository\n  \
skep status --all      every repository in full\n  skep status task-3     one task in full\n  \
skep status site       all of this repository; `zone` is this work tree\n  \
skep status orchestrator   all there is\n  \
skep status --zone @feat/auth\n  skep status --who worker.2\n\n\
● active  ○ idle  ✓ done  ◌ queued  ◍ waits for you  ✗ failed")]
pub struct StatusArgs {
    /// One task in full, or how much is shown: zone, site or orchestrator
    #[arg(value_name = "WHAT")]
    what: Option<StatusOf>,
    /// One task in full
    #[arg(long, value_name = "TASK", conflicts_with = "what")]
    task: Option<TaskId>,
    /// One worker and its queue: [role][.n][@brain]
    #[arg(long, value_name = "WHO", conflicts_with_all = ["what", "task"])]
    who: Option<String>,
    /// Every repository in full
    #[arg(long, conflicts_with_all = ["what", "task", "who", "zone", "site"])]
    all: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusOf {
    Task(TaskId),
    Zone,
    Site,
    Orchestrator,
}

impl FromStr for StatusOf {
    type Err = String;

    fn from_str(text: &str) -> Result<StatusOf, String> {
        match text {
            "zone" => Ok(StatusOf::Zone),
            "site" => Ok(StatusOf::Site),
            "orchestrator" => Ok(StatusOf::Orchestrator),
            id => id.parse().map(StatusOf::Task).map_err(|_| "a task id, or one of `zone`, `site` and `orchestrator`".to_owned()),
        }
    }
}

impl StatusArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        if let Some(id) = self.task.or(match self.what {
            Some(StatusOf::Task(id)) => Some(id),
            _ => None,
        }) {
            let view = console.kernel().await?.call::<TaskShow>(&TaskIdParams { task: id }).await?;
            console.show_uncut(&view, |view| task::detail(view, measure::now_ms(), &TimeZone::system(), console.out.columns()));
            return OK;
        }
        if let Some(who) = self.who {
            let params = QueueListParams { path: self.place.folder(console, AbsentTree::Refuse).await?, who: Some(worker(who)?) };
            let result = console.kernel().await?.call::<QueueList>(&params).await?;
            console.show(&result, queue::list);
            return OK;
        }
        let (params, shown) = wanted(self.what, self.all, &self.place, console).await?;
        // The doubts are part of its answer.
        let mut kernel = console.connect().await?;
        console.report_notices(&mut kernel, DoubtReport::InTheResult).await?;
        let result = kernel.call::<ZoneStatus>(&params).await?;
        console.show(&result, |result| {
            let (zones, now_ms) = (&result.zones, measure::now_ms());
            let mut page = kernel::doubts(&result.doubts);
            page.append(match shown {
                Shown::Sites => site::sites(zones, &console.home, now_ms),
                Shown::Site => site::status(zones, now_ms),
                Shown::AsMany if zones.len() > 1 => site::status(zones, now_ms),
                Shown::AsMany | Shown::Zones => zone::status(zones, now_ms),
            });
            page
        });
        OK
    }
}

/// How zones are told.
enum Shown {
    /// Each in full.
    Zones,
    /// One repository, with what it comes to.
    Site,
    /// The same if there is more than one.
    AsMany,
    /// A line for each repository.
    Sites,
}

/// What to ask for, by the words of the command and where one is.
async fn wanted(
    what: Option<StatusOf>,
    all: bool,
    place: &PlaceArgs,
    console: &Console,
) -> Result<(ZoneStatusParams, Shown), CommandError> {
    let everything = ZoneStatusParams::default;
    if all {
        return Ok((everything(), Shown::Zones));
    }
    if what == Some(StatusOf::Orchestrator) {
        return Ok((everything(), Shown::Sites));
    }
    if let PlaceArgs { zone: None, site: Some(site) } = place {
        return Ok((ZoneStatusParams { site: Some(site.clone()), ..everything() }, Shown::Site));
    }
    let path = match place.is_given() || what.is_some() {
        true => Some(place.folder(console, AbsentTree::Refuse).await?),
        false => here(false)?,
    };
    Ok(match (what, &path) {
        (_, None) => (everything(), Shown::Sites),
        (Some(StatusOf::Site), _) => (ZoneStatusParams { path, whole_site: Some(WholeSite::Always), ..everything() }, Shown::Site),
        (None, _) if !place.is_given() => (ZoneStatusParams { path, whole_site: Some(WholeSite::OnMain), ..everything() }, Shown::AsMany),
        _ => (ZoneStatusParams { path, ..everything() }, Shown::Zones),
    })
}

/// The folder to ask about: the one a person stands in if it is in a repository, else none, which means all.
pub fn here(all: bool) -> Result<Option<String>, CommandError> {
    if all {
        return Ok(None);
    }
    let path = folder(None)?;
    let in_git = Path::new(&path).ancestors().any(|folder| folder.join(".git").exists());
    Ok(in_git.then_some(path))
}
