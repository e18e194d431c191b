//! Which changed paths git ignores.

use crate::git_room::git;
use crate::reader::{self, Folder};
use crate::special;
use sandbox::{Change, ChangeKind, FileKind, Refused, Workspace};
use std::collections::BTreeSet;
use std::path::Path;
use world::Stop;

/// Whether a path is among those, or in a folder that is. Git is not asked about names that are no text.
pub fn is_ignored(path: &Path, ignored: &BTreeSet<String>) -> bool {
    path.ancestors().filter_map(Path::to_str).any(|path| ignored.contains(path))
}

/// Paths that git ignores are the clone's own and never merged.
///
/// Of refused paths those are looked at that could be kept. A job may have left a repository in which git does not work. Then nothing is ignored: a person sees more, and nothing is hidden.
pub async fn ignored(room: &Workspace, changes: &[Change], refused: &[Refused]) -> Result<BTreeSet<String>, Stop> {
    Ok(ask_ignored(room, changes, refused).await?.unwrap_or_default())
}

/// The same; `None` where git cannot say it.
pub(crate) async fn ask_ignored(room: &Workspace, changes: &[Change], refused: &[Refused]) -> Result<Option<BTreeSet<String>>, Stop> {
    // What was a folder's and is now behind a link or a file; git does not look there, and stops.
    let mut in_the_way: BTreeSet<&Path> = refused.iter().map(|no| no.path.as_path()).collect();
    in_the_way.extend(changes.iter().filter(|c| c.kind == ChangeKind::Created && c.file != FileKind::Folder).map(|c| c.path.as_path()));
    let mut stdin = Vec::new();
    for change in changes.iter().filter(|change| !change.path.ancestors().skip(1).any(|above| in_the_way.contains(above))) {
        stdin.extend_from_slice(change.path.to_string_lossy().as_bytes());
        stdin.push(0);
    }
    let kept = refused.iter().filter(|no| !no.changes.is_empty() && no.path.to_str().is_some());
    for no in kept.filter(|no| !no.path.ancestors().skip(1).any(|above| in_the_way.contains(above))) {
        stdin.extend_from_slice(no.path.to_string_lossy().as_bytes());
        stdin.push(0);
    }
    if stdin.is_empty() {
        return Ok(Some(BTreeSet::new()));
    }
    let upper = room.work().join("upper");
    let is_unsafe = reader::bounded_walk(move || Folder::open(&upper).and_then(|upper| special::is_git_unsafe(&upper))).await?;
    if is_unsafe.unwrap_or(true) {
        world::log!("skep: a pipe or a link where git reads keeps git from saying what it ignores, so all is shown");
        return Ok(None);
    }
    let listed = match git(room, &["check-ignore", "-z", "--stdin"], Some(stdin)).await {
        Err(Stop::Failed(fault)) => {
            world::log!("skep: git cannot say what it ignores, so all is shown: {fault}");
            return Ok(None);
        }
        listed => listed?,
    };
    Ok(Some(String::from_utf8_lossy(&listed).split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect()))
}
