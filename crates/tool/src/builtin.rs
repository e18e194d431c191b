//! The tools that are part of skep. Each has its manifest beside it.

mod edit;
mod foreign;
mod git;
mod glob;
mod grep;
mod http;
mod list;
mod name;
mod patch;
mod read;
mod run;
mod unified;
mod would;
mod write;

use crate::adapter::Adapter;
use crate::fault::{ToolFault, ToolStop};
use crate::manifest::Manifest;
use crate::net::Aim;
use crate::place::{Access, Place, Target};
use crate::tool::{Context, Output};
use serde_json::Value;
use std::time::{Duration, Instant};
use world::limits::JOB_MS_DEFAULT;
use world::{Code, Refusal};

/// Room for a result's field names and numbers.
const FRAME_BYTES: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    FsRead,
    FsList,
    FsExists,
    FsWrite,
    FsEdit,
    FsDelete,
    FsMove,
    FsPatch,
    SearchGrep,
    SearchGlob,
    ShellRun,
    TestRun,
    SandboxRun,
    GitStatus,
    GitDiff,
    GitLog,
    GitCommit,
    HttpRequest,
    /// The command of a `tool.yaml` that was loaded.
    Foreign,
    /// The work of a built-in tool under a manifest of its own; the door makes a call of that tool of it.
    Adapted(Adapter),
}

impl Body {
    /// The built-in ones and their manifests.
    pub const ALL: &[(Body, &str)] = &[
        (Body::FsRead, include_str!("builtin/read.yaml")),
        (Body::FsList, include_str!("builtin/list.yaml")),
        (Body::FsExists, include_str!("builtin/exists.yaml")),
        (Body::FsWrite, include_str!("builtin/write.yaml")),
        (Body::FsEdit, include_str!("builtin/edit.yaml")),
        (Body::FsDelete, include_str!("builtin/delete.yaml")),
        (Body::FsMove, include_str!("builtin/move.yaml")),
        (Body::FsPatch, include_str!("builtin/patch.yaml")),
        (Body::SearchGrep, include_str!("builtin/grep.yaml")),
        (Body::SearchGlob, include_str!("builtin/glob.yaml")),
        (Body::ShellRun, include_str!("builtin/run.yaml")),
        (Body::TestRun, include_str!("builtin/test.yaml")),
        (Body::SandboxRun, include_str!("builtin/sandbox.yaml")),
        (Body::GitStatus, include_str!("builtin/git/status.yaml")),
        (Body::GitDiff, include_str!("builtin/git/diff.yaml")),
        (Body::GitLog, include_str!("builtin/git/log.yaml")),
        (Body::GitCommit, include_str!("builtin/git/commit.yaml")),
        (Body::HttpRequest, include_str!("builtin/http.yaml")),
    ];

    pub fn targets(self, input: &Value) -> Vec<Target> {
        let at = |field: &str, access: Access| Target { path: text(input, field).unwrap_or(".").to_owned(), access };
        match self {
            Body::FsRead | Body::FsExists | Body::GitDiff | Body::GitLog => vec![at("path", Access::Read)],
            Body::FsWrite | Body::FsEdit => vec![at("path", Access::Write)],
            Body::FsDelete => vec![at("path", Access::Name)],
            Body::FsMove => vec![at("from", Access::Name), at("to", Access::Name)],
            Body::FsPatch => patch::targets(input),
            Body::FsList | Body::SearchGrep | Body::SearchGlob => vec![at("path", Access::List)],
            Body::ShellRun | Body::SandboxRun => vec![at("cwd", Access::Run)],
            Body::GitCommit => words(input, "paths").into_iter().map(|path| Target { path, access: Access::Name }).collect(),
            Body::TestRun | Body::GitStatus | Body::HttpRequest | Body::Foreign | Body::Adapted(_) => Vec::new(),
        }
    }

    /// Set for what may touch more than it names: a program, or the repository as a whole.
    pub fn touches_all(self) -> Option<Access> {
        match self {
            Body::ShellRun | Body::SandboxRun | Body::TestRun | Body::Foreign | Body::Adapted(_) | Body::GitCommit => Some(Access::Run),
            Body::GitStatus | Body::GitDiff | Body::GitLog => Some(Access::Read),
            _ => None,
        }
    }

    pub fn command(self, manifest: &Manifest, input: &Value) -> Option<Vec<String>> {
        match self {
            Body::ShellRun | Body::SandboxRun => Some(words(input, "command")),
            Body::Foreign => Some(manifest.command.clone()),
            _ => None,
        }
    }

    pub fn size(self, input: &Value) -> Option<u64> {
        let field = match self {
            Body::FsWrite => "content",
            Body::FsEdit => "new",
            Body::FsPatch => "patch",
            Body::HttpRequest => "body",
            _ => return None,
        };
        text(input, field).and_then(|content| u64::try_from(content.len()).ok())
    }

    pub fn aim(self, input: &Value) -> Result<Option<Aim>, Refusal> {
        (self == Body::HttpRequest).then(|| http::aim(input)).transpose()
    }

    pub fn reads_only(self, input: &Value) -> bool {
        self == Body::HttpRequest && http::reads_only(input)
    }

    /// What a call would do, in one sentence.
    pub fn would(self, manifest: &Manifest, input: &Value, places: &[Place], context: &Context<'_>) -> Result<String, ToolStop> {
        would::tell(self, manifest, input, places, context)
    }

    pub async fn run(self, manifest: &Manifest, input: &Value, places: Vec<Place>, context: &Context<'_>) -> Result<Output, ToolStop> {
        let mut places = places.into_iter();
        let mut place = || places.next().ok_or_else(|| Refusal::new(Code::BadInput, "the call came without its place"));
        let time = Duration::from_millis(manifest.timeout_ms);
        // What a reader gives comes in parts, so a part is made that reaches the brain whole, with its fields' names around it.
        let part_max = context.output_max.min(manifest.result_bytes_max().saturating_sub(FRAME_BYTES));
        match self {
            Body::FsRead => read::run(input, place()?, part_max, time).await,
            Body::FsList => list::run(place()?, context, part_max, time).await,
            Body::FsExists => name::exists(&place()?),
            Body::FsWrite => write::run(input, place()?, context, time).await,
            Body::FsEdit => edit::run(input, place()?, context, time).await,
            Body::FsDelete => name::delete(&place()?, context, time).await,
            Body::FsMove => name::rename(&place()?, &place()?, context, time).await,
            Body::FsPatch => patch::run(input, places.collect(), context, time).await,
            Body::SearchGrep => grep::run(input, place()?, context, part_max, time).await,
            Body::SearchGlob => glob::run(input, place()?, context, part_max, time).await,
            Body::ShellRun => run::shell(input, place()?, context, JOB_MS_DEFAULT).await,
            Body::SandboxRun => run::shell(input, place()?, context, manifest.timeout_ms).await,
            Body::TestRun => run::test(input, context).await,
            Body::GitStatus => git::status(context, time).await,
            Body::GitDiff => git::diff(input, &place()?, context, time).await,
            Body::GitLog => git::log(input, places.next(), context, time).await,
            Body::GitCommit => git::commit(input, &places.collect::<Vec<_>>(), context, time).await,
            Body::HttpRequest => http::run(input, context).await,
            Body::Foreign => foreign::run(manifest, input, context).await,
            // INVARIANT: the door makes another call of it before anything runs.
            Body::Adapted(adapter) => {
                Err(Refusal::new(Code::Unsupported, format!("`{}` runs as `{}`", manifest.name, adapter.tool())).into())
            }
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

/// A whole number, also one written as `5.0`. What is none or too large is refused: a default in its place would be another call.
pub(crate) fn number(input: &Value, field: &str) -> Result<Option<u64>, Refusal> {
    /// Above it, numbers in JSON are no longer exact.
    const EXACT_MAX: f64 = 9_007_199_254_740_991.0;
    let Some(value) = input.get(field) else { return Ok(None) };
    let whole = value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(number));
    match value.as_u64().or(whole.map(|number| number as u64)) {
        Some(number) => Ok(Some(number)),
        None => Err(Refusal::new(Code::BadInput, format!("`{field}` is {value}, which is no whole number that it can be"))
            .hint("`skep list tools` shows what it takes")),
    }
}

fn words(input: &Value, field: &str) -> Vec<String> {
    let list = input.get(field).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
