//! `fs.exists`

use super::{exactly, exactly_of, path_in, shown};
use crate::context::Context;
use crate::fault::ToolStop;
use crate::manifest::Manifest;
use crate::place::{Access, Found, Place, Target};
use crate::tool::{Output, Tool, ToolFuture};
use serde_json::{Value, json};

#[derive(Debug)]
pub(super) struct FsExists(pub(super) Manifest);

impl Tool for FsExists {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn targets(&self, input: &Value) -> Vec<Target> {
        vec![path_in(input, "path", Access::Read)]
    }

    fn dry_run(&self, _input: &Value, paths: &[Place], _context: &Context<'_>) -> Result<String, ToolStop> {
        let [path] = exactly_of(paths)?;
        Ok(format!("look whether {} is there", shown(path)))
    }

    fn execute<'a>(&'a self, _input: &'a Value, paths: Vec<Place>, _context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move {
            let [path] = exactly(paths)?;
            exists(&path)
        })
    }
}

fn exists(place: &Place) -> Result<Output, ToolStop> {
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
