//! Patches applied in the room: the input of `fs.patch`, and what a tool with `output_mode: patch` says.
//!
//! **Invariant.** No file is changed before every file was tried and allowed; and all of them are changed or, as far as the room lets us
//! put things back, none.

use super::unified::{self, Part, PatchStep};
use super::{blocking, bytes_in, text, time_of, write};
use crate::context::Context;
use crate::fault::{ToolFault, ToolStop};
use crate::manifest::Manifest;
use crate::resolved_path::{Access, NamedPath, Real, ResolvedPath};
use crate::subcall::PatchedFile;
use crate::tool::{Output, Tool, ToolFuture};
use sandbox::Act;
use serde_json::{Value, json};
use std::time::Duration;
use world::{Code, Refusal};

#[derive(Debug)]
pub(super) struct FsPatch(pub(super) Manifest);

impl Tool for FsPatch {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn named_paths(&self, input: &Value) -> Vec<NamedPath> {
        targets(input)
    }

    fn size(&self, input: &Value, _paths: &[ResolvedPath]) -> Option<u64> {
        bytes_in(input, "patch")
    }

    fn dry_run(&self, input: &Value, _paths: &[ResolvedPath], _context: &Context<'_>) -> Result<String, ToolStop> {
        Ok(format!("patch {}", given(input)?.iter().map(Part::told).collect::<Vec<_>>().join(", ")))
    }

    fn execute<'a>(&'a self, input: &'a Value, paths: Vec<ResolvedPath>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(run(input, paths, context, time_of(&self.0)))
    }
}

/// Every path of the input's patch; the project itself for one that can't be read, so that it gets as far as its refusal.
fn targets(input: &Value) -> Vec<NamedPath> {
    match given(input) {
        Ok(parts) => parts.iter().flat_map(Part::paths).map(named).collect(),
        Err(_) => vec![named(".".into())],
    }
}

fn named(path: String) -> NamedPath {
    NamedPath { path, access: Access::Name }
}

fn given(input: &Value) -> Result<Vec<Part<'_>>, Refusal> {
    let bad = |why: &str| {
        Refusal::new(Code::BadInput, format!("the patch is of no use: {why}"))
            .hint("make the diff from the files as they are now: `diff -u`, `git diff`, or use fs.edit")
    };
    match unified::parts(text(input, "patch").unwrap_or_default()) {
        Ok(parts) if parts.is_empty() => Err(bad("it changes nothing")),
        Ok(parts) => Ok(parts),
        Err(why) => Err(bad(&why)),
    }
}

/// `fs.patch`: its paths were decided on with the call.
async fn run(input: &Value, resolved_paths: Vec<ResolvedPath>, context: &Context<'_>, time: Duration) -> Result<Output, ToolStop> {
    let input = input.clone();
    let (steps, files) = blocking(time, move |_| {
        let parts = given(&input)?;
        let files: Vec<String> = parts.iter().map(Part::told).collect();
        Ok((unified::steps(&parts, &resolved_paths)?, files))
    })
    .await?;
    apply(&steps, context, time).await?;
    Ok(Output::good(json!({ "files": files })))
}

/// What a tool said: each path is asked about now.
pub(crate) async fn run_output(tool: &str, diff: &str, context: &Context<'_>, time: Duration) -> Result<Output, ToolStop> {
    let mut resolved_paths = Vec::new();
    for path in said(tool, diff)?.iter().flat_map(Part::paths) {
        let resolved = ResolvedPath::open(context.root, context.project, &named(path.clone()))?;
        if resolved.real != Real::Inside(path.clone()) {
            let reason = format!("the patch names `{path}`, which is `{}`", resolved.real.as_str());
            return Err(Refusal::new(Code::Denied, reason).hint("a patch names files by their real paths").into());
        }
        resolved_paths.push(resolved);
    }
    let (tool, diff) = (tool.to_owned(), diff.to_owned());
    let steps = blocking(time, move |_| unified::steps(&said(&tool, &diff)?, &resolved_paths)).await?;
    for PatchStep { path, new, .. } in &steps {
        context.subcalls.allow_change(PatchedFile { path, content: new.as_deref() }).await?;
    }
    apply(&steps, context, time).await?;
    let changed: Vec<_> = steps.iter().map(|step| json!({ "path": step.path, "kind": kind(step) })).collect();
    Ok(Output::good(json!({ "changed": changed })))
}

fn said<'a>(tool: &str, diff: &'a str) -> Result<Vec<Part<'a>>, ToolFault> {
    let unfit = |why| ToolFault::InvalidOutput { tool: tool.to_owned(), what: format!("its output is no patch: {why}") };
    unified::parts(diff).map_err(unfit)
}

fn kind(step: &PatchStep) -> &'static str {
    match (&step.old, &step.new) {
        (None, _) => "created",
        (_, None) => "deleted",
        _ => "modified",
    }
}

async fn apply(steps: &[PatchStep], context: &Context<'_>, time: Duration) -> Result<(), ToolStop> {
    for (done, step) in steps.iter().enumerate() {
        if let Err(stop) = put(step, &step.new, context, time).await {
            for step in steps[..done].iter().rev() {
                put(step, &step.old, context, time).await?;
            }
            return Err(stop);
        }
    }
    Ok(())
}

async fn put(step: &PatchStep, wanted: &Option<String>, context: &Context<'_>, time: Duration) -> Result<(), ToolStop> {
    match wanted {
        Some(text) => write::store(&step.path, text.clone().into_bytes(), step.mode, context, time).await,
        None => write::change(Act::Delete { path: step.path.clone().into() }, None, &step.path, "deleted", context, time).await,
    }
}
