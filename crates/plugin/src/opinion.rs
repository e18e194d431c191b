//! Opinions about calls, from a child that runs the rules.
//!
//! [`Extensions`] is the kernel's handle. Behind it one task keeps one child: it hands it one call at a time, kills it when it is
//! late, and starts another. **Invariant.** `opinions` always comes back, and where anything is in doubt with a deny. While there is
//! no child, every call is denied at once.

use std::collections::VecDeque;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use policy::{Action, Opinion};
use sandbox::{Bind, Launcher, Template, Workspace, WorkspaceSpec};
use serde_json::value::to_raw_value;
use tokio::sync::{mpsc, oneshot};

use crate::fault::PluginError;
use crate::frame::{self, Order, RuleAnswer, Says};
use crate::limits::{FRAME_BYTES, RESTART_WINDOW, RESTARTS, TEXT_BYTES, WAITING};

mod keeper;
mod running;

use keeper::{ChildKeeper, RuleQuestion, Wishes};
use running::RunningChild;

/// Where the room shows the binary.
const PROGRAM: &str = "/run/skep-extension";
/// Who speaks when it is not one rule but all of them; no rule can have this name.
const ALL: &str = "*";

/// The rules of one policy version, loaded and waiting. Clones share one child; it ends with the last of them.
#[derive(Debug, Clone)]
pub struct Extensions {
    questions: mpsc::Sender<RuleQuestion>,
    stops: mpsc::Sender<oneshot::Sender<()>>,
    status: Arc<Mutex<Status>>,
}

/// How the child is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub state: EngineState,
    /// The names of the rules, in the order in which they speak.
    pub rules: Vec<String>,
    /// How often a child was replaced, since the start.
    pub restarts: u64,
    /// The host's pid of the room's pid 1, while there is one.
    pub pid: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineState {
    Up,
    /// Being replaced; calls are denied meanwhile.
    Restarting {
        why: String,
    },
    /// Too many restarts; calls are denied until the rules are started anew.
    Down {
        why: String,
    },
    Stopped,
}

impl Extensions {
    /// Loads the rules in a child and waits until they are ready. `dir` is for this value alone; what an earlier one left there
    /// is removed. `program` with `args` must come to [`crate::child_main`]. `files` are names and texts, `bounds` are the child's.
    pub async fn start(
        launcher: &Launcher,
        dir: &Path,
        program: &Path,
        args: &[&str],
        files: Vec<(String, String)>,
        bounds: &Template,
    ) -> Result<Extensions, PluginError> {
        let load = load(files)?;
        let (workspace, work) = open(launcher, dir, program).await?;
        let argv: Vec<String> = std::iter::once(PROGRAM).chain(args.iter().copied()).map(str::to_owned).collect();
        let running = match RunningChild::start(&workspace, &argv, &load, bounds).await {
            Ok(running) => running,
            Err(error) => {
                keeper::close(workspace, work).await;
                return Err(error);
            }
        };
        let rules = running.rules().to_vec();
        let status = Status { state: EngineState::Up, rules: rules.clone(), restarts: 0, pid: Some(running.pid()) };
        let status = Arc::new(Mutex::new(status));
        let (questions, asked) = mpsc::channel(WAITING);
        let (stops, stopped) = mpsc::channel(1);
        let wishes = Wishes { questions: asked, stops: stopped };
        let (bounds, restarts) = (bounds.clone(), Restarts::default());
        let keeper = ChildKeeper { workspace, work, argv, load, bounds, rules, wishes, status: Arc::clone(&status), restarts };
        tokio::spawn(keeper.run(running));
        Ok(Extensions { questions, stops, status })
    }

    /// Only loads the rules, and says which there are.
    pub async fn check(
        launcher: &Launcher,
        dir: &Path,
        program: &Path,
        args: &[&str],
        files: Vec<(String, String)>,
        bounds: &Template,
    ) -> Result<Vec<String>, PluginError> {
        let extensions = Extensions::start(launcher, dir, program, args, files, bounds).await?;
        let rules = extensions.status().rules;
        extensions.stop().await;
        Ok(rules)
    }

    /// What the rules think of a call, described as in `skep.d.ts`. Never fails: doubt is an opinion that denies.
    pub async fn opinions(&self, call: &serde_json::Value) -> Vec<Opinion> {
        let packed = to_raw_value(call).map_err(Into::into).and_then(|call| frame::pack(&Order::Judge(call)));
        let order = match packed {
            Ok(order) => order,
            Err(error) => return lost(format!("the call is {error}")),
        };
        let (reply, answer) = oneshot::channel();
        match self.questions.try_send(RuleQuestion { order, reply }) {
            Ok(()) => answer.await.unwrap_or_else(|_| lost("it was stopped")),
            Err(mpsc::error::TrySendError::Full(_)) => lost("too many calls wait for it"),
            Err(mpsc::error::TrySendError::Closed(_)) => lost("it was stopped"),
        }
    }

    /// Ends the child and its room, and waits until nothing is left of them. Calls that still wait are denied.
    pub async fn stop(self) {
        let (done, ended) = oneshot::channel();
        if self.stops.send(done).await.is_ok() {
            // An error is a keeper that has ended already.
            let _ = ended.await;
        }
    }

    pub fn status(&self) -> Status {
        self.status.lock().clone()
    }
}

/// Workspaces of this process so far.
static STARTED: AtomicU64 = AtomicU64::new(0);
const WORK: &str = "work-";

/// The order that loads the rules, kept for every child to come.
fn load(files: Vec<(String, String)>) -> Result<Vec<u8>, PluginError> {
    let bytes = files.iter().map(|(name, text)| name.len() + text.len()).sum();
    frame::pack(&Order::Load(files)).map_err(|_| PluginError::TooLarge { bytes, max: FRAME_BYTES })
}

/// A room with nothing in it but the binary.
async fn open(launcher: &Launcher, dir: &Path, program: &Path) -> Result<(Workspace, PathBuf), PluginError> {
    let (given, source) = (dir.to_owned(), program.to_owned());
    let prepare = move || {
        DirBuilder::new().recursive(true).mode(0o700).create(given.join("project"))?;
        let dir = given.canonicalize()?;
        sandbox::sweep(&left_behind(&dir), |_| false);
        Ok((dir, source.canonicalize()?))
    };
    let prepared = tokio::task::spawn_blocking(prepare).await.map_err(std::io::Error::other).and_then(|made| made);
    let (dir, source) = prepared.map_err(PluginError::Folder)?;
    // A name of its own: an earlier one may still be on its way out beside it.
    let work = dir.join(format!("{WORK}{}", STARTED.fetch_add(1, Ordering::Relaxed)));
    let mut spec = WorkspaceSpec::new(dir.join("project"), &work);
    spec.binds.push(Bind { source, target: PROGRAM.into(), writable: false });
    let workspace = launcher.open(spec).await.map_err(PluginError::Room)?;
    Ok((workspace, work))
}

/// What earlier ones did not remove; those of this process that are still closing remove themselves.
fn left_behind(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(WORK))).collect()
}

fn lost(why: impl Into<String>) -> Vec<Opinion> {
    vec![Opinion::lost(ALL, why)]
}

/// One opinion for each rule. A child that says too much or too little is not believed at all.
fn opinions(rules: &[String], answers: Vec<RuleAnswer>) -> Option<Vec<Opinion>> {
    let fits = |answer: &RuleAnswer| match answer {
        RuleAnswer::Said { reason, hint, .. } => reason.len().max(hint.as_ref().map_or(0, String::len)) <= TEXT_BYTES,
        RuleAnswer::Lost { why } => why.len() <= TEXT_BYTES,
    };
    let believed = answers.len() == rules.len() && answers.iter().all(fits);
    believed.then(|| rules.iter().zip(answers).map(|(rule, answer)| opinion(rule, answer)).collect())
}

fn opinion(rule: &str, answer: RuleAnswer) -> Opinion {
    match answer {
        RuleAnswer::Lost { why } => Opinion::lost(rule, why),
        RuleAnswer::Said { says, reason, hint } => {
            let says = match says {
                Says::Allow => Action::Allow,
                Says::Deny => Action::Deny,
                Says::Review => Action::RequireReview,
                Says::Pass => Action::Pass,
            };
            // An opinion has no place of its own for the remedy.
            let reason = hint.map_or(reason.clone(), |hint| format!("{reason} ({hint})"));
            Opinion { from: rule.to_owned(), says, reason }
        }
    }
}

/// When children were replaced lately.
#[derive(Debug, Default)]
struct Restarts(VecDeque<Instant>);

impl Restarts {
    /// Takes one restart from what the window allows. `Some` says how many came before it.
    fn take(&mut self, now: Instant) -> Option<usize> {
        self.0.retain(|then| now.duration_since(*then) < RESTART_WINDOW);
        let before = self.0.len();
        (before < RESTARTS).then(|| {
            self.0.push_back(now);
            before
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn five_restarts_a_minute() {
        let start = Instant::now();
        let mut restarts = Restarts::default();
        let taken: Vec<_> = (0..6).map(|second| restarts.take(start + Duration::from_secs(second))).collect();
        assert_eq!(taken, [Some(0), Some(1), Some(2), Some(3), Some(4), None]);
        assert_eq!(restarts.take(start + Duration::from_secs(59)), None);
        assert_eq!(restarts.take(start + Duration::from_secs(60)), Some(4));
    }

    #[test]
    fn a_child_that_says_too_much_or_too_little_is_not_believed() {
        let pass = RuleAnswer::Said { says: Says::Pass, reason: String::new(), hint: None };
        let rules = ["a".to_owned(), "b".to_owned()];
        assert_eq!(opinions(&rules, vec![pass.clone(); 2]).map(|all| all.len()), Some(2));
        assert_eq!(opinions(&rules, vec![pass.clone()]), None);
        assert_eq!(opinions(&rules, vec![pass.clone(); 3]), None);
        let long = RuleAnswer::Lost { why: "x".repeat(TEXT_BYTES + 1) };
        assert_eq!(opinions(&rules, vec![pass, long]), None);
    }
}
