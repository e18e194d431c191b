//! Work with files stalls nobody: on a runtime with one worker, others are answered while changes are frozen and merged.
//!
//! Nothing is timed. Whoever asks meanwhile sees how far the work has got; if it held the worker, they would see its beginning and its end.

use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use testkit::harness::Test;
use testkit::stage::{self, Setup, Stage};
use world::{ReviewState, TaskState};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("others_are_answered_while_changes_are_frozen", || play(frozen)),
        Test::new("others_are_answered_while_changes_are_merged", || play(merged)),
        Test::new("a_work_that_holds_the_worker_is_seen_as_one_step", || play(control)),
    ]
}

/// Files of the task, and bytes of each.
const FILES: usize = 40;
const BYTES: usize = 32 << 10;
/// Different states of the work that others must see at least, of some forty: one between its beginning and its end. How many more they see is up
/// to the machine.
const SEEN_MIN: usize = 3;

fn play<F: Future<Output = Result<(), String>>>(test: impl FnOnce(Arc<Stage>) -> F) -> Result<(), String> {
    let policy = "  - { name: runs, match: { syscall: '*' }, action: allow }\n".to_owned();
    let policy = policy + "  - { name: asks, match: { syscall: merge.apply }, action: require_review, reason: look }\n";
    stage::play(Setup { policy, workers: Some(1), ..Setup::default() }, test)
}

async fn written(stage: &Stage) -> Result<(), String> {
    let script = format!("for n in $(seq {FILES}); do head -c {BYTES} /dev/zero > f$n; echo $n >> f$n; done");
    let outcome = stage.call("shell.run", json!({"command": ["sh", "-c", script]})).await?;
    match outcome.end {
        kernel::CallEnd::Done { ok: true, .. } => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// Does a work on the one worker, and counts how many different states of it another sees who is answered by the kernel each time.
async fn watched<T: Send + 'static>(
    stage: &Arc<Stage>,
    folder: PathBuf,
    work: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<(T, usize), String> {
    let (work, watcher) = (tokio::spawn(work), stage.clone());
    let done = work.abort_handle();
    let watching = tokio::spawn(async move {
        let mut seen = BTreeSet::new();
        while !done.is_finished() {
            watcher.kernel.workspaces.rooms();
            watcher.kernel.ledger.task(watcher.task).map_err(|stop| stop.to_string())?;
            seen.insert(entries(&folder));
            tokio::task::yield_now().await;
        }
        Ok::<_, String>(seen.len())
    });
    let value = work.await.map_err(|error| error.to_string())??;
    let seen = watching.await.map_err(|error| error.to_string())??;
    Ok((value, seen))
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

async fn frozen(stage: Arc<Stage>) -> Result<(), String> {
    written(&stage).await?;
    let asked = stage.clone();
    let diff = async move { asked.kernel.diff(asked.task).await.map_err(|stop| stop.to_string()) };
    let (diff, seen) = watched(&stage, stage.bed.home().join("blobs"), diff).await?;
    if diff.files.len() != FILES {
        return Err(format!("{} files are frozen", diff.files.len()));
    }
    if seen >= SEEN_MIN { Ok(()) } else { Err(format!("others saw {seen} states of the freeze")) }
}

async fn merged(stage: Arc<Stage>) -> Result<(), String> {
    written(&stage).await?;
    // The stage's task waits for its one call; then it is done, and its merge waits.
    let waits = |stage: &Stage| {
        stage.kernel.ledger.look(|world| match world.tasks.get(&stage.task)?.state {
            TaskState::Parked { review } => world.reviews.get(&review).filter(|review| review.state == ReviewState::Open).map(|r| r.id),
            _ => None,
        })
    };
    stage.answer(waits(&stage).ok_or("nothing waits")?, kernel::Reply::yes()).await?;
    stage.kernel.tasks.settled(stage.task).await.map_err(|stop| stop.to_string())?;
    let asked = stage.clone();
    let merge = async move {
        let merged = asked.kernel.merge(asked.task, None, BTreeMap::new(), "human").await;
        merged.map_err(|stop| stop.to_string())
    };
    let (paths, seen) = watched(&stage, stage.bed.project(), merge).await?;
    if paths.len() != FILES || paths.iter().any(|path| path.refused.is_some()) {
        return Err(format!("{paths:?}"));
    }
    if seen >= SEEN_MIN { Ok(()) } else { Err(format!("others saw {seen} states of the merge")) }
}

/// What the other two would see of a work on the worker itself.
async fn control(stage: Arc<Stage>) -> Result<(), String> {
    let folder = stage.bed.folder().join("control");
    std::fs::create_dir(&folder).map_err(|error| error.to_string())?;
    let made = folder.clone();
    let work = async move {
        for n in 0..FILES {
            std::fs::write(made.join(n.to_string()), vec![0; BYTES]).map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    let ((), seen) = watched(&stage, folder, work).await?;
    if seen < SEEN_MIN { Ok(()) } else { Err(format!("the watcher saw {seen} states, so it proves nothing")) }
}
