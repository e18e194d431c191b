//! Commits that were made in a task's room, on their way into the repository.
//!
//! The room's own git is asked for one pack and nothing else; what is in it is unpacked, checked and read in another room. **Invariant.**
//! Objects come out only if every path of every commit may change. Hooks do not run, and no reference is moved here.

use crate::commit::{SCRATCH, line, loose};
use crate::git_room::{git, git_with};
use crate::path_call::{ChangeGate, PathCall};
use crate::reader::{self, Folder};
use crate::{repository, room_fault, special};
use sandbox::{JobSpec, Workspace};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use world::{Fault, FaultKind, Stop, limits};

/// Commits of one task that are imported: more were not made by hand.
const COMMITS_MAX: usize = 500;
/// Paths of them in all, each of which is judged.
const PATHS_MAX: usize = 5_000;
/// Kept by git and by the kernel.
const KEPT: [&str; 2] = [".git", ".skep"];

/// What became of the commits in a room.
pub enum TaskCommits {
    /// There are none.
    None,
    /// They stay where they are.
    Refused(String),
    Ready {
        head: String,
        count: usize,
        objects: Vec<(PathBuf, Vec<u8>)>,
    },
}

/// Reads the commits of `room` that are not behind `base`, in `beside`, which shows the repository alone. `objects` is the repository's own
/// folder of them.
pub async fn read<G: ChangeGate>(
    room: &Workspace,
    beside: &Workspace,
    base: Option<&str>,
    objects: &Path,
    gate: &G,
) -> Result<TaskCommits, Stop> {
    let upper = room.work().join("upper");
    let is_unsafe = reader::bounded_walk(move || Folder::open(&upper).and_then(|upper| special::is_git_unsafe(&upper))).await?;
    if is_unsafe.unwrap_or(true) {
        return Ok(TaskCommits::Refused("a pipe or a link lies where git reads".to_owned()));
    }
    // A room without a repository has no commits.
    let Ok(head) = git(room, &["rev-parse", "--verify", "-q", "HEAD"], None).await.map(line) else { return Ok(TaskCommits::None) };
    if !repository::is_commit(&head) || Some(head.as_str()) == base {
        return Ok(TaskCommits::None);
    }
    let wanted = base.map_or(format!("{head}\n"), |base| format!("{head}\n^{base}\n"));
    let pack = git(room, &["pack-objects", "-q", "--revs", "--stdout"], Some(wanted.into_bytes())).await?;
    let made = beside.run(JobSpec::exec(["mkdir", "-p", &format!("{SCRATCH}/objects")]), None).await.map_err(room_fault)?;
    if !made.exit.success() {
        return Err(Fault::new(FaultKind::Room, "commits have no place to be looked at", String::from_utf8_lossy(&made.stderr)).into());
    }
    let (store, objects) = (format!("{SCRATCH}/objects"), objects.to_string_lossy().into_owned());
    let env = [("GIT_OBJECT_DIRECTORY", store.as_str()), ("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects.as_str())];
    git_with(beside, &["unpack-objects", "-q", "--strict"], &env, Some(pack)).await?;
    let not = base.map(|base| format!("^{base}"));
    let count = format!("--max-count={}", COMMITS_MAX + 1);
    let args: Vec<&str> = ["rev-list", &count, &head].into_iter().chain(not.as_deref()).collect();
    let commits: Vec<String> = line(git_with(beside, &args, &env, None).await?).lines().map(str::to_owned).collect();
    if commits.is_empty() {
        return Ok(TaskCommits::None);
    }
    if commits.len() > COMMITS_MAX {
        return Ok(TaskCommits::Refused(format!("there are more than {COMMITS_MAX}")));
    }
    if let Some(why) = refused(beside, &env, &commits, gate).await? {
        return Ok(TaskCommits::Refused(why));
    }
    let found = crate::aside(|| loose(&beside.work().join("upper").join(&store)))?;
    Ok(TaskCommits::Ready { head, count: commits.len(), objects: found })
}

/// The first path that may not change, and why.
async fn refused<G: ChangeGate>(beside: &Workspace, env: &[(&str, &str)], commits: &[String], gate: &G) -> Result<Option<String>, Stop> {
    let mut judged: BTreeSet<(String, String)> = BTreeSet::new();
    for commit in commits {
        let args = ["diff-tree", "-r", "-m", "--root", "--no-commit-id", "--no-renames", "--raw", "-z", commit];
        let raw = git_with(beside, &args, env, None).await?;
        let text = String::from_utf8_lossy(&raw);
        let mut fields = text.split('\0').filter(|field| !field.is_empty());
        while let (Some(meta), Some(path)) = (fields.next(), fields.next()) {
            let [_, mode, _, name, ..] = meta.split(' ').collect::<Vec<_>>()[..] else { continue };
            if !judged.insert((path.to_owned(), name.to_owned())) {
                continue;
            }
            let no = |why: &str| Some(format!("`{path}` of commit {}: {why}", &commit[..commit.len().min(10)]));
            if judged.len() > PATHS_MAX {
                return Ok(Some(format!("they change more than {PATHS_MAX} paths")));
            }
            if Path::new(path).components().any(|part| KEPT.iter().any(|kept| part.as_os_str() == *kept)) {
                return Ok(no("it is kept by git or skep itself"));
            }
            if mode == "160000" {
                return Ok(no("it is an embedded repository"));
            }
            let gone = mode == "000000";
            let bytes = if gone { Vec::new() } else { git_with(beside, &["cat-file", "blob", name], env, None).await? };
            if bytes.len() as u64 > limits::MERGE_FILE_MAX {
                return Ok(no("it is too large"));
            }
            let deed = PathCall::of(path, None, None, gone, bytes.len() as u64).with_content(&bytes);
            if let Err(why) = gate.may_change(&deed, path).await? {
                return Ok(no(&why));
            }
        }
    }
    Ok(None)
}
