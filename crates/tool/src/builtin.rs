//! The tools that are part of skep. Each has its manifest beside it.

mod base64;
mod glob;
mod grep;
mod list;
mod read;
mod run;
mod write;

use crate::fault::{ToolFault, ToolStop};
use crate::manifest::Manifest;
use crate::place::{Access, Place, Target};
use crate::tool::{Context, Output};
use serde_json::Value;
use std::time::{Duration, Instant};
use world::{Code, Refusal};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    FsRead,
    FsList,
    FsWrite,
    SearchGrep,
    SearchGlob,
    ShellRun,
    TestRun,
}

impl Body {
    pub const ALL: &[Body] =
        &[Body::FsRead, Body::FsList, Body::FsWrite, Body::SearchGrep, Body::SearchGlob, Body::ShellRun, Body::TestRun];

    pub fn manifest(self) -> &'static str {
        match self {
            Body::FsRead => include_str!("builtin/read.yaml"),
            Body::FsList => include_str!("builtin/list.yaml"),
            Body::FsWrite => include_str!("builtin/write.yaml"),
            Body::SearchGrep => include_str!("builtin/grep.yaml"),
            Body::SearchGlob => include_str!("builtin/glob.yaml"),
            Body::ShellRun => include_str!("builtin/run.yaml"),
            Body::TestRun => include_str!("builtin/test.yaml"),
        }
    }

    pub fn targets(self, input: &Value) -> Vec<Target> {
        let at = |field: &str, access: Access| {
            let path = text(input, field).unwrap_or(".").to_owned();
            vec![Target { path, access }]
        };
        match self {
            Body::FsRead => at("path", Access::Read),
            Body::FsWrite => at("path", Access::Write),
            Body::FsList | Body::SearchGrep | Body::SearchGlob => at("path", Access::List),
            Body::ShellRun => at("cwd", Access::Run),
            Body::TestRun => Vec::new(),
        }
    }

    pub fn command(self, input: &Value) -> Option<Vec<String>> {
        (self == Body::ShellRun).then(|| words(input, "command"))
    }

    pub fn size(self, input: &Value) -> Option<u64> {
        match self {
            Body::FsWrite => text(input, "content").and_then(|content| u64::try_from(content.len()).ok()),
            _ => None,
        }
    }

    pub async fn run(self, manifest: &Manifest, input: &Value, places: Vec<Place>, context: &Context<'_>) -> Result<Output, ToolStop> {
        let mut places = places.into_iter();
        let mut place = || places.next().ok_or_else(|| Refusal::new(Code::BadInput, "the call came without its place"));
        let time = Duration::from_millis(manifest.timeout_ms);
        match self {
            Body::FsRead => read::run(input, place()?, context, time).await,
            Body::FsList => list::run(place()?, context, time).await,
            Body::FsWrite => write::run(input, place()?, context, time).await,
            Body::SearchGrep => grep::run(input, place()?, context, time).await,
            Body::SearchGlob => glob::run(input, place()?, context, time).await,
            Body::ShellRun => run::shell(input, place()?, context).await,
            Body::TestRun => run::test(input, context).await,
        }
    }
}

/// Does work that may wait for a disk on a thread where waiting harms nobody, and gives up on it after `time`.
async fn blocking<T: Send + 'static>(
    time: Duration,
    work: impl FnOnce(Instant) -> Result<T, ToolStop> + Send + 'static,
) -> Result<T, ToolStop> {
    let deadline = Instant::now() + time;
    // Work that watches its deadline ends by itself; the margin is for a disk that does not answer.
    let patience = time + Duration::from_secs(1);
    match tokio::time::timeout(patience, tokio::task::spawn_blocking(move || work(deadline))).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => Err(ToolFault::Worker(error).into()),
        Err(_) => Err(ToolFault::TimedOut { ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX) }.into()),
    }
}

/// Fields of an input that its schema has checked.
fn text<'a>(input: &'a Value, field: &str) -> Option<&'a str> {
    input.get(field).and_then(Value::as_str)
}

fn number(input: &Value, field: &str) -> Option<u64> {
    input.get(field).and_then(Value::as_u64)
}

fn words(input: &Value, field: &str) -> Vec<String> {
    let list = input.get(field).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
