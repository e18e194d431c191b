//! Which steps meet on a file, by what their names really lead to.
//!
//! **Invariant.** Of two steps that meet on a file, one of which writes it, the one that comes first in the plan ends before the other begins, by whatever names they call it. A
//! link that a step makes counts from that step's end on.

use crate::catalog::RegistryCatalog;
use crate::work::SessionWork;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tool::Registry;
use workflow::{Footprint, Plan, ReadyQueue, footprints};
use world::{SessionMode, Stop};

/// Steps whose names are looked up again when a link may have been made: those that come next.
const LOOKED_AHEAD: usize = 1_000;

fn changes_files(footprint: &Footprint) -> bool {
    footprint.writes_unknown || !footprint.writes.is_empty()
}

/// The steps of a plan that may change a file, as its text tells; `None` where it is no plan.
pub fn writers(plan: &str, tools: &Arc<Registry>) -> Option<BTreeSet<String>> {
    let plan = Plan::parse(plan, true).ok()?;
    let touched = footprints(&plan, &RegistryCatalog(tools.clone()));
    let writing = plan.steps.iter().zip(&touched).filter(|(_, touched)| changes_files(touched));
    Some(writing.map(|(step, _)| step.step_id.clone()).collect())
}

/// What each step of a plan touches.
pub(crate) struct Meetings {
    /// As the steps name it.
    named: Vec<Footprint>,
    /// With what the names lead to.
    real: Vec<Footprint>,
    /// A step has ended that may have made or moved a link.
    is_stale: bool,
}

impl Meetings {
    pub async fn of(work: &SessionWork, plan: &Plan) -> Result<Meetings, Stop> {
        let named = footprints(plan, &RegistryCatalog(work.host.tools().clone()));
        let mut meetings = Meetings { real: named.clone(), named, is_stale: false };
        // What is not done in earnest meets nobody's file.
        if work.terms.mode == SessionMode::Live {
            meetings.look_up(work, &(0..meetings.named.len()).collect::<Vec<_>>()).await?;
        }
        Ok(meetings)
    }

    pub fn footprints(&self) -> &[Footprint] {
        &self.real
    }

    /// Whether a step may change a file.
    pub fn writes(&self, step: usize) -> bool {
        self.named.get(step).is_none_or(changes_files)
    }

    /// The paths that these steps can have changed; `None` where that is not known.
    pub fn written(&self, steps: &[usize]) -> Option<Vec<String>> {
        let known = |step: &usize| self.named.get(*step).filter(|named| !named.writes_unknown).map(|named| named.writes.clone());
        Some(steps.iter().map(known).collect::<Option<Vec<_>>>()?.concat())
    }

    /// A step has ended. What writes anything, or gives a file another name, may have changed where names lead.
    pub fn ended(&mut self, step: usize, tool: &str) {
        let writes_unknown = self.named.get(step).is_none_or(|footprint| footprint.writes_unknown);
        self.is_stale |= writes_unknown || tool == "fs.move";
    }

    /// Looks up again where the names of the next steps lead, and puts them in order by that, if it can have changed.
    pub async fn refresh(&mut self, work: &SessionWork, queue: &mut ReadyQueue) -> Result<(), Stop> {
        if !std::mem::take(&mut self.is_stale) || work.terms.mode != SessionMode::Live {
            return Ok(());
        }
        let next: Vec<usize> = queue.waiting().filter(|step| !self.names_of(*step).is_empty()).take(LOOKED_AHEAD).collect();
        if self.look_up(work, &next).await? {
            queue.reorder(&self.real);
        }
        Ok(())
    }

    fn names_of(&self, step: usize) -> Vec<&String> {
        self.named.get(step).map(|named| named.reads.iter().chain(&named.writes).collect()).unwrap_or_default()
    }

    /// Says whether something leads elsewhere than before.
    async fn look_up(&mut self, work: &SessionWork, steps: &[usize]) -> Result<bool, Stop> {
        let names: BTreeSet<&String> = steps.iter().flat_map(|step| self.names_of(*step)).filter(|name| *name != ".").collect();
        if names.is_empty() {
            return Ok(false);
        }
        let names: Vec<String> = names.into_iter().cloned().collect();
        let led = work.host.real_paths(work.id, names.clone()).await?;
        let led: HashMap<String, Vec<String>> = names.into_iter().zip(led).collect();
        let mut is_changed = false;
        for step in steps {
            let Footprint { reads, writes, writes_unknown } = &self.named[*step];
            let all = |paths: &[String]| -> Vec<String> {
                let real = paths.iter().filter_map(|path| led.get(path)).flatten();
                let all: BTreeSet<&String> = paths.iter().chain(real).collect();
                all.into_iter().cloned().collect()
            };
            let real = Footprint { reads: all(reads), writes: all(writes), writes_unknown: *writes_unknown };
            is_changed |= real != self.real[*step];
            self.real[*step] = real;
        }
        Ok(is_changed)
    }
}
