//! Files of a work tree that are nowhere else: not committed, or ignored and made by no build.

use crate::command_error::CommandError;
use crate::place::git;
use std::path::Path;
use wire::ErrorCode;

/// Names that a message holds; the others are counted.
const NAMED_MAX: usize = 5;
/// What skep writes itself is no work.
const OWN: [&str; 2] = ["skep.yml", ".skep/"];
/// Folders in which a tool makes again all that is in them.
const REBUILT: [&str; 13] = [
    "node_modules",
    "__pycache__",
    ".venv",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".tox",
    ".nox",
    ".gradle",
    ".next",
    ".turbo",
    ".parcel-cache",
    ".eggs",
];
/// A `target` is made again from one of these beside it.
const BUILDS_TARGET: [&str; 3] = ["Cargo.toml", "pom.xml", "build.sbt"];

#[derive(Debug, Default)]
pub struct FilesAtRisk {
    uncommitted: Vec<String>,
    ignored: Vec<String>,
}

impl FilesAtRisk {
    /// Asks git. What it cannot say is a reason not to remove anything.
    pub fn look(path: &str) -> Result<FilesAtRisk, CommandError> {
        let fail = |why: String| CommandError::new(ErrorCode::Internal, format!("git cannot look at `{path}`")).why(why);
        // As it is asked here, whatever the person's settings hide.
        let wanted = ["status", "--porcelain", "-z", "--untracked-files=normal", "--ignored=matching", "--no-renames"];
        let status = git(&["-C", path], &wanted).map_err(|error| fail(error.to_string()))?;
        if !status.status.success() {
            return Err(fail(String::from_utf8_lossy(&status.stderr).trim().to_owned())
                .fix("see that it is a work tree of git, or remove it all the same with `--force`"));
        }
        let mut found = FilesAtRisk::default();
        for entry in String::from_utf8_lossy(&status.stdout).split('\0') {
            match (entry.get(..2), entry.get(3..)) {
                (Some("!!"), Some(file)) if !is_rebuilt(path, file) => found.ignored.push(file.to_owned()),
                (Some("!!"), _) | (None, _) | (_, None) => {}
                (Some("??"), Some(file)) if OWN.contains(&file) => {}
                (Some(_), Some(file)) => found.uncommitted.push(file.to_owned()),
            }
        }
        Ok(found)
    }

    /// Why the work tree is not removed unasked.
    pub fn refusal(&self, path: &str) -> Option<CommandError> {
        let (what, files, fix) = match (self.uncommitted.is_empty(), self.ignored.is_empty()) {
            (true, true) => return None,
            (false, _) => ("changes that are not committed", &self.uncommitted, "commit them"),
            (true, false) => ("files that git ignores and no build makes again", &self.ignored, "move them elsewhere"),
        };
        let error = CommandError::new(ErrorCode::WrongState, format!("`{path}` has {what}"));
        Some(error.why(named(files)).fix(format!("{fix}, or destroy them with `--force`")))
    }

    /// What there is, in words.
    pub fn words(&self) -> Vec<String> {
        let all = [("files that are not committed", &self.uncommitted), ("ignored files", &self.ignored)];
        all.into_iter().filter(|(_, files)| !files.is_empty()).map(|(what, files)| format!("{what} ({})", named(files))).collect()
    }
}

fn named(files: &[String]) -> String {
    let more = files.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", files.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", "))
}

/// Is it plainly made again: a folder of a tool that says so by its name or its mark, or a file that a compiler leaves?
fn is_rebuilt(tree: &str, file: &str) -> bool {
    let path = Path::new(tree).join(file);
    if !file.ends_with('/') {
        return matches!(path.extension().and_then(|end| end.to_str()), Some("pyc" | "o" | "class"));
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let beside = |build: &&str| path.parent().is_some_and(|folder| folder.join(build).is_file());
    REBUILT.contains(&name) || path.join("CACHEDIR.TAG").is_file() || (name == "target" && BUILDS_TARGET.iter().any(beside))
}
