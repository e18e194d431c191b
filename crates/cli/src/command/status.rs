//! `skep status`: who works on what, here or everywhere, or one task in full.

use crate::console::{Console, ExitResult, OK, folder};
use crate::show::{kernel, measure, task, zone};
use std::path::{Path, PathBuf};
use wire::TaskId;
use wire::method::task::TaskIdParams;
use wire::method::zone::ZoneStatusParams;
use wire::table::{TaskShow, ZoneStatus};

/// Show who works on what
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep status            this repository, or all of them outside one\n  \
skep status --all      every repository\n  skep status task-3     one task in full\n\n\
● active  ○ idle  ✓ done  ◌ queued  ◍ waits for you  ✗ failed")]
pub struct StatusArgs {
    /// One task in full
    task: Option<TaskId>,
    /// Every repository
    #[arg(long, conflicts_with = "task")]
    all: bool,
    /// The repository to look at [default: where you are]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["task", "all"])]
    zone: Option<PathBuf>,
}

impl StatusArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        if let Some(id) = self.task {
            let view = console.kernel().await?.call::<TaskShow>(&TaskIdParams { task: id }).await?;
            console.show(&view, |view| task::detail(view, measure::now_ms()));
            return OK;
        }
        let path = here(self.zone.as_deref(), self.all)?;
        // The doubts are part of its answer.
        let result = console.connect().await?.call::<ZoneStatus>(&ZoneStatusParams { path }).await?;
        console.show(&result, |result| {
            let mut page = kernel::doubts(&result.doubts);
            page.append(zone::status(&result.zones, measure::now_ms()));
            page
        });
        OK
    }
}

/// The folder to ask about: the named one, the one a person stands in if it is in a repository, else none, which means all.
pub fn here(zone: Option<&Path>, all: bool) -> Result<Option<String>, crate::command_error::CommandError> {
    if all {
        return Ok(None);
    }
    let path = folder(zone)?;
    let in_git = Path::new(&path).ancestors().any(|folder| folder.join(".git").exists());
    Ok((zone.is_some() || in_git).then_some(path))
}
