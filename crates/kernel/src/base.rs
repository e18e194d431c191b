//! The base of a workspace: what the project held when the task began.
//!
//! HEAD says what committed files held. What differs from it then, dirty or untracked, is kept as blobs. Git runs inside the task's room,
//! without hooks, fsmonitor or anybody's configuration but the repository's. It looks at size and time of each tracked file and reads
//! those that its index does not vouch for. One that was changed with neither showing passes for HEAD's here; at the merge it differs
//! from its base and counts as edited meanwhile.

use crate::Kernel;
use crate::desk::{Desk, room_fault};
use crate::fault::{Fault, FaultKind, Stop};
use sandbox::{JobSpec, Workspace};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use world::{Code, Refusal, limits};

/// What is on record about a base.
pub(crate) struct Base {
    pub head: Option<String>,
    /// Blob with a [`Dirty`].
    pub blob: String,
}

/// Files that were not as HEAD has them, by path.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Dirty {
    pub files: BTreeMap<String, DirtyFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "was")]
pub(crate) enum DirtyFile {
    /// Deleted by the person.
    Absent,
    /// SHA-256 of the content, also the name of its blob.
    Held {
        blob: String,
        #[serde(default)]
        executable: bool,
    },
    /// Too large or not an ordinary file: a change to it goes to a person.
    Unproven,
}

/// Records HEAD and every file that differs from it.
pub(crate) async fn record(kernel: &Kernel, desk: &Desk) -> Result<Base, Stop> {
    let (head, changed) = status(&desk.room).await?;
    let mut dirty = Dirty::default();
    for path in changed {
        // What no room shows, no task can change: its content is not kept.
        let secret = desk.secrets.matched_path_or_any_parents(&path, false).is_ignore();
        let file = if secret { DirtyFile::Unproven } else { hold(kernel, desk, &path)? };
        dirty.files.insert(path, file);
    }
    let bytes = serde_json::to_vec(&dirty).map_err(|error| Fault::new(FaultKind::Bug, "cannot write a base", error))?;
    let blob = kernel.ledger.keep(&bytes)?;
    Ok(Base { head, blob })
}

/// HEAD, and the paths that are not as it has them.
pub(crate) async fn status(room: &Workspace) -> Result<(Option<String>, Vec<String>), Stop> {
    let status = git(room, &["status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--no-renames"], None).await?;
    let text = String::from_utf8_lossy(&status);
    let commit = text.split('\0').find_map(|entry| entry.strip_prefix("# branch.oid ")).filter(|commit| *commit != "(initial)");
    Ok((commit.map(str::to_owned), text.split('\0').filter_map(changed_path).map(str::to_owned).collect()))
}

/// The files of a recorded base that were not as HEAD had them.
pub(crate) fn dirty(kernel: &Kernel, blob: &str) -> Result<Dirty, Fault> {
    serde_json::from_slice(&kernel.ledger.blob(blob)?).map_err(|error| Fault::new(FaultKind::Bug, "a base cannot be read", error))
}

/// The path of one entry of `git status --porcelain=v2 -z`.
fn changed_path(entry: &str) -> Option<&str> {
    match entry.get(..2)? {
        "? " => Some(&entry[2..]),
        // 1 XY sub mH mI mW hH hI path
        "1 " => entry.splitn(9, ' ').nth(8),
        // u XY sub m1 m2 m3 mW h1 h2 h3 path
        "u " => entry.splitn(11, ' ').nth(10),
        _ => None,
    }
}

fn hold(kernel: &Kernel, desk: &Desk, path: &str) -> Result<DirtyFile, Stop> {
    let full = desk.project.join(path);
    let meta = match std::fs::symlink_metadata(&full) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(DirtyFile::Absent),
        Err(error) => return Err(Fault::io("look at", &full, error).into()),
    };
    if !meta.is_file() || meta.len() > limits::MERGE_FILE_MAX {
        return Ok(DirtyFile::Unproven);
    }
    match std::fs::read(&full) {
        Ok(bytes) => {
            let executable = std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o100 != 0;
            Ok(DirtyFile::Held { blob: kernel.ledger.keep(&bytes)?, executable })
        }
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(DirtyFile::Unproven),
        Err(error) => Err(Fault::io("read", &full, error).into()),
    }
}

/// Runs git in a room and gives its output.
pub(crate) async fn git(room: &Workspace, args: &[&str], stdin: Option<Vec<u8>>) -> Result<Vec<u8>, Stop> {
    let settings = [
        "core.fsmonitor=false",
        "core.hooksPath=/dev/null",
        "core.untrackedCache=false",
        "safe.directory=*",
        // A room shows owners of its own, so git would take every file for changed and read them all.
        "core.checkStat=minimal",
    ];
    let settings = settings.iter().flat_map(|setting| ["-c", setting]);
    let argv = std::iter::once("git").chain(settings).chain(args.iter().copied()).map(str::to_owned);
    let mut job = JobSpec::exec(argv);
    let env = [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        // `check-ignore` reads its paths literally and refuses to be told so.
        ("GIT_LITERAL_PATHSPECS", if args.first() == Some(&"check-ignore") { "0" } else { "1" }),
        ("GIT_TERMINAL_PROMPT", "0"),
        // A replacement could give a commit another content.
        ("GIT_NO_REPLACE_OBJECTS", "1"),
    ];
    job.env = env.iter().map(|(key, value)| (key.into(), value.into())).collect();
    job.output_max = 64 * 1024 * 1024;
    job.limits.wall = Some(Duration::from_secs(120));
    let outcome = room.run(job, stdin).await.map_err(room_fault)?;
    let command = args.first().copied().unwrap_or("git");
    if outcome.truncated {
        return Err(Refusal::new(Code::TooLarge, format!("`git {command}` has more to say than fits in memory")).into());
    }
    // `check-ignore` answers 1 for "none of them".
    if outcome.exit.success() || (command == "check-ignore" && outcome.exit == sandbox::Exit::Code(1)) {
        return Ok(outcome.stdout);
    }
    let why = String::from_utf8_lossy(&outcome.stderr).trim().to_owned();
    Err(Fault::new(FaultKind::Room, format!("`git {command}` failed in the room"), why)
        .fix("run the same git command by hand in the project")
        .into())
}

#[cfg(test)]
mod tests {
    use super::changed_path;

    #[test]
    fn paths_with_spaces_are_read_whole() {
        assert_eq!(changed_path("? a b.txt"), Some("a b.txt"));
        assert_eq!(changed_path("1 .M N... 100644 100644 100644 aaaa bbbb src/a b.rs"), Some("src/a b.rs"));
        assert_eq!(changed_path("u UU N... 1 2 3 4 h1 h2 h3 x y"), Some("x y"));
        assert_eq!(changed_path("# branch.head main"), None);
        assert_eq!(changed_path(""), None);
    }
}
