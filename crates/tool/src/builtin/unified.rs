//! A unified diff over several files: read, and tried in memory.
//!
//! Strict: a hunk stands exactly where it says or nowhere, and what is not text, makes links or changes modes alone is refused. Nothing is
//! written here. Knows no room.

use crate::fault::{ToolFault, ToolStop};
use crate::resolved_path::{PathKind, Real, ResolvedPath};
use diffy::patch_set::{FileMode, FileOperation, FilePatch, ParseOptions, PatchKind, PatchSet};
use diffy::{Line, Patch};
use std::collections::BTreeSet;
use std::io::Read;
use world::limits::READ_BYTES_MAX;
use world::{Code, Refusal};

/// Files in one diff, each of which a person may review; more is a job for git in the room.
const FILES_MAX: usize = 500;

/// One file of a diff.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    patch: Patch<'a, str>,
    mode: Option<u32>,
    copied: bool,
}

/// What will be done to one path, and how to put it back.
#[derive(Debug)]
pub(super) struct PatchStep {
    pub(super) path: String,
    pub(super) old: Option<String>,
    /// `None` where it goes away.
    pub(super) new: Option<String>,
    /// Of the file that is made, or made again.
    pub(super) mode: Option<u32>,
}

/// The parts of a diff, or why there are none to be had. An empty text has none.
pub(super) fn parts(text: &str) -> Result<Vec<Part<'_>>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let options = if text.lines().any(|line| line.starts_with("diff --git ")) { ParseOptions::gitdiff() } else { ParseOptions::unidiff() };
    let mut parts = Vec::new();
    for file in PatchSet::parse(text, options) {
        parts.push(part(file.map_err(|error| format!("it cannot be read: {error}"))?)?);
        if parts.len() > FILES_MAX {
            return Err(format!("it is about more than {FILES_MAX} files"));
        }
    }
    Ok(parts)
}

fn part(file: FilePatch<'_, str>) -> Result<Part<'_>, String> {
    let mode = match file.new_mode() {
        Some(FileMode::Executable) => Some(0o755),
        Some(FileMode::Regular) => Some(0o644),
        Some(FileMode::Symlink | FileMode::Gitlink) => return Err("it makes links or submodules".into()),
        None => None,
    };
    if file.old_mode().is_some() && file.new_mode().is_some() && file.old_mode() != file.new_mode() {
        return Err("it changes modes, which a patch does not".into());
    }
    let (from, to, copied) = match file.operation() {
        FileOperation::Create(path) => (None, Some(stripped(path, "b/")), false),
        FileOperation::Delete(path) => (Some(stripped(path, "a/")), None, false),
        FileOperation::Modify { original, modified } => (Some(stripped(original, "a/")), Some(stripped(modified, "b/")), false),
        FileOperation::Rename { from, to } => (Some(from.to_string()), Some(to.to_string()), false),
        FileOperation::Copy { from, to } => (Some(from.to_string()), Some(to.to_string()), true),
    };
    let PatchKind::Text(patch) = file.into_patch() else { return Err("it is not text".into()) };
    Ok(Part { from, to, patch, mode, copied })
}

fn stripped(path: &str, prefix: &str) -> String {
    path.strip_prefix(prefix).unwrap_or(path).to_owned()
}

impl Part<'_> {
    /// The paths that it is about, in the order in which [`steps`] wants them resolved.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.from.iter().chain(&self.to).cloned().collect();
        paths.dedup();
        paths
    }

    pub(super) fn told(&self) -> String {
        match (&self.from, &self.to) {
            (None, Some(to)) => format!("created {to}"),
            (Some(from), None) => format!("deleted {from}"),
            (Some(from), Some(to)) if from == to => format!("modified {to}"),
            (Some(from), Some(to)) => format!("{} {from} to {to}", if self.copied { "copied" } else { "renamed" }),
            (None, None) => String::new(),
        }
    }
}

/// The whole diff in memory. `resolved_paths` are those of every path, part by part.
pub(super) fn steps(parts: &[Part<'_>], resolved_paths: &[ResolvedPath]) -> Result<Vec<PatchStep>, ToolStop> {
    let mut resolved_paths = resolved_paths.iter();
    let mut steps = Vec::new();
    for part in parts {
        let mut resolved = || resolved_paths.next().ok_or_else(|| Refusal::new(Code::BadInput, "the call came without its paths"));
        let from = part.from.as_ref().map(|_| resolved()).transpose()?;
        let to = part.to.as_ref().filter(|to| part.from.as_ref() != Some(*to)).map(|_| resolved()).transpose()?;
        let old = from.map(content).transpose()?;
        let after = apply(from.or(to).map_or(".", |resolved| resolved.real.as_str()), old.as_deref().unwrap_or_default(), &part.patch)?;
        let kept = from.and_then(mode);
        match (from, to) {
            (from, Some(to)) => {
                free(to)?;
                steps.push(PatchStep { path: path(to)?, old: None, new: Some(after), mode: part.mode.or(kept) });
                if let Some(from) = from.filter(|_| !part.copied) {
                    steps.push(PatchStep { path: path(from)?, old, new: None, mode: kept });
                }
            }
            (Some(from), None) if part.to.is_some() => steps.push(PatchStep { path: path(from)?, old, new: Some(after), mode: kept }),
            (Some(from), None) if after.is_empty() => steps.push(PatchStep { path: path(from)?, old, new: None, mode: kept }),
            (Some(from), None) => {
                return Err(misfit(from.real.as_str(), "it would be deleted with lines that the patch does not know").into());
            }
            (None, None) => {}
        }
    }
    let mut seen = BTreeSet::new();
    match steps.iter().find(|step| !seen.insert(&step.path)) {
        Some(step) => Err(Refusal::new(Code::BadInput, format!("the patch changes `{}` twice", step.path)).into()),
        None => Ok(steps),
    }
}

fn misfit(path: &str, why: &str) -> Refusal {
    Refusal::new(Code::WrongState, format!("the patch does not fit `{path}`: {why}"))
        .hint("nothing was changed; make the diff again from the file as it is now, or use fs.edit")
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

fn path(resolved: &ResolvedPath) -> Result<String, Refusal> {
    match &resolved.real {
        Real::Inside(path) => Ok(path.clone()),
        Real::Outside(_) => Err(resolved.unusable()),
    }
}

fn free(resolved: &ResolvedPath) -> Result<(), Refusal> {
    match resolved.kind {
        PathKind::Missing => Ok(()),
        PathKind::File { .. } | PathKind::Directory | PathKind::Link | PathKind::Special(_) => {
            Err(misfit(resolved.real.as_str(), "it exists already"))
        }
        _ => Err(resolved.unusable()),
    }
}

fn mode(resolved: &ResolvedPath) -> Option<u32> {
    let stat = rustix::fs::fstat(resolved.fd.as_ref()?).ok()?;
    Some(stat.st_mode & 0o777)
}

fn content(resolved: &ResolvedPath) -> Result<String, ToolStop> {
    let name = resolved.real.as_str();
    let (file, size) = resolved.file()?;
    if size > READ_BYTES_MAX {
        return Err(Refusal::new(Code::TooLarge, format!("`{name}` has {size} bytes; {READ_BYTES_MAX} can be patched")).into());
    }
    let mut bytes = Vec::new();
    file.take(READ_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| ToolFault::io("read", name, error))?;
    String::from_utf8(bytes).map_err(|_| Refusal::new(Code::Unsupported, format!("`{name}` is not text")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(patch: &str, expected: &[&str]) {
        let found = parts(patch).unwrap();
        assert_eq!(found.iter().map(Part::told).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn each_kind_of_part_is_read() {
        check("", &[]);
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
        for text in ["hello", "--- a/x\n+++ b/x\n@@ nonsense\n"] {
            assert!(parts(text).unwrap_err().starts_with("it cannot be read: "), "{text}");
        }
        let link =
            "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n";
        assert_eq!(parts(link).unwrap_err(), "it makes links or submodules");
        let mode = "diff --git a/l b/l\nold mode 100644\nnew mode 100755\n";
        assert_eq!(parts(mode).unwrap_err(), "it changes modes, which a patch does not");
        let many: String = (0..=FILES_MAX).map(|n| format!("--- /dev/null\n+++ b/f{n}\n@@ -0,0 +1 @@\n+x\n")).collect();
        assert_eq!(parts(&many).unwrap_err(), "it is about more than 500 files");
    }

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
}
