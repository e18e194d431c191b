//! A brain as planner: it is asked one question, in a turn in which it may look at the project and change nothing. Its last words are the plan.

use crate::planner::PlannerFault;
use crate::work::SessionWork;
use crate::{HostFuture, Planner};
use workflow::{PlanningRequest, RESPONSE_BYTES_MAX, planner_prompt};
use world::{RetryCause, limits};

pub(crate) struct BrainPlanner {
    work: SessionWork,
    brain: String,
}

impl BrainPlanner {
    pub fn open(work: &SessionWork, brain: &str) -> BrainPlanner {
        BrainPlanner { work: work.clone(), brain: brain.to_owned() }
    }
}

impl Planner for BrainPlanner {
    fn prompt(&self, request: &PlanningRequest) -> Option<String> {
        Some(planner_prompt(request).text())
    }

    fn plan<'a>(&'a self, request: &'a PlanningRequest) -> HostFuture<'a, Result<String, PlannerFault>> {
        Box::pin(async move {
            let task = self.work.task()?;
            let patience = std::time::Duration::from_millis(limits::NO_PROGRESS_MS);
            let asked = self.work.host.ask_brain(&task, &self.brain, planner_prompt(request).text());
            match tokio::time::timeout(patience, asked).await {
                Ok(said) => {
                    let mut said = said?;
                    // Behind this nothing is read, and it may be very long.
                    said.truncate(said.ceil_char_boundary(RESPONSE_BYTES_MAX + 1));
                    Ok(said)
                }
                Err(_) => {
                    let reason = format!("`{}` gave no plan within {} ms", self.brain, patience.as_millis());
                    Err(PlannerFault::Stopped { reason, cause: RetryCause::Time })
                }
            }
        })
    }
}
