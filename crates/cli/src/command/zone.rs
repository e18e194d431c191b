//! `skep zone del`: nobody works in a work tree any more.

use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::place::{AbsentTree, PlaceArgs, git};
use crate::show::{Line, Page};
use clap::Subcommand;
use std::path::Path;
use wire::ErrorCode;
use wire::method::zone::{ZoneCloseParams, ZoneCloseResult};
use wire::table::ZoneClose;

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
Its records stay in the journal. A work tree of your own stays where it is; one that\nskep made goes, if everything in it is committed.")]
    Del {
        #[command(flatten)]
        place: PlaceArgs,
        /// Also where tasks are open, changes are kept or files are not committed: all that is destroyed
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
        if made && !force {
            check_committed(&path)?;
        }
        let question = format!("stop the workers in `{path}` and forget it?");
        if !yes && !console.confirm(&question, "--yes")? {
            console.note(Line::new().faint("nothing removed"));
            return OK;
        }
        let params = ZoneCloseParams { path: path.clone(), force };
        let closed =
            console.wait("ending", async { console.kernel().await?.call::<ZoneClose>(&params).await.map_err(CommandError::from) }).await?;
        let removed = made.then(|| git(&["-C", &path], &["worktree", "remove", "--force", &path]));
        let is_removed = removed.is_some_and(|removed| removed.is_ok_and(|output| output.status.success()));
        console.show(&closed, |closed| page(closed, is_removed));
        OK
    }
}

/// Refuses a work tree in which something is not committed. What skep wrote itself is no work.
fn check_committed(path: &str) -> Result<(), CommandError> {
    let status = git(&["-C", path], &["status", "--porcelain"])
        .map_err(|error| CommandError::new(ErrorCode::Internal, format!("git cannot look at `{path}`")).why(error))?;
    let text = String::from_utf8_lossy(&status.stdout);
    let own = ["?? skep.yml", "?? .skep/"];
    match text.lines().find(|line| !own.contains(line)) {
        Some(line) => Err(CommandError::new(ErrorCode::WrongState, format!("`{path}` has changes that are not committed"))
            .why(line)
            .fix("commit them, or destroy them with `--force`")),
        None => Ok(()),
    }
}

fn page(closed: &ZoneCloseResult, is_removed: bool) -> Page {
    let what = if is_removed { " removed: " } else { " forgotten: " };
    let line = Line::new().good("✓ ").name(format!("@{}", closed.branch)).plain(what).plain(&closed.path);
    let mut page = Page(vec![line]);
    if let (true, Some(site)) = (closed.unregistered, &closed.site) {
        page.push(Line::new().faint("  ").name(site).faint(" is not registered any more"));
    }
    page
}
