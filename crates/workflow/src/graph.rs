//! Which step waits for which.
//!
//! **Invariant.** A [`PlanGraph`] has no circle: [`PlanGraph::order`] names every step once, each after all that it waits for.

use crate::findings::{Findings, blocking};
use crate::plan::{FailurePolicy, Plan};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use world::PlanFinding;

/// The critic that looks at the graph, as seed 002 calls it.
const CRITIC: &str = "self_reference";
/// Steps of a circle that are named; of a longer one the first ones.
const CIRCLE_SHOWN_MAX: usize = 12;
/// Circles that are told.
const CIRCLES_MAX: usize = 5;

#[derive(Clone, Debug)]
pub struct PlanGraph {
    ids: Vec<String>,
    index: HashMap<String, usize>,
    policies: Vec<FailurePolicy>,
    /// What each step waits for, and what waits for it.
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
    order: Vec<usize>,
}

impl PlanGraph {
    pub fn new(plan: &Plan) -> Result<PlanGraph, Vec<PlanFinding>> {
        let mut found = Findings::default();
        let mut index = HashMap::with_capacity(plan.steps.len());
        for (at, step) in plan.steps.iter().enumerate() {
            if let Some(other) = index.insert(step.step_id.clone(), at) {
                found.add(blocking(
                    "schema",
                    format!("steps[{at}].step_id"),
                    format!("`{}` is the id of steps[{other}] already", step.step_id),
                ));
            }
        }
        let mut before = vec![Vec::new(); plan.steps.len()];
        let mut after = vec![Vec::new(); plan.steps.len()];
        for (at, step) in plan.steps.iter().enumerate() {
            let named = step.depends_on.iter().enumerate().map(|(place, name)| (name, format!("depends_on[{place}]")));
            let taken = step.input_from.iter().map(|(field, from)| (&from.step, format!("input_from.{field}")));
            for (name, place) in named.chain(taken) {
                let place = format!("steps[{at}].{place}");
                match index.get(name) {
                    None => found.add(blocking(CRITIC, place, format!("there is no step `{name}`"))),
                    Some(other) if *other == at => found.add(blocking(CRITIC, place, format!("`{name}` waits for itself"))),
                    Some(other) => before[at].push(*other),
                }
            }
            before[at].sort_unstable();
            before[at].dedup();
            for other in &before[at] {
                after[*other].push(at);
            }
        }
        let order = order(&before, &after);
        if order.len() < plan.steps.len() {
            for circle in circles(&before, &order) {
                let first = circle.first().copied().unwrap_or_default();
                found.add(blocking(
                    CRITIC,
                    format!("steps[{first}]"),
                    format!("steps wait for each other in a circle: {}", shown_circle(&circle, plan)),
                ));
            }
        }
        if !found.is_empty() {
            return Err(found.into_vec());
        }
        let ids = plan.steps.iter().map(|step| step.step_id.clone()).collect();
        let policies = plan.steps.iter().map(|step| step.failure_policy).collect();
        Ok(PlanGraph { ids, index, policies, before, after, order })
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub fn id(&self, step: usize) -> &str {
        self.ids.get(step).map_or("", String::as_str)
    }

    pub fn index_of(&self, id: &str) -> Option<usize> {
        self.index.get(id).copied()
    }

    /// The steps that it waits for, in the order of the plan.
    pub fn before(&self, step: usize) -> &[usize] {
        self.before.get(step).map_or(&[], Vec::as_slice)
    }

    /// The steps that wait for it, in the order of the plan.
    pub fn after(&self, step: usize) -> &[usize] {
        self.after.get(step).map_or(&[], Vec::as_slice)
    }

    pub fn failure_policy(&self, step: usize) -> FailurePolicy {
        self.policies.get(step).copied().unwrap_or_default()
    }

    /// Every step after those that it waits for, and else as the plan has them.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Steps by how many must come one after the other before them: what a picture of the plan shows side by side.
    pub fn layers(&self) -> Vec<Vec<usize>> {
        let mut depth = vec![0; self.len()];
        let mut layers: Vec<Vec<usize>> = Vec::new();
        for step in &self.order {
            let own = self.before(*step).iter().map(|other| depth[*other] + 1).max().unwrap_or(0);
            depth[*step] = own;
            if layers.len() <= own {
                layers.resize(own + 1, Vec::new());
            }
            layers[own].push(*step);
        }
        for layer in &mut layers {
            layer.sort_unstable();
        }
        layers
    }
}

/// Steps whose turn comes, the first of the plan first. Those in a circle, and those behind one, are left out.
fn order(before: &[Vec<usize>], after: &[Vec<usize>]) -> Vec<usize> {
    let mut waits: Vec<usize> = before.iter().map(Vec::len).collect();
    let mut ready: BinaryHeap<Reverse<usize>> = (0..waits.len()).filter(|step| waits[*step] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(waits.len());
    while let Some(Reverse(step)) = ready.pop() {
        order.push(step);
        for next in &after[step] {
            waits[*next] -= 1;
            if waits[*next] == 0 {
                ready.push(Reverse(*next));
            }
        }
    }
    order
}

/// Circles among the steps that have no place in the order; each step of a circle waits for the one after it.
fn circles(before: &[Vec<usize>], order: &[usize]) -> Vec<Vec<usize>> {
    let mut is_placed = vec![false; before.len()];
    for step in order {
        is_placed[*step] = true;
    }
    // In which walk a step was met.
    let mut met = vec![usize::MAX; before.len()];
    let mut circles = Vec::new();
    for start in (0..before.len()).filter(|step| !is_placed[*step]) {
        let mut walk = Vec::new();
        let mut step = start;
        while met[step] == usize::MAX {
            met[step] = start;
            walk.push(step);
            // Whatever has no place waits for something that has none.
            match before[step].iter().find(|other| !is_placed[**other]) {
                Some(other) => step = *other,
                None => break,
            }
        }
        if met[step] == start
            && let Some(begin) = walk.iter().position(|other| *other == step)
            && walk.len() - begin > 1
        {
            circles.push(walk.split_off(begin));
            if circles.len() == CIRCLES_MAX {
                break;
            }
        }
    }
    circles
}

fn shown_circle(circle: &[usize], plan: &Plan) -> String {
    let name = |step: &usize| plan.steps.get(*step).map_or("", |step| step.step_id.as_str());
    let mut names: Vec<&str> = circle.iter().take(CIRCLE_SHOWN_MAX).map(name).collect();
    if circle.len() > CIRCLE_SHOWN_MAX {
        names.push("…");
    }
    names.extend(circle.first().map(name));
    names.join(" → ")
}

#[cfg(test)]
pub(crate) mod tests;
