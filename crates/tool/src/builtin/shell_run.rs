//! `shell.run`: a program in the room; and `sandbox.run`, the same for a person who follows the job, for as long as the manifest allows.

use super::{exactly, exactly_of, job, path_in, shown_directory, time_asked, words};
use crate::context::Context;
use crate::fault::ToolStop;
use crate::manifest::Manifest;
use crate::resolved_path::{Access, NamedPath, PathKind, Real, ResolvedPath};
use crate::tool::{Output, Tool, ToolFuture};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use world::limits::JOB_MS_DEFAULT;
use world::{Code, Refusal};

#[derive(Debug)]
pub(super) struct ShellRun {
    manifest: Manifest,
    /// How long a program runs that asks for no time of its own.
    default_ms: u64,
}

impl ShellRun {
    pub fn for_brains(manifest: Manifest) -> ShellRun {
        ShellRun { manifest, default_ms: JOB_MS_DEFAULT }
    }

    pub fn for_person(manifest: Manifest) -> ShellRun {
        ShellRun { default_ms: manifest.timeout_ms, manifest }
    }
}

impl Tool for ShellRun {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn named_paths(&self, input: &Value) -> Vec<NamedPath> {
        vec![path_in(input, "cwd", Access::Run)]
    }

    fn touches(&self, _input: &Value) -> Vec<NamedPath> {
        vec![NamedPath::project(Access::Run)]
    }

    fn command(&self, input: &Value) -> Option<Vec<String>> {
        Some(words(input, "command"))
    }

    fn time_limit(&self, input: &Value) -> Result<Duration, Refusal> {
        time_asked(&self.manifest, input)
    }

    fn dry_run(&self, input: &Value, paths: &[ResolvedPath], context: &Context<'_>) -> Result<String, ToolStop> {
        job::room(context)?;
        let [path] = exactly_of(paths)?;
        Ok(format!("run `{}` in {}", words(input, "command").join(" "), shown_directory(path)?))
    }

    fn execute<'a>(&'a self, input: &'a Value, paths: Vec<ResolvedPath>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move {
            let [path] = exactly(paths)?;
            run(input, path, context, self.default_ms).await
        })
    }
}

/// Runs the input's command in its `cwd`, for `ms` where it asks for no other time.
async fn run(input: &Value, resolved: ResolvedPath, context: &Context<'_>, ms: u64) -> Result<Output, ToolStop> {
    let cwd = match (&resolved.real, resolved.kind) {
        (Real::Inside(path), PathKind::Directory) => {
            if path == "." {
                PathBuf::new()
            } else {
                PathBuf::from(path)
            }
        }
        (Real::Inside(path), PathKind::File { .. }) => {
            return Err(Refusal::new(Code::BadInput, format!("`{path}` is a file, and `cwd` wants a directory"))
                .hint("leave `cwd` out, or name the directory")
                .into());
        }
        _ => return Err(resolved.unusable().into()),
    };
    let time = job::wall(input, ms, context)?;
    let outcome = job::run(words(input, "command"), cwd, None, time, context.environment, context).await?;
    Ok(job::output(&outcome, time))
}
