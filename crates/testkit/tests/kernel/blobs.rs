//! Blobs go with their work: what is dropped is collected on record, and what can still be taken back is not.

use kernel::{Reply, Tuning};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::harness::Test;
use testkit::stage::{self, Setup, Stage};
use world::{Event, ReviewState, TaskState};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("rejected_work_is_kept_and_dropped_work_is_collected_on_record", || play(rejected)),
        Test::new("kept_work_whose_time_is_over_goes_on_record_and_parked_work_does_not", || play_tuned(tuned(), expired)),
        Test::new("kept_work_that_is_forgotten_is_gone", || play(forgotten)),
        Test::new("what_is_too_much_to_be_kept_is_named", || play_tuned(small(), too_much)),
        Test::new("a_merge_that_can_be_taken_back_keeps_what_it_needs", || play(merged)),
    ]
}

/// Nothing is kept for any time after its end.
fn tuned() -> Tuning {
    Tuning { blob_grace_ms: 0, retention_ms: 0, ..Tuning::default() }
}

fn play<F: Future<Output = Result<(), String>>>(test: impl FnOnce(Arc<Stage>) -> F) -> Result<(), String> {
    play_tuned(Tuning { blob_grace_ms: 0, ..Tuning::default() }, test)
}

fn play_tuned<F: Future<Output = Result<(), String>>>(tuning: Tuning, test: impl FnOnce(Arc<Stage>) -> F) -> Result<(), String> {
    let policy = "  - { name: runs, match: { syscall: '*' }, action: allow }\n".to_owned();
    let policy = policy + "  - { name: asks, match: { syscall: merge.apply }, action: require_review, reason: look }\n";
    let files = vec![("a.txt".to_owned(), "old\n".to_owned())];
    stage::play(Setup { policy, files, tuning, ..Setup::default() }, test)
}

/// Changes a file, lets the task end, and gives the blob with the new content.
async fn proposed(stage: &Stage) -> Result<String, String> {
    let outcome = stage.call("fs.write", json!({"path": "a.txt", "content": "new\n"})).await?;
    if !matches!(outcome.end, kernel::CallEnd::Done { ok: true, .. }) {
        return Err(format!("{:?}", outcome.end));
    }
    let review = stage.kernel.ledger.look(|world| match world.tasks.get(&stage.task)?.state {
        TaskState::Parked { review } => world.reviews.get(&review).filter(|review| review.state == ReviewState::Open).map(|r| r.id),
        _ => None,
    });
    stage.answer(review.ok_or("nothing waits")?, Reply::yes()).await?;
    stage.kernel.tasks.settled(stage.task).await.map_err(|stop| stop.to_string())?;
    let name = stage.kernel.ledger.keep(b"new\n").map_err(|fault| fault.to_string())?;
    collected(stage).await?;
    if !is_there(stage, &name)? {
        return Err("a proposal lost its content".into());
    }
    Ok(name)
}

async fn collected(stage: &Stage) -> Result<usize, String> {
    stage.kernel.blobs.collect().await.map_err(|stop| stop.to_string())
}

fn is_there(stage: &Stage, name: &str) -> Result<bool, String> {
    stage.kernel.ledger.journal().blobs().has(name).map_err(|error| error.to_string())
}

fn intact(stage: &Stage) -> Result<(), String> {
    let report = stage.kernel.ledger.journal().verify().map_err(|error| error.to_string())?;
    if report.is_intact() { Ok(()) } else { Err(format!("{:?}", report.findings)) }
}

/// Of no task more than two bytes are kept.
fn small() -> Tuning {
    Tuning { blob_grace_ms: 0, kept_bytes_max: 2, ..Tuning::default() }
}

async fn too_much(stage: Arc<Stage>) -> Result<(), String> {
    proposed(&stage).await?;
    stage.kernel.reject(stage.task, "human", None).await.map_err(|stop| stop.to_string())?;
    let kept = stage.kernel.ledger.look(|world| world.tasks.get(&stage.task).and_then(|task| task.kept.clone()));
    let diff = stage.kernel.diff(stage.task).await.map_err(|stop| stop.to_string())?;
    let named = diff.files.iter().any(|file| file.path == "a.txt" && file.refused.as_ref().is_some_and(|why| why.contains("4 bytes")));
    match kept {
        Some(kept) if (kept.files, kept.left) == (0, 1) && named => intact(&stage),
        kept => Err(format!("{kept:?} {diff:?}")),
    }
}

async fn forgotten(stage: Arc<Stage>) -> Result<(), String> {
    let name = proposed(&stage).await?;
    stage.kernel.reject(stage.task, "human", None).await.map_err(|stop| stop.to_string())?;
    let filter = journal::Filter { kinds: vec!["work.kept".into()], ..journal::Filter::default() };
    let seq = stage.kernel.ledger.read(&filter).map_err(|fault| fault.to_string())?.first().ok_or("nothing is kept")?.seq;
    let gone = stage.kernel.blobs.forget(&[], &[seq], "it held a secret", "human").await.map_err(|stop| stop.to_string())?;
    let kept = stage.kernel.ledger.look(|world| world.tasks.get(&stage.task).is_some_and(|task| task.kept.is_some()));
    if kept || !gone.contains(&name) || is_there(&stage, &name)? {
        return Err(format!("kept {kept}, gone {gone:?}"));
    }
    intact(&stage)
}

async fn expired(stage: Arc<Stage>) -> Result<(), String> {
    // The proposal waits for a person, and is there after all that was collected.
    let name = proposed(&stage).await?;
    stage.kernel.reject(stage.task, "human", None).await.map_err(|stop| stop.to_string())?;
    let kept = || stage.kernel.ledger.look(|world| world.tasks.get(&stage.task).is_some_and(|task| task.kept.is_some()));
    // On record, and not in the world: the kernel's own collection may have come first.
    if !stage.events()?.iter().any(|event| matches!(event, Event::WorkKept(e) if e.task == Some(stage.task))) {
        return Err("rejected work is not kept".into());
    }
    collected(&stage).await?;
    let dropped =
        stage.events()?.iter().any(|event| matches!(event, Event::WorkDropped(e) if e.by == "kernel" && e.task == Some(stage.task)));
    if kept() || !dropped || is_there(&stage, &name)? {
        return Err(format!("kept {}, on record {dropped}: {:?}", kept(), stage.events()?));
    }
    intact(&stage)
}

async fn rejected(stage: Arc<Stage>) -> Result<(), String> {
    let name = proposed(&stage).await?;
    stage.kernel.reject(stage.task, "human", None).await.map_err(|stop| stop.to_string())?;
    collected(&stage).await?;
    if !is_there(&stage, &name)? {
        return Err("what was only rejected is gone".into());
    }
    stage.kernel.drop_work(stage.task, "human").await.map_err(|stop| stop.to_string())?;
    collected(&stage).await?;
    if is_there(&stage, &name)? {
        return Err(format!("rejected work is kept: {:?}", stage.events()?));
    }
    let on_record =
        stage.events()?.iter().any(|event| matches!(event, Event::BlobForgotten(e) if e.blobs.contains(&name) && e.by == "kernel"));
    if !on_record {
        return Err("what was collected is not on record".into());
    }
    intact(&stage)?;
    // What it was about is still told.
    let diff = stage.kernel.diff(stage.task).await.map_err(|stop| stop.to_string())?;
    if diff.files.len() != 1 || !diff.files[0].diff.contains("kept no longer") {
        return Err(format!("{diff:?}"));
    }
    stage.kernel.merges().map(drop).map_err(|stop| stop.to_string())?;
    // The same content can be kept again, and then it is there.
    let again = stage.kernel.ledger.keep(b"new\n").map_err(|fault| fault.to_string())?;
    if again == name && is_there(&stage, &name)? { Ok(()) } else { Err("it cannot be kept again".into()) }
}

async fn merged(stage: Arc<Stage>) -> Result<(), String> {
    proposed(&stage).await?;
    stage.kernel.merge(stage.task, None, BTreeMap::new(), "human").await.map_err(|stop| stop.to_string())?;
    collected(&stage).await?;
    intact(&stage)?;
    stage.kernel.undo(stage.task, "human", None).await.map_err(|stop| stop.to_string())?;
    let holds = std::fs::read_to_string(stage.bed.project().join("a.txt")).map_err(|error| error.to_string())?;
    if holds == "old\n" { Ok(()) } else { Err(holds) }
}
