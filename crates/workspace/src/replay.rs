//! The workspace of a replay: the project as it was when the original began.
//!
//! Where the project moved since, a layer of recorded contents lies between it and the replay's own writes. **Invariant.** A file whose
//! content then is not known is a refusal, never today's content in its place. Files that git ignores are today's.

use crate::base::{self, Dirty};
use crate::git_room::git;
use crate::shape::ReadBlob;
use crate::tree::{FileState, FileTree};
use crate::was::{BaseState, Bases};
use crate::{Sight, aside};
use sandbox::Workspace;
use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use world::{Base, Code, Fault, FaultKind, Refusal, Stop, TaskId};

/// The layer of recorded contents, and the list of its paths.
const LAYER: &str = "base";
const PATHS: &str = "base.json";

/// Where the layer of a replay is, if it needs one.
pub fn layer(work: &Path) -> Option<PathBuf> {
    Some(work.join(LAYER)).filter(|layer| layer.exists())
}

/// Paths at which base and project differ.
pub fn moved(work: &Path) -> Result<BTreeSet<String>, Fault> {
    let path = work.join(PATHS);
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| Fault::new(FaultKind::Bug, "a list of paths does not read", error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(Fault::io("read", &path, error)),
    }
}

/// What the replay of a task is refused with where its start is not known.
pub fn unknown(why: String) -> Refusal {
    Refusal::new(Code::WrongState, why).hint("replay it in a clone that stands where the task began")
}

/// Every path at which the project may differ from a base. `room` shows the project alone.
pub async fn paths_since(room: &Workspace, of: TaskId, then: &Base, dirty: &Dirty, sight: &Sight) -> Result<BTreeSet<String>, Stop> {
    let (now_head, now_dirty) = base::status(room).await?;
    let mut paths: BTreeSet<String> = now_dirty.into_iter().collect();
    paths.extend(dirty.files.keys().cloned());
    let listed = match (&then.head, &now_head) {
        (then, now) if then == now => Vec::new(),
        (Some(then), Some(now)) => {
            let args = ["diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", then, now];
            let gone = |_| unknown(format!("commit {then}, where {of} began, is not in the repository any more"));
            git(room, &args, None).await.map_err(gone)?
        }
        (None, Some(now)) => git(room, &["ls-tree", "-r", "-z", "--name-only", "--full-tree", now], None).await?,
        (then, None) => return Err(unknown(format!("{of} began at {then:?}, and the repository has no commit now")).into()),
    };
    paths.extend(String::from_utf8_lossy(&listed).split('\0').filter(|path| !path.is_empty()).map(str::to_owned));
    // What no room shows is not shown now either.
    paths.retain(|path| sight.hides(path).is_none());
    Ok(paths)
}

/// Lays what a base held over the project, in a layer of `work`, at every path that differs.
pub async fn lay(
    of: TaskId,
    project: &Path,
    work: &Path,
    bases: &Bases<'_>,
    blobs: &ReadBlob<'_>,
    paths: &BTreeSet<String>,
) -> Result<(), Stop> {
    let tree = FileTree::at(project.to_owned())?;
    let layer = work.join(LAYER);
    let mut laid = BTreeSet::new();
    for path in paths {
        let (was, now) = (bases.of(path), aside(|| tree.now(path))?);
        let mode = match &now {
            FileState::File { mode, .. } => Some(mode & 0o100 != 0),
            _ => None,
        };
        let same = was.is(&now) || bases.is_checked_out(path, &was, &now).await?;
        if same && (mode.is_none() || was.executable() == mode) {
            continue;
        }
        let unknown = || unknown(format!("what `{path}` held when {of} began is not known, and it may have changed since"));
        let place = layer.join(path);
        let parent = place.parent().unwrap_or(&layer);
        aside(|| std::fs::create_dir_all(parent)).map_err(|error| Fault::io("make", parent, error))?;
        match (&was, bases.bytes(blobs, path, &was).await?) {
            (BaseState::Absent, _) => whiteout(&place)?,
            (
                BaseState::Held { executable, .. } | BaseState::Given { executable, .. } | BaseState::Committed { executable, .. },
                Some(bytes),
            ) if !matches!(now, FileState::Link { .. }) => {
                aside(|| std::fs::write(&place, bytes)).map_err(|error| Fault::io("write", &place, error))?;
                let mode = std::fs::Permissions::from_mode(if *executable { 0o755 } else { 0o644 });
                std::fs::set_permissions(&place, mode).map_err(|error| Fault::io("set the mode of", &place, error))?;
            }
            _ => return Err(unknown().into()),
        }
        laid.insert(path.clone());
    }
    if layer.exists() {
        give(&layer)?;
    }
    let bytes = serde_json::to_vec(&laid).map_err(|error| Fault::new(FaultKind::Bug, "cannot write a list of paths", error))?;
    let path = work.join(PATHS);
    Ok(std::fs::write(&path, bytes).map_err(|error| Fault::io("write", &path, error))?)
}

/// A room's jobs own what is beneath their changes, as they own what they wrote themselves.
pub(crate) fn give(folder: &Path) -> Result<(), Fault> {
    let (uid, gid) = sandbox::job_owner();
    let give = |path: &Path| lchown(path, Some(uid), Some(gid)).map_err(|error| Fault::io("give away", path, error));
    give(folder)?;
    for entry in std::fs::read_dir(folder).map_err(|error| Fault::io("list", folder, error))? {
        let entry = entry.map_err(|error| Fault::io("list", folder, error))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            self::give(&entry.path())?;
        } else {
            give(&entry.path())?;
        }
    }
    Ok(())
}

/// How an overlay says that a path of the layer beneath is gone.
pub(crate) fn whiteout(place: &Path) -> Result<(), Fault> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, place, FileType::CharacterDevice, Mode::empty(), 0).map_err(|error| Fault::io("hide", place, error))
}
