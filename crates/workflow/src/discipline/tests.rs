use super::*;
use proptest::prelude::*;
use world::{Exemption, ExemptionCategory, TestEvidence, TestOutcome, TestPurpose};

fn kinds(path: &str) -> bool {
    path.starts_with("tests/")
}

fn at(mode: Discipline, state: WorkflowState) -> Workflow {
    Workflow { state, ..Workflow::new(mode) }
}

fn write<'a>(paths: &'a [&'a str]) -> DisciplinedCall<'a> {
    DisciplinedCall { tool: "fs.write", reads_only: false, paths, runs_program: false }
}

#[test]
fn what_may_be_written_follows_from_the_state() {
    use WorkflowState::{CodeWriting, Committing, Exploring, Idle, Planning, RetroactiveTesting, Reviewing, TestWriting, Validating};
    // State, may write a test, may write source, may run a program.
    let table = [
        (Idle, false, false, false),
        (Planning, false, false, true),
        (TestWriting, true, false, true),
        (CodeWriting, false, true, true),
        (Validating, false, false, false),
        (Reviewing, false, false, false),
        (Committing, false, false, false),
        (Exploring, true, true, true),
        (RetroactiveTesting, true, false, true),
    ];
    for (state, test, source, program) in table {
        let workflow = at(Discipline::Strict, state);
        let may = |call: &DisciplinedCall<'_>| objection(&workflow, call, &kinds).is_none();
        assert_eq!(may(&write(&["tests/a.test.ts"])), test, "{state} test");
        assert_eq!(may(&write(&["src/a.ts"])), source, "{state} source");
        assert_eq!(may(&write(&["tests/a.test.ts", "src/a.ts"])), test && source, "{state}: a move across");
        let shell = DisciplinedCall { tool: "shell.run", runs_program: true, ..write(&[]) };
        assert_eq!(may(&shell), program, "{state} program");
        let read = DisciplinedCall { tool: "fs.read", reads_only: true, ..write(&["src/a.ts"]) };
        assert!(may(&read), "{state} read");
    }
}

#[test]
fn a_refusal_names_tool_state_reason_and_what_there_is() {
    let workflow = at(Discipline::Strict, WorkflowState::TestWriting);
    let no = objection(&workflow, &write(&["src/utils.ts"]), &kinds).unwrap();
    assert_eq!((no.tool_name.as_str(), no.current_state), ("fs.write", WorkflowState::TestWriting));
    assert_eq!(no.reason, "tests must be written first; `src/utils.ts` is no test");
    let tools: Vec<&str> = no.available_tools.iter().map(String::as_str).collect();
    assert!(["fs.read", "fs.write", "test.run", "plan.complete", "workflow.request_exemption"].iter().all(|tool| tools.contains(tool)));
    assert!(!tools.contains(&"git.commit"));
}

#[test]
fn an_exemption_opens_its_own_paths_and_no_others() {
    let exemption = Exemption { category: ExemptionCategory::Documentation, paths: vec!["README.md".into()], reason: "words".into() };
    let workflow = Workflow { exemption: Some(exemption), ..at(Discipline::Strict, WorkflowState::Exploring) };
    assert!(objection(&workflow, &write(&["README.md"]), &kinds).is_none(), "control");
    for path in ["src/a.ts", "tests/a.ts", "docs/README.md"] {
        assert!(objection(&workflow, &write(&[path]), &kinds).is_some(), "{path}");
    }
}

#[test]
fn commits_come_after_the_review() {
    let call = |tool| DisciplinedCall { tool, ..write(&[]) };
    let may = |mode, state, tool| objection(&at(mode, state), &call(tool), &kinds).is_none();
    assert!(may(Discipline::Strict, WorkflowState::Committing, "git.commit"));
    assert!(!may(Discipline::Strict, WorkflowState::CodeWriting, "git.commit"));
}

#[test]
fn only_what_was_seen_green_is_merged_in_strict_mode_and_tests_always() {
    for state in WorkflowState::ALL {
        let strict = at(Discipline::Strict, state);
        let is_seen = matches!(state, WorkflowState::Reviewing | WorkflowState::Committing);
        assert_eq!(merge_objection(&strict, "src/a.ts", &kinds).is_none(), is_seen, "{state}");
        assert!(merge_objection(&strict, "tests/a.ts", &kinds).is_none());
        assert!(merge_objection(&at(Discipline::Explore, state), "src/a.ts", &kinds).is_none());
    }
    let ended = |red, green| Workflow { red, green, snapshot: Some("blob".into()), ..at(Discipline::Strict, WorkflowState::Idle) };
    let (red, green) = (seen(TestPurpose::Red, TestOutcome::Failed), seen(TestPurpose::Green, TestOutcome::Passed));
    assert!(merge_objection(&ended(Some(red.clone()), Some(green.clone())), "src/a.ts", &kinds).is_none(), "it was seen before it ended");
    assert!(merge_objection(&ended(Some(red), None), "src/a.ts", &kinds).is_some(), "never green");
    assert!(merge_objection(&ended(None, Some(green)), "src/a.ts", &kinds).is_some(), "never red");
}

fn seen(purpose: TestPurpose, outcome: TestOutcome) -> TestEvidence {
    let run = serde_json::json!({ "purpose": purpose, "tree": "t", "outcome": outcome, "passed": 1, "failed": 1, "skipped": 0, "ms": 1 });
    serde_json::from_value(run).unwrap()
}

/// As `dialect` estimates it, near enough: a token is about four letters, and each mark is one.
fn tokens(text: &str) -> usize {
    text.split_whitespace()
        .map(|word| {
            word.chars().filter(|c| c.is_alphanumeric() || *c == '_').count().div_ceil(6).max(1)
                + word.chars().filter(|c| !c.is_alphanumeric() && *c != '_').count().min(1)
        })
        .sum()
}

#[test]
fn the_prompt_of_each_state_has_30_to_50_tokens() {
    let exemption = Exemption { category: ExemptionCategory::Documentation, paths: vec!["README.md".into()], reason: "words".into() };
    for mode in Discipline::ALL {
        for state in WorkflowState::ALL {
            for exemption in [None, Some(exemption.clone())] {
                let prompt = workflow_prompt(&Workflow { exemption, ..at(mode, state) });
                assert!(prompt.starts_with(&format!("Workflow state: {state}. ")), "{prompt}");
                assert!((30..=50).contains(&tokens(&prompt)), "{mode} {state}: {} tokens: {prompt}", tokens(&prompt));
            }
        }
    }
    assert!(workflow_prompt(&at(Discipline::Strict, WorkflowState::TestWriting)).contains("Writable: tests only."));
    assert!(
        workflow_prompt(&at(Discipline::Strict, WorkflowState::CodeWriting))
            .contains("Writable: everything but tests, which are read-only.")
    );
}

#[test]
fn a_request_for_an_exemption_is_read_whole_or_not_at_all() {
    let request = |value: serde_json::Value| exemption_request(&value);
    let good = serde_json::json!({"category": "documentation", "paths": ["README.md"], "reason": "a typo"});
    assert_eq!(request(good.clone()).unwrap().paths, ["README.md"]);
    for (field, value) in [
        ("category", serde_json::json!("anything")),
        ("paths", serde_json::json!([])),
        ("paths", serde_json::json!(["README.md", 7])),
        ("paths", serde_json::json!(["../secret.md"])),
        ("paths", serde_json::json!(["/etc/motd.txt"])),
        ("paths", serde_json::json!(["docs//a.md"])),
        ("reason", serde_json::json!("  ")),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        assert!(request(bad.clone()).is_err(), "{bad}");
    }
}

fn plan(steps: &str) -> crate::Plan {
    crate::Plan::parse(&format!("schema_version: \"0.1\"\ngoal: g\nsteps:\n{steps}"), false).unwrap()
}

#[test]
fn in_strict_mode_steps_that_write_source_wait_for_those_that_write_tests() {
    let step =
        |id: &str, path: &str| format!("  - {{ step_id: {id}, tool_ref: {{ name: fs.write }}, input: {{ path: {path}, content: x }} }}\n");
    let alone = plan(&step("code", "src/a.ts"));
    let finding = source_before_tests(&alone, &kinds).unwrap();
    assert!(finding.blocks && finding.at == "steps[0]" && finding.critic == "test_first");
    let both = plan(&format!("{}{}", step("code", "src/a.ts"), step("test", "tests/a.ts")));
    assert!(source_before_tests(&both, &kinds).is_none(), "control");
    let ordered = test_steps_first(both.clone(), WorkflowState::Planning, &kinds);
    let waits: Vec<(&str, Vec<&str>)> =
        ordered.steps.iter().map(|step| (step.step_id.as_str(), step.depends_on.iter().map(String::as_str).collect())).collect();
    assert_eq!(
        waits,
        [
            ("skep-plan-complete", vec![]),
            ("skep-tests-red", vec!["test", "skep-plan-complete"]),
            ("code", vec!["skep-plan-complete", "skep-tests-red", "test"]),
            ("test", vec!["skep-plan-complete"]),
        ]
    );
    assert!(crate::PlanGraph::new(&ordered).is_ok(), "nothing waits in a circle");
    let later = test_steps_first(both, WorkflowState::CodeWriting, &kinds);
    assert_eq!(later.steps.len(), 2, "the tests were seen to fail already");
    assert!(
        source_before_tests(&plan("  - { step_id: look, tool_ref: { name: fs.read }, input: { path: src/a.ts } }\n"), &kinds).is_none()
    );
}

proptest! {
    /// Whatever the mode and the paths: in a state in which nothing is written, no write passes; in test_writing none but of tests.
    #[test]
    fn no_write_passes_that_the_state_does_not_allow(mode in 0..3_usize, state in 0..9_usize, paths in prop::collection::vec("[a-z]{1,5}/[a-z]{1,5}", 1..4)) {
        let workflow = at(Discipline::ALL[mode], WorkflowState::ALL[state]);
        let named: Vec<&str> = paths.iter().map(String::as_str).collect();
        let passes = objection(&workflow, &write(&named), &kinds).is_none();
        if !workflow.state.is_writing() {
            prop_assert!(!passes);
        }
        if workflow.state == WorkflowState::TestWriting {
            prop_assert_eq!(passes, paths.iter().all(|path| kinds(path)));
        }
        if workflow.state == WorkflowState::CodeWriting {
            prop_assert_eq!(passes, !paths.iter().any(|path| kinds(path)));
        }
    }
}
