//! `brain.run`: a vendor's client in the task's room, followed by whoever drives it.

use super::{job, words};
use crate::context::Context;
use crate::fault::ToolStop;
use crate::manifest::Manifest;
use crate::resolved_path::{NamedPath, ResolvedPath};
use crate::tool::{Tool, ToolFuture};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::Duration;
use world::{Code, Refusal, limits};

/// Where a client has its home: a folder of the worker's own that outlives the task.
pub const BRAIN_HOME: &str = "/home/brain";

/// Puts the files of its home in place, then becomes the program. Each file is a pair of variables, so nothing of it is read as shell.
const PLACE_FILES: &str = r#"n=0
while eval "path=\${PLACED_PATH_$n-}"; [ -n "$path" ]; do
  mkdir -p "$HOME/$(dirname "$path")" && eval "printf %s \"\${PLACED_TEXT_$n}\"" > "$HOME/$path" || exit 70
  unset "PLACED_PATH_$n" "PLACED_TEXT_$n"
  n=$((n + 1))
done
exec "$@""#;

#[derive(Debug)]
pub(super) struct BrainRun(pub(super) Manifest);

impl Tool for BrainRun {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    /// Its own calls come to the door one by one and must not wait for it.
    fn touches(&self, _input: &Value) -> Vec<NamedPath> {
        Vec::new()
    }

    fn command(&self, input: &Value) -> Option<Vec<String>> {
        Some(words(input, "command"))
    }

    fn time_limit(&self, _input: &Value) -> Result<Duration, Refusal> {
        Ok(Duration::from_millis(limits::BRAIN_MS_MAX))
    }

    fn dry_run(&self, input: &Value, _paths: &[ResolvedPath], context: &Context<'_>) -> Result<String, ToolStop> {
        job::room(context)?;
        Ok(format!("run `{}`", words(input, "command").join(" ")))
    }

    fn execute<'a>(&'a self, input: &'a Value, _paths: Vec<ResolvedPath>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move {
            if context.job.follower.is_none() {
                let reason = "nobody would drive it: a brain is started by its task";
                return Err(Refusal::new(Code::Unsupported, reason).remedy(world::Remedy::ActInstead).into());
            }
            let mut environment = context.environment.to_vec();
            environment.retain(|(name, _)| name != "HOME");
            environment.push(("HOME".to_owned(), BRAIN_HOME.to_owned()));
            // A look at the repository is no change of it: else git would write its index anew into the overlay.
            environment.push(("GIT_OPTIONAL_LOCKS".to_owned(), "0".to_owned()));
            environment.extend(pairs(input, "environment"));
            let mut command: Vec<String> = ["sh", "-c", PLACE_FILES, "sh"].map(str::to_owned).into();
            command.extend(words(input, "command"));
            for (nth, (path, text)) in pairs(input, "files").into_iter().enumerate() {
                environment.push((format!("PLACED_PATH_{nth}"), path));
                environment.push((format!("PLACED_TEXT_{nth}"), text));
            }
            let time = self.time_limit(input)?;
            let outcome = job::run(command, PathBuf::new(), None, time, &environment, context).await?;
            let mut output = job::output(&outcome, time);
            let kept = context.job.follower.and_then(|follower| follower.kept());
            if kept.is_some_and(|kept| !kept.is_over()) {
                output.value = serde_json::json!({ "stderr": "", "ms": output.value["ms"], "stays": true });
                return Ok(output);
            }
            // What it said is taken down line by line as it comes.
            let fields = output.value.as_object().cloned().unwrap_or_default();
            let shown = |field: &str| ["exit_code", "signal", "stderr", "ms", "error", "hint"].contains(&field);
            output.value = Value::Object(fields.into_iter().filter(|(field, _)| shown(field)).collect::<Map<_, _>>());
            Ok(output)
        })
    }
}

fn pairs(input: &Value, field: &str) -> Vec<(String, String)> {
    let fields = input[field].as_object().into_iter().flatten();
    fields.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// `brain.use`: what a client does by itself and the kernel has no tool for. Only a client's own hands do it.
#[derive(Debug)]
pub(super) struct BrainUse(pub(super) Manifest);

/// Tools that only think, plan or wait: `ask` may have them too.
const HARMLESS: &[&str] = &[
    "TodoWrite",
    "TodoRead",
    "Task",
    "Agent",
    "Skill",
    "ToolSearch",
    "BashOutput",
    "TaskOutput",
    "KillShell",
    "TaskStop",
    "TaskCreate",
    "TaskUpdate",
    "TaskList",
    "TaskGet",
    "ExitPlanMode",
    "EnterPlanMode",
    "todowrite",
    "todoread",
    "task",
    "think",
    "update_plan",
    "update_topic",
    "write_todos",
    "list_background_processes",
    "read_background_output",
];

impl Tool for BrainUse {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn touches(&self, _input: &Value) -> Vec<NamedPath> {
        Vec::new()
    }

    fn reads_only(&self, input: &Value) -> bool {
        // The kernel's own tools are decided on when they come to the door.
        input["tool"].as_str().is_some_and(|tool| HARMLESS.contains(&tool) || tool.starts_with("mcp__skep__"))
    }

    fn dry_run(&self, input: &Value, _paths: &[ResolvedPath], _context: &Context<'_>) -> Result<String, ToolStop> {
        Ok(format!("let the brain use its `{}`", input["tool"].as_str().unwrap_or_default()))
    }

    fn execute<'a>(&'a self, _input: &'a Value, _paths: Vec<ResolvedPath>, _context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move {
            let reason = "only a brain's own hands can do it";
            Err(Refusal::new(Code::Unsupported, reason).hint("use a tool of the kernel's").into())
        })
    }
}
