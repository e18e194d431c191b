//! No text makes the readers of plans panic; what they accept can be written and read again, is a plan by the published schema too, and runs to its end.

#[path = "../../testkit/fuzz/fuzz.rs"]
mod fuzz;

use boon::{Compiler, Schemas};
use serde_json::json;
use std::collections::BTreeSet;
use workflow::{Criterion, FieldPath, Footprint, OutputRef, Plan, PlanGraph, ReadyQueue, VersionRange, bind_input, check_success};
use world::StepStatus;

const PLANS: &[&str] = &[
    "{\"schema_version\":\"0.1\",\"goal\":\"g\",\"steps\":[",
    "{\"step_id\":\"a\",\"tool_ref\":{\"name\":\"fs.read\"}},",
    "{\"step_id\":\"b\",\"tool_ref\":{\"name\":\"fs.write\"},\"depends_on\":[\"a\"]},",
    "{\"step_id\":\"c\",\"tool_ref\":{\"name\":\"fs.write\"},\"input_from\":{\"content\":\"a.content\"},\"failure_policy\":\"continue\"},",
    "{\"step_id\":\"d\",\"tool_ref\":{\"name\":\"x\"}}",
    "]}",
    ",\"assumptions\":[\"x\"]",
    ",\"artifacts\":[{\"name\":\"n\",\"type\":\"file\"}]",
    ",\"timeout_ms\":100",
    ",\"max_retries\":1e1",
    "schema_version: \"0.1\"\ngoal: g\nsteps:\n",
    "  - step_id: a\n    tool_ref: { name: fs.read }\n",
    "  - { step_id: b, tool_ref: { name: fs.write, version_range: ^1 }, depends_on: [a] }\n",
    "  - { step_id: c, tool_ref: { name: t }, input_from: { x: a.y }, success_criteria: [exists] }\n",
    "    depends_on: [",
    "    title: ",
    "    input: { path: x }\n",
    "    timeout_ms: 100\n",
    "a",
    "b",
    "]",
    "}",
    "{",
    "[",
    "\"",
    ":",
    ",",
    "\n",
    "  ",
    "- ",
    "&x ",
    "*x",
    "<<: ",
    "null",
    "-0",
    "1e999",
    "0.1",
    "\\u202e",
    "\\u0000",
    "---\n",
];

#[test]
fn plans() {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    let schema = serde_json::from_str(include_str!("../../../docs/plan.schema.json")).unwrap();
    compiler.add_resource("https://schema.invalid/plan", schema).unwrap();
    let published = compiler.compile("https://schema.invalid/plan", &mut schemas).unwrap();
    fuzz::text("plans", PLANS, |text| {
        let plan = match Plan::parse(text, true) {
            Ok(plan) => plan,
            Err(findings) => {
                assert!(!findings.is_empty() && findings.iter().all(|finding| finding.blocks), "a refusal without a reason");
                assert!(findings.iter().all(|finding| finding.message.len() < 1_000 && finding.at.len() < 1_000));
                return;
            }
        };
        assert!(schemas.validate(&plan.to_value(), published).is_ok(), "the schema refuses {}", plan.to_json());
        assert_eq!(Plan::parse(&plan.to_json(), true).as_ref(), Ok(&plan));
        assert_eq!(Plan::parse(text, false).is_ok(), !plan.steps.is_empty());
        run(&plan, PlanGraph::new(&plan).unwrap(), text.len());
    });
}

/// Runs a plan, every so many steps failing.
fn run(plan: &Plan, graph: PlanGraph, seed: usize) {
    let footprints: Vec<Footprint> = (0..plan.steps.len())
        .map(|step| match (step + seed) % 3 {
            0 => Footprint::unknown(),
            1 => Footprint { writes: vec!["a".to_owned()], ..Footprint::default() },
            _ => Footprint { reads: vec![".".to_owned()], ..Footprint::default() },
        })
        .collect();
    let mut queue = ReadyQueue::new(graph, &footprints);
    let (mut seen, mut running) = (BTreeSet::new(), Vec::new());
    loop {
        for step in queue.begin(2 - running.len()) {
            assert!(seen.insert(step), "{step} twice");
            let _ = bind_input(&plan.steps[step], &|_| Some(json!({ "content": "x" })));
            running.push(step);
        }
        let Some(step) = running.pop() else { break };
        let status = if (step + seed).is_multiple_of(5) { StepStatus::Failed } else { StepStatus::Succeeded };
        for (skipped, reason) in queue.ended(step, status) {
            assert!(seen.insert(skipped) && !reason.is_empty(), "{skipped} ran and was skipped");
        }
    }
    assert!(queue.is_over() && seen.len() == plan.steps.len(), "{seen:?} of {}", plan.to_json());
}

const EXPRESSIONS: &[&str] = &[
    "a",
    "b.c",
    "[0]",
    "count(",
    ")",
    " ",
    "not ",
    "exists",
    "contains",
    "starts_with",
    "ends_with",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "\"x\"",
    "'y'",
    "0",
    "-1.5",
    "1e9",
    "null",
    "true",
    ".",
    "-",
    "_",
    "^",
    "~",
    "1.2.3",
    "1.x",
    "*",
    "||",
    " - ",
    "-rc.1",
    "+b",
    "v",
    "=",
    "\"",
    "'",
];

#[test]
fn expressions() {
    let outputs = [json!({ "a": 1, "b": { "c": [true, "x"] } }), json!({ "a": "xyz", "b": null }), json!([1]), json!(null)];
    fuzz::text("expressions", EXPRESSIONS, |text| {
        if let Ok(criterion) = Criterion::parse(text) {
            assert_eq!(criterion.as_str(), text);
            let opposite = Criterion::parse(&format!("not {text}"));
            for output in &outputs {
                let holds = check_success(std::slice::from_ref(&criterion), output).is_ok();
                if let Ok(opposite) = &opposite {
                    assert!(
                        !(holds && check_success(std::slice::from_ref(opposite), output).is_ok()),
                        "{text} holds of {output}, and so does its opposite"
                    );
                }
            }
        }
        if let Ok(path) = FieldPath::parse(text) {
            assert_eq!(FieldPath::parse(&path.to_string()), Ok(path));
        }
        if let Ok(from) = OutputRef::parse(text) {
            assert_eq!(OutputRef::parse(&from.to_string()), Ok(from));
        }
        if let Ok(range) = VersionRange::parse(text) {
            let has: Vec<bool> = ["0.0.0", "1.2.3", "1.2.3-rc.1", "2.0.0"].into_iter().map(|version| range.has(version)).collect();
            assert_eq!(has.len(), 4);
            assert_eq!(VersionRange::parse(range.as_str()), Ok(range));
        }
    });
}
