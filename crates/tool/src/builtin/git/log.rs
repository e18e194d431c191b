//! `git.log`

use super::{Git, inside, parse, pathspec};
use crate::builtin::{exactly, exactly_of, number, path_in, shown, text, time_of};
use crate::context::Context;
use crate::fault::ToolStop;
use crate::manifest::Manifest;
use crate::place::{Access, Place, Target};
use crate::tool::{Output, Tool, ToolFuture};
use serde_json::{Value, json};
use std::time::Duration;

/// Commits that are told when the caller names no number.
const COMMITS_DEFAULT: u64 = 20;

#[derive(Debug)]
pub(in crate::builtin) struct GitLog(pub(in crate::builtin) Manifest);

impl Tool for GitLog {
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
        Ok(format!("list commits of {}", shown(path)))
    }

    fn execute<'a>(&'a self, input: &'a Value, paths: Vec<Place>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move {
            let [path] = exactly(paths)?;
            log(input, &path, context, time_of(&self.0)).await
        })
    }
}

async fn log(input: &Value, place: &Place, context: &Context<'_>, time: Duration) -> Result<Output, ToolStop> {
    let git = Git::open(context, time).await?;
    let max = number(input, "max")?.unwrap_or(COMMITS_DEFAULT);
    let mut arguments: Vec<String> =
        ["log", "-z", "--no-color", "--no-show-signature", "--no-ext-diff", "--no-textconv", "--encoding=UTF-8"]
            .map(str::to_owned)
            .to_vec();
    // One more than asked for shows that there is more.
    arguments.extend([format!("--max-count={}", max.saturating_add(1)), format!("--format={}", parse::LOG_FORMAT)]);
    if text(input, "path").is_some() {
        arguments.extend(["--".to_owned(), pathspec(inside(place)?)]);
    }
    if git.is_unborn().await? {
        return Ok(Output::good(json!({ "commits": [], "truncated": false })));
    }
    let outcome = git.run(&arguments, None).await?;
    let mut commits = parse::log(&outcome.stdout);
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let truncated = outcome.truncated || commits.len() > max;
    commits.truncate(max);
    Ok(Output::good(json!({ "commits": commits, "truncated": truncated })))
}
