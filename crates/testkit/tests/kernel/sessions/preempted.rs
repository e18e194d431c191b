//! A session of higher priority need not wait: what runs for a lower one is frozen, and goes on afterwards.

use super::steps::{ended, plan, start, step};
use super::terms;
use kernel::SlotLimits;
use std::sync::Arc;
use testkit::stage::Stage;
use world::{Event, SessionTerms, TaskId};

pub(super) async fn frozen(stage: Arc<Stage>) -> Result<(), String> {
    stage.kernel.slots.set_limits(SlotLimits { slots_max: 1, ..SlotLimits::default() });
    let sleeps = |time: &str| plan([step("s", "shell.run", &format!("{{\"command\": [\"sleep\", \"{time}\"]}}"), &[])]);
    let of = |priority| SessionTerms { priority, ..terms() };
    let low = start(&stage, of(5), sleeps("1")).await?;
    // Until the program itself runs: before that there is nothing to freeze.
    while !stage.kernel.workspaces.rooms().iter().any(|room| room.task == low && !room.jobs.is_empty()) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let high = start(&stage, of(1), sleeps("0.2")).await?;
    ended(&stage, high).await?;
    ended(&stage, low).await?;
    let told: Vec<(TaskId, &str)> = stage
        .events()?
        .into_iter()
        .filter_map(|event| match event {
            Event::WorkspacePaused(e) if e.by == "kernel" => Some((e.task?, "paused")),
            Event::WorkspaceResumed(e) if e.by == "kernel" => Some((e.task?, "resumed")),
            Event::CallFinished(e) if e.task != Some(stage.task) => Some((e.task?, "finished")),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(low, "paused"), (high, "finished"), (low, "resumed"), (low, "finished")]);
    assert_eq!(stage.kernel.slots.counts(), (0, 0));
    Ok(())
}
