//! Calls of the operator's own, in a kernel that dies at each commit: none is left that waits for nobody.

use crate::sessions::{POLICY, run_kernel};
use journal::{Filter, Options, Point};
use kernel::{CallOptions, Kernel, Stop};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use testkit::bed::Bed;
use testkit::harness::Test;
use world::{Event, Mode};

pub fn tests() -> Vec<Test> {
    vec![Test::new("a_call_is_queued_and_begun_in_one_commit", killed)]
}

/// What the kernel is called in its environment that makes such a call.
pub const CALLS: &str = "own_call";

pub async fn call(kernel: &Arc<Kernel>, project: &Path) -> Result<(), Stop> {
    let input = serde_json::json!({"command": ["true"]});
    kernel.call(project, None, "shell.run", input, CallOptions::default()).await.map(drop)
}

/// Tasks of such calls that are on record as queued, and as begun.
fn told(bed: &Bed) -> Result<(usize, usize), String> {
    let (journal, _) = journal::Journal::open(&bed.home(), Options::default()).map_err(|error| error.to_string())?;
    let records = journal.read(&Filter::default()).map_err(|error| error.to_string())?;
    let (mut queued, mut begun) = (BTreeSet::new(), BTreeSet::new());
    for record in &records {
        match serde_json::from_str::<Event>(&record.line).map_err(|error| error.to_string())? {
            Event::TaskQueued(e) if e.mode == Mode::Call => queued.extend(e.task),
            Event::TaskStarted(e) if e.task.is_some_and(|task| queued.contains(&task)) => begun.extend(e.task),
            _ => {}
        }
    }
    Ok((queued.len(), begun.len()))
}

fn killed() -> Result<(), String> {
    let mut deaths = 0;
    for nth in 1..100 {
        let bed = Bed::new(&[(".skep/policy.yaml".to_owned(), POLICY.to_owned())])?;
        run_kernel(&bed, "trust", None)?;
        if !run_kernel(&bed, CALLS, Some(format!("{:?}:{nth}", Point::BeforeAck)))? {
            assert_eq!(told(&bed)?, (1, 1), "the control");
            return if deaths > 0 { Ok(()) } else { Err("no kernel died while its call was on record".to_owned()) };
        }
        let (queued, begun) = told(&bed)?;
        assert_eq!(queued, begun, "killed at commit {nth}: a call is queued that nobody begins");
        deaths += queued;
    }
    Err("the kernel still dies at the 100th commit".to_owned())
}
