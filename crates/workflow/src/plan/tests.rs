//! Plans, good and bad: each bad one with the place that is told. The published schema is held against the parser.

use super::*;
use boon::{Compiler, SchemaIndex, Schemas};
use world::limits::{PLAN_BYTES_MAX, PLAN_DEPTH_MAX, PLAN_STEPS_MAX};

const SCHEMA: &str = include_str!("../../../../docs/plan.schema.json");
const GUIDE: &str = include_str!("../../../../docs/plans.md");

/// A plan with every field.
pub(crate) fn full() -> Value {
    json!({
        "schema_version": "0.1", "plan_id": "p-1", "goal": "say hello", "assumptions": ["nobody minds"],
        "steps": [
            { "step_id": "look", "title": "look", "description": "what is\nthere", "tool_ref": { "name": "fs.read", "version_range": "^1.0" }, "input": { "path": "a" },
              "success_criteria": ["exists", "content contains \"x\""], "failure_policy": "continue", "timeout_ms": 100, "max_retries": 10 },
            { "step_id": "say", "title": "say", "tool_ref": { "name": "fs.write" }, "input": { "path": "b" }, "input_from": { "content": "look.content" },
              "depends_on": ["look"], "success_criteria": [], "failure_policy": "replan", "timeout_ms": 3_600_000, "max_retries": 0 }
        ],
        "artifacts": [{ "name": "b", "type": "file", "description": "the greeting" }], "created_at": "2026-11-15T18:39:11.819Z"
    })
}

/// The same plan with one value changed, or taken away where it is `Null`.
fn with(pointer: &str, value: Value) -> Value {
    let mut plan = full();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = plan.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}"));
    match (parent, value) {
        (Value::Object(fields), Value::Null) => {
            fields.remove(key);
        }
        (Value::Object(fields), value) => {
            fields.insert(key.to_owned(), value);
        }
        (Value::Array(items), value) => items[key.parse::<usize>().unwrap()] = value,
        (other, _) => panic!("{other}"),
    }
    plan
}

struct Published {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Published {
    fn new() -> Published {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource("https://schema.invalid/plan", serde_json::from_str(SCHEMA).unwrap()).unwrap();
        let index = compiler.compile("https://schema.invalid/plan", &mut schemas).unwrap();
        Published { schemas, index }
    }

    fn takes(&self, plan: &Value) -> bool {
        self.schemas.validate(plan, self.index).is_ok()
    }
}

fn told(plan: &Value) -> Vec<(String, String)> {
    let findings = Plan::parse(&plan.to_string(), false).err().unwrap_or_default();
    assert!(findings.iter().all(|finding| finding.blocks));
    findings.into_iter().map(|finding| (finding.at, finding.message)).collect()
}

#[test]
fn a_plan_with_every_field_is_read_and_written_alike() {
    let plan = Plan::parse(&full().to_string(), false).unwrap();
    assert_eq!(plan.to_value(), {
        let mut expected = full();
        // What says nothing is not written.
        expected["steps"][1].as_object_mut().unwrap().remove("success_criteria");
        expected
    });
    assert_eq!(Plan::parse(&plan.to_json(), false).unwrap(), plan);
    assert_eq!(plan.steps[1].waits_for(), ["look"]);
    assert_eq!((plan.steps[0].timeout_ms, plan.steps[0].max_retries), (Some(100), 10));
}

#[test]
fn what_is_left_out_has_its_default() {
    let text = "schema_version: \"0.1\"\ngoal: read it\nsteps:\n  - step_id: only\n    tool_ref: { name: fs.read }\n    input: { path: README.md }\n";
    let plan = Plan::parse(text, false).unwrap();
    let step = &plan.steps[0];
    assert_eq!((step.title.as_str(), step.failure_policy, step.timeout_ms, step.max_retries), ("only", FailurePolicy::Abort, None, 0));
    assert!(Published::new().takes(&plan.to_value()));
    assert_eq!(Plan::parse(&plan.to_json(), false).unwrap(), plan);
}

#[test]
fn a_plan_without_steps_is_only_for_who_may_say_that_it_is_done() {
    let empty = with("/steps", json!([]));
    assert_eq!(Plan::parse(&empty.to_string(), true).unwrap().steps, []);
    let told = told(&empty);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].0, "steps");
}

/// Rows: what is changed, where that is told, and whether the published schema can see it too.
fn wrong() -> Vec<(&'static str, Value, &'static str, bool)> {
    let long = |count| json!("x".repeat(count));
    vec![
        ("/schema_version", json!("0.2"), "schema_version", true),
        ("/schema_version", json!(0.1), "schema_version", true),
        ("/schema_version", Value::Null, "schema_version", true),
        ("/goal", Value::Null, "goal", true),
        ("/goal", json!(""), "goal", true),
        ("/goal", json!(" \n "), "goal", false),
        ("/goal", json!("\u{3164}"), "goal", false),
        ("/goal", json!("\u{e0041}hidden"), "goal", false),
        ("/goal", json!(7), "goal", true),
        ("/goal", long(4_001), "goal", true),
        ("/goal", json!("a\u{1b}[2J"), "goal", true),
        ("/goal", json!("a\u{202e}b"), "goal", true),
        ("/plan_id", json!(""), "plan_id", true),
        ("/plan_id", long(129), "plan_id", true),
        ("/assumptions", json!("none"), "assumptions", true),
        ("/assumptions/0", json!(["x"]), "assumptions[0]", true),
        ("/assumptions/0", json!("\u{7}"), "assumptions[0]", true),
        ("/artifacts/0/type", json!("song"), "artifacts[0].type", true),
        ("/artifacts/0/name", Value::Null, "artifacts[0].name", true),
        ("/artifacts/0/size", json!(7), "artifacts[0].size", true),
        ("/created_at", json!("yesterday"), "created_at", true),
        ("/created_at", json!("2026-13-15T18:39:11Z"), "created_at", true),
        ("/created_at", json!("2026-11-15T18:39:11.Z"), "created_at", true),
        ("/owner", json!("me"), "owner", true),
        ("/steps", json!({}), "steps", true),
        ("/steps", Value::Null, "steps", true),
        ("/steps/0", json!("look"), "steps[0]", true),
        ("/steps/0/step_id", Value::Null, "steps[0].step_id", true),
        ("/steps/0/step_id", json!("a.b"), "steps[0].step_id", true),
        ("/steps/0/step_id", json!(""), "steps[0].step_id", true),
        ("/steps/0/step_id", long(65), "steps[0].step_id", true),
        ("/steps/0/step_id", json!("lo\u{8}ok"), "steps[0].step_id", true),
        ("/steps/0/step_id", json!("lo\u{202e}ok"), "steps[0].step_id", true),
        ("/steps/0/step_id", json!("say"), "steps[1].step_id", false),
        ("/steps/0/title", json!(""), "steps[0].title", true),
        ("/steps/0/title", json!("two\nlines"), "steps[0].title", true),
        ("/steps/0/title", long(201), "steps[0].title", true),
        ("/steps/0/title", json!("\u{2066}x"), "steps[0].title", true),
        ("/steps/0/title", json!("lo\u{200d}ok"), "steps[0].title", true),
        ("/steps/0/title", json!("lo\u{200c}ok"), "steps[0].title", true),
        ("/steps/0/title", json!("look \u{2764}\u{fe0f}"), "steps[0].title", true),
        ("/steps/0/description", json!(["x"]), "steps[0].description", true),
        ("/steps/0/tool_ref", Value::Null, "steps[0].tool_ref", true),
        ("/steps/0/tool_ref", json!("fs.read"), "steps[0].tool_ref", true),
        ("/steps/0/tool_ref/name", Value::Null, "steps[0].tool_ref.name", true),
        ("/steps/0/tool_ref/name", json!("fs.read\u{1b}[8m"), "steps[0].tool_ref.name", true),
        ("/steps/0/tool_ref/name", json!("fs\u{200b}.read"), "steps[0].tool_ref.name", true),
        ("/steps/0/tool_ref/name", json!("../../etc"), "steps[0].tool_ref.name", true),
        ("/steps/0/tool_ref/name", json!("a.b.c"), "steps[0].tool_ref.name", true),
        ("/steps/0/tool_ref/name", json!("FS.read"), "steps[0].tool_ref.name", true),
        ("/steps/0/tool_ref/version", json!("1"), "steps[0].tool_ref.version", true),
        ("/steps/0/tool_ref/version_range", json!("newest"), "steps[0].tool_ref.version_range", false),
        ("/steps/0/tool_ref/version_range", json!(1), "steps[0].tool_ref.version_range", true),
        ("/steps/0/input", json!([]), "steps[0].input", true),
        ("/steps/1/input_from", json!(["look.content"]), "steps[1].input_from", true),
        ("/steps/1/input_from/content", json!("look"), "steps[1].input_from.content", true),
        ("/steps/1/input_from/content", json!("look."), "steps[1].input_from.content", true),
        ("/steps/1/input_from/content", json!(".content"), "steps[1].input_from.content", true),
        ("/steps/1/input_from/content", json!("look.a[x]"), "steps[1].input_from.content", true),
        ("/steps/1/input_from/content", json!("look.a b"), "steps[1].input_from.content", true),
        ("/steps/1/input_from/content", json!("nobody.content"), "steps[1].input_from.content", false),
        ("/steps/1/input_from/content", json!("say.content"), "steps[1].input_from.content", false),
        ("/steps/1/input_from/path", json!("look.content"), "steps[1].input_from.path", false),
        ("/steps/1/depends_on", json!("look"), "steps[1].depends_on", true),
        ("/steps/1/depends_on/0", json!(0), "steps[1].depends_on[0]", true),
        ("/steps/1/depends_on", json!(["look", "look"]), "steps[1].depends_on[1]", true),
        ("/steps/1/depends_on/0", json!("nobody"), "steps[1].depends_on[0]", false),
        ("/steps/1/depends_on/0", json!("say"), "steps[1].depends_on[0]", false),
        ("/steps/0/depends_on", json!(["say"]), "steps[0]", false),
        ("/steps/0/success_criteria", json!("exists"), "steps[0].success_criteria", true),
        ("/steps/0/success_criteria/1", json!("the file looks good"), "steps[0].success_criteria[1]", false),
        ("/steps/0/success_criteria/1", json!(7), "steps[0].success_criteria[1]", true),
        ("/steps/0/success_criteria/1", json!(""), "steps[0].success_criteria[1]", true),
        ("/steps/0/failure_policy", json!("retry"), "steps[0].failure_policy", true),
        ("/steps/0/failure_policy", json!(1), "steps[0].failure_policy", true),
        ("/steps/0/timeout_ms", json!(99), "steps[0].timeout_ms", true),
        ("/steps/0/timeout_ms", json!(3_600_001), "steps[0].timeout_ms", true),
        ("/steps/0/timeout_ms", json!(-100), "steps[0].timeout_ms", true),
        ("/steps/0/timeout_ms", json!(100.5), "steps[0].timeout_ms", true),
        ("/steps/0/timeout_ms", json!("1000"), "steps[0].timeout_ms", true),
        ("/steps/0/max_retries", json!(11), "steps[0].max_retries", true),
        ("/steps/0/max_retries", json!(-1), "steps[0].max_retries", true),
        ("/steps/0/max_retries", json!(1e300), "steps[0].max_retries", true),
        ("/steps/0/retries", json!(1), "steps[0].retries", true),
    ]
}

#[test]
fn each_wrong_field_is_told_with_its_place_and_the_schema_refuses_nothing_else() {
    let published = Published::new();
    assert!(published.takes(&full()), "the control passes both");
    for (pointer, value, place, is_seen) in wrong() {
        let plan = with(pointer, value);
        let told = told(&plan);
        assert_eq!(told.iter().map(|(at, _)| at.as_str()).collect::<Vec<_>>(), [place], "{pointer}: {told:?}");
        assert_eq!(!published.takes(&plan), is_seen, "the schema on {pointer} of {plan}");
    }
}

#[test]
fn what_cannot_be_seen_is_named_by_its_number() {
    let check = |title: &str, message: &str| {
        assert_eq!(told(&with("/steps/0/title", json!(title))), [("steps[0].title".to_owned(), message.to_owned())])
    };
    check("lo\u{200d}ok", "its character 3 is U+200D, which cannot be seen, or changes the direction of text; leave it out");
    check("look\u{1b}[2J", "its character 5 is U+001B, which controls a terminal; leave it out");
    check("look\nback", "its character 5 is U+000A, which breaks the line; leave it out");
    assert!(told(&with("/steps/0/title", json!("look 👀 schön"))).is_empty(), "the control");
}

#[test]
fn values_at_the_bounds_pass_both() {
    let published = Published::new();
    let good = [
        ("/goal", json!("ä".repeat(4_000))),
        ("/goal", json!("two\nlines\tand 👩\u{200d}🚀")),
        ("/steps/0/title", json!("ä".repeat(200))),
        ("/steps/0/title", Value::Null),
        ("/steps/0/input", Value::Null),
        ("/steps/0/timeout_ms", json!(100.0)),
        ("/steps/0/timeout_ms", Value::Null),
        ("/steps/0/tool_ref/name", json!("read-file")),
        ("/steps/0/input/deep", json!({"a": [{"b": null}]})),
        ("/steps/1/input_from/content", json!("look.files[0].lines.3")),
        ("/created_at", json!("2026-11-15T18:39:11+05:30")),
        ("/created_at", Value::Null),
        ("/artifacts", Value::Null),
        ("/plan_id", Value::Null),
        ("/assumptions", Value::Null),
    ];
    for (pointer, value) in good {
        let plan = with(pointer, value);
        let read = Plan::parse(&plan.to_string(), false).unwrap_or_else(|findings| panic!("{pointer}: {findings:?}"));
        assert!(published.takes(&plan) && published.takes(&read.to_value()), "{pointer}");
    }
}

#[test]
fn a_text_that_is_no_tree_of_fields_says_where() {
    let check = |text: &str, at: &str, message: &str| {
        let findings = Plan::parse(text, false).unwrap_err();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!((findings[0].at.as_str(), findings[0].message.as_str()), (at, message), "{text:.60}");
    };
    check("", "", "there is no plan: the text is empty");
    check(" \n", "", "there is no plan: the text is empty");
    check("[]", "", "a plan is a map of fields");
    check("I cannot help with that", "", "a plan is a map of fields");
    check("{\"goal\": \"a\", \"goal\": \"b\"}", "line 1, column 26", "it is not JSON: the key `goal` stands twice");
    check("{\"steps\": [{\"input\": {\"a\": 1, \"a\": 2}}]}", "line 1, column 37", "it is not JSON: the key `a` stands twice");
    check("goal: a\ngoal: b\n", "line 2, column 1", "it is not YAML: the key `goal` stands here twice");
    check("{\"goal\": 1} {}", "line 1, column 13", "it is not JSON: trailing characters");
    check("goal: a\n---\ngoal: b\n", "line 2, column 1", "it is not YAML: the file goes on after its end");
    check("{\"goal\": 1e999}", "line 1, column 14", "it is not JSON: number out of range");
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
    let told = Plan::parse(bomb, false).unwrap_err();
    assert!(told[0].message.contains("250000"), "{told:?}");
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1_000_000), vec!["*a"; 100_000].join(","));
    let told = Plan::parse(&long, false).unwrap_err();
    assert!(told[0].message.contains("anchors and aliases"), "{told:?}");
}

#[test]
fn what_is_too_large_or_too_deep_is_refused_before_it_is_looked_at() {
    let fits = |text: &str| Plan::parse(text, false).map(|_| ()).map_err(|findings| findings[0].message.clone());
    let padded = |bytes: usize| {
        let mut plan = full();
        plan["steps"][0]["input"]["content"] = json!("");
        let rest = bytes - plan.to_string().len();
        plan["steps"][0]["input"]["content"] = json!("x".repeat(rest));
        plan.to_string()
    };
    assert_eq!(fits(&padded(PLAN_BYTES_MAX)), Ok(()));
    assert_eq!(fits(&padded(PLAN_BYTES_MAX + 1)), Err("the plan has 4000001 bytes; it may have 4000000 at most".to_owned()));
    assert_eq!(fits(&padded(5_000_000)), Err("the plan has 5000000 bytes; it may have 4000000 at most".to_owned()));
    // An input stands five levels deep: plan, steps, step, input, field.
    let nested = |levels: usize| {
        let inner = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        full().to_string().replace("\"path\":\"a\"", &format!("\"path\":{inner}"))
    };
    assert_eq!(fits(&nested(PLAN_DEPTH_MAX - 4)), Ok(()));
    assert_eq!(fits(&nested(PLAN_DEPTH_MAX - 3)), Err("it is not JSON: lists and maps are nested more than 64 deep".to_owned()));
    for deep in ["[".repeat(1_000_000), "{\"a\":".repeat(500_000), "- ".repeat(1_000_000)] {
        assert!(fits(&deep).is_err());
    }
}

#[test]
fn a_plan_has_ten_thousand_steps_at_most() {
    let steps = |count: usize| -> Value {
        let step = |index: usize| json!({ "step_id": format!("s{index}"), "tool_ref": { "name": "fs.read" }, "input": { "path": "a" } });
        with("/steps", (0..count).map(step).collect())
    };
    assert_eq!(Plan::parse(&steps(PLAN_STEPS_MAX).to_string(), false).unwrap().steps.len(), 10_000);
    assert_eq!(told(&steps(PLAN_STEPS_MAX + 1)), [("steps".to_owned(), "it has 10001 entries; it may have 10000 at most".to_owned())]);
}

#[test]
fn a_planner_that_gets_everything_wrong_is_told_a_bounded_number_of_things() {
    let steps: Vec<Value> = (0..5_000).map(|_| json!({ "evil\u{1b}[2J`key`": 1 })).collect();
    let told = told(&with("/steps", json!(steps)));
    assert_eq!(told.len(), crate::FINDINGS_MAX + 1);
    assert_eq!(told.last().unwrap().1, "14950 further findings are not listed");
    assert_eq!(told[0].0, "steps[0].evil\\u{1b}[2J\\u{60}key\\u{60}");
    assert!(told.iter().all(|(at, message)| !at.contains('\u{1b}') && !message.contains('\u{1b}')));
}

/// What a hostile planner quotes back at us is bounded and visible in every message.
#[test]
fn no_finding_repeats_what_could_harm() {
    let evil = format!("\u{1b}]0;x\u{7}\u{202e}{}", "y".repeat(10_000));
    for pointer in [
        "/schema_version",
        "/steps/0/tool_ref/version_range",
        "/steps/0/step_id",
        "/steps/0/tool_ref/name",
        "/steps/1/input_from/content",
        "/steps/1/depends_on/0",
        "/steps/0/success_criteria/0",
        "/steps/0/failure_policy",
        "/created_at",
        "/artifacts/0/type",
    ] {
        let findings = told(&with(pointer, json!(evil)));
        assert!(!findings.is_empty(), "{pointer}");
        for (at, message) in findings {
            let harms = |text: &str| text.len() > 600 || text.chars().any(crate::findings::is_unseen);
            assert!(!harms(&at) && !harms(&message), "{pointer}: {at} {message}");
        }
    }
    let told = told(&with(&format!("/steps/1/input_from/{}", evil.replace('/', "")), json!("look.content")));
    assert_eq!(told.len(), 1);
    assert!(told[0].0.len() < 300 && !told[0].0.contains('\u{1b}'), "{told:?}");
}

/// Every example of the guide is a plan, by parser and schema.
#[test]
fn the_guides_examples_are_plans() {
    let published = Published::new();
    let mut count = 0;
    for block in GUIDE.split("```").skip(1).step_by(2) {
        let (kind, text) = block.split_once('\n').unwrap();
        if matches!(kind, "yaml" | "json") && text.contains("schema_version") {
            let plan = Plan::parse(text, false).unwrap_or_else(|findings| panic!("{findings:?} in:\n{text}"));
            assert!(published.takes(&plan.to_value()));
            count += 1;
        }
    }
    assert!(count >= 2, "{count} examples were found");
}

/// The table of codes in the guide is the one that is recorded.
#[test]
fn the_guide_has_every_code_of_a_failed_step() {
    for failure in crate::StepFailure::ALL {
        let row = format!("| `{}` | `{}` |", failure.as_str(), failure.karnevil9());
        assert!(GUIDE.contains(&row), "docs/plans.md lacks {row}");
    }
}
