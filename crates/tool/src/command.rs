//! A tool whose `tool.yaml` names a command: it runs in the room, JSON in, JSON or a patch out.

use crate::builtin::{job, patch};
use crate::context::Context;
use crate::fault::{ToolFault, ToolStop};
use crate::manifest::{Manifest, OutputMode};
use crate::permission::{Permission, Permissions};
use crate::resolved_path::ResolvedPath;
use crate::tool::{Output, Tool, ToolFuture};
use sandbox::Outcome;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use world::{Code, Refusal};

/// Characters of what a failed command said.
const SAID_CHARS_MAX: usize = 500;

#[derive(Debug)]
pub(crate) struct CommandTool {
    manifest: Manifest,
}

impl CommandTool {
    /// Or why its manifest does not allow what a command can do.
    pub fn new(manifest: Manifest) -> Result<CommandTool, String> {
        let permissions = Permissions::of(&manifest)?;
        if !permissions.is_empty() && !permissions.covers(&Permission::Exec) {
            let what =
                format!("its `command` can do all that its sandbox lets it, and its `permissions` do not name `{}`", Permission::Exec);
            return Err(what);
        }
        Ok(CommandTool { manifest })
    }
}

impl Tool for CommandTool {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn command(&self, _input: &Value) -> Option<Vec<String>> {
        Some(self.manifest.command.clone())
    }

    fn dry_run(&self, _input: &Value, _paths: &[ResolvedPath], _context: &Context<'_>) -> Result<String, ToolStop> {
        Ok(format!("run `{}` with the input as JSON", self.manifest.command.join(" ")))
    }

    fn execute<'a>(&'a self, input: &'a Value, _paths: Vec<ResolvedPath>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(run(&self.manifest, input, context))
    }
}

async fn run(manifest: &Manifest, input: &Value, context: &Context<'_>) -> Result<Output, ToolStop> {
    let time = Duration::from_millis(manifest.timeout_ms);
    // What the manifest names comes last and so counts.
    let mut environment = context.environment.to_vec();
    environment.retain(|(name, _)| !manifest.environment.contains_key(name));
    environment.extend(manifest.environment.clone());
    let stdin = Some(input.to_string().into_bytes());
    let outcome = job::run(manifest.command.clone(), PathBuf::new(), stdin, time, &environment, context).await?;
    if outcome.timed_out {
        return Err(ToolFault::TimedOut { ms: manifest.timeout_ms }.into());
    }
    if !outcome.exit.success() {
        let said: String = String::from_utf8_lossy(&outcome.stderr).trim().chars().take(SAID_CHARS_MAX).collect();
        let reason = format!("`{}` failed: {}", manifest.name, if said.is_empty() { "it said nothing" } else { &said });
        return Err(Refusal::new(Code::WrongState, reason).hint("check the input, or use another tool").into());
    }
    let unfit = |what: &str| ToolFault::InvalidOutput { tool: manifest.name.clone(), what: what.to_owned() };
    if outcome.truncated {
        return Err(unfit("it is longer than a result may be").into());
    }
    match manifest.output_mode {
        OutputMode::Full => parse(&manifest.name, &outcome),
        OutputMode::Patch => {
            let diff = std::str::from_utf8(&outcome.stdout).map_err(|_| unfit("its patch is not UTF-8"))?;
            patch::run_output(&manifest.name, diff, context, time).await
        }
    }
}

fn parse(name: &str, outcome: &Outcome) -> Result<Output, ToolStop> {
    let unfit = |what: String| ToolFault::InvalidOutput { tool: name.to_owned(), what };
    let value = serde_json::from_slice(&outcome.stdout).map_err(|error| unfit(format!("its output is not JSON: {error}")))?;
    Ok(Output::good(value))
}
