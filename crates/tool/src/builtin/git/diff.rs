//! `git.diff`

use super::{CHANGES_MAX, Git, inside, parse, pathspec};
use crate::builtin::{exactly, exactly_of, path_in, shown, time_of};
use crate::context::Context;
use crate::fault::ToolStop;
use crate::manifest::Manifest;
use crate::place::{Access, Place, Target};
use crate::tool::{Output, Tool, ToolFuture};
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Debug)]
pub(in crate::builtin) struct GitDiff(pub(in crate::builtin) Manifest);

impl Tool for GitDiff {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn targets(&self, input: &Value) -> Vec<Target> {
        vec![path_in(input, "path", Access::Read)]
    }

    fn touches(&self, _input: &Value) -> Vec<Target> {
        vec![Target::project(Access::Read)]
    }

    fn dry_run(&self, _input: &Value, paths: &[Place], _context: &Context<'_>) -> Result<String, ToolStop> {
        let [path] = exactly_of(paths)?;
        Ok(format!("show what changed in {}", shown(path)))
    }

    fn execute<'a>(&'a self, input: &'a Value, paths: Vec<Place>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move {
            let [path] = exactly(paths)?;
            diff(input, &path, context, time_of(&self.0)).await
        })
    }
}

async fn diff(input: &Value, place: &Place, context: &Context<'_>, time: Duration) -> Result<Output, ToolStop> {
    let git = Git::open(context, time).await?;
    let staged = input.get("staged").and_then(Value::as_bool).unwrap_or(false);
    let path = pathspec(inside(place)?);
    let options = ["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--no-renames"];
    let mut arguments: Vec<String> = options.map(str::to_owned).to_vec();
    arguments.extend(staged.then(|| "--cached".to_owned()));
    let with = |more: &[&str], paths: &[String]| {
        let more = more.iter().map(|word| (*word).to_owned());
        arguments.iter().cloned().chain(more).chain(["--".to_owned()]).chain(paths.iter().cloned()).collect::<Vec<_>>()
    };
    // What a mask hides, the index still holds. So only paths that may be seen are asked for, each by its name.
    let listed = git.run(&with(&["--name-only", "-z"], &[path]), None).await?;
    let mut names = parse::names(&listed.stdout);
    if listed.truncated {
        // A name that was cut could be that of a folder, and stand for all that is in it.
        names.pop();
    }
    let mut shown: Vec<String> = names.into_iter().filter(|name| (context.visible)(name)).collect();
    let truncated = listed.truncated || shown.len() > CHANGES_MAX;
    shown.truncate(CHANGES_MAX);
    if shown.is_empty() {
        return Ok(Output::good(json!({ "patch": "", "files": 0, "truncated": truncated })));
    }
    let paths: Vec<String> = shown.iter().map(|name| pathspec(name)).collect();
    let outcome = git.run(&with(&["--src-prefix=a/", "--dst-prefix=b/"], &paths), None).await?;
    let patch = String::from_utf8_lossy(&outcome.stdout);
    Ok(Output::good(json!({ "patch": patch, "files": shown.len(), "truncated": truncated || outcome.truncated })))
}
