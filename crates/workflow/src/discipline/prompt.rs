//! What a brain is told of the state: 30 to 50 tokens, in every turn.

use world::{Discipline, Workflow, WorkflowState};

/// The state, what may be written, and what leads on. True for every brain and project: which paths are tests is the project's to say, and who is
/// offered no `plan_complete` ends its turn.
pub fn workflow_prompt(workflow: &Workflow) -> String {
    let state = workflow.state;
    let rest = match state {
        WorkflowState::Idle => {
            "Nothing is under way. Only reading tools are available until a task begins; the kernel says when the next phase starts."
        }
        WorkflowState::Planning if workflow.mode == Discipline::Strict => {
            "All reading tools available. Nothing is written yet. Make your plan, then call plan_complete or end your turn; tests come first, code after them."
        }
        WorkflowState::Planning => {
            "All reading tools available. Nothing is written yet. Make your plan, then call plan_complete or end your turn; after that you may change files."
        }
        WorkflowState::TestWriting => {
            "Writable: tests only. Write tests that fail for the missing behaviour, then call plan_complete or end your turn; the kernel runs them itself."
        }
        WorkflowState::CodeWriting => {
            "Writable: everything but tests, which are read-only. Make the failing tests pass, then call plan_complete or end your turn; the kernel runs all tests."
        }
        WorkflowState::Validating => {
            "Writable: nothing. The kernel runs all tests on your changes now; wait for what it tells you before you go on with the work."
        }
        WorkflowState::Reviewing => {
            "Writable: nothing. Your changes wait for their review. Say in a few words what you did and end your turn; do not change files."
        }
        WorkflowState::Committing => {
            "Writable: nothing. Your changes were accepted and are going into the project; there is nothing left for you to do in it."
        }
        WorkflowState::Exploring if workflow.exemption.is_some() => {
            "Exempt from tests: only the paths of your exemption are writable. Change them, then call plan_complete or end your turn; the kernel runs all tests."
        }
        WorkflowState::Exploring => {
            "Writable: all files; what you change is marked as unverified. Then call plan_complete or end your turn; the kernel runs all tests."
        }
        WorkflowState::RetroactiveTesting => {
            "Writable: tests only. Add tests for the code that is there, then call plan_complete or end your turn; the kernel runs all tests on it."
        }
    };
    format!("Workflow state: {state}. {rest}")
}

/// The beginning of a turn that the kernel prompts: what came of the phase before, and the phase that begins.
pub fn phase_prompt(came: &str, workflow: &Workflow) -> String {
    let prompt = workflow_prompt(workflow);
    if came.is_empty() { prompt } else { format!("{came}\n\n{prompt}") }
}
