//! The workflow's word on a call: what the state of a task that is held to tests first does not allow.
//!
//! It joins the judgement of every call and of every path of a merge, so each brain is held by it, whatever hands it has. **Invariant.** It only
//! narrows, and no grant, token or rule outweighs it.

use crate::zone::Parsed;
use policy::{Globs, RealPath};
use tool::ToolUnavailable;
use workflow::discipline::{DisciplinedCall, PathKinds, UnavailableTool, merge_objection, objection};
use world::{Discipline, Pid, Refusal, TaskId, Workflow, World};

/// Who denies a call that the state does not allow.
pub const WORKFLOW: &str = "workflow";

/// `strict` of `skep.yml`: what strict mode means in this project.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StrictConfig {
    /// Which paths are tests, as globs; without any, by their names.
    pub tests: Vec<String>,
    /// Changed lines are changed once more, and some test must see it.
    pub mutate: bool,
}

/// Which paths of a project are tests.
#[derive(Clone, Debug, Default)]
pub struct TestPaths(Option<Globs>);

impl TestPaths {
    pub(crate) fn of(config: &StrictConfig) -> Result<TestPaths, String> {
        if config.tests.is_empty() {
            return Ok(TestPaths(None));
        }
        Globs::parse(&config.tests).map(|globs| TestPaths(Some(globs))).map_err(|bad| format!("strict.tests: {bad} ({})", bad.hint))
    }
}

impl PathKinds for TestPaths {
    fn is_test(&self, path: &str) -> bool {
        self.0.as_ref().map_or_else(|| testing::is_test_path(path), |globs| globs.matches(path))
    }
}

/// How a task is held, as its calls or its merge are judged.
#[derive(Clone, Debug)]
pub(crate) struct WorkflowHold {
    workflow: Workflow,
    is_merge: bool,
}

impl WorkflowHold {
    /// For a call of this process in this task. What the person does is no work of a brain.
    pub fn of_call(world: &World, pid: Pid, task: Option<TaskId>) -> Option<WorkflowHold> {
        let workflow = task.and_then(|task| world.tasks.get(&task))?.workflow.as_deref().filter(|_| pid != Pid::OPERATOR)?;
        Some(WorkflowHold { workflow: workflow.clone(), is_merge: false })
    }

    /// For the merge of this task, whoever worked on it.
    pub fn of_merge(world: &World, task: Option<TaskId>) -> Option<WorkflowHold> {
        let workflow = task.and_then(|task| world.tasks.get(&task))?.workflow.as_deref()?;
        Some(WorkflowHold { workflow: workflow.clone(), is_merge: true })
    }

    pub fn objection_to(&self, facts: &policy::Facts<'_>, project: &Parsed) -> Option<Refusal> {
        let paths: Vec<&str> = facts.paths.iter().map(|path| RealPath::as_str(*path)).collect();
        if self.is_merge {
            return paths.iter().find_map(|path| merge_objection(&self.workflow, path, &project.tests)).map(refusal);
        }
        // Whatever runs in the room and does more than read may write anything: a tool of the operator's own as well.
        let runs_program = facts.sandbox.is_some() && !crate::judge::ALWAYS_LISTED.contains(&facts.tool);
        let call = DisciplinedCall { tool: facts.tool, reads_only: facts.read_only, paths: &paths, runs_program };
        objection(&self.workflow, &call, &project.tests).map(refusal)
    }
}

fn refusal(no: UnavailableTool) -> Refusal {
    let UnavailableTool { tool_name, current_state, reason, available_tools } = no;
    Refusal::from(&ToolUnavailable { tool_name, current_state: current_state.to_string(), reason, available_tools })
}

/// How a task is held, in the words of rules: its state and its mode.
pub(crate) fn shown(world: &World, task: Option<TaskId>) -> (String, String) {
    let workflow = task.and_then(|task| world.tasks.get(&task)).and_then(|task| task.workflow.as_deref());
    workflow.map_or_else(|| ("idle".to_owned(), String::new()), |workflow| (workflow.state.to_string(), workflow.mode.to_string()))
}

/// What a project says of the mode of its tasks.
pub(crate) fn read_mode(word: &str) -> Result<Discipline, String> {
    Discipline::parse(word).ok_or_else(|| format!("`{word}` is no mode: there are strict, explore and debug"))
}
