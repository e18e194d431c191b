//! Who makes plans: the trait, and the planner that reads them from a file.

use crate::brain_planner::BrainPlanner;
use crate::model_planner::ModelPlanner;
use crate::planner_spec::PlannerSpec;
use crate::work::SessionWork;
use crate::{HostFuture, SessionHost};
use std::sync::Arc;
use workflow::{PlanningRequest, plan_documents};
use world::event::SessionCreated;
use world::{BrainSpec, Code, Event, Fault, FaultKind, Refusal, RetryCause, ReviewId, Stop, Task};

/// The planner that reads its plans from the file that came with the session.
pub const FILE_PLANNER: &str = "file";

/// Makes plans. What it says is read and judged by others.
pub trait Planner: Send + Sync {
    /// What it is told, for the record. A planner that is told nothing has none.
    fn prompt(&self, _request: &PlanningRequest) -> Option<String> {
        None
    }

    /// Who it is, for the record, where its name does not say all.
    fn label(&self, _request: &PlanningRequest) -> Option<String> {
        None
    }

    /// Tokens that it can be told at once, where that is known.
    fn context_tokens(&self) -> Option<u64> {
        None
    }

    /// Whether it can be asked once more after it gave so many plans.
    fn has_more(&self, _given: u32) -> bool {
        true
    }

    /// The text of a plan.
    fn plan<'a>(&'a self, request: &'a PlanningRequest) -> HostFuture<'a, Result<String, PlannerFault>>;
}

/// Why there is no plan.
#[derive(Clone, Debug)]
pub enum PlannerFault {
    /// It has none, and asking again is of no use.
    Failed(String),
    /// A person must answer first.
    Asked(ReviewId),
    /// It gives none now, and may later.
    Stopped {
        reason: String,
        cause: RetryCause,
    },
    Stop(Stop),
}

impl PlannerFault {
    pub(crate) fn reason(&self) -> String {
        match self {
            PlannerFault::Failed(reason) | PlannerFault::Stopped { reason, .. } => reason.clone(),
            PlannerFault::Asked(review) => format!("{review} must be answered first"),
            PlannerFault::Stop(stop) => stop.to_string(),
        }
    }
}

impl From<Stop> for PlannerFault {
    fn from(stop: Stop) -> PlannerFault {
        PlannerFault::Stop(stop)
    }
}

impl From<Fault> for PlannerFault {
    fn from(fault: Fault) -> PlannerFault {
        PlannerFault::Stop(fault.into())
    }
}

/// The planner that a session's terms name.
pub(crate) fn open_planner(work: &SessionWork) -> Result<Box<dyn Planner>, Stop> {
    Ok(match PlannerSpec::parse(&work.terms.planner)? {
        PlannerSpec::File => Box::new(FilePlanner::of(&work.host, &work.task()?)?),
        PlannerSpec::Model(model) => Box::new(ModelPlanner::open(work, model.as_deref(), false)?),
        PlannerSpec::Router(model) => Box::new(ModelPlanner::open(work, model.as_deref(), true)?),
        PlannerSpec::Brain(brain) => Box::new(BrainPlanner::open(work, &brain)),
    })
}

/// A plan of which only what the journal may say is left.
pub(crate) fn plan_gone() -> Refusal {
    let reason = "the plan held a secret, and its exact words are not kept any more: what is on record of it is never run";
    Refusal::new(Code::WrongState, reason).hint("begin a new session with the plan")
}

/// Reads plans from the file that came with the session.
struct FilePlanner {
    plans: Vec<String>,
}

impl FilePlanner {
    fn of(host: &Arc<dyn SessionHost>, task: &Task) -> Result<FilePlanner, Stop> {
        let blob = BrainSpec::script_blob(&task.brain).ok_or_else(|| Refusal::new(Code::BadInput, "no plan file came with the session"))?;
        let created = host.ledger().events(task.id, &["session.created"])?.into_iter().next();
        let bytes = match created {
            Some(Event::SessionCreated(SessionCreated { original: Some(name), .. })) => {
                host.ledger().exact(&name)?.ok_or_else(plan_gone)?
            }
            _ => host.ledger().blob(&blob)?,
        };
        let text = String::from_utf8(bytes).map_err(|error| Fault::new(FaultKind::Brain, "the plan file is no text", error))?;
        Ok(FilePlanner { plans: plan_documents(&text) })
    }
}

impl Planner for FilePlanner {
    fn has_more(&self, given: u32) -> bool {
        usize::try_from(given).is_ok_and(|given| given < self.plans.len())
    }

    fn plan<'a>(&'a self, request: &'a PlanningRequest) -> HostFuture<'a, Result<String, PlannerFault>> {
        let asked = usize::try_from(request.asked).unwrap_or(usize::MAX);
        let count = self.plans.len();
        let plan = self.plans.get(asked).cloned();
        let none = move || PlannerFault::Failed(format!("the plan file has {count} plans and is asked for one more"));
        Box::pin(async move { plan.ok_or_else(none) })
    }
}
