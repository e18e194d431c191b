//! `git.commit`: what the task changed, as a commit of its own view. The project's repository hears of it only by a merge.

use super::{Git, inside, parse, status_arguments};
use crate::builtin::{shown, text, time_of, words};
use crate::context::Context;
use crate::fault::ToolStop;
use crate::manifest::Manifest;
use crate::place::{Access, Place, Target};
use crate::tool::{Output, Tool, ToolFuture};
use serde_json::{Value, json};
use std::time::Duration;
use world::{Code, Refusal};

#[derive(Debug)]
pub(in crate::builtin) struct GitCommit(pub(in crate::builtin) Manifest);

impl Tool for GitCommit {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn targets(&self, input: &Value) -> Vec<Target> {
        words(input, "paths").into_iter().map(|path| Target { path, access: Access::Name }).collect()
    }

    fn touches(&self, _input: &Value) -> Vec<Target> {
        vec![Target::project(Access::Run)]
    }

    fn dry_run(&self, _input: &Value, paths: &[Place], _context: &Context<'_>) -> Result<String, ToolStop> {
        if paths.is_empty() {
            return Ok("commit all changes of the task".to_owned());
        }
        Ok(format!("commit the changes of {}", paths.iter().map(shown).collect::<Vec<_>>().join(", ")))
    }

    fn execute<'a>(&'a self, input: &'a Value, paths: Vec<Place>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move { commit(input, &paths, context, time_of(&self.0)).await })
    }
}

async fn commit(input: &Value, places: &[Place], context: &Context<'_>, time: Duration) -> Result<Output, ToolStop> {
    let message = text(input, "message").unwrap_or_default().trim();
    if message.is_empty() {
        return Err(Refusal::new(Code::BadInput, "the message says nothing").hint("say what the commit does, and why").into());
    }
    let named = if words(input, "paths").is_empty() { &[] } else { places };
    let wanted = named.iter().map(|place| inside(place).map(str::to_owned)).collect::<Result<Vec<_>, _>>()?;
    let git = Git::open(context, time).await?;
    let listed = git.run(&status_arguments(&wanted), None).await?;
    if listed.truncated {
        return Err(Refusal::new(Code::TooLarge, "there is more to commit than can be listed").hint("name some `paths`").into());
    }
    let status = parse::status(&listed.stdout);
    // A masked file looks empty in the room; committed from here it would be.
    let paths: Vec<String> = status.changes.into_iter().filter(|change| git.shows(change)).map(|change| change.path).collect();
    if paths.is_empty() {
        return Err(Refusal::new(Code::WrongState, "there is nothing to commit").hint("look at git.status").into());
    }
    let list = paths.join("\0").into_bytes();
    let by_list = ["--pathspec-from-file=-", "--pathspec-file-nul"];
    let literal = |arguments: &[&str]| {
        ["--literal-pathspecs"].iter().chain(arguments).chain(&by_list).map(|word| (*word).to_owned()).collect::<Vec<_>>()
    };
    git.run(&literal(&["add", "--all"]), Some(list.clone())).await?;
    let message = format!("--message={message}");
    let options = ["commit", "--quiet", "--only", "--no-verify", "--no-gpg-sign", "--no-status", "--no-edit", "--cleanup=whitespace"];
    git.run(&literal(&[&options[..], &[message.as_str()]].concat()), Some(list)).await?;
    let head = git.run(&["rev-parse", "HEAD"].map(str::to_owned), None).await?;
    let commit = String::from_utf8_lossy(&head.stdout).trim().to_owned();
    Ok(Output::good(json!({ "commit": commit, "files": paths.len() })))
}
