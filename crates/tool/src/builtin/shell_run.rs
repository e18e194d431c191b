//! `shell.run`: a program in the room.

use super::{exactly, exactly_of, job, path_in, shown_directory, time_asked, words};
use crate::context::Context;
use crate::fault::ToolStop;
use crate::manifest::Manifest;
use crate::place::{Access, Found, Place, Real, Target};
use crate::tool::{Output, Tool, ToolFuture};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use world::limits::JOB_MS_DEFAULT;
use world::{Code, Refusal};

#[derive(Debug)]
pub(super) struct ShellRun(pub(super) Manifest);

impl Tool for ShellRun {
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
        dry_run(input, paths, context)
    }

    fn execute<'a>(&'a self, input: &'a Value, paths: Vec<Place>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move {
            let [path] = exactly(paths)?;
            run(input, path, context, JOB_MS_DEFAULT).await
        })
    }
}

pub(super) fn dry_run(input: &Value, paths: &[Place], context: &Context<'_>) -> Result<String, ToolStop> {
    job::room(context)?;
    let [path] = exactly_of(paths)?;
    Ok(format!("run `{}` in {}", words(input, "command").join(" "), shown_directory(path)?))
}

/// Runs the input's command in its `cwd`, for `ms` where it asks for no other time.
pub(super) async fn run(input: &Value, place: Place, context: &Context<'_>, ms: u64) -> Result<Output, ToolStop> {
    let cwd = match (&place.real, place.found) {
        (Real::Inside(path), Found::Directory) => {
            if path == "." {
                PathBuf::new()
            } else {
                PathBuf::from(path)
            }
        }
        (Real::Inside(path), Found::File { .. }) => {
            return Err(Refusal::new(Code::BadInput, format!("`{path}` is a file, and `cwd` wants a directory"))
                .hint("leave `cwd` out, or name the directory")
                .into());
        }
        _ => return Err(place.absent().into()),
    };
    let time = job::wall(input, ms, context)?;
    let outcome = job::run(words(input, "command"), cwd, None, time, context.environment, context).await?;
    Ok(job::output(&outcome, time))
}
