//! `git.status`

use super::parse::{self, GitChange};
use super::{CHANGES_MAX, Git, status_arguments};
use crate::builtin::time_of;
use crate::context::Context;
use crate::fault::ToolStop;
use crate::manifest::Manifest;
use crate::resolved_path::{Access, NamedPath, ResolvedPath};
use crate::tool::{Output, Tool, ToolFuture};
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Debug)]
pub(in crate::builtin) struct GitStatus(pub(in crate::builtin) Manifest);

impl Tool for GitStatus {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn touches(&self, _input: &Value) -> Vec<NamedPath> {
        vec![NamedPath::project(Access::Read)]
    }

    fn dry_run(&self, _input: &Value, _paths: &[ResolvedPath], _context: &Context<'_>) -> Result<String, ToolStop> {
        Ok("look at the state of the repository".to_owned())
    }

    fn execute<'a>(&'a self, _input: &'a Value, _paths: Vec<ResolvedPath>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(status(context, time_of(&self.0)))
    }
}

async fn status(context: &Context<'_>, time: Duration) -> Result<Output, ToolStop> {
    let git = Git::open(context, time).await?;
    let outcome = git.run(&status_arguments(&[]), None).await?;
    let status = parse::status(&outcome.stdout);
    let mut changes: Vec<Value> = status.changes.iter().filter(|change| git.shows(change)).map(GitChange::shown).collect();
    let truncated = outcome.truncated || changes.len() > CHANGES_MAX;
    changes.truncate(CHANGES_MAX);
    Ok(Output::good(json!({ "branch": status.branch, "head": status.head, "changes": changes, "truncated": truncated })))
}
