//! `fs.delete`

use super::{exactly, exactly_of, path_in, time_of, write};
use crate::context::Context;
use crate::fault::ToolStop;
use crate::manifest::Manifest;
use crate::place::{Access, Found, Place, Real, Target};
use crate::tool::{Output, Tool, ToolFuture};
use sandbox::Act;
use serde_json::{Value, json};
use std::time::Duration;
use world::{Code, Refusal};

#[derive(Debug)]
pub(super) struct FsDelete(pub(super) Manifest);

impl Tool for FsDelete {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn targets(&self, input: &Value) -> Vec<Target> {
        vec![path_in(input, "path", Access::Name)]
    }

    fn size(&self, _input: &Value, paths: &[Place]) -> Option<u64> {
        size_taken(paths.first()?)
    }

    fn dry_run(&self, _input: &Value, paths: &[Place], _context: &Context<'_>) -> Result<String, ToolStop> {
        let [path] = exactly_of(paths)?;
        Ok(format!("delete `{}`", present(path)?))
    }

    fn execute<'a>(&'a self, _input: &'a Value, paths: Vec<Place>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move {
            let [path] = exactly(paths)?;
            delete(&path, context, time_of(&self.0)).await
        })
    }
}

async fn delete(place: &Place, context: &Context<'_>, time: Duration) -> Result<Output, ToolStop> {
    let path = present(place)?;
    write::change(Act::Delete { path: path.into() }, None, path, "deleted", context, time).await?;
    Ok(Output::good(json!({ "path": path, "deleted": true })))
}

/// The path of something that can be deleted or moved.
pub(super) fn present(place: &Place) -> Result<&str, Refusal> {
    match (&place.real, place.found) {
        (Real::Inside(path), _) if path == "." => Err(Refusal::new(Code::BadInput, "`.` is the project itself").hint("name what is in it")),
        (Real::Inside(path), Found::File { .. } | Found::Directory | Found::Link) => Ok(path),
        _ => Err(place.absent()),
    }
}

/// Bytes of the file that a call takes away or moves. A folder's are not counted, so they are not known.
pub(super) fn size_taken(place: &Place) -> Option<u64> {
    match place.found {
        Found::File { bytes } => Some(bytes),
        Found::Link | Found::Missing => Some(0),
        _ => None,
    }
}
