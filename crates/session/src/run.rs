//! The loop of a session.

use crate::{SessionEnd, SessionHost};
use std::sync::Arc;
use world::{Code, Refusal, Stop, TaskId};

/// Works on a session until it ends, must wait for a person or cannot go on.
pub async fn run(host: Arc<dyn SessionHost>, task: TaskId) -> Result<SessionEnd, Stop> {
    let task = host.ledger().task(task)?;
    crate::planner::open_planner(&host, &task)?;
    Err(Refusal::new(Code::Unsupported, "sessions do not run yet").into())
}
