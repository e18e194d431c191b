//! The workspace of a replay: the project as it was when the original began.
//!
//! Where the project moved since, a layer of recorded contents lies between it and the replay's own writes. **Invariant.** A file whose
//! content then is not known is a refusal, never today's content in its place. Files that git ignores are today's.

use crate::Kernel;
use crate::aside::aside;
use crate::base;
use crate::fault::{Fault, FaultKind, Stop};
use crate::mask::Sight;
use crate::merge::{Bases, Now, Tree, Was};
use crate::scratch::Shows;
use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use world::{Base, Code, Event, Refusal, Task, TaskId, ZoneId};

/// The layer of recorded contents, and the list of its paths.
const LAYER: &str = "base";
const PATHS: &str = "base.json";

/// Where the layer of a replay is, if it needs one.
pub(crate) fn layer(work: &Path) -> Option<PathBuf> {
    Some(work.join(LAYER)).filter(|layer| layer.exists())
}

/// Paths at which base and project differ.
pub(super) fn moved(kernel: &Kernel, task: &Task) -> Result<BTreeSet<String>, Fault> {
    let path = kernel.home.work_of(task.id).join(PATHS);
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| Fault::new(FaultKind::Bug, "a list of paths does not read", error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(Fault::io("read", &path, error)),
    }
}

/// Where the original started.
pub(crate) struct Then {
    /// HEAD when its workspace was opened.
    pub opened: Option<String>,
    pub base: Base,
}

/// What the original started from, with the layer that brings it back.
pub(crate) async fn rebuild(kernel: &Kernel, of: TaskId, zone: ZoneId, project: &Path, work: &Path, sight: &Sight) -> Result<Then, Stop> {
    let (mut opened, mut based) = (None, None);
    for event in kernel.events(of, &["workspace.opened", "workspace.based"])? {
        match event {
            Event::WorkspaceOpened(event) => opened = Some(event.head),
            Event::WorkspaceBased(event) => based = Some(Base { head: event.head, blob: event.blob, until_us: event.until_us }),
            _ => {}
        }
    }
    let unknown = |why: String| Refusal::new(Code::WrongState, why).hint("replay it in a clone that stands where the task began");
    let opened = opened.ok_or_else(|| unknown(format!("{of} had no workspace, so what it started from is not known")))?;
    let then = based.ok_or_else(|| unknown(format!("{of} ended before it was on record what it started from")))?;
    let scratch = kernel.scratch(zone, project, Shows::Repository).await?;
    let (now_head, now_dirty) = base::status(scratch.room()?).await?;
    let mut paths: BTreeSet<String> = now_dirty.into_iter().collect();
    paths.extend(base::dirty(kernel, &then.blob)?.files.into_keys());
    let listed = match (&then.head, &now_head) {
        (then, now) if then == now => Vec::new(),
        (Some(then), Some(now)) => {
            let args = ["diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", then, now];
            let gone = |_| unknown(format!("commit {then}, where {of} began, is not in the repository any more"));
            base::git(scratch.room()?, &args, None).await.map_err(gone)?
        }
        (None, Some(now)) => base::git(scratch.room()?, &["ls-tree", "-r", "-z", "--name-only", "--full-tree", now], None).await?,
        (then, None) => return Err(unknown(format!("{of} began at {then:?}, and the repository has no commit now")).into()),
    };
    paths.extend(String::from_utf8_lossy(&listed).split('\0').filter(|path| !path.is_empty()).map(str::to_owned));
    scratch.close().await?;
    // What no room shows is not shown now either.
    paths.retain(|path| sight.hides(path).is_none());
    if !paths.is_empty() {
        lay(kernel, of, zone, project, work, &then, &paths).await?;
    }
    Ok(Then { opened, base: then })
}

async fn lay(
    kernel: &Kernel,
    of: TaskId,
    zone: ZoneId,
    project: &Path,
    work: &Path,
    then: &Base,
    paths: &BTreeSet<String>,
) -> Result<(), Stop> {
    let list: Vec<&str> = paths.iter().map(String::as_str).collect();
    let bases = Bases::at(kernel, zone, project, then, &list).await?;
    let tree = Tree::at(project.to_owned())?;
    let layer = work.join(LAYER);
    let mut laid = BTreeSet::new();
    for path in paths {
        let (was, now) = (bases.of(path), aside(|| tree.now(path))?);
        let mode = match &now {
            Now::File { mode, .. } => Some(mode & 0o100 != 0),
            _ => None,
        };
        let same = was.is(&now) || bases.is_checked_out(path, &was, &now).await?;
        if same && (mode.is_none() || was.executable() == mode) {
            continue;
        }
        let unknown = || {
            Refusal::new(Code::WrongState, format!("what `{path}` held when {of} began is not known, and it may have changed since"))
                .hint("replay it in a clone that stands where the task began")
        };
        let place = layer.join(path);
        let parent = place.parent().unwrap_or(&layer);
        aside(|| std::fs::create_dir_all(parent)).map_err(|error| Fault::io("make", parent, error))?;
        match (&was, bases.bytes(kernel, path, &was).await?) {
            (Was::Absent, _) => whiteout(&place)?,
            (Was::Held { executable, .. } | Was::Committed { executable, .. }, Some(bytes)) if !matches!(now, Now::Link { .. }) => {
                aside(|| std::fs::write(&place, bytes)).map_err(|error| Fault::io("write", &place, error))?;
                let mode = std::fs::Permissions::from_mode(if *executable { 0o755 } else { 0o644 });
                std::fs::set_permissions(&place, mode).map_err(|error| Fault::io("set the mode of", &place, error))?;
            }
            _ => return Err(unknown().into()),
        }
        laid.insert(path.clone());
    }
    bases.close().await?;
    if layer.exists() {
        give(&layer)?;
    }
    let bytes = serde_json::to_vec(&laid).map_err(|error| Fault::new(FaultKind::Bug, "cannot write a list of paths", error))?;
    let path = work.join(PATHS);
    Ok(std::fs::write(&path, bytes).map_err(|error| Fault::io("write", &path, error))?)
}

/// A room's jobs own what is beneath their changes, as they own what they wrote themselves.
fn give(folder: &Path) -> Result<(), Fault> {
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
fn whiteout(place: &Path) -> Result<(), Fault> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, place, FileType::CharacterDevice, Mode::empty(), 0).map_err(|error| Fault::io("hide", place, error))
}
