//! The tools by which a brain says something of its own work, where tests come first.

use serde_json::{Value, json};
use workflow::discipline::{PLAN_COMPLETE, REQUEST_EXEMPTION, WORKFLOW_STATE};

/// A tool as a brain is told of it.
pub struct WorkflowTool {
    /// Its name where names have no dots.
    pub name: &'static str,
    pub description: &'static str,
    pub input_schema: Value,
}

/// Each with the call that it is.
pub fn workflow_tools() -> Vec<(&'static str, WorkflowTool)> {
    let nothing = || json!({ "type": "object", "properties": {} });
    vec![
        (
            PLAN_COMPLETE,
            WorkflowTool {
                name: "plan_complete",
                description: "Says that the present phase of your work is complete: the plan, the tests or the code. The kernel looks at your files, runs the tests itself and tells you what comes next.",
                input_schema: nothing(),
            },
        ),
        (
            REQUEST_EXEMPTION,
            WorkflowTool {
                name: "workflow_request_exemption",
                description: "Asks for leave to change some files without tests: settings, types, documents or assets. Only these files may change then.",
                input_schema: json!({
                    "type": "object",
                    "required": ["category", "paths", "reason"],
                    "properties": {
                        "category": { "type": "string", "enum": ["config_change", "type_refactor", "documentation", "asset_update"] },
                        "paths": { "type": "array", "items": { "type": "string" } },
                        "reason": { "type": "string" },
                    },
                }),
            },
        ),
        (
            WORKFLOW_STATE,
            WorkflowTool {
                name: "workflow_state",
                description: "Tells in which state your work is, what may be written, which tools there are, and what the kernel saw of the tests.",
                input_schema: nothing(),
            },
        ),
    ]
}
