//! Where a command works: a folder, or a work tree that is named by its repository and branch.

use crate::command_error::CommandError;
use crate::console::{Console, folder};
use crate::show::Line;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use wire::method::zone::{ZoneResolveParams, ZoneResolveResult};
use wire::table::ZoneResolve;
use wire::{ErrorCode, ZoneAddress};

/// What is done where a branch has no work tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbsentTree {
    Make,
    Refuse,
}

#[derive(Clone, Debug, Default, clap::Args)]
pub struct PlaceArgs {
    /// The work tree: @branch, repo@branch, org/repo@branch, or a folder [default: where you are]
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// The repository: org/repo, as `skep list sites` names it
    #[arg(long, value_name = "SITE")]
    pub site: Option<String>,
}

impl PlaceArgs {
    pub fn at(path: String) -> PlaceArgs {
        PlaceArgs { zone: Some(path), site: None }
    }

    pub fn is_given(&self) -> bool {
        self.zone.is_some() || self.site.is_some()
    }

    /// The folder that is meant.
    pub async fn folder(&self, console: &Console, absent: AbsentTree) -> Result<String, CommandError> {
        let (site, branch) = match (self.zone.as_deref(), &self.site) {
            (None, None) => return folder(None),
            (Some(zone), None) if is_folder(zone) => return folder(Some(Path::new(zone))),
            (None, Some(site)) => (Some(site.clone()), None),
            (Some(zone), site) => {
                let address = ZoneAddress::parse(zone)
                    .map_err(|refusal| CommandError::new(ErrorCode::BadInput, refusal.reason).fix(refusal.hint.unwrap_or_default()))?;
                if let (Some(site), Some(other)) = (site, &address.site)
                    && site != other
                {
                    return Err(CommandError::new(ErrorCode::BadInput, format!("two repositories are named: `{site}` and `{other}`"))
                        .fix("leave out `--site`, or give `--zone @branch`"));
                }
                (site.clone().or(address.site), Some(address.branch))
            }
        };
        let params = ZoneResolveParams { site, branch, path: Some(folder(None)?) };
        let found = console.kernel().await?.call::<ZoneResolve>(&params).await?;
        match &found.path {
            Some(path) => Ok(path.clone()),
            None if absent == AbsentTree::Make => make(console, &found),
            None => Err(CommandError::new(ErrorCode::ZoneNotFound, format!("`{}` has no work tree of `{}`", found.site, found.branch))
                .fix(format!("`skep act \"…\" --zone {}@{}` makes one", found.site, found.branch))),
        }
    }
}

fn is_folder(text: &str) -> bool {
    text.starts_with(['/', '.', '~']) || Path::new(text).is_dir()
}

/// Makes a work tree of a branch, outside of the person's own; a branch that is not there begins where the repository stands. No hook runs.
fn make(console: &Console, wanted: &ZoneResolveResult) -> Result<String, CommandError> {
    let (branch, place) = (wanted.branch.as_str(), wanted.place.as_str());
    let fail = |why: String| {
        CommandError::new(ErrorCode::Internal, format!("there is no work tree of `{branch}`, and git cannot make one")).why(why)
    };
    if let Some(parent) = PathBuf::from(place).parent() {
        std::fs::create_dir_all(parent).map_err(|error| fail(error.to_string()))?;
    }
    let run = |arguments: &[&str]| git(&["--git-dir", &wanted.repository], arguments).map_err(|error| fail(error.to_string()));
    let known = run(&["for-each-ref", "--format=x", &format!("refs/heads/{branch}"), &format!("refs/remotes/*/{branch}")])?;
    let made = match known.stdout.is_empty() {
        true => run(&["worktree", "add", "--quiet", "-b", branch, place])?,
        false => run(&["worktree", "add", "--quiet", place, branch])?,
    };
    if !made.status.success() {
        return Err(fail(String::from_utf8_lossy(&made.stderr).trim().to_owned()));
    }
    console.note(Line::new().good("✓ ").plain("work tree ").name(format!("@{branch}")).plain(" → ").plain(place));
    Ok(place.to_owned())
}

/// Git as the person has it, without what a repository would have it run.
pub fn git(before: &[&str], arguments: &[&str]) -> std::io::Result<Output> {
    let mut command = Command::new("git");
    command.args(before).args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"]).args(arguments);
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).output()
}
