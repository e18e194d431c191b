//! The tools that are part of skep, one in each file with its manifest beside it. What they share stands here.

pub(crate) mod brain_run;
mod delete;
mod edit;
mod exists;
mod git;
mod glob;
mod grep;
mod http;
pub(crate) mod job;
mod list;
pub(crate) mod patch;
mod read;
mod rename;
mod shell_run;
mod test_run;
mod unified;
mod write;

use crate::context::Context;
use crate::fault::{ToolFault, ToolStop};
use crate::manifest::Manifest;
use crate::resolved_path::{Access, NamedPath, ResolvedPath};
use crate::tool::Tool;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use world::{Code, Listing, Refusal, Remedy};

/// Room for a result's field names and numbers.
const FRAME_BYTES: usize = 1024;

pub(crate) fn all() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(read::FsRead(manifest(include_str!("builtin/read.yaml")))),
        Arc::new(list::FsList(manifest(include_str!("builtin/list.yaml")))),
        Arc::new(exists::FsExists(manifest(include_str!("builtin/exists.yaml")))),
        Arc::new(write::FsWrite(manifest(include_str!("builtin/write.yaml")))),
        Arc::new(edit::FsEdit(manifest(include_str!("builtin/edit.yaml")))),
        Arc::new(delete::FsDelete(manifest(include_str!("builtin/delete.yaml")))),
        Arc::new(rename::FsMove(manifest(include_str!("builtin/move.yaml")))),
        Arc::new(patch::FsPatch(manifest(include_str!("builtin/patch.yaml")))),
        Arc::new(grep::SearchGrep(manifest(include_str!("builtin/grep.yaml")))),
        Arc::new(glob::SearchGlob(manifest(include_str!("builtin/glob.yaml")))),
        Arc::new(shell_run::ShellRun::for_brains(manifest(include_str!("builtin/run.yaml")))),
        Arc::new(test_run::TestTool(manifest(include_str!("builtin/test.yaml")))),
        Arc::new(shell_run::ShellRun::for_person(manifest(include_str!("builtin/sandbox.yaml")))),
        Arc::new(brain_run::BrainRun(manifest(include_str!("builtin/brain_run.yaml")))),
        Arc::new(brain_run::BrainUse(manifest(include_str!("builtin/brain_use.yaml")))),
        Arc::new(git::GitStatus(manifest(include_str!("builtin/git/status.yaml")))),
        Arc::new(git::GitDiff(manifest(include_str!("builtin/git/diff.yaml")))),
        Arc::new(git::GitLog(manifest(include_str!("builtin/git/log.yaml")))),
        Arc::new(git::GitCommit(manifest(include_str!("builtin/git/commit.yaml")))),
        Arc::new(http::HttpRequest(manifest(include_str!("builtin/http.yaml")))),
    ]
}

fn manifest(text: &str) -> Manifest {
    match Manifest::parse(text, "built-in manifest") {
        Ok(manifest) => manifest,
        Err(error) => panic!("a built-in manifest is broken: {error}"),
    }
}

/// The path in a field of an input; the project itself where the field is left out.
fn path_in(input: &Value, field: &str, access: Access) -> NamedPath {
    NamedPath { path: text(input, field).unwrap_or(".").to_owned(), access }
}

/// The paths of a call whose number the tool knows.
fn exactly<const N: usize>(paths: Vec<ResolvedPath>) -> Result<[ResolvedPath; N], Refusal> {
    paths.try_into().map_err(|_| without_paths())
}

/// The same for a look at them.
fn exactly_of<const N: usize>(paths: &[ResolvedPath]) -> Result<&[ResolvedPath; N], Refusal> {
    paths.try_into().map_err(|_| without_paths())
}

fn without_paths() -> Refusal {
    Refusal::new(Code::BadInput, "the call came without its paths")
}

/// A path as dry runs show it.
fn shown(path: &ResolvedPath) -> String {
    format!("`{}`", path.real.as_str())
}

/// The same of what must be a directory.
fn shown_directory(path: &ResolvedPath) -> Result<String, Refusal> {
    path.directory().map(|_| shown(path))
}

fn time_of(manifest: &Manifest) -> Duration {
    Duration::from_millis(manifest.timeout_ms)
}

/// The time limit of a tool whose callers may ask for another than the manifest's.
fn time_asked(manifest: &Manifest, input: &Value) -> Result<Duration, Refusal> {
    let asked = number(input, "timeout_ms")?.unwrap_or(0);
    Ok(Duration::from_millis(asked.max(manifest.timeout_ms)))
}

/// What a reader gives comes in parts, so a part is made that reaches the brain whole, with its fields' names around it.
fn part_bytes_max(manifest: &Manifest, context: &Context<'_>) -> usize {
    context.output_max.min(manifest.result_bytes_max().saturating_sub(FRAME_BYTES))
}

/// Bytes of a text in an input.
fn bytes_in(input: &Value, field: &str) -> Option<u64> {
    text(input, field).and_then(|content| u64::try_from(content.len()).ok())
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
fn number(input: &Value, field: &str) -> Result<Option<u64>, Refusal> {
    /// Above it, numbers in JSON are no longer exact.
    const EXACT_MAX: f64 = 9_007_199_254_740_991.0;
    let Some(value) = input.get(field) else { return Ok(None) };
    let whole = value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(number));
    match value.as_u64().or(whole.map(|number| number as u64)) {
        Some(number) => Ok(Some(number)),
        None => Err(Refusal::new(Code::BadInput, format!("`{field}` is {value}, which is no whole number that it can be"))
            .remedy(Remedy::List { what: Listing::Tools })),
    }
}

fn words(input: &Value, field: &str) -> Vec<String> {
    let list = input.get(field).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
