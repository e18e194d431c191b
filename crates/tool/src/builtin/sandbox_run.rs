//! `sandbox.run`: `shell.run` for a person who follows the job, and for as long as the manifest allows.

use super::{exactly, path_in, shell_run, time_asked, words};
use crate::context::Context;
use crate::fault::ToolStop;
use crate::manifest::Manifest;
use crate::place::{Access, Place, Target};
use crate::tool::{Tool, ToolFuture};
use serde_json::Value;
use std::time::Duration;
use world::Refusal;

#[derive(Debug)]
pub(super) struct SandboxRun(pub(super) Manifest);

impl Tool for SandboxRun {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn targets(&self, input: &Value) -> Vec<Target> {
        vec![path_in(input, "cwd", Access::Run)]
    }

    fn touches(&self, _input: &Value) -> Vec<Target> {
        vec![Target::project(Access::Run)]
    }

    fn command(&self, input: &Value) -> Option<Vec<String>> {
        Some(words(input, "command"))
    }

    fn time_limit(&self, input: &Value) -> Result<Duration, Refusal> {
        time_asked(&self.0, input)
    }

    fn dry_run(&self, input: &Value, paths: &[Place], context: &Context<'_>) -> Result<String, ToolStop> {
        shell_run::dry_run(input, paths, context)
    }

    fn execute<'a>(&'a self, input: &'a Value, paths: Vec<Place>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move {
            let [path] = exactly(paths)?;
            shell_run::run(input, path, context, self.0.timeout_ms).await
        })
    }
}
