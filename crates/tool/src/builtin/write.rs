//! `fs.write`: in the room, like everything that changes something.

use super::{run, text};
use crate::fault::ToolStop;
use crate::place::{Found, Place, Real};
use crate::tool::{Context, Output};
use sandbox::{Act, JobSpec};
use serde_json::{Value, json};
use std::time::Duration;
use world::{Code, Refusal};

pub(super) async fn run(input: &Value, place: Place, context: &Context<'_>, time: Duration) -> Result<Output, ToolStop> {
    let (path, created) = target(&place)?;
    let content = text(input, "content").unwrap_or_default().as_bytes().to_vec();
    let bytes = content.len();
    let mode = text(input, "mode").and_then(|mode| u32::from_str_radix(mode, 8).ok());
    store(path, content, mode, context, time).await?;
    Ok(Output::good(json!({ "path": path, "bytes": bytes, "created": created })))
}

/// The path to write, and whether it is new.
pub(super) fn target(place: &Place) -> Result<(&str, bool), Refusal> {
    let Real::Inside(path) = &place.real else { return Err(place.absent()) };
    match place.found {
        Found::Missing => Ok((path, true)),
        Found::File { .. } => Ok((path, false)),
        Found::Directory => Err(Refusal::new(Code::BadInput, format!("`{path}` is a directory")).hint("name a file in it")),
        _ => Err(place.absent()),
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
    let outcome = run::room(context)?.run(spec, content).await?;
    if !outcome.exit.success() {
        let why = if outcome.timed_out { "it took too long" } else { "the room ended early" };
        return Err(Refusal::new(Code::WrongState, format!("`{path}` was not {done}: {why}")).hint("ask again").into());
    }
    Ok(())
}
