//! A tool that a loaded `tool.yaml` brings: its command in the room, JSON in, JSON or a patch out.

use super::{patch, run};
use crate::fault::{ToolFault, ToolStop};
use crate::manifest::{Manifest, OutputMode};
use crate::tool::{Context, Output};
use sandbox::Outcome;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use world::{Code, Refusal};

/// Characters of what a failed command said.
const SAID_CHARS_MAX: usize = 500;

pub(super) async fn run(manifest: &Manifest, input: &Value, context: &Context<'_>) -> Result<Output, ToolStop> {
    let time = Duration::from_millis(manifest.timeout_ms);
    // What the manifest names comes last and so counts.
    let mut environment = context.environment.to_vec();
    environment.retain(|(name, _)| !manifest.environment.contains_key(name));
    environment.extend(manifest.environment.clone());
    let stdin = Some(input.to_string().into_bytes());
    let outcome = run::job(manifest.command.clone(), PathBuf::new(), stdin, time, &environment, context).await?;
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
