//! `fs.write`: in the room, like everything that changes something.

use super::{bytes_in, exactly, exactly_of, job, path_in, text, time_of};
use crate::context::Context;
use crate::fault::ToolStop;
use crate::manifest::Manifest;
use crate::resolved_path::{Access, NamedPath, PathKind, Real, ResolvedPath};
use crate::tool::{Output, Tool, ToolFuture};
use sandbox::{Act, JobSpec};
use serde_json::{Value, json};
use std::time::Duration;
use world::{Code, Refusal};

#[derive(Debug)]
pub(super) struct FsWrite(pub(super) Manifest);

impl Tool for FsWrite {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn named_paths(&self, input: &Value) -> Vec<NamedPath> {
        vec![path_in(input, "path", Access::Write)]
    }

    fn size(&self, input: &Value, _paths: &[ResolvedPath]) -> Option<u64> {
        bytes_in(input, "content")
    }

    fn dry_run(&self, input: &Value, paths: &[ResolvedPath], _context: &Context<'_>) -> Result<String, ToolStop> {
        let [path] = exactly_of(paths)?;
        let (path, created) = target(path)?;
        let verb = if created { "create" } else { "replace" };
        Ok(format!("{verb} `{path}` with {} bytes", text(input, "content").unwrap_or_default().len()))
    }

    fn execute<'a>(&'a self, input: &'a Value, paths: Vec<ResolvedPath>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move {
            let [path] = exactly(paths)?;
            run(input, path, context, time_of(&self.0)).await
        })
    }
}

async fn run(input: &Value, resolved: ResolvedPath, context: &Context<'_>, time: Duration) -> Result<Output, ToolStop> {
    let (path, created) = target(&resolved)?;
    let content = text(input, "content").unwrap_or_default().as_bytes().to_vec();
    let bytes = content.len();
    let mode = text(input, "mode").and_then(|mode| u32::from_str_radix(mode, 8).ok());
    store(path, content, mode, context, time).await?;
    Ok(Output::good(json!({ "path": path, "bytes": bytes, "created": created })))
}

/// The path to write, and whether it is new.
fn target(resolved: &ResolvedPath) -> Result<(&str, bool), Refusal> {
    let Real::Inside(path) = &resolved.real else { return Err(resolved.unusable()) };
    match resolved.kind {
        PathKind::Missing => Ok((path, true)),
        PathKind::File { .. } => Ok((path, false)),
        PathKind::Directory => Err(Refusal::new(Code::BadInput, format!("`{path}` is a directory")).hint("name a file in it")),
        _ => Err(resolved.unusable()),
    }
}

/// Puts a content in place, whole or not at all.
pub(super) async fn store(path: &str, content: Vec<u8>, mode: Option<u32>, context: &Context<'_>, time: Duration) -> Result<(), ToolStop> {
    change(Act::Write { path: path.into(), mode }, Some(content), path, "written", context, time).await
}

/// One change of a file by the room itself.
pub(super) async fn change(
    act: Act,
    content: Option<Vec<u8>>,
    path: &str,
    done: &str,
    context: &Context<'_>,
    time: Duration,
) -> Result<(), ToolStop> {
    let mut spec = JobSpec::new(act);
    spec.limits.wall = Some(time);
    let outcome = job::room(context)?.run(spec, content).await?;
    if !outcome.exit.success() {
        let why = if outcome.timed_out { "it took too long" } else { "the sandbox ended early" };
        return Err(Refusal::new(Code::WrongState, format!("`{path}` was not {done}: {why}")).hint("ask again").into());
    }
    Ok(())
}
