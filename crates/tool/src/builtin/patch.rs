//! The diff of a tool with `output_mode: patch`: read, tried on a copy in memory, asked about file by file, and only then applied.
//!
//! Strict: a hunk stands exactly where it says or nowhere. **Invariant.** No file is changed before every file was tried and allowed.

use super::{blocking, write};
use crate::fault::{ToolFault, ToolStop};
use crate::leave::Change;
use crate::place::{Access, Found, Place, Real, Target};
use crate::tool::{Context, Output};
use diffy::patch_set::{FileMode, FileOperation, FilePatch, ParseOptions, PatchSet};
use diffy::{Line, Patch};
use sandbox::Act;
use serde_json::json;
use std::io::Read;
use std::time::Duration;
use world::limits::READ_BYTES_MAX;
use world::{Code, Refusal};

/// Files of one patch. A person reviews each.
const FILES_MAX: usize = 500;

/// One file as it will be.
#[derive(Debug, PartialEq, Eq)]
struct Planned {
    path: String,
    kind: &'static str,
    /// `None` where it goes away.
    content: Option<String>,
    mode: Option<u32>,
}

pub(super) async fn run(tool: &str, diff: &str, context: &Context<'_>, time: Duration) -> Result<Output, ToolStop> {
    let mut planned: Vec<Planned> = Vec::new();
    for file in files(tool, diff)? {
        let file = plan(&file, context, time).await?;
        if planned.iter().any(|other| other.path == file.path) {
            return Err(Refusal::new(Code::BadInput, format!("the patch changes `{}` twice", file.path)).into());
        }
        planned.push(file);
    }
    for Planned { path, content, .. } in &planned {
        context.leave.change(Change { path, content: content.as_deref() }).await?;
    }
    let changed: Vec<_> = planned.iter().map(|file| json!({ "path": file.path, "kind": file.kind })).collect();
    for Planned { path, content, mode, .. } in planned {
        match content {
            Some(content) => write::store(&path, content.into_bytes(), mode, context, time).await?,
            None => write::change(Act::Delete { path: path.clone().into() }, None, &path, "deleted", context, time).await?,
        }
    }
    Ok(Output::good(json!({ "changed": changed })))
}

/// The parts of a diff; one without any changes nothing.
fn files<'a>(tool: &str, diff: &'a str) -> Result<Vec<FilePatch<'a, str>>, ToolStop> {
    if diff.trim().is_empty() {
        return Ok(Vec::new());
    }
    let unfit = |what: String| ToolFault::InvalidOutput { tool: tool.to_owned(), what };
    let is_git = diff.lines().any(|line| line.starts_with("diff --git "));
    let options = if is_git { ParseOptions::gitdiff() } else { ParseOptions::unidiff() };
    let mut files = Vec::new();
    for file in PatchSet::parse(diff, options) {
        files.push(file.map_err(|error| unfit(format!("its output is not a unified diff: {error}")))?);
        if files.len() > FILES_MAX {
            return Err(unfit(format!("its patch changes more than {FILES_MAX} files")).into());
        }
    }
    Ok(files)
}

async fn plan(file: &FilePatch<'_, str>, context: &Context<'_>, time: Duration) -> Result<Planned, ToolStop> {
    let (path, kind) = match file.operation() {
        FileOperation::Create(path) => (plain(path), "created"),
        FileOperation::Delete(path) => (plain(path), "deleted"),
        FileOperation::Modify { original, modified } if plain(original) == plain(modified) => (plain(modified), "modified"),
        FileOperation::Modify { original, modified } => return Err(renames(original, modified).into()),
        FileOperation::Rename { from, to } | FileOperation::Copy { from, to } => return Err(renames(from, to).into()),
    };
    let Some(patch) = file.patch().as_text() else {
        return Err(Refusal::new(Code::Unsupported, format!("the patch of `{path}` is not text")).into());
    };
    let mode = match file.new_mode() {
        None | Some(FileMode::Regular) => None,
        Some(FileMode::Executable) => Some(0o755),
        Some(FileMode::Symlink | FileMode::Gitlink) => {
            return Err(Refusal::new(Code::Unsupported, format!("`{path}` would become a link")).into());
        }
    };
    let place = Place::open(context.root, context.project, &Target { path: path.to_owned(), access: Access::Write })?;
    if place.real != Real::Inside(path.to_owned()) {
        let reason = format!("the patch names `{path}`, which is `{}`", place.real.as_str());
        return Err(Refusal::new(Code::Denied, reason).hint("a patch names files by their real paths").into());
    }
    let old = match (kind, place.found) {
        ("created", Found::Missing) => String::new(),
        ("created", _) => return Err(misfit(path, "it exists already").into()),
        (_, Found::File { .. }) => content(place, time).await?,
        _ => return Err(misfit(path, "there is no such file").into()),
    };
    let new = apply(path, &old, patch)?;
    if kind == "deleted" && !new.is_empty() {
        return Err(misfit(path, "it would be deleted with lines that the patch does not know").into());
    }
    Ok(Planned { path: path.to_owned(), kind, content: (kind != "deleted").then_some(new), mode })
}

/// A name without the `a/` or `b/` that diffs put before it.
fn plain(path: &str) -> &str {
    path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path)
}

fn renames(from: &str, to: &str) -> Refusal {
    Refusal::new(Code::Unsupported, format!("the patch moves `{}` to `{}`", plain(from), plain(to)))
        .hint("delete the one and create the other")
}

fn misfit(path: &str, why: &str) -> Refusal {
    Refusal::new(Code::WrongState, format!("the patch does not fit `{path}`: {why}")).hint("nothing was changed; read the file again")
}

/// The text with every hunk exactly at its line.
fn apply(path: &str, old: &str, patch: &Patch<'_, str>) -> Result<String, Refusal> {
    let lines: Vec<&str> = old.split_inclusive('\n').collect();
    for (number, hunk) in patch.hunks().iter().enumerate() {
        let before: Vec<&str> = hunk
            .lines()
            .iter()
            .filter_map(|line| match line {
                Line::Context(text) | Line::Delete(text) => Some(*text),
                Line::Insert(_) => None,
            })
            .collect();
        // A hunk without old lines stands after the line it names, any other at it.
        let start = hunk.old_range().start();
        let at = if before.is_empty() { start } else { start.saturating_sub(1) };
        if lines.get(at..at + before.len()) != Some(before.as_slice()) {
            return Err(misfit(path, &format!("hunk {} is not what stands at line {start}", number + 1)));
        }
    }
    diffy::apply(old, patch).map_err(|error| misfit(path, &error.to_string()))
}

async fn content(place: Place, time: Duration) -> Result<String, ToolStop> {
    blocking(time, move |_| {
        let path = place.real.as_str().to_owned();
        let (file, bytes) = place.file()?;
        if bytes > READ_BYTES_MAX {
            return Err(Refusal::new(Code::TooLarge, format!("`{path}` has {bytes} bytes")).into());
        }
        let mut text = String::new();
        match file.take(READ_BYTES_MAX).read_to_string(&mut text) {
            Ok(_) => Ok(text),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                Err(Refusal::new(Code::Unsupported, format!("`{path}` is not text")).into())
            }
            Err(error) => Err(ToolFault::io("read", &path, error).into()),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "one\ntwo\nthree\n";

    fn applied(diff: &str) -> Result<String, String> {
        let patch = Patch::from_str(diff).unwrap();
        apply("f", OLD, &patch).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn a_hunk_stands_where_it_says_or_nowhere() {
        assert_eq!(applied("--- a/f\n+++ b/f\n@@ -2 +2 @@\n-two\n+TWO\n"), Ok("one\nTWO\nthree\n".into()));
        assert_eq!(applied("--- a/f\n+++ b/f\n@@ -1,0 +2 @@\n+new\n"), Ok("one\nnew\ntwo\nthree\n".into()));
        let drifted = "the patch does not fit `f`: hunk 1 is not what stands at line 1";
        assert_eq!(applied("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-two\n+TWO\n"), Err(drifted.into()));
        assert!(applied("--- a/f\n+++ b/f\n@@ -9 +9 @@\n-two\n+TWO\n").is_err());
        assert!(applied("--- a/f\n+++ b/f\n@@ -2 +2 @@\n-twO\n+TWO\n").is_err());
    }

    #[test]
    fn what_is_no_diff_is_the_tools_fault() {
        assert!(files("t", "").unwrap().is_empty());
        assert!(matches!(files("t", "I changed the file."), Err(ToolStop::Failed(ToolFault::InvalidOutput { .. }))));
        let many: String = (0..=FILES_MAX).map(|n| format!("--- /dev/null\n+++ b/f{n}\n@@ -0,0 +1 @@\n+x\n")).collect();
        assert!(matches!(files("t", &many), Err(ToolStop::Failed(_))));
        assert_eq!(files("t", "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n").unwrap().len(), 1);
    }
}
