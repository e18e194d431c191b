//! `search.glob`

use super::{blocking, exactly, exactly_of, number, part_bytes_max, path_in, shown_directory, text, time_of};
use crate::context::Context;
use crate::fault::{ToolFault, ToolStop};
use crate::manifest::Manifest;
use crate::place::{Access, Place, Target};
use crate::tool::{Output, Tool, ToolFuture};
use crate::walk;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use serde_json::{Value, json};
use std::os::fd::AsFd;
use std::time::Duration;
use world::{Code, Refusal};

/// Paths that are told when the caller names no number.
const PATHS_DEFAULT: u64 = 500;

#[derive(Debug)]
pub(super) struct SearchGlob(pub(super) Manifest);

impl Tool for SearchGlob {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn targets(&self, input: &Value) -> Vec<Target> {
        vec![path_in(input, "path", Access::List)]
    }

    fn dry_run(&self, input: &Value, paths: &[Place], _context: &Context<'_>) -> Result<String, ToolStop> {
        let [path] = exactly_of(paths)?;
        Ok(format!("look for `{}` below {}", text(input, "pattern").unwrap_or_default(), shown_directory(path)?))
    }

    fn execute<'a>(&'a self, input: &'a Value, paths: Vec<Place>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move {
            let [path] = exactly(paths)?;
            run(input, path, context, part_bytes_max(&self.0, context), time_of(&self.0)).await
        })
    }
}

async fn run(input: &Value, place: Place, context: &Context<'_>, output_max: usize, time: Duration) -> Result<Output, ToolStop> {
    let glob = parse(text(input, "pattern").unwrap_or_default())?;
    let found = files(place, context, time).await?;
    let max = usize::try_from(number(input, "max")?.unwrap_or(PATHS_DEFAULT)).unwrap_or(usize::MAX);
    let (mut paths, mut bytes, mut truncated) = (Vec::new(), 0, found.truncated);
    for path in found.files.into_iter().filter(|path| matches(&glob, path) && (context.visible)(path)) {
        bytes += path.len() + 3;
        if paths.len() == max || bytes > output_max {
            truncated = true;
            break;
        }
        paths.push(path);
    }
    Ok(Output::good(json!({ "paths": paths, "truncated": truncated })))
}

/// The files below a place.
pub(super) async fn files(place: Place, context: &Context<'_>, time: Duration) -> Result<walk::Found, ToolStop> {
    let root = context.root.try_clone_to_owned().map_err(|error| ToolFault::io("open", ".", error))?;
    blocking(time, move |deadline| Ok(walk::files(root.as_fd(), place.directory()?, place.real.as_str(), deadline)?)).await
}

pub(super) fn parse(pattern: &str) -> Result<Gitignore, Refusal> {
    let bad = |error: ignore::Error| {
        Refusal::new(Code::BadInput, format!("`{pattern}` is not a glob: {error}"))
            .hint("write it as in a .gitignore: `*.rs`, `src/**/*.ts`, `[a-z]*`, and `\\[` for a bracket")
    };
    let mut builder = GitignoreBuilder::new("");
    builder.allow_unclosed_class(false);
    builder.add_line(None, pattern).map_err(bad)?;
    let glob = builder.build().map_err(bad)?;
    if glob.num_ignores() == 0 {
        return Err(Refusal::new(Code::BadInput, format!("the glob `{pattern}` matches nothing"))
            .hint("leave the `!` or `#` at its beginning out, or write `\\` before it"));
    }
    Ok(glob)
}

pub(super) fn matches(glob: &Gitignore, path: &str) -> bool {
    glob.matched_path_or_any_parents(path, false).is_ignore()
}
