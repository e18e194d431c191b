//! What a step touches, as far as its plan tells.

use crate::critic::ToolCatalog;
use crate::plan::{Plan, PlanStep};
use serde_json::{Value, json};

/// Paths below the project, as the step names them. A folder stands for everything below it, and `.` for the whole project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    pub reads: Vec<String>,
    pub writes: Vec<String>,
    /// It may write anything: a program, or a path that is not known before the step begins.
    pub writes_unknown: bool,
}

impl Footprint {
    pub fn unknown() -> Footprint {
        Footprint { writes_unknown: true, ..Footprint::default() }
    }

    pub fn touches_nothing(&self) -> bool {
        !self.writes_unknown && self.reads.is_empty() && self.writes.is_empty()
    }
}

/// Stands for what is not known yet. No path has such a name: it has a control character.
const UNKNOWN: &str = "\u{1}not known yet";

/// What each step of a plan touches.
pub fn footprints(plan: &Plan, catalog: &dyn ToolCatalog) -> Vec<Footprint> {
    plan.steps.iter().map(|step| footprint(step, catalog)).collect()
}

/// What a step touches. Where a path comes from another step's output it is not known, so a step that writes there may write anything.
pub fn footprint(step: &PlanStep, catalog: &dyn ToolCatalog) -> Footprint {
    let tool = &step.tool_ref.name;
    if catalog.version(tool).is_none() {
        return Footprint::unknown();
    }
    if step.input_from.is_empty() {
        return catalog.footprint(tool, &Value::Object(step.input.clone()));
    }
    // A field may be one path or a list of them.
    let shapes = [json!(UNKNOWN), json!([UNKNOWN])];
    let mut whole = Footprint::default();
    for shape in shapes {
        let mut input = step.input.clone();
        input.extend(step.input_from.keys().map(|field| (field.clone(), shape.clone())));
        let Footprint { reads, writes, writes_unknown } = catalog.footprint(tool, &Value::Object(input));
        let is_known = |path: &String| !path.contains(UNKNOWN);
        whole.writes_unknown |= writes_unknown || !writes.iter().all(is_known);
        if !reads.iter().all(is_known) {
            whole.reads.push(".".to_owned());
        }
        whole.reads.extend(reads.into_iter().filter(is_known));
        whole.writes.extend(writes.into_iter().filter(is_known));
    }
    for paths in [&mut whole.reads, &mut whole.writes] {
        paths.sort();
        paths.dedup();
    }
    whole
}
