//! Which layer a step is in: one behind the last layer of all that it comes after.

use crate::show::Line;
use std::collections::BTreeMap;
use wire::method::plan::PlanView;

/// One row of a drawing.
pub struct GraphRow {
    /// Place of the step in its plan.
    pub step: usize,
    /// Counts from 1.
    layer: usize,
    is_first: bool,
    is_last: bool,
}

impl GraphRow {
    /// `  2 ┬ `; its number stands at the first row of a layer, and where the rows before are not drawn.
    pub fn rail(&self, is_behind_gap: bool) -> Line {
        let rail = match (self.is_first, self.is_last) {
            (true, true) => "─",
            (true, false) => "┬",
            (false, false) => "├",
            (false, true) => "└",
        };
        let number = if self.is_first || is_behind_gap { self.layer.to_string() } else { String::new() };
        Line::new().faint(format!("{number:>3} {rail} "))
    }
}

/// The layer of each step. What waits for itself stands in the first layer: a plan with a ring is refused elsewhere, and drawn all the same.
fn layers(plan: &PlanView) -> Vec<usize> {
    let places: BTreeMap<&str, usize> = plan.steps.iter().enumerate().map(|(place, step)| (step.step.as_str(), place)).collect();
    let before: Vec<Vec<usize>> =
        plan.steps.iter().map(|step| step.after.iter().filter_map(|name| places.get(name.as_str()).copied()).collect()).collect();
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); plan.steps.len()];
    for (place, before) in before.iter().enumerate() {
        before.iter().for_each(|other| behind[*other].push(place));
    }
    let mut missing: Vec<usize> = before.iter().map(Vec::len).collect();
    let mut layers = vec![1; plan.steps.len()];
    let mut open: Vec<usize> = (0..plan.steps.len()).filter(|place| missing[*place] == 0).collect();
    while let Some(place) = open.pop() {
        for next in &behind[place] {
            layers[*next] = layers[*next].max(layers[place] + 1);
            missing[*next] -= 1;
            if missing[*next] == 0 {
                open.push(*next);
            }
        }
    }
    layers
}

pub fn count(plan: &PlanView) -> usize {
    layers(plan).into_iter().max().unwrap_or(0)
}

/// All steps by layer, and within one in the plan's order.
pub fn rows(plan: &PlanView) -> Vec<GraphRow> {
    let layers = layers(plan);
    let mut order: Vec<usize> = (0..plan.steps.len()).collect();
    order.sort_by_key(|place| layers[*place]);
    let layer_at = |at: usize| order.get(at).map(|place| layers[*place]);
    let row = |(at, place): (usize, &usize)| GraphRow {
        step: *place,
        layer: layers[*place],
        is_first: at == 0 || layer_at(at - 1) != Some(layers[*place]),
        is_last: layer_at(at + 1) != Some(layers[*place]),
    };
    order.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::plan::tests::step;

    #[test]
    fn a_layer_is_behind_all_that_comes_before_it() {
        let steps = vec![step("c", "t", "", &["b", "a"]), step("a", "t", "", &[]), step("b", "t", "", &["a"]), step("d", "t", "", &[])];
        assert_eq!(layers(&PlanView { steps, ..PlanView::default() }), [3, 1, 2, 1]);
    }

    #[test]
    fn a_ring_and_what_is_not_there_are_drawn_too() {
        let steps = vec![step("a", "t", "", &["b"]), step("b", "t", "", &["a"]), step("c", "t", "", &["nowhere"])];
        let plan = PlanView { steps, ..PlanView::default() };
        assert_eq!(layers(&plan), [1, 1, 1]);
        assert_eq!(rows(&plan).len(), 3);
    }
}
