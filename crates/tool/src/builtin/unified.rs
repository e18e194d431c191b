//! `fs.patch`: a unified diff over several files, in the room.
//!
//! Applied in memory first, and strictly: a line that is not where the diff says is a refusal. **Invariant.** All of it is written or, as far
//! as the room lets us put things back, nothing.

use super::{blocking, text, write};
use crate::fault::{ToolFault, ToolStop};
use crate::place::{Access, Found, Place, Real, Target};
use crate::tool::{Context, Output};
use diffy::Patch;
use diffy::patch_set::{FileMode, FileOperation, ParseOptions, PatchKind, PatchSet};
use sandbox::Act;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Read;
use std::time::Duration;
use world::limits::READ_BYTES_MAX;
use world::{Code, Refusal};

/// Files in one patch; more is a job for git in the room.
const FILES_MAX: usize = 1_000;

/// One file of a patch.
#[derive(Debug)]
struct Part<'a> {
    from: Option<String>,
    to: Option<String>,
    patch: Patch<'a, str>,
    mode: Option<u32>,
    copied: bool,
}

/// What will be done to one path, and how to put it back.
struct Step {
    path: String,
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
    mode: Option<u32>,
}

fn bad(what: impl Into<String>) -> Refusal {
    Refusal::new(Code::BadInput, what).hint("make the diff again from the files as they are now: `diff -u`, `git diff`, or use fs.edit")
}

fn parts(text: &str) -> Result<Vec<Part<'_>>, Refusal> {
    let options = if text.lines().any(|line| line.starts_with("diff --git ")) { ParseOptions::gitdiff() } else { ParseOptions::unidiff() };
    let mut parts = Vec::new();
    for file in PatchSet::parse(text, options) {
        let file = file.map_err(|error| bad(format!("the patch cannot be read: {error}")))?;
        let mode = match file.new_mode() {
            Some(FileMode::Executable) => Some(0o755),
            Some(FileMode::Regular) => Some(0o644),
            Some(FileMode::Symlink | FileMode::Gitlink) => return Err(bad("a patch makes no links and no submodules")),
            None => None,
        };
        let (from, to, copied) = match file.operation() {
            FileOperation::Create(path) => (None, Some(stripped(path, "b/")), false),
            FileOperation::Delete(path) => (Some(stripped(path, "a/")), None, false),
            FileOperation::Modify { original, modified } => (Some(stripped(original, "a/")), Some(stripped(modified, "b/")), false),
            FileOperation::Rename { from, to } => (Some(from.to_string()), Some(to.to_string()), false),
            FileOperation::Copy { from, to } => (Some(from.to_string()), Some(to.to_string()), true),
        };
        let PatchKind::Text(patch) = file.into_patch() else { return Err(bad("a patch of this kind holds text only")) };
        parts.push(Part { from, to, patch, mode, copied });
        if parts.len() > FILES_MAX {
            return Err(bad(format!("the patch is about more than {FILES_MAX} files")));
        }
    }
    if parts.is_empty() {
        return Err(bad("the patch changes nothing"));
    }
    Ok(parts)
}

fn stripped(path: &str, prefix: &str) -> String {
    path.strip_prefix(prefix).unwrap_or(path).to_owned()
}

/// Every path of a patch; the project itself for one that can't be read, so that it gets as far as its refusal.
pub(super) fn targets(input: &Value) -> Vec<Target> {
    let Ok(parts) = parts(text(input, "patch").unwrap_or_default()) else {
        return vec![Target { path: ".".into(), access: Access::Name }];
    };
    let paths = parts.into_iter().flat_map(|part| named(&part));
    paths.map(|path| Target { path, access: Access::Name }).collect()
}

fn named(part: &Part<'_>) -> Vec<String> {
    let mut paths: Vec<String> = part.from.iter().chain(&part.to).cloned().collect();
    paths.dedup();
    paths
}

pub(super) fn would(input: &Value) -> Result<String, Refusal> {
    let parts = parts(text(input, "patch").unwrap_or_default())?;
    Ok(format!("patch {}", parts.iter().map(told).collect::<Vec<_>>().join(", ")))
}

fn told(part: &Part<'_>) -> String {
    match (&part.from, &part.to) {
        (None, Some(to)) => format!("created {to}"),
        (Some(from), None) => format!("deleted {from}"),
        (Some(from), Some(to)) if from == to => format!("modified {to}"),
        (Some(from), Some(to)) => format!("{} {from} to {to}", if part.copied { "copied" } else { "renamed" }),
        (None, None) => String::new(),
    }
}

pub(super) async fn run(input: &Value, places: Vec<Place>, context: &Context<'_>, time: Duration) -> Result<Output, ToolStop> {
    let patch = text(input, "patch").unwrap_or_default().to_owned();
    let (steps, files) = blocking(time, move |_| {
        let parts = parts(&patch)?;
        let files: Vec<String> = parts.iter().map(told).collect();
        Ok((steps(&parts, &places)?, files))
    })
    .await?;
    for (done, step) in steps.iter().enumerate() {
        if let Err(stop) = go(step, true, context, time).await {
            for step in steps[..done].iter().rev() {
                go(step, false, context, time).await?;
            }
            return Err(stop);
        }
    }
    Ok(Output::good(json!({ "files": files })))
}

/// The whole patch in memory.
fn steps(parts: &[Part<'_>], places: &[Place]) -> Result<Vec<Step>, ToolStop> {
    let mut places = places.iter();
    let mut steps = Vec::new();
    let mut seen = BTreeSet::new();
    for part in parts {
        let mut place = || places.next().ok_or_else(|| Refusal::new(Code::BadInput, "the call came without its place"));
        let from = part.from.as_ref().map(|_| place()).transpose()?;
        let to = match (&part.from, &part.to) {
            (Some(from), Some(to)) if from == to => None,
            (_, Some(_)) => Some(place()?),
            (_, None) => None,
        };
        let old = from.map(content).transpose()?;
        let before = old.clone().unwrap_or_default();
        let name = from.or(to).map_or(".", |place| place.real.as_str());
        let after = diffy::apply(&before, &part.patch).map_err(|error| bad(format!("the patch does not fit `{name}`: {error}")))?;
        let same = part.from == part.to;
        if let Some(place) = to {
            free(place)?;
            steps.push(Step { path: path(place)?, old: None, new: Some(after.into_bytes()), mode: part.mode });
            if let Some(from) = from.filter(|_| !part.copied) {
                steps.push(Step { path: path(from)?, old: old.map(String::into_bytes), new: None, mode: None });
            }
        } else if let Some(from) = from {
            if !same && !after.is_empty() {
                return Err(bad(format!("the patch deletes `{name}`, which holds more than it says")).into());
            }
            let new = same.then(|| after.into_bytes());
            steps.push(Step { path: path(from)?, old: old.map(String::into_bytes), new, mode: part.mode });
        }
    }
    for step in &steps {
        if !seen.insert(&step.path) {
            return Err(bad(format!("the patch names `{}` twice", step.path)).into());
        }
    }
    Ok(steps)
}

fn path(place: &Place) -> Result<String, Refusal> {
    match &place.real {
        Real::Inside(path) => Ok(path.clone()),
        Real::Outside(_) => Err(place.absent()),
    }
}

fn free(place: &Place) -> Result<(), Refusal> {
    match place.found {
        Found::Missing => Ok(()),
        Found::File { .. } | Found::Directory | Found::Link | Found::Special(_) => {
            Err(bad(format!("the patch makes `{}`, which exists already", place.real.as_str())))
        }
        _ => Err(place.absent()),
    }
}

fn content(place: &Place) -> Result<String, ToolStop> {
    let name = place.real.as_str();
    let (file, size) = place.file()?;
    if size > READ_BYTES_MAX {
        return Err(Refusal::new(Code::TooLarge, format!("`{name}` has {size} bytes; {READ_BYTES_MAX} can be patched")).into());
    }
    let mut bytes = Vec::new();
    file.take(READ_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| ToolFault::io("read", name, error))?;
    String::from_utf8(bytes).map_err(|_| bad(format!("`{name}` is not text")).into())
}

async fn go(step: &Step, forth: bool, context: &Context<'_>, time: Duration) -> Result<(), ToolStop> {
    let wanted = if forth { &step.new } else { &step.old };
    match wanted {
        Some(bytes) => write::store(&step.path, bytes.clone(), step.mode, context, time).await,
        None => write::change(Act::Delete { path: step.path.clone().into() }, None, &step.path, "deleted", context, time).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(patch: &str, expected: &[&str]) {
        let found = parts(patch).unwrap();
        assert_eq!(found.iter().map(told).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn each_kind_of_part_is_read() {
        check("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n", &["modified x"]);
        check("--- x\n+++ x\n@@ -1 +1 @@\n-old\n+new\n", &["modified x"]);
        check(
            "--- /dev/null\n+++ b/d/new\n@@ -0,0 +1 @@\n+a\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n",
            &["created d/new", "deleted gone"],
        );
        check("diff --git a/p b/q\nsimilarity index 100%\nrename from p\nrename to q\n", &["renamed p to q"]);
    }

    #[test]
    fn what_is_no_patch_is_refused() {
        for text in ["", "hello", "--- a/x\n+++ b/x\n@@ nonsense\n"] {
            assert_eq!(parts(text).unwrap_err().code, Code::BadInput, "{text}");
        }
        let link =
            "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n";
        assert_eq!(parts(link).unwrap_err().reason, "a patch makes no links and no submodules");
    }
}
