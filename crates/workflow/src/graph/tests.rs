//! Graphs of plans: circles are told by their path, and every order keeps to what waits for what.

use super::*;
use crate::plan::Plan;
use proptest::prelude::*;
use serde_json::json;

/// A plan of steps `s0`, `s1` and so on; each with the numbers of those that it waits for. Not read by [`Plan::parse`], which refuses circles already.
pub(crate) fn plan_of(waits: &[Vec<usize>]) -> Plan {
    let mut plan = unordered(waits.len());
    for (step, waits) in plan.steps.iter_mut().zip(waits) {
        step.depends_on = waits.iter().map(|other| format!("s{other}")).collect();
    }
    plan
}

fn unordered(count: usize) -> Plan {
    let one = json!({ "schema_version": "0.1", "goal": "g", "steps": [{ "step_id": "s0", "tool_ref": { "name": "fs.read" } }] });
    let mut plan = Plan::parse(&one.to_string(), false).unwrap();
    plan.steps = vec![plan.steps[0].clone(); count];
    for (index, step) in plan.steps.iter_mut().enumerate() {
        step.step_id = format!("s{index}");
    }
    plan
}

fn told(waits: &[Vec<usize>]) -> Vec<String> {
    let findings = PlanGraph::new(&plan_of(waits)).err().unwrap_or_default();
    findings.into_iter().map(|finding| format!("{}: {}", finding.at, finding.message)).collect()
}

#[test]
fn a_circle_is_told_by_its_path() {
    assert_eq!(told(&[vec![], vec![0], vec![1]]), Vec::<String>::new());
    assert_eq!(told(&[vec![1], vec![0]]), ["steps[0]: steps wait for each other in a circle: s0 → s1 → s0"]);
    // What only stands behind a circle is not in it.
    assert_eq!(told(&[vec![1], vec![2], vec![3], vec![1]]), ["steps[1]: steps wait for each other in a circle: s1 → s2 → s3 → s1"]);
    assert_eq!(told(&[vec![0]]), ["steps[0].depends_on[0]: `s0` waits for itself"]);
    assert_eq!(told(&[vec![7]]), ["steps[0].depends_on[0]: there is no step `s7`"]);
    let two = told(&[vec![1], vec![0], vec![3], vec![2]]);
    assert_eq!(two.len(), 2, "{two:?}");
}

#[test]
fn a_circle_of_ten_thousand_is_told_in_one_line() {
    let waits: Vec<Vec<usize>> = (0..10_000).map(|step| vec![(step + 1) % 10_000]).collect();
    let told = told(&waits);
    assert_eq!(told.len(), 1);
    assert!(told[0].len() < 200 && told[0].ends_with("s11 → … → s0"), "{told:?}");
    let many: Vec<Vec<usize>> = (0..10_000).map(|step| vec![step ^ 1]).collect();
    assert_eq!(super::tests::told(&many).len(), CIRCLES_MAX);
}

#[test]
fn layers_are_what_a_picture_shows_side_by_side() {
    let graph = PlanGraph::new(&plan_of(&[vec![], vec![0], vec![], vec![1, 2], vec![0]])).unwrap();
    assert_eq!(graph.layers(), [vec![0, 2], vec![1, 4], vec![3]]);
    assert_eq!((graph.before(3), graph.after(0)), ([1, 2].as_slice(), [1, 4].as_slice()));
    assert_eq!((graph.index_of("s3"), graph.id(3), graph.index_of("x")), (Some(3), "s3", None));
}

#[test]
fn a_step_that_is_named_twice_is_waited_for_once() {
    let text = json!({ "schema_version": "0.1", "goal": "g", "steps": [
        { "step_id": "a", "tool_ref": { "name": "fs.read" } },
        { "step_id": "b", "tool_ref": { "name": "fs.read" }, "depends_on": ["a"], "input_from": { "path": "a.path", "offset": "a.size" } } ] });
    let graph = PlanGraph::new(&Plan::parse(&text.to_string(), false).unwrap()).unwrap();
    assert_eq!((graph.before(1), graph.after(0)), ([0].as_slice(), [1].as_slice()));
}

proptest! {
    /// A graph is made exactly where there is no circle, and its order has every step once and after what it waits for.
    #[test]
    fn every_order_keeps_to_what_waits_for_what(waits in prop::collection::vec(prop::collection::vec(0usize..12, 0..4), 1..12)) {
        let count = waits.len();
        let waits: Vec<Vec<usize>> = waits.iter().enumerate().map(|(step, list)| {
            let mut list: Vec<usize> = list.iter().map(|other| other % count).filter(|other| *other != step).collect();
            list.sort_unstable();
            list.dedup();
            list
        }).collect();
        // Who can be reached from whom, by brute force.
        let mut reaches = vec![vec![false; count]; count];
        for (step, list) in waits.iter().enumerate() {
            list.iter().for_each(|other| reaches[step][*other] = true);
        }
        for middle in 0..count {
            for from in 0..count {
                for to in 0..count {
                    reaches[from][to] |= reaches[from][middle] && reaches[middle][to];
                }
            }
        }
        let has_circle = (0..count).any(|step| reaches[step][step]);
        match PlanGraph::new(&plan_of(&waits)) {
            Err(findings) => {
                prop_assert!(has_circle);
                for finding in findings {
                    // Each arrow of the told path is there.
                    let path = finding.message.rsplit_once(": ").unwrap().1;
                    let names: Vec<usize> = path.split(" → ").map(|name| name[1..].parse().unwrap()).collect();
                    prop_assert!(names.len() > 2 && names.first() == names.last());
                    prop_assert!(names.windows(2).all(|pair| waits[pair[0]].contains(&pair[1])), "{}", path);
                }
            }
            Ok(graph) => {
                prop_assert!(!has_circle);
                let mut place = vec![usize::MAX; count];
                graph.order().iter().enumerate().for_each(|(at, step)| place[*step] = at);
                prop_assert_eq!(graph.order().len(), count);
                prop_assert!((0..count).all(|step| waits[step].iter().all(|other| place[*other] < place[step])));
            }
        }
    }
}
