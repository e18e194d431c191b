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
    let Real::Inside(path) = &place.real else { return Err(place.absent().into()) };
    let created = match place.found {
        Found::Missing => true,
        Found::File { .. } => false,
        Found::Directory => {
            return Err(Refusal::new(Code::BadInput, format!("`{path}` is a directory")).hint("name a file in it").into());
        }
        _ => return Err(place.absent().into()),
    };
    let content = text(input, "content").unwrap_or_default().as_bytes().to_vec();
    let bytes = content.len();
    let mode = text(input, "mode").and_then(|mode| u32::from_str_radix(mode, 8).ok());
    let mut spec = JobSpec::new(Act::Write { path: path.into(), mode });
    spec.limits.wall = Some(time);
    let outcome = run::room(context)?.run(spec, Some(content)).await?;
    if !outcome.exit.success() {
        let why = if outcome.timed_out { "it took too long" } else { "the room ended early" };
        return Err(Refusal::new(Code::WrongState, format!("`{path}` was not written: {why}")).hint("ask again").into());
    }
    Ok(Output { ok: true, value: json!({ "path": path, "bytes": bytes, "created": created }) })
}
