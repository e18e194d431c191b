//! A commit of exactly some paths, made without touching a person's repository: its objects are written beside it in a room.
//!
//! **Invariant.** The tree of the commit is its parent's with these paths and no others changed, and only where the parent holds what the
//! merge replaced: an edit that no commit has never gets into one. Hooks and filters do not run. *Does not know* who wants it, or how a
//! reference gets there (`repository::write`).

use crate::apply::MergeStep;
use crate::git_room::{git, git_with};
use crate::room_fault;
use crate::shape::ReadBlob;
use crate::tree::State;
use crate::was::git_name;
use sandbox::{JobSpec, Workspace};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use world::{Code, CommitWish, Fault, FaultKind, Refusal, Stop};

/// Where a room keeps what is to come out of it, in its own layer of the project.
pub(crate) const SCRATCH: &str = ".skep-commit";
/// Paths that fit on one command line.
const TOGETHER: usize = 200;
/// A path as an index or a tree has it: mode and name of the content.
pub type GitEntry = (String, String);

/// A commit whose objects wait to be stored.
pub struct NewCommit {
    pub commit: String,
    /// Name below `objects/`, and content.
    pub objects: Vec<(PathBuf, Vec<u8>)>,
}

/// Where a commit goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitPlace {
    /// On what is checked out, whose index counts too.
    Head,
    /// On a branch that begins where HEAD is, such as a new one.
    BranchAtHead,
    OtherBranch,
}

/// Refuses what no commit can be made of: signed commits, contents that a filter changes, and paths that `parent` or, on HEAD, the
/// index has otherwise than the merge found them.
pub async fn check(
    room: &Workspace,
    parent: Option<&str>,
    steps: &[&MergeStep],
    blobs: &ReadBlob<'_>,
    place: CommitPlace,
) -> Result<(), Stop> {
    let signs = git(room, &["config", "--type=bool", "--default=false", "--get", "commit.gpgsign"], None).await?;
    if signs.trim_ascii() == b"true" {
        return Err(signed(steps).into());
    }
    let paths: Vec<&str> = steps.iter().map(|step| step.path.path.as_str()).collect();
    if let Some(path) = filtered(room, &paths).await? {
        return Err(Refusal::new(Code::Unsupported, format!("`{path}` goes through a filter of git, which does not run here"))
            .hint("merge without a commit, and commit it yourself")
            .into());
    }
    let committed = tree_entries(room, parent, &paths).await?;
    let staged = if place == CommitPlace::Head { Some(index_entries(room, &paths, &[]).await?) } else { None };
    let mut edited = BTreeSet::new();
    for step in steps.iter().filter(|step| step.before != State::Folder) {
        let path = step.path.path.as_str();
        let entry = committed.get(path);
        let is_staged = staged.as_ref().is_some_and(|staged| staged.get(path) != entry);
        if is_staged || !is_entry(room, path, &step.before, entry, blobs).await? {
            edited.insert(path);
        }
    }
    if edited.is_empty() {
        return Ok(());
    }
    let named: Vec<String> = edited.iter().take(5).map(|path| format!("`{path}`")).collect();
    let more = if edited.len() > named.len() { format!(" and {} more", edited.len() - named.len()) } else { String::new() };
    let named = named.join(", ");
    Err(match place {
        CommitPlace::Head | CommitPlace::BranchAtHead => {
            let what = format!("{named}{more} held edits of yours that no commit has, and a commit of the merge would take them in");
            Refusal::new(Code::WrongState, what).hint("commit or stash your edits first, or merge without a commit")
        }
        CommitPlace::OtherBranch => {
            let what = format!("{named}{more} is not on that branch as it is here, where the task began");
            Refusal::new(Code::WrongState, what).hint("take the name of a new branch, or merge without a commit")
        }
    }
    .into())
}

/// What a person runs where commits are signed.
pub fn signed(steps: &[&MergeStep]) -> Refusal {
    let quoted = |path: &str| format!("'{}'", path.replace('\'', "'\\''"));
    let paths: Vec<String> = steps.iter().map(|step| quoted(&step.path.path)).collect();
    let paths = paths.join(" ");
    Refusal::new(Code::Unsupported, "commits are signed here (commit.gpgsign), and the kernel has no key to sign with")
        .hint(format!("merge without a commit, then run `git add -A -- {paths} && git commit -- {paths}`"))
}

/// The first path that has a filter.
async fn filtered(room: &Workspace, paths: &[&str]) -> Result<Option<String>, Stop> {
    let mut stdin = Vec::new();
    paths.iter().for_each(|path| stdin.extend(format!("{path}\0").bytes()));
    let told = git(room, &["check-attr", "-z", "--stdin", "filter", "working-tree-encoding"], Some(stdin)).await?;
    let fields: Vec<&[u8]> = told.split(|byte| *byte == 0).collect();
    let set = fields.chunks_exact(3).find(|field| !matches!(field[2], b"unspecified" | b"unset"));
    Ok(set.map(|field| String::from_utf8_lossy(field[0]).into_owned()))
}

/// Does a tree have at this path what a merge found in the work tree?
async fn is_entry(room: &Workspace, path: &str, state: &State, entry: Option<&GitEntry>, blobs: &ReadBlob<'_>) -> Result<bool, Stop> {
    let (bytes, kinds): (Vec<u8>, &[&str]) = match state {
        State::Absent => return Ok(entry.is_none()),
        State::Folder => return Ok(true),
        State::Link { target } => (target.clone().into_bytes(), &["120000"]),
        State::File { blob, mode, .. } => {
            let kinds: &[&str] = match mode {
                None => &["100644", "100755"],
                Some(mode) if mode & 0o100 != 0 => &["100755"],
                Some(_) => &["100644"],
            };
            (blobs(blob)?, kinds)
        }
    };
    let Some((mode, name)) = entry else { return Ok(false) };
    if !kinds.contains(&mode.as_str()) {
        return Ok(false);
    }
    if git_name(&bytes, name.len()) == *name {
        return Ok(true);
    }
    // As git takes it in, with its line ends.
    let named = git(room, &["hash-object", "--stdin", "--path", path], Some(bytes)).await;
    Ok(matches!(state, State::File { .. }) && named.is_ok_and(|found| String::from_utf8_lossy(&found).trim() == name))
}

/// What a commit has at these paths.
pub async fn tree_entries(room: &Workspace, commit: Option<&str>, paths: &[&str]) -> Result<BTreeMap<String, GitEntry>, Stop> {
    let mut found = BTreeMap::new();
    let Some(commit) = commit else { return Ok(found) };
    for some in paths.chunks(TOGETHER) {
        let args: Vec<&str> = ["ls-tree", "-z", "--full-tree", commit, "--"].into_iter().chain(some.iter().copied()).collect();
        let listed = git(room, &args, None).await?;
        for line in String::from_utf8_lossy(&listed).split('\0') {
            let Some((meta, path)) = line.split_once('\t') else { continue };
            if let [mode, kind, name] = meta.split(' ').collect::<Vec<_>>()[..]
                && kind != "tree"
            {
                found.insert(path.to_owned(), (mode.to_owned(), name.to_owned()));
            }
        }
    }
    Ok(found)
}

/// What an index has at these paths; an unsettled merge of the person's is not what any commit has.
async fn index_entries(room: &Workspace, paths: &[&str], env: &[(&str, &str)]) -> Result<BTreeMap<String, GitEntry>, Stop> {
    let mut found = BTreeMap::new();
    for some in paths.chunks(TOGETHER) {
        let args: Vec<&str> = ["ls-files", "-s", "-z", "--"].into_iter().chain(some.iter().copied()).collect();
        let listed = git_with(room, &args, env, None).await?;
        for line in String::from_utf8_lossy(&listed).split('\0') {
            let Some((meta, path)) = line.split_once('\t') else { continue };
            if let [mode, name, stage] = meta.split(' ').collect::<Vec<_>>()[..] {
                let mode = if stage == "0" { mode } else { "unmerged" };
                found.insert(path.to_owned(), (mode.to_owned(), name.to_owned()));
            }
        }
    }
    Ok(found)
}

/// Writes the objects of a commit in a room that shows the project with the merged contents. `objects` is the repository's own folder.
pub async fn write(
    room: &Workspace,
    parent: Option<&str>,
    paths: &[&str],
    wish: &CommitWish,
    since_1970_s: u64,
    objects: &Path,
) -> Result<NewCommit, Stop> {
    let mut folder = JobSpec::exec(["mkdir", "-p", &format!("{SCRATCH}/objects")]);
    folder.output_max = 4096;
    let made = room.run(folder, None).await.map_err(room_fault)?;
    if !made.exit.success() {
        return Err(Fault::new(FaultKind::Room, "a commit has no place to be made", String::from_utf8_lossy(&made.stderr)).into());
    }
    let (index, store) = (format!("{SCRATCH}/index"), format!("{SCRATCH}/objects"));
    let (objects, date) = (objects.to_string_lossy().into_owned(), format!("{since_1970_s} {}", zone(&wish.zone)));
    let env = [
        ("GIT_INDEX_FILE", index.as_str()),
        ("GIT_OBJECT_DIRECTORY", store.as_str()),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects.as_str()),
        ("GIT_AUTHOR_NAME", wish.name.as_str()),
        ("GIT_AUTHOR_EMAIL", wish.email.as_str()),
        ("GIT_AUTHOR_DATE", date.as_str()),
        ("GIT_COMMITTER_NAME", wish.name.as_str()),
        ("GIT_COMMITTER_EMAIL", wish.email.as_str()),
        ("GIT_COMMITTER_DATE", date.as_str()),
    ];
    git_with(room, &["read-tree", parent.unwrap_or("--empty")], &env, None).await?;
    let stdin: Vec<u8> = paths.iter().flat_map(|path| path.bytes().chain([0])).collect();
    git_with(room, &["update-index", "--add", "--remove", "--replace", "-z", "--stdin"], &env, Some(stdin)).await?;
    let tree = line(git_with(room, &["write-tree"], &env, None).await?);
    let mut args = vec!["commit-tree", &tree];
    args.extend(parent.into_iter().flat_map(|parent| ["-p", parent]));
    args.extend(["-F", "-"]);
    let message = format!("{}\n", wish.message.trim_end());
    let commit = line(git_with(room, &args, &env, Some(message.into_bytes())).await?);
    if !crate::repository::is_commit(&commit) {
        return Err(Fault::new(FaultKind::Room, "git made no commit", commit).into());
    }
    let objects = crate::aside(|| loose(&room.work().join("upper").join(&store)))?;
    Ok(NewCommit { commit, objects })
}

/// A time zone as git writes it.
fn zone(text: &str) -> &str {
    let is_zone = text.len() == 5 && text.starts_with(['+', '-']) && text.bytes().skip(1).all(|byte| byte.is_ascii_digit());
    if is_zone { text } else { "+0000" }
}

pub(crate) fn line(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// The objects in a store that git wrote one by one. The commit comes last, so that whoever finds it finds all of it.
pub(crate) fn loose(store: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, Fault> {
    let failed = |error| Fault::io("read", store, error);
    let is_hex = |name: &str, length: &[usize]| length.contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut found = Vec::new();
    for folder in std::fs::read_dir(store).map_err(failed)? {
        let folder = folder.map_err(failed)?;
        let name = folder.file_name().to_string_lossy().into_owned();
        if !is_hex(&name, &[2]) {
            continue;
        }
        for object in std::fs::read_dir(folder.path()).map_err(failed)? {
            let object = object.map_err(failed)?;
            let rest = object.file_name().to_string_lossy().into_owned();
            if is_hex(&rest, &[38, 62]) && object.file_type().map_err(failed)?.is_file() {
                found.push((Path::new(&name).join(&rest), std::fs::read(object.path()).map_err(failed)?));
            }
        }
    }
    Ok(found)
}

/// A person's index with these paths as `commit` has them, where it still has them as `parent` does. `None` where nothing is to be done.
pub async fn refreshed_index(
    room: &Workspace,
    index: Vec<u8>,
    parent: Option<&str>,
    commit: &str,
    paths: &[&str],
) -> Result<Option<Vec<u8>>, Stop> {
    let made = room.run(JobSpec::exec(["mkdir", "-p", SCRATCH]), None).await.map_err(room_fault)?;
    let file = format!("{SCRATCH}/person");
    let copied = room.run(JobSpec::exec(["sh", "-c", &format!("cat > {file}")]), Some(index)).await.map_err(room_fault)?;
    if !made.exit.success() || !copied.exit.success() {
        return Err(Fault::new(FaultKind::Room, "the index cannot be copied", String::from_utf8_lossy(&copied.stderr)).into());
    }
    let env = [("GIT_INDEX_FILE", file.as_str())];
    let (old, new) = (tree_entries(room, parent, paths).await?, tree_entries(room, Some(commit), paths).await?);
    let held = index_entries(room, paths, &env).await?;
    let mut lines = Vec::new();
    for path in paths.iter().filter(|path| held.get(**path) == old.get(**path) && old.get(**path) != new.get(**path)) {
        let (mode, name) = match new.get(*path) {
            Some((mode, name)) => (mode.as_str(), name.clone()),
            None => ("0", "0".repeat(commit.len())),
        };
        lines.extend(format!("{mode} {name}\t{path}\0").into_bytes());
    }
    if lines.is_empty() {
        return Ok(None);
    }
    git_with(room, &["-c", "core.splitIndex=false", "update-index", "-z", "--index-info"], &env, Some(lines)).await?;
    let bytes = std::fs::read(room.work().join("upper").join(&file));
    Ok(Some(bytes.map_err(|error| Fault::io("read", Path::new(&file), error))?))
}
