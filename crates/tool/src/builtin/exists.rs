//! `fs.exists`

use super::{exactly, exactly_of, path_in, shown};
use crate::context::Context;
use crate::fault::ToolStop;
use crate::manifest::Manifest;
use crate::resolved_path::{Access, NamedPath, PathKind, ResolvedPath};
use crate::tool::{Output, Tool, ToolFuture};
use serde_json::{Value, json};

#[derive(Debug)]
pub(super) struct FsExists(pub(super) Manifest);

impl Tool for FsExists {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn named_paths(&self, input: &Value) -> Vec<NamedPath> {
        vec![path_in(input, "path", Access::Read)]
    }

    fn dry_run(&self, _input: &Value, paths: &[ResolvedPath], _context: &Context<'_>) -> Result<String, ToolStop> {
        let [path] = exactly_of(paths)?;
        Ok(format!("look whether {} is there", shown(path)))
    }

    fn execute<'a>(&'a self, _input: &'a Value, paths: Vec<ResolvedPath>, _context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move {
            let [path] = exactly(paths)?;
            exists(&path)
        })
    }
}

fn exists(resolved: &ResolvedPath) -> Result<Output, ToolStop> {
    let path = resolved.real.as_str();
    let mut value = json!({ "path": path, "exists": true });
    match resolved.kind {
        PathKind::File { bytes } => {
            value["kind"] = "file".into();
            value["size"] = bytes.into();
        }
        PathKind::Directory => value["kind"] = "directory".into(),
        PathKind::Link => value["kind"] = "link".into(),
        PathKind::Special(_) => value["kind"] = "other".into(),
        PathKind::Missing | PathKind::NotDirectory => value["exists"] = false.into(),
        PathKind::Closed | PathKind::Unknown => return Err(resolved.unusable().into()),
    }
    Ok(Output::good(value))
}
