//! One word from a brain, to see that all of its way works: its client in a room, the gateway, its model.
//!
//! It is a task like any other, in a repository of our own below `$SKEP_HOME` that holds nothing.

use crate::command_error::CommandError;
use crate::console::{Console, utf8};
use serde::Serialize;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use wire::method::task::{TaskAddParams, TaskAwaitParams, TaskIdParams, TaskStatus};
use wire::table::{TaskAdd, TaskAwait, TaskCancel};
use wire::{ErrorCode, KernelClient, Mode, TaskId, UsageTotals};

/// A client that says nothing for so long has failed its trial.
const TRIAL_MS_MAX: u64 = 120_000;
const PROMPT: &str = "Answer with one word: ready. Use no tool.";

/// What a brain said when it was tried.
#[derive(Clone, Debug, Serialize)]
pub struct BrainTrial {
    pub brain: String,
    pub task: TaskId,
    pub answer: String,
    pub ms: u64,
    /// What it used of models, as it is on record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageTotals>,
}

/// Asks a brain for one word.
pub async fn run(kernel: &mut KernelClient, brain: &str, console: &Console) -> Result<BrainTrial, CommandError> {
    let path = utf8(place(&console.home)?)?;
    let began = std::time::Instant::now();
    let params = TaskAddParams {
        path,
        mode: Mode::Ask,
        prompt: PROMPT.to_owned(),
        brain: Some(brain.to_owned()),
        priority: None,
        calls_max: None,
        record: false,
        tags: Vec::new(),
        budget: None,
        new_worker: false,
        placement: wire::TaskPlacement::default(),
        role: None,
        skill: None,
        params: Default::default(),
        tools: None,
        discipline: None,
    };
    let task = kernel.call::<TaskAdd>(&params).await?.task;
    let settled = TaskAwaitParams { task, timeout_ms: Some(TRIAL_MS_MAX) };
    let view = match console.wait(&format!("asking {brain} for one word"), kernel.call::<TaskAwait>(&settled)).await {
        Ok(view) => view,
        Err(error) => {
            // It is nobody's work: it ends with the trial.
            drop(kernel.call::<TaskCancel>(&TaskIdParams { task }).await);
            return Err(error.into());
        }
    };
    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let answer = view.summary.clone().unwrap_or_default();
    if view.state != TaskStatus::Done {
        drop(kernel.call::<TaskCancel>(&TaskIdParams { task }).await);
        let why = if answer.is_empty() {
            format!("its task is {}", serde_json::json!(view.state).as_str().unwrap_or("not done"))
        } else {
            answer
        };
        return Err(CommandError::new(ErrorCode::Failed, format!("`{brain}` gives no answer"))
            .why(why)
            .fix(format!("`skep log {task}` says more; then run `skep brain check {brain}` again")));
    }
    Ok(BrainTrial { brain: brain.to_owned(), task, answer, ms, usage: view.usage.map(|usage| usage.figures) })
}

/// The repository of trials.
fn place(home: &Path) -> Result<PathBuf, CommandError> {
    let folder = home.join("trial");
    let fail = |why: String| {
        CommandError::new(ErrorCode::Internal, format!("cannot make the repository `{}`", folder.display()))
            .why(why)
            .fix("see that git is installed and the folder is yours")
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|error| fail(error.to_string()))?;
    if !folder.join(".git").exists() {
        let mut git = std::process::Command::new("git");
        git.arg("init").arg("-q").arg(&folder).env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
        let made = git.output().map_err(|error| fail(error.to_string()))?;
        if !made.status.success() {
            return Err(fail(String::from_utf8_lossy(&made.stderr).trim().to_owned()));
        }
    }
    Ok(folder)
}
