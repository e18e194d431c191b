//! `skep merge`: takes a task's changes into the project, and back.

pub mod commit;

use crate::command::reject::RejectArgs;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK, PhraseAnswer, folder};
use crate::show::measure::plural;
use crate::show::{Line, diff};
use clap::Subcommand;
use commit::WantedCommit;
use std::collections::BTreeMap;
use std::path::PathBuf;
use wire::method::Nothing;
use wire::method::call::CallRunParams;
use wire::method::merge::MergeUndoParams;
use wire::method::task::{TaskDiffResult, TaskIdParams, TaskMergeParams};
use wire::table::{CallRun, MergeList, MergeUndo, TaskDiff, TaskMerge, TaskShow};
use wire::{CommitWish, ErrorCode, KernelClient, Side, TaskId};

/// Merge a task's changes into the project, or undo a merge
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:\n  skep merge                            what was proposed and merged\n  \
skep merge task-3                     the same as `skep merge apply task-3`\n  skep merge show task-3\n  \
skep merge apply task-3 --yes\n  skep merge apply task-3 --theirs src/a.rs --mine README.md\n  \
skep merge task-3 --only src docs/a.md   the rest is kept for later\n  skep merge task-3 --commit -m \"fix the parser\"\n  \
skep merge task-3 --branch fix-parser    a commit there; your files stay\n  skep merge undo task-3\n\n\
Exactly what is shown is merged; if anything changed since, the merge is refused. Nothing you wrote is overwritten unless you say so \
with --theirs, and `undo` brings it back.")]
pub struct MergeArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    apply: Box<Apply>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List merges, newest last
    #[command(after_help = "Examples:\n  skep merge list\n  skep merge list --json")]
    List,
    /// Show what a merge would do, with its conflicts
    #[command(after_help = "Examples:\n  skep merge show task-3\n  skep merge show task-3 | less -R")]
    Show {
        /// Task id, as `skep merge list` prints it
        task: TaskId,
    },
    /// Merge the changes
    #[command(after_help = "Examples:\n  skep merge apply task-3\n  skep merge apply task-3 --yes --theirs src/a.rs\n\n\
A path that you and the task both changed in the same place stays out unless you choose: --mine keeps yours, --theirs takes the task's.\n\n\
--commit makes a commit of exactly the merged paths, as you, on the branch that is checked out; what you have staged or edited elsewhere \
stays as it is. A path that you have edited yourself is refused: commit or stash that first. --branch makes that commit on another branch, \
which begins at HEAD if it is new, and touches neither your files nor HEAD; the changes stay kept with the task. Hooks are not run. Where \
commits are signed it is refused, with the command to run instead.")]
    Apply(Box<Apply>),
    /// Refuse the changes; they are kept
    #[command(after_help = "Examples:\n  skep merge reject task-3 --reason \"wrong approach\"")]
    Reject(RejectArgs),
    /// Undo a merge
    #[command(after_help = "Examples:\n  skep merge undo task-3\n\n\
Each path gets back what it held before. One that was edited since stays as it is and is named, and the command ends with code 9; run it \
again once your edit is out of the way, and it goes on with what is left. `skep diff task-3 --file PATH --before` prints what a path held \
before the merge. The changes are kept with their task: `skep merge` takes them in again. While somebody goes on with the task, nothing is undone. Taking back is your own call: what your \
policy or a ban denies needs a typed phrase, and the journal keeps what was passed over.")]
    Undo {
        /// Task id, as `skep merge list` prints it
        task: TaskId,
        /// The phrase that an undo against the rules needs
        #[arg(long, value_name = "TEXT")]
        phrase: Option<String>,
    },
    /// Make a task of a patch file, to be merged like any other
    #[command(after_help = "Examples:\n  skep merge import fix.patch\n  git diff | skep merge import -\n\n\
The patch must fit exactly; all of it goes into the task's workspace or nothing.")]
    Import {
        /// A unified diff, or `-` for stdin
        patch: PathBuf,
        /// The repository it is for [default: where you are]
        #[arg(long, value_name = "DIR")]
        zone: Option<PathBuf>,
    },
}

#[derive(Debug, clap::Args)]
struct Apply {
    /// Task id, as `skep merge list` prints it
    task: Option<TaskId>,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Conflicting path: keep the project's version
    #[arg(long, value_name = "PATH")]
    mine: Vec<String>,
    /// Conflicting path: take the task's version
    #[arg(long, value_name = "PATH")]
    theirs: Vec<String>,
    /// Only these files and folders; the others are kept, to be merged later
    #[arg(long, value_name = "PATH", num_args = 1..)]
    only: Vec<String>,
    /// Commit exactly what is merged, on the branch that is checked out
    #[arg(long, conflicts_with = "branch")]
    commit: bool,
    /// Commit it on this branch and leave your files alone
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Message of that commit [default: the task's prompt]
    #[arg(long, short, value_name = "MESSAGE")]
    message: Option<String>,
}

impl MergeArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        match self.action {
            None if self.apply.task.is_none() => list(&mut kernel, console).await,
            None => self.apply.run(&mut kernel, console).await,
            Some(Action::Apply(apply)) => apply.run(&mut kernel, console).await,
            Some(Action::List) => list(&mut kernel, console).await,
            Some(Action::Show { task }) => {
                let shown = shown(&mut kernel, task, console).await?;
                console.show_uncut(&shown, diff::full);
                OK
            }
            Some(Action::Reject(reject)) => reject.run(console).await,
            Some(Action::Undo { task, phrase }) => undo(&mut kernel, task, phrase, console).await,
            Some(Action::Import { patch, zone }) => import(&mut kernel, &patch, zone, console).await,
        }
    }
}

async fn undo(kernel: &mut KernelClient, task: TaskId, phrase: Option<String>, console: &Console) -> ExitResult {
    let mut result =
        console.wait_counting("undoing", Some(task), kernel.call::<MergeUndo>(&MergeUndoParams { task, phrase: phrase.clone() })).await?;
    if let Some(wanted) = result.phrase.take() {
        let flag = format!("--phrase '{wanted}'");
        let denied = CommandError::new(ErrorCode::Denied, format!("{task} is not undone")).why(result.denied.join("; "));
        if phrase.is_some() {
            return Err(denied.fix(format!("add `{flag}`")));
        }
        if !console.json {
            console.out.uncut(&diff::not_undone(&result));
        }
        match console.confirm_typed("undo it all the same", &wanted, &flag) {
            Ok(PhraseAnswer::Right) => {}
            Ok(_) => return Err(denied.fix(format!("nothing changed; type `{wanted}` as it stands there"))),
            Err(_) => return Err(denied.fix(format!("look at what denies it; `{flag}` passes over that"))),
        }
        result =
            console.wait_counting("undoing", Some(task), kernel.call::<MergeUndo>(&MergeUndoParams { task, phrase: Some(wanted) })).await?;
    }
    console.show_wrapped(&result, |result| diff::undone(task, result));
    if result.refused.is_empty() { OK } else { Ok(ErrorCode::WrongState.exit()) }
}

async fn list(kernel: &mut KernelClient, console: &Console) -> ExitResult {
    let result = kernel.call::<MergeList>(&Nothing {}).await?;
    console.show(&result, diff::merges);
    OK
}

async fn shown(kernel: &mut KernelClient, task: TaskId, console: &Console) -> Result<TaskDiffResult, CommandError> {
    let shown = console.wait_counting("comparing", Some(task), kernel.call::<TaskDiff>(&TaskIdParams { task })).await?;
    if shown.digest.is_none() {
        let state = kernel.call::<TaskShow>(&TaskIdParams { task }).await?.state;
        let why = if state.at_rest() { "nothing that it changed is left to merge" } else { "it has not proposed its changes" };
        return Err(CommandError::new(ErrorCode::WrongState, format!("there is nothing to merge for `{task}`"))
            .why(why)
            .fix(format!("see where it stands with `skep status {task}`")));
    }
    Ok(shown)
}

impl Apply {
    async fn run(self, kernel: &mut KernelClient, console: &Console) -> ExitResult {
        let Some(task) = self.task else {
            return Err(CommandError::new(ErrorCode::BadInput, "no task is named").fix("`skep merge list` shows what waits"));
        };
        let mut sides: BTreeMap<String, Side> = self.mine.into_iter().map(|path| (path, Side::Mine)).collect();
        for path in self.theirs {
            if sides.insert(path.clone(), Side::Theirs).is_some() {
                return Err(CommandError::new(ErrorCode::BadInput, format!("`{path}` cannot be both yours and theirs")));
            }
        }
        if self.message.is_some() && !self.commit && self.branch.is_none() {
            return Err(CommandError::new(ErrorCode::BadInput, "a message needs a commit").fix("add `--commit`, or `--branch NAME`"));
        }
        let shown = shown(kernel, task, console).await?;
        let only: Vec<String> = self.only.iter().map(|path| plain(path)).collect();
        let wants_commit = self.commit || self.branch.is_some();
        let commit = match wants_commit {
            true => {
                let (branch, message) = (self.branch, self.message);
                Some(commit::wish(kernel, WantedCommit { shown: &shown, only: &only, sides: &sides, branch, message }).await?)
            }
            false => None,
        };
        if !console.json {
            console.out.page(&diff::summary(&shown, console.out.columns()));
        }
        let unshown = shown.files.iter().filter(|file| file.unshown && file.refused.is_none()).count();
        let agreed = match unshown {
            _ if self.yes => true,
            0 => console.confirm(&question(task, &only, commit.as_ref()), "--yes")?,
            _ => is_merged_unread(task, unshown as u64, console)?,
        };
        if !agreed {
            console.note(Line::new().faint("nothing merged"));
            return OK;
        }
        let params = TaskMergeParams { task, digest: shown.digest, sides, only, commit };
        let result = console.wait_counting("merging", Some(task), kernel.call::<TaskMerge>(&params)).await?;
        console.show_wrapped(&result, |result| diff::merged(task, result));
        if result.uncommitted.is_some() { Ok(wire::code::EXIT_FAILED) } else { OK }
    }
}

/// A change that no diff shows needs more than one key.
fn is_merged_unread(task: TaskId, files: u64, console: &Console) -> Result<bool, CommandError> {
    let phrase = format!("merge {} unread", plural(files, "file"));
    match console.confirm_typed("merge what no diff shows", &phrase, "--yes")? {
        PhraseAnswer::Right => Ok(true),
        PhraseAnswer::Empty => Ok(false),
        PhraseAnswer::Wrong => Err(CommandError::new(ErrorCode::BadInput, format!("{task} is not merged: that is not the phrase"))
            .why(format!("the phrase is `{phrase}`"))
            .fix("type exactly that, or add `--yes`")),
    }
}

/// A path as the kernel names it.
fn plain(path: &str) -> String {
    path.trim_start_matches("./").trim_end_matches('/').to_owned()
}

fn question(task: TaskId, only: &[String], commit: Option<&CommitWish>) -> String {
    let what = if only.is_empty() { task.to_string() } else { format!("{} of {task}", only.join(", ")) };
    match commit.map(|wish| &wish.branch) {
        None => format!("merge {what} into the project?"),
        Some(None) => format!("merge {what} into the project and commit it?"),
        Some(Some(branch)) => format!("commit {what} on the branch {branch}?"),
    }
}

/// Puts a patch into a task of the operator's own; its changes wait like any other's.
async fn import(kernel: &mut KernelClient, patch: &std::path::Path, zone: Option<PathBuf>, console: &Console) -> ExitResult {
    let read = if patch.as_os_str() == "-" { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(patch) };
    let text = read.map_err(|error| {
        CommandError::new(ErrorCode::NotFound, format!("cannot read the patch `{}`", patch.display()))
            .why(error)
            .fix("name a readable text file")
    })?;
    if text.trim().is_empty() {
        return Err(CommandError::new(ErrorCode::BadInput, format!("the patch `{}` is empty", patch.display()))
            .fix("give it a unified diff, such as `git diff | skep merge import -` prints"));
    }
    let input = serde_json::json!({ "patch": text });
    let params = CallRunParams { path: folder(zone.as_deref())?, task: None, tool: "fs.patch".into(), input, mode: None, token: None };
    let result = console.wait("applying", kernel.call::<CallRun>(&params)).await?;
    let ok = result.ok;
    console.show_wrapped(&result, diff::imported);
    if ok { OK } else { Ok(wire::code::EXIT_FAILED) }
}
