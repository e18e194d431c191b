//! The kernel's tools as judges of plans know them.

use serde_json::Value;
use std::sync::Arc;
use tool::{Access, Registry};
use workflow::discipline::PLAN_COMPLETE;
use workflow::{Footprint, ToolCatalog};
use world::{Code, Refusal};

/// Tools as they are registered.
pub struct RegistryCatalog(pub Arc<Registry>);

impl ToolCatalog for RegistryCatalog {
    fn version(&self, tool: &str) -> Option<&str> {
        if tool == PLAN_COMPLETE {
            return Some("1.0.0");
        }
        self.0.get(tool).filter(|tool| !tool.manifest().name.starts_with("brain.")).map(|tool| tool.manifest().version.as_str())
    }

    fn input_schema(&self, tool: &str) -> Option<&Value> {
        self.0.get(tool).map(|tool| &tool.manifest().input_schema)
    }

    fn check_input(&self, tool: &str, input: &Value) -> Result<(), Refusal> {
        match self.0.get(tool) {
            None if tool == PLAN_COMPLETE => Ok(()),
            Some(tool) => tool.check(input),
            None => Err(Refusal::new(Code::NotFound, format!("there is no tool `{tool}`"))),
        }
    }

    fn reads_only(&self, tool: &str, input: &Value) -> bool {
        self.0.get(tool).is_some_and(|tool| tool.reads_only(input))
    }

    fn footprint(&self, tool: &str, input: &Value) -> Footprint {
        let Some(tool) = self.0.get(tool) else { return Footprint::unknown() };
        if tool.is_adapted() {
            // A built-in tool does its work, under its own names.
            return match tool.adapted(input) {
                Some(Ok((inner, input))) => self.footprint(inner, &input),
                _ => Footprint::unknown(),
            };
        }
        let only_reads = tool.reads_only(input);
        let mut footprint = Footprint::default();
        for touched in tool.touches_by_name(input) {
            match touched.access {
                Access::Read | Access::List => footprint.reads.push(touched.path),
                // A program reaches wherever it likes.
                Access::Run if only_reads => footprint.reads.push(".".to_owned()),
                Access::Run => footprint.writes_unknown = true,
                Access::Write | Access::Name => footprint.writes.push(touched.path),
            }
        }
        footprint
    }
}
