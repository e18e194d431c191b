//! The steps of a plan that may begin, one by one: no step waits for anything but what it depends on, what it meets on a path, and a free place.
//!
//! **Invariant.** No step begins before all that it waits for have ended well, or twice. Of two steps that meet on a path one ends before the other begins, in the order of the
//! plan, so what a plan writes does not depend on how fast its steps are. Every step ends: it begins, or it is skipped with a reason.

mod touch_order;

use crate::footprint::Footprint;
use crate::graph::PlanGraph;
use crate::plan::FailurePolicy;
use std::collections::BTreeSet;
use touch_order::{TouchOrder, names};
use world::StepStatus;

#[derive(Clone, Debug)]
pub struct ReadyQueue {
    graph: PlanGraph,
    /// What follows each step on a path; after the steps come joins, which are no steps.
    ordered_after: Vec<Vec<usize>>,
    /// How many must end before it may, on a path; and how many must succeed before it may.
    ordered_waits: Vec<usize>,
    waits: Vec<usize>,
    steps: Vec<Place>,
    ready: BTreeSet<usize>,
    running: usize,
    /// Steps that have not ended.
    open: usize,
    stopped_by: Option<usize>,
    /// How often something was looked at or counted down: what a test of its cost looks at.
    work: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Waiting,
    Running,
    Ended,
}

impl ReadyQueue {
    /// `footprints` are those of the steps, in their order; a step without one may write anything.
    pub fn new(graph: PlanGraph, footprints: &[Footprint]) -> ReadyQueue {
        let touched = touched(&graph, graph.order().iter().copied(), footprints);
        let (ordered_waits, ordered_after, work) = (counted(&touched.after), touched.after, touched.work);
        let waits: Vec<usize> = (0..graph.len()).map(|step| graph.before(step).len()).collect();
        let ready = (0..graph.len()).filter(|step| waits[*step] == 0 && ordered_waits[*step] == 0).collect();
        let (steps, open) = (vec![Place::Waiting; graph.len()], graph.len());
        ReadyQueue { graph, ordered_after, ordered_waits, waits, steps, ready, running: 0, open, stopped_by: None, work }
    }

    pub fn graph(&self) -> &PlanGraph {
        &self.graph
    }

    /// Puts the steps that have not begun in order anew, by what is known of them now: after what runs, and among each other as the plan has them.
    pub fn reorder(&mut self, footprints: &[Footprint]) {
        let at = |place: Place| move |queue: &ReadyQueue, step: &usize| queue.steps[*step] == place;
        let (runs, waits) = (at(Place::Running), at(Place::Waiting));
        let order = self.graph.order();
        let running: Vec<usize> = order.iter().copied().filter(|step| runs(self, step)).collect();
        let waiting: Vec<usize> = order.iter().copied().filter(|step| waits(self, step)).collect();
        let touched = touched(&self.graph, running.into_iter().chain(waiting.iter().copied()), footprints);
        self.work += touched.work;
        (self.ordered_waits, self.ordered_after) = (counted(&touched.after), touched.after);
        self.ready.clear();
        for step in waiting {
            self.look_at(step);
        }
    }

    /// Steps that have not begun, in an order in which nobody comes before what it waits for.
    pub fn waiting(&self) -> impl Iterator<Item = usize> {
        self.graph.order().iter().copied().filter(|step| self.steps[*step] == Place::Waiting)
    }

    /// Steps that begin now, `free` at most: those of the plan's beginning first.
    pub fn begin(&mut self, free: usize) -> Vec<usize> {
        let mut begun = Vec::new();
        while begun.len() < free
            && let Some(step) = self.ready.pop_first()
        {
            self.steps[step] = Place::Running;
            self.running += 1;
            begun.push(step);
        }
        begun
    }

    /// Begins this step, if it waits for nothing any more.
    pub fn begin_one(&mut self, step: usize) -> bool {
        let is_ready = self.ready.remove(&step);
        if is_ready {
            self.steps[step] = Place::Running;
            self.running += 1;
        }
        is_ready
    }

    /// Takes a step as begun without waiting for its turn: after a crash the journal says which ones were.
    pub fn resume(&mut self, step: usize) {
        if self.steps.get(step) == Some(&Place::Waiting) {
            self.ready.remove(&step);
            self.steps[step] = Place::Running;
            self.running += 1;
        }
    }

    /// A step ended. Returns the steps that are skipped by that, in the order of the plan, each with the reason.
    pub fn ended(&mut self, step: usize, status: StepStatus) -> Vec<(usize, String)> {
        if !status.ended() || !matches!(self.steps.get(step), Some(Place::Waiting | Place::Running)) {
            return Vec::new();
        }
        self.close(step);
        if status == StepStatus::Succeeded {
            for place in 0..self.graph.after(step).len() {
                let next = self.graph.after(step)[place];
                self.work += 1;
                self.waits[next] -= 1;
                self.look_at(next);
            }
            return Vec::new();
        }
        let id = self.graph.id(step).to_owned();
        let (word, policy) = match status {
            StepStatus::Failed => ("failed", Some(self.graph.failure_policy(step))),
            _ => ("skipped", None),
        };
        let mut skipped = self.skip_dependants(step, &format!("dependency {word}: {id}"));
        match policy {
            Some(FailurePolicy::Abort) => skipped.extend(self.stop(step, &format!("plan aborted: {id} failed"))),
            Some(FailurePolicy::Replan) => skipped.extend(self.stop(step, &format!("plan replaced: {id} failed"))),
            Some(FailurePolicy::Continue) | None => {}
        }
        skipped.sort_unstable_by_key(|(step, _)| *step);
        skipped
    }

    /// No step begins any more. Returns those that are skipped by that; what runs ends by itself.
    pub fn give_up(&mut self, reason: &str) -> Vec<(usize, String)> {
        let waiting: Vec<usize> = (0..self.graph.len()).filter(|step| self.steps[*step] == Place::Waiting).collect();
        for step in &waiting {
            self.close(*step);
        }
        waiting.into_iter().map(|step| (step, reason.to_owned())).collect()
    }

    /// The step whose failure ended the plan before its end, and what is to be done about it.
    pub fn stopped_by(&self) -> Option<(usize, FailurePolicy)> {
        self.stopped_by.map(|step| (step, self.graph.failure_policy(step)))
    }

    pub fn running(&self) -> usize {
        self.running
    }

    /// Has every step ended?
    pub fn is_over(&self) -> bool {
        self.open == 0
    }

    fn stop(&mut self, step: usize, reason: &str) -> Vec<(usize, String)> {
        self.stopped_by.get_or_insert(step);
        self.give_up(reason)
    }

    /// Skips whatever waits for a step, directly or not.
    fn skip_dependants(&mut self, step: usize, reason: &str) -> Vec<(usize, String)> {
        let mut skipped = Vec::new();
        let mut open = vec![step];
        while let Some(at) = open.pop() {
            for place in 0..self.graph.after(at).len() {
                let next = self.graph.after(at)[place];
                self.work += 1;
                if self.steps[next] == Place::Waiting {
                    self.close(next);
                    skipped.push((next, reason.to_owned()));
                    open.push(next);
                }
            }
        }
        skipped
    }

    /// Ends a step and lets those go that only had to come after it.
    fn close(&mut self, step: usize) {
        if self.steps[step] == Place::Running {
            self.running -= 1;
        }
        self.ready.remove(&step);
        self.steps[step] = Place::Ended;
        self.open -= 1;
        // A step that is skipped stands in the order until those before it have ended: who comes after it comes after them.
        let mut passed: Vec<usize> = (self.ordered_waits[step] == 0).then_some(step).into_iter().collect();
        while let Some(at) = passed.pop() {
            for place in 0..self.ordered_after[at].len() {
                let next = self.ordered_after[at][place];
                self.work += 1;
                self.ordered_waits[next] -= 1;
                // Neither a join nor a step that was skipped has anything to do.
                let is_idle = self.steps.get(next).is_none_or(|place| *place == Place::Ended);
                if is_idle && self.ordered_waits[next] == 0 {
                    passed.push(next);
                }
                self.look_at(next);
            }
        }
    }

    /// Begins next, if it waits for nothing any more.
    fn look_at(&mut self, step: usize) {
        if self.steps.get(step) == Some(&Place::Waiting) && self.waits[step] == 0 && self.ordered_waits[step] == 0 {
            self.ready.insert(step);
        }
    }
}

/// Who comes after whom on a path, of these steps in this order.
fn touched(graph: &PlanGraph, steps: impl Iterator<Item = usize>, footprints: &[Footprint]) -> TouchOrder {
    let mut touched = TouchOrder::new(graph.len());
    for step in steps {
        match footprints.get(step) {
            Some(footprint) if footprint.touches_nothing() => {}
            Some(footprint) if !footprint.writes_unknown => {
                let split = |paths: &[String]| -> Vec<Vec<String>> { paths.iter().map(|path| names(path)).collect() };
                touched.add(step, &split(&footprint.reads), &split(&footprint.writes));
            }
            _ => touched.add(step, &[], &[Vec::new()]),
        }
    }
    touched
}

/// How many come before each.
fn counted(after: &[Vec<usize>]) -> Vec<usize> {
    let mut waits = vec![0; after.len()];
    for next in after.iter().flatten() {
        waits[*next] += 1;
    }
    waits
}

#[cfg(test)]
mod tests;
