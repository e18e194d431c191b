//! `fs.move`

use super::delete::{present, size_taken};
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
pub(super) struct FsMove(pub(super) Manifest);

impl Tool for FsMove {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn targets(&self, input: &Value) -> Vec<Target> {
        vec![path_in(input, "from", Access::Name), path_in(input, "to", Access::Name)]
    }

    fn size(&self, _input: &Value, paths: &[Place]) -> Option<u64> {
        size_taken(paths.first()?)
    }

    fn dry_run(&self, _input: &Value, paths: &[Place], _context: &Context<'_>) -> Result<String, ToolStop> {
        let [from, to] = exactly_of(paths)?;
        Ok(format!("move `{}` to `{}`", present(from)?, free(to)?))
    }

    fn execute<'a>(&'a self, _input: &'a Value, paths: Vec<Place>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move {
            let [from, to] = exactly(paths)?;
            rename(&from, &to, context, time_of(&self.0)).await
        })
    }
}

async fn rename(from: &Place, to: &Place, context: &Context<'_>, time: Duration) -> Result<Output, ToolStop> {
    let (from, to) = (present(from)?, free(to)?);
    write::change(Act::Move { from: from.into(), to: to.into() }, None, from, "moved", context, time).await?;
    Ok(Output::good(json!({ "from": from, "to": to })))
}

/// A path that nothing has yet.
fn free(place: &Place) -> Result<&str, Refusal> {
    match (&place.real, place.found) {
        (Real::Inside(path), Found::Missing) => Ok(path),
        (Real::Inside(path), Found::File { .. } | Found::Directory | Found::Link | Found::Special(_)) => {
            Err(Refusal::new(Code::BadInput, format!("`{path}` exists already")).hint("choose another name, or delete it with fs.delete"))
        }
        _ => Err(place.absent()),
    }
}
