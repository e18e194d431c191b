use super::*;
use WorkflowState::{CodeWriting, Committing, Exploring, Idle, Planning, RetroactiveTesting, Reviewing, TestWriting, Validating};

fn evidence(purpose: TestPurpose, outcome: TestOutcome) -> TestEvidence {
    TestEvidence {
        purpose,
        tree: "t".into(),
        outcome,
        passed: u64::from(outcome == TestOutcome::Passed),
        failed: u64::from(outcome == TestOutcome::Failed),
        skipped: 0,
        failing: Vec::new(),
        doubts: Vec::new(),
        remarks: Vec::new(),
        report: None,
        coverage: None,
        output: None,
        ms: 1,
    }
}

/// Everything that a guard can ask for is there.
fn guarded(mode: Discipline, state: WorkflowState) -> Workflow {
    Workflow {
        state,
        red: Some(evidence(TestPurpose::Red, TestOutcome::Failed)),
        green: Some(evidence(TestPurpose::Green, TestOutcome::Passed)),
        snapshot: Some("blob".into()),
        ..Workflow::new(mode)
    }
}

const STRICT: &[(WorkflowState, WorkflowState)] = &[
    (Idle, Planning),
    (Idle, Reviewing),
    (Planning, TestWriting),
    (TestWriting, CodeWriting),
    (CodeWriting, Validating),
    (Validating, Reviewing),
    (Validating, CodeWriting),
    (Reviewing, Committing),
    (Reviewing, CodeWriting),
];
const EXPLORE: &[(WorkflowState, WorkflowState)] = &[
    (Idle, Planning),
    (Planning, Exploring),
    (Exploring, Validating),
    (Validating, Reviewing),
    (Validating, Exploring),
    (Reviewing, Committing),
    (Reviewing, Exploring),
    (Reviewing, RetroactiveTesting),
    (RetroactiveTesting, Validating),
];

#[test]
fn the_ways_are_those_of_the_table_and_no_others() {
    for (mode, ways) in [(Discipline::Strict, STRICT), (Discipline::Explore, EXPLORE), (Discipline::Debug, EXPLORE)] {
        for from in WorkflowState::ALL {
            for to in WorkflowState::ALL {
                let is_way = to == Idle || ways.contains(&(from, to));
                assert_eq!(guarded(mode, from).objection_to(to, true).is_none(), is_way, "{mode}: {from} to {to}");
            }
        }
    }
}

#[test]
fn no_guarded_way_is_taken_without_its_guard() {
    let red = |outcome| Workflow { red: Some(evidence(TestPurpose::Red, outcome)), ..guarded(Discipline::Strict, TestWriting) };
    for outcome in [TestOutcome::Passed, TestOutcome::NoTests, TestOutcome::Crashed, TestOutcome::TimedOut, TestOutcome::NotRun] {
        assert_eq!(red(outcome).objection_to(CodeWriting, false), Some(RED_GUARD), "{}", outcome.as_str());
    }
    assert_eq!(red(TestOutcome::Failed).objection_to(CodeWriting, false), None, "control");
    assert_eq!(red(TestOutcome::CompileError).objection_to(CodeWriting, false), None, "what is asked for is not there");
    let unrun = Workflow { red: None, ..guarded(Discipline::Strict, TestWriting) };
    assert_eq!(unrun.objection_to(CodeWriting, false), Some(RED_GUARD));
    let stale = Workflow { red: Some(evidence(TestPurpose::Base, TestOutcome::Failed)), ..unrun };
    assert_eq!(stale.objection_to(CodeWriting, false), Some(RED_GUARD), "a run of the base is none of the new tests");
    let green = |mode, run| Workflow { green: run, ..guarded(mode, Validating) };
    let run = |outcome| Some(evidence(TestPurpose::Green, outcome));
    for mode in Discipline::ALL {
        for outcome in [TestOutcome::Failed, TestOutcome::CompileError, TestOutcome::Crashed, TestOutcome::TimedOut, TestOutcome::NotRun] {
            assert_eq!(green(mode, run(outcome)).objection_to(Reviewing, false), Some(GREEN_GUARD));
        }
        assert_eq!(green(mode, None).objection_to(Reviewing, false), Some(GREEN_GUARD));
        assert_eq!(green(mode, run(TestOutcome::Passed)).objection_to(Reviewing, false), None, "control");
        let weakened = TestEvidence { doubts: vec!["a test went".into()], ..evidence(TestPurpose::Green, TestOutcome::Passed) };
        assert_eq!(green(mode, Some(weakened)).objection_to(Reviewing, false), Some(GREEN_GUARD), "{mode}");
        assert_eq!(guarded(mode, Reviewing).objection_to(Committing, false), Some(MERGE_GUARD));
    }
    assert_eq!(green(Discipline::Strict, run(TestOutcome::NoTests)).objection_to(Reviewing, false), Some(GREEN_GUARD));
    assert_eq!(green(Discipline::Explore, run(TestOutcome::NoTests)).objection_to(Reviewing, false), None, "or no tests");
}

#[test]
fn ended_work_is_reviewed_again_only_if_it_was_seen_red_and_then_green() {
    let ended = || guarded(Discipline::Strict, Idle);
    assert_eq!(ended().objection_to(Reviewing, false), None, "control");
    let exemption = Exemption { category: ExemptionCategory::Documentation, paths: vec!["README.md".into()], reason: "words".into() };
    let exempt = Workflow { exemption: Some(exemption), red: None, ..ended() };
    assert_eq!(exempt.objection_to(Reviewing, false), None, "control");
    let failed = Some(evidence(TestPurpose::Green, TestOutcome::Failed));
    let weakened = TestEvidence { doubts: vec!["a test went".into()], ..evidence(TestPurpose::Green, TestOutcome::Passed) };
    let unseen = [
        ("never red", Workflow { red: None, ..ended() }),
        ("never green", Workflow { green: None, ..ended() }),
        ("failed", Workflow { green: failed.clone(), ..ended() }),
        ("weakened", Workflow { green: Some(weakened), ..ended() }),
        ("of which nothing is listed", Workflow { snapshot: None, ..ended() }),
        ("explored before", Workflow { unverified: true, ..ended() }),
        ("explored", guarded(Discipline::Explore, Idle)),
        ("exempt and failed", Workflow { green: failed, ..exempt }),
    ];
    for (what, workflow) in unseen {
        assert_eq!(workflow.objection_to(Reviewing, false), Some(GREEN_GUARD), "{what}");
    }
}

#[test]
fn an_exemption_leads_through_exploring_in_strict_mode() {
    let exemption = Exemption { category: ExemptionCategory::Documentation, paths: vec!["README.md".into()], reason: "words".into() };
    let exempt = |state| Workflow { exemption: Some(exemption.clone()), ..guarded(Discipline::Strict, state) };
    for (from, to) in [(Planning, Exploring), (TestWriting, Exploring), (Exploring, Validating), (Validating, Reviewing)] {
        assert_eq!(exempt(from).objection_to(to, false), None, "{from} to {to}");
    }
    for (from, to) in [(Planning, TestWriting), (TestWriting, CodeWriting), (Exploring, CodeWriting)] {
        assert!(exempt(from).objection_to(to, false).is_some(), "{from} to {to}");
    }
}
