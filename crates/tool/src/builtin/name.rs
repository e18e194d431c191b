//! `fs.exists`, `fs.delete` and `fs.move`: about names, not contents.

use super::write;
use crate::fault::ToolStop;
use crate::place::{Found, Place, Real};
use crate::tool::{Context, Output};
use sandbox::Act;
use serde_json::json;
use std::time::Duration;
use world::{Code, Refusal};

pub(super) fn exists(place: &Place) -> Result<Output, ToolStop> {
    let path = place.real.as_str();
    let mut value = json!({ "path": path, "exists": true });
    match place.found {
        Found::File { bytes } => {
            value["kind"] = "file".into();
            value["size"] = bytes.into();
        }
        Found::Directory => value["kind"] = "directory".into(),
        Found::Link => value["kind"] = "link".into(),
        Found::Special(_) => value["kind"] = "other".into(),
        Found::Missing | Found::NotDirectory => value["exists"] = false.into(),
        Found::Closed | Found::Unknown => return Err(place.absent().into()),
    }
    Ok(Output::good(value))
}

pub(super) async fn delete(place: &Place, context: &Context<'_>, time: Duration) -> Result<Output, ToolStop> {
    let path = present(place)?;
    write::change(Act::Delete { path: path.into() }, None, path, "deleted", context, time).await?;
    Ok(Output::good(json!({ "path": path, "deleted": true })))
}

pub(super) async fn rename(from: &Place, to: &Place, context: &Context<'_>, time: Duration) -> Result<Output, ToolStop> {
    let (from, to) = (present(from)?, free(to)?);
    write::change(Act::Move { from: from.into(), to: to.into() }, None, from, "moved", context, time).await?;
    Ok(Output::good(json!({ "from": from, "to": to })))
}

/// The path of something that can be deleted or moved.
pub(super) fn present(place: &Place) -> Result<&str, Refusal> {
    match (&place.real, place.found) {
        (Real::Inside(path), _) if path == "." => Err(Refusal::new(Code::BadInput, "`.` is the project itself").hint("name what is in it")),
        (Real::Inside(path), Found::File { .. } | Found::Directory | Found::Link) => Ok(path),
        _ => Err(place.absent()),
    }
}

/// A path that nothing has yet.
pub(super) fn free(place: &Place) -> Result<&str, Refusal> {
    match (&place.real, place.found) {
        (Real::Inside(path), Found::Missing) => Ok(path),
        (Real::Inside(path), Found::File { .. } | Found::Directory | Found::Link | Found::Special(_)) => {
            Err(Refusal::new(Code::BadInput, format!("`{path}` exists already")).hint("choose another name, or delete it with fs.delete"))
        }
        _ => Err(place.absent()),
    }
}
