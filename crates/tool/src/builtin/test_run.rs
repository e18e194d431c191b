//! `test.run`: the project's test command in the room.

use super::{job, time_asked, words};
use crate::context::Context;
use crate::fault::ToolStop;
use crate::manifest::Manifest;
use crate::resolved_path::ResolvedPath;
use crate::tool::{Output, Tool, ToolFuture};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use world::limits::JOB_MS_DEFAULT;
use world::{Code, Refusal};

#[derive(Debug)]
pub(super) struct TestTool(pub(super) Manifest);

impl Tool for TestTool {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn time_limit(&self, input: &Value) -> Result<Duration, Refusal> {
        time_asked(&self.0, input)
    }

    fn dry_run(&self, input: &Value, _paths: &[ResolvedPath], context: &Context<'_>) -> Result<String, ToolStop> {
        job::room(context)?;
        Ok(format!("run `{}`", test_command(input, context)?.join(" ")))
    }

    fn execute<'a>(&'a self, input: &'a Value, _paths: Vec<ResolvedPath>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(run(input, context))
    }
}

async fn run(input: &Value, context: &Context<'_>) -> Result<Output, ToolStop> {
    let argv = test_command(input, context)?;
    let time = job::wall(input, JOB_MS_DEFAULT, context)?;
    let outcome = job::run(argv.clone(), PathBuf::new(), None, time, context.environment, context).await?;
    let mut output = job::output(&outcome, time);
    output.value["command"] = argv.into();
    Ok(output)
}

/// The trusted configuration's command with the caller's arguments.
fn test_command(input: &Value, context: &Context<'_>) -> Result<Vec<String>, Refusal> {
    let Some(command) = context.test_command.filter(|command| !command.is_empty()) else {
        return Err(Refusal::new(Code::WrongState, "this project has no test command").remedy(world::Remedy::SetTestCommand));
    };
    Ok(command.iter().cloned().chain(words(input, "args")).collect())
}
