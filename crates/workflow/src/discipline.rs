//! Test-first: what may be done in each state, and what a brain is told of it.
//!
//! The states and the ways between them are the world's ([`world::Workflow`]); here is what follows from them for one call. **Invariant.** It
//! only narrows: what passes here is still decided by policy. A path that is neither test nor exempt is source.

mod debt;
mod exemption;
mod plan_order;
mod prompt;

pub use debt::{CoverageStanding, DebtJudgement, DebtLimits, judge_debt};
pub use exemption::{ExemptionRequest, exemption_request};
pub use plan_order::{source_before_tests, test_steps_first};
pub use prompt::{phase_prompt, workflow_prompt};

use world::{Discipline, Workflow, WorkflowState};

/// What a brain says of its own work.
pub const PLAN_COMPLETE: &str = "plan.complete";
pub const REQUEST_EXEMPTION: &str = "workflow.request_exemption";
pub const WORKFLOW_STATE: &str = "workflow.state";
/// The call that switches modes.
pub const SET_MODE: &str = "session.set_mode";

/// Calls that look and change nothing.
const READS: [&str; 8] = ["fs.read", "fs.list", "fs.exists", "search.glob", "search.grep", "git.status", "git.diff", "git.log"];
/// Calls that change files of the project by their names.
const WRITES: [&str; 5] = ["fs.write", "fs.edit", "fs.patch", "fs.delete", "fs.move"];
/// Calls that run programs, which may write anything: what they wrote is looked at when the phase ends.
const PROGRAMS: [&str; 2] = ["shell.run", "test.run"];
const COMMIT: &str = "git.commit";

/// A tool is not there in the present state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnavailableTool {
    pub tool_name: String,
    pub current_state: WorkflowState,
    pub reason: String,
    pub available_tools: Vec<String>,
}

impl UnavailableTool {
    fn new(tool: &str, workflow: &Workflow, reason: String) -> UnavailableTool {
        UnavailableTool { tool_name: tool.to_owned(), current_state: workflow.state, reason, available_tools: available_tools(workflow) }
    }
}

/// The tools that a brain has in the present state. Those that policy denies are still denied.
pub fn available_tools(workflow: &Workflow) -> Vec<String> {
    let state = workflow.state;
    let mut tools: Vec<&str> = READS.to_vec();
    if state.is_writing() {
        tools.extend(WRITES);
    }
    if runs_programs(state) {
        tools.extend(PROGRAMS);
    }
    if matches!(state, WorkflowState::Exploring | WorkflowState::Committing) {
        tools.push(COMMIT);
    }
    tools.push(WORKFLOW_STATE);
    if state == WorkflowState::Planning || state.is_writing() {
        tools.push(PLAN_COMPLETE);
    }
    if workflow.is_test_first() && matches!(state, WorkflowState::Planning | WorkflowState::TestWriting) {
        tools.push(REQUEST_EXEMPTION);
    }
    tools.into_iter().map(str::to_owned).collect()
}

fn runs_programs(state: WorkflowState) -> bool {
    state == WorkflowState::Planning || state.is_writing()
}

/// A call, as far as test-first looks at it.
#[derive(Clone, Copy, Debug)]
pub struct DisciplinedCall<'a> {
    pub tool: &'a str,
    pub reads_only: bool,
    /// Paths below the project.
    pub paths: &'a [&'a str],
    /// It runs a program, or may touch paths that it does not name.
    pub runs_program: bool,
}

/// What kind of file a path is.
pub trait PathKinds {
    fn is_test(&self, path: &str) -> bool;
}

impl<F: Fn(&str) -> bool> PathKinds for F {
    fn is_test(&self, path: &str) -> bool {
        self(path)
    }
}

/// Why a path may not be written in the present state, if it may not.
pub fn path_objection(workflow: &Workflow, path: &str, kinds: &dyn PathKinds) -> Option<String> {
    let is_test = kinds.is_test(path);
    let exempt = |path: &str| workflow.exemption.as_ref().is_some_and(|exemption| exemption.paths.iter().any(|own| own == path));
    match workflow.state {
        WorkflowState::TestWriting if is_test => None,
        WorkflowState::TestWriting => Some(format!("tests must be written first; `{path}` is no test")),
        WorkflowState::RetroactiveTesting if is_test => None,
        WorkflowState::RetroactiveTesting => Some(format!("tests are added now; `{path}` is no test")),
        WorkflowState::CodeWriting if is_test => Some(format!("tests are read-only while code is written; `{path}` is a test")),
        WorkflowState::CodeWriting => None,
        WorkflowState::Exploring if workflow.exemption.is_some() && !exempt(path) => {
            Some(format!("the exemption is for other paths than `{path}`"))
        }
        WorkflowState::Exploring => None,
        WorkflowState::Planning => Some("nothing is written before the plan is complete".to_owned()),
        WorkflowState::Validating | WorkflowState::Reviewing | WorkflowState::Committing | WorkflowState::Idle => {
            Some(format!("nothing is written in `{}`", workflow.state))
        }
    }
}

/// What stands against a call in the present state.
pub fn objection(workflow: &Workflow, call: &DisciplinedCall<'_>, kinds: &dyn PathKinds) -> Option<UnavailableTool> {
    let unavailable = |reason: String| Some(UnavailableTool::new(call.tool, workflow, reason));
    let state = workflow.state;
    match call.tool {
        WORKFLOW_STATE => return None,
        PLAN_COMPLETE if state == WorkflowState::Planning || state.is_writing() => return None,
        PLAN_COMPLETE => return unavailable("no phase is under way that could be complete".to_owned()),
        REQUEST_EXEMPTION if available_tools(workflow).iter().any(|tool| tool == REQUEST_EXEMPTION) => return None,
        REQUEST_EXEMPTION => return unavailable("an exemption is asked for before anything is written".to_owned()),
        COMMIT if !matches!(state, WorkflowState::Exploring | WorkflowState::Committing) => {
            return unavailable("a commit comes after the review".to_owned());
        }
        COMMIT => return None,
        _ => {}
    }
    if call.reads_only {
        return None;
    }
    if WRITES.contains(&call.tool) {
        return call.paths.iter().find_map(|path| path_objection(workflow, path, kinds)).and_then(unavailable);
    }
    if call.runs_program && !runs_programs(state) {
        return unavailable(format!("nothing is written in `{state}`, and a program may write anything"));
    }
    None
}

/// Why a path does not go into the project by a merge, if it does not. Tests always may. Of work that is over it says what its merge would come
/// to: before it is proposed it goes back to its review, and holds what was seen.
pub fn merge_objection(workflow: &Workflow, path: &str, kinds: &dyn PathKinds) -> Option<UnavailableTool> {
    if matches!(workflow.state, WorkflowState::Reviewing | WorkflowState::Committing)
        || kinds.is_test(path)
        || workflow.mode != Discipline::Strict
        || workflow.was_seen()
    {
        return None;
    }
    let reason = match workflow.state {
        WorkflowState::TestWriting | WorkflowState::Planning | WorkflowState::Idle => {
            format!("{}; `{path}` is no test", world::discipline::RED_GUARD)
        }
        _ => format!("{}; `{path}` is no test", world::discipline::GREEN_GUARD),
    };
    Some(UnavailableTool::new("merge.apply", workflow, reason))
}

#[cfg(test)]
mod tests;
