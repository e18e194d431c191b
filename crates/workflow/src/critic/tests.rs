//! Critics on tables of plans, with a catalog of three tools.

use super::*;
use serde_json::json;
use world::Code;

/// `fs.read` and `fs.write` as they are, and `shell.run`, which may do anything.
pub(crate) struct SmallCatalog {
    schemas: [(&'static str, Value); 3],
}

impl SmallCatalog {
    pub(crate) fn new() -> SmallCatalog {
        let object = |required: Value, properties: Value| json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false });
        let text = json!({ "type": "string", "minLength": 1 });
        SmallCatalog {
            schemas: [
                ("fs.read", object(json!(["path"]), json!({ "path": text, "limit": { "type": "integer" } }))),
                ("fs.write", object(json!(["path", "content"]), json!({ "path": text, "content": { "type": "string" } }))),
                ("shell.run", object(json!(["command"]), json!({ "command": { "type": "array", "items": { "type": "string" } } }))),
            ],
        }
    }
}

impl ToolCatalog for SmallCatalog {
    fn version(&self, tool: &str) -> Option<&str> {
        self.input_schema(tool).map(|_| "1.2.0")
    }

    fn input_schema(&self, tool: &str) -> Option<&Value> {
        self.schemas.iter().find(|(name, _)| *name == tool).map(|(_, schema)| schema)
    }

    fn check_input(&self, tool: &str, input: &Value) -> Result<(), Refusal> {
        let required = self.input_schema(tool).unwrap()["required"].as_array().unwrap();
        match required.iter().filter_map(Value::as_str).find(|field| input.get(field).is_none()) {
            Some(field) => Err(Refusal::new(Code::BadInput, format!("`{tool}` lacks `{field}`"))),
            None => Ok(()),
        }
    }

    fn reads_only(&self, tool: &str, _: &Value) -> bool {
        tool == "fs.read"
    }

    fn footprint(&self, tool: &str, input: &Value) -> Footprint {
        let path: Vec<String> = input["path"].as_str().map(str::to_owned).into_iter().collect();
        match tool {
            "fs.read" => Footprint { reads: path, ..Footprint::default() },
            "fs.write" => Footprint { writes: path, ..Footprint::default() },
            _ => Footprint::unknown(),
        }
    }
}

fn plan(steps: Value) -> Plan {
    Plan::parse(&json!({ "schema_version": "0.1", "goal": "g", "steps": steps }).to_string(), true).unwrap()
}

fn judged(steps: Value, change: impl FnOnce(&mut CriticContext<'_>, &SmallCatalog)) -> Vec<String> {
    let (catalog, profile, constraints) = (SmallCatalog::new(), PolicyProfile::default(), PlanConstraints::default());
    let mut context = CriticContext { catalog: &catalog, steps_left: 100, steps_max: None, profile: &profile, constraints: &constraints };
    change(&mut context, &catalog);
    let findings = criticize(&plan(steps), &context);
    assert!(findings.iter().all(|finding| finding.blocks));
    findings.into_iter().map(|finding| format!("{} {}: {}", finding.critic, finding.at, finding.message)).collect()
}

fn found(steps: Value) -> Vec<String> {
    judged(steps, |_, _| {})
}

fn read(id: &str, path: &str) -> Value {
    json!({ "step_id": id, "tool_ref": { "name": "fs.read" }, "input": { "path": path } })
}

#[test]
fn a_plan_that_is_fine_has_no_findings() {
    let write = json!({ "step_id": "b", "tool_ref": { "name": "fs.write", "version_range": "^1" }, "input": { "path": "b" }, "input_from": { "content": "a.content" } });
    assert_eq!(found(json!([read("a", "a"), write])), Vec::<String>::new());
    assert_eq!(found(json!([])), Vec::<String>::new());
}

#[test]
fn tools_that_there_are_not_or_in_another_version_are_found() {
    let step = |name: &str, range: &str| json!([{ "step_id": "a", "tool_ref": { "name": name, "version_range": range }, "input": { "path": "a" } }]);
    assert_eq!(found(step("fs.rread", "*")), ["unknown_tool steps[0].tool_ref.name: there is no tool `fs.rread`"]);
    // KarnEvil9 ignored it (shortcoming 10).
    assert_eq!(
        found(step("fs.read", ">=99")),
        ["version steps[0].tool_ref.version_range: `fs.read` has version 1.2.0, which is not in `>=99`"]
    );
    assert_eq!(found(step("fs.read", "~1.2")), Vec::<String>::new());
}

#[test]
fn inputs_are_checked_as_far_as_they_are_known() {
    let step = |input: Value, from: Value| json!([read("a", "a"), { "step_id": "b", "tool_ref": { "name": "fs.write" }, "input": input, "input_from": from }]);
    assert_eq!(found(step(json!({ "path": "b" }), json!({}))), ["tool_input steps[1].input: `fs.write` lacks `content`"]);
    assert_eq!(found(step(json!({ "path": "b" }), json!({ "content": "a.content" }))), Vec::<String>::new());
    assert_eq!(found(step(json!({}), json!({ "content": "a.content" }))), ["tool_input steps[1].input: `path` is missing"]);
    assert_eq!(
        found(step(json!({ "path": 7 }), json!({ "content": "a.content" }))),
        ["tool_input steps[1].input.path: it does not fit the schema of `fs.write`"]
    );
    assert_eq!(
        found(step(json!({ "path": "b" }), json!({ "content": "a.content", "colour": "a.content" }))),
        ["tool_input steps[1].input_from.colour: `fs.write` takes no `colour`"]
    );
    assert_eq!(found(step(json!({ "path": "b", "colour": 1 }), json!({ "content": "a.content" }))).len(), 1);
}

#[test]
fn a_plan_has_no_more_steps_than_are_left() {
    let steps = || json!([read("a", "a"), read("b", "b")]);
    let told = |left, max| judged(steps(), |context, _| (context.steps_left, context.steps_max) = (left, max));
    assert_eq!(told(2, Some(2)), Vec::<String>::new());
    assert_eq!(told(1, None), ["step_limit steps: the plan has 2 steps; the session may make 1 more"]);
    assert_eq!(told(9, Some(1)), ["step_limit steps: the plan has 2 steps; a plan of this session may have 1 at most"]);
}

fn within(constraints: PlanConstraints, profile: PolicyProfile, steps: Value) -> Vec<String> {
    let catalog = SmallCatalog::new();
    let context = CriticContext { catalog: &catalog, steps_left: 100, steps_max: None, profile: &profile, constraints: &constraints };
    criticize(&plan(steps), &context).into_iter().map(|finding| format!("{} {}: {}", finding.critic, finding.at, finding.message)).collect()
}

#[test]
fn the_tasks_constraints_and_the_profile_act_before_anything_runs() {
    let list = |entry: &str| vec![entry.to_owned()];
    let steps = || json!([read("a", "docs/a.md"), { "step_id": "b", "tool_ref": { "name": "fs.write" }, "input": { "path": "src/b", "content": "" } }]);
    let none = PolicyProfile::default;
    assert_eq!(
        within(PlanConstraints { tool_denylist: list("fs.write"), ..PlanConstraints::default() }, none(), steps()),
        ["constraints steps[1].tool_ref.name: the task's `tool_denylist` has `fs.write`"]
    );
    assert_eq!(
        within(PlanConstraints { tool_allowlist: list("fs.read"), ..PlanConstraints::default() }, none(), steps()),
        ["constraints steps[1].tool_ref.name: the task's `tool_allowlist` does not have `fs.write`"]
    );
    assert_eq!(
        within(
            PlanConstraints {
                tool_allowlist: list("fs.*"),
                path_scope: vec!["src".to_owned(), "docs/**".to_owned()],
                ..PlanConstraints::default()
            },
            none(),
            steps()
        ),
        Vec::<String>::new()
    );
    assert_eq!(
        within(PlanConstraints { path_scope: list("src"), ..PlanConstraints::default() }, none(), steps()),
        ["profile steps[0].input: `docs/a.md` is not in the session's `path_scope`"]
    );
    assert_eq!(
        within(PlanConstraints::default(), PolicyProfile { allowed_paths: list("docs"), ..none() }, steps()),
        ["profile steps[1].input: `src/b` is not in the session's `allowed_paths`"]
    );
}

#[test]
fn a_path_that_comes_from_an_output_may_be_any() {
    let catalog = SmallCatalog::new();
    let of = |tool: &str, input: Value, from: Value| {
        let plan = plan(json!([read("a", "a"), { "step_id": "b", "tool_ref": { "name": tool }, "input": input, "input_from": from }]));
        footprint(&plan.steps[1], &catalog)
    };
    assert_eq!(of("fs.write", json!({ "content": "x" }), json!({ "path": "a.content" })), Footprint::unknown());
    assert_eq!(
        of("fs.write", json!({ "path": "b" }), json!({ "content": "a.content" })),
        Footprint { writes: vec!["b".to_owned()], ..Footprint::default() }
    );
    assert_eq!(of("fs.read", json!({}), json!({ "path": "a.content" })), Footprint { reads: vec![".".to_owned()], ..Footprint::default() });
    assert_eq!(of("no.such", json!({}), json!({})), Footprint::unknown());
}

/// A refusal of a tool may name a field that a planner made up.
#[test]
fn what_a_planner_called_a_field_reaches_no_terminal() {
    let input = json!([read("a", "a"), { "step_id": "b", "tool_ref": { "name": "fs.write" }, "input": { "path": "b", "\u{1b}]0;evil\u{7}": 1 }, "input_from": { "content": "a.content" } }]);
    let told = found(input);
    assert_eq!(told.len(), 1);
    assert!(!told[0].chars().any(crate::findings::is_unseen), "{told:?}");
}
