//! The boundary of a phase: the room is looked at, and what the phase did not allow is put back.

use crate::{PhaseWork, TestFirst};
use workflow::discipline::path_objection;
use workspace::{RoomSnapshot, State};
use world::event::FilesPutBack;
use world::{Discipline, Fault, FaultKind, Stop, Workflow};

/// How often paths are put back before it is given up: two names of one file may take two.
const TRIES_MAX: usize = 3;
/// Paths that a record and a brain are told of.
const TOLD_MAX: usize = 50;

/// What a phase left.
pub(crate) struct Boundary {
    pub snapshot: RoomSnapshot,
    pub put_back: Vec<String>,
}

impl Boundary {
    /// What the brain is told of it.
    pub fn told(&self) -> String {
        if self.put_back.is_empty() {
            return String::new();
        }
        let named: Vec<&str> = self.put_back.iter().take(TOLD_MAX).map(String::as_str).collect();
        let more = if self.put_back.len() > TOLD_MAX { format!(" and {} more", self.put_back.len() - TOLD_MAX) } else { String::new() };
        format!("[PUT BACK] This phase does not allow changes of {}{more}: they hold again what they held before it.", named.join(", "))
    }
}

impl TestFirst<'_> {
    /// What the task had changed when its present phase began.
    pub(crate) fn phase_start(&self, workflow: &Workflow) -> Result<RoomSnapshot, Fault> {
        match &workflow.snapshot {
            Some(blob) => RoomSnapshot::parse(&self.ledger.blob(blob)?),
            None => Ok(RoomSnapshot::default()),
        }
    }

    /// Looks at the room, and puts back what the phase does not allow.
    pub(crate) async fn boundary(&self, work: &PhaseWork<'_>, workflow: &Workflow) -> Result<Boundary, Stop> {
        let before = self.phase_start(workflow)?;
        let project = self.gate.policies.in_force(work.task.zone)?;
        let room = &work.opened.room;
        let mut put_back: Vec<String> = Vec::new();
        for _ in 0..TRIES_MAX {
            let keeping = self.ledger.keeping();
            let snapshot = RoomSnapshot::take(room, &before, &|bytes| keeping.keep(bytes)).await?;
            keeping.done()?;
            let is_forbidden = |path: &String| {
                let is_link = matches!(snapshot.paths.get(path), Some(State::Link { .. })) || snapshot.unkept.contains(path);
                // A link is a second name: what is written by one of them would count as the other.
                (is_link && workflow.mode == Discipline::Strict) || path_objection(workflow, path, &project.tests).is_some()
            };
            let forbidden: Vec<String> = snapshot.changed_since(&before).into_iter().filter(is_forbidden).collect();
            if forbidden.is_empty() {
                self.record_put_back(work, workflow, &put_back).await?;
                return Ok(Boundary { snapshot, put_back });
            }
            before.put_back(room, &forbidden, &|blob| self.ledger.blob(blob)).await?;
            put_back.extend(forbidden);
            put_back.sort();
            put_back.dedup();
        }
        let why = format!("{} could not be put back to what they were", put_back.join(", "));
        Err(Fault::new(FaultKind::Room, "a phase could not be ended", why).into())
    }

    async fn record_put_back(&self, work: &PhaseWork<'_>, workflow: &Workflow, paths: &[String]) -> Result<(), Fault> {
        if paths.is_empty() {
            return Ok(());
        }
        let named = paths.iter().take(TOLD_MAX).cloned().collect();
        let (pid, task) = (work.task.pid, Some(work.task.id));
        self.ledger.record(FilesPutBack { pid, task, state: workflow.state, paths: named, count: paths.len() as u64 }).await
    }
}
