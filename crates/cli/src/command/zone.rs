//! `skep zone del`: nobody works in a work tree any more.

mod at_risk;

use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::place::{AbsentTree, PlaceArgs, git};
use crate::show::measure::plural;
use crate::show::{Line, Page};
use at_risk::FilesAtRisk;
use clap::Subcommand;
use std::path::Path;
use wire::ErrorCode;
use wire::method::task::TaskListParams;
use wire::method::zone::{ZoneCloseParams, ZoneCloseResult};
use wire::table::{TaskList, ZoneClose};

/// Remove a work tree from skep
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep zone del --zone @feat/auth\n  skep zone del --force --yes")]
pub struct ZoneArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Stop the workers of a work tree and forget it
    #[command(after_help = "Examples:\n  skep zone del\n  skep zone del --zone @feat/auth --yes\n\n\
Its records stay in the journal. A work tree of your own stays where it is; one that\nskep made goes, if nothing in it would be lost: \
files that are not committed count,\nand so do ignored ones, save those that a build makes again (target, node_modules,\n.venv and the \
like).")]
    Del {
        #[command(flatten)]
        place: PlaceArgs,
        /// Also where tasks are open, changes are kept, or files are not committed or ignored: all that is destroyed
        #[arg(long)]
        force: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

impl ZoneArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let Action::Del { place, force, yes } = self.action;
        let path = place.folder(console, AbsentTree::Refuse).await?;
        let made = Path::new(&path).starts_with(console.home.join("worktrees"));
        let files = match made.then(|| FilesAtRisk::look(&path)) {
            Some(Ok(files)) => files,
            // Whoever forces it does not need git's word on it.
            Some(Err(_)) if force => FilesAtRisk::default(),
            Some(Err(error)) => return Err(error),
            None => FilesAtRisk::default(),
        };
        if !force && let Some(refusal) = files.refusal(&path) {
            return Err(refusal);
        }
        let lost = if force { lost(&path, &files, console).await? } else { Vec::new() };
        let question = match lost.is_empty() {
            true => format!("stop the workers in `{path}` and forget it?"),
            false => format!("destroy {} for good, stop the workers in `{path}` and forget it?", lost.join(", ")),
        };
        if !yes && !console.confirm(&question, "--yes")? {
            console.note(Line::new().faint("nothing removed"));
            return OK;
        }
        let params = ZoneCloseParams { path: path.clone(), force };
        let closed =
            console.wait("ending", async { console.kernel().await?.call::<ZoneClose>(&params).await.map_err(CommandError::from) }).await?;
        let removed = made.then(|| git(&["-C", &path], &["worktree", "remove", "--force", &path]));
        let is_removed = removed.is_some_and(|removed| removed.is_ok_and(|output| output.status.success()));
        console.show(&closed, |closed| page(closed, is_removed, &lost));
        OK
    }
}

/// What a forced end destroys, in words.
async fn lost(path: &str, files: &FilesAtRisk, console: &Console) -> Result<Vec<String>, CommandError> {
    let tasks = console.kernel().await?.call::<TaskList>(&TaskListParams { path: Some(path.to_owned()) }).await;
    let tasks = match tasks.map_err(CommandError::from) {
        Ok(found) => found.tasks,
        // The kernel says so itself when it is asked to forget it.
        Err(error) if matches!(error.code, ErrorCode::ZoneNotFound | ErrorCode::NotFound) => Vec::new(),
        Err(error) => return Err(error),
    };
    let open = tasks.iter().filter(|task| !task.state.ended()).map(|task| format!("the work of {}", task.task));
    let kept = tasks.iter().filter(|task| task.state.ended()).filter_map(|task| {
        let kept = task.kept.as_ref()?;
        Some(format!("{} kept of {}", plural(kept.files, "file"), task.task))
    });
    Ok(open.chain(kept).chain(files.words()).collect())
}

fn page(closed: &ZoneCloseResult, is_removed: bool, lost: &[String]) -> Page {
    let what = if is_removed { " removed: " } else { " forgotten: " };
    let line = Line::new().good("✓ ").name(format!("@{}", closed.branch)).plain(what).plain(&closed.path);
    let mut page = Page(vec![line]);
    if !lost.is_empty() {
        page.because("gone", &lost.join(", "));
    }
    if let (true, Some(site)) = (closed.unregistered, &closed.site) {
        page.push(Line::new().faint("  ").name(site).faint(" is not registered any more"));
    }
    page
}
