//! What a room over a project is made of beside the project: git's own needs, and layers that hide one another.

use crate::{MaskSet, aside, repository};
use sandbox::Bind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use world::{Fault, FaultKind, Remedy, Stop};

/// What a room with these masks needs of git beside the project itself: a repository that lies outside it, unless `.git` is masked, and
/// configurations without credentials, also of repositories in folders of the project.
pub async fn git_binds(project: &Path, work: &Path, home: &Path, found: &MaskSet) -> Result<Vec<Bind>, Stop> {
    let read_only = |source: PathBuf, target: PathBuf| Bind { source, target, writable: false };
    let repository::Needs { outside, mut cleaned } = repository::needs(project, home, &found.configs).await?;
    if let Some(outside) = outside.as_ref().filter(|_| found.hides_git()) {
        cleaned.retain(|(file, _)| !file.starts_with(outside));
    }
    let shown = outside.filter(|_| !found.hides_git());
    let mut binds: Vec<Bind> = shown.map(|dir| read_only(dir.clone(), dir)).into_iter().collect();
    for (number, (file, clean)) in cleaned.into_iter().enumerate() {
        let copy = work.join(format!("git-config-{number}"));
        let write = || std::fs::write(&copy, clean).and_then(|()| std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o644)));
        aside(write).map_err(|error| Fault::io("write", &copy, error))?;
        binds.push(read_only(copy, file));
    }
    Ok(binds)
}

/// Whether what a layer holds hides a path of the layers below it: something else in its place, or on the way to it.
pub fn is_behind(layer: &Path, path: &Path) -> bool {
    let mut at = layer.to_owned();
    for part in path.components() {
        at.push(part);
        match at.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => {
                let mut value = [0; 1];
                if rustix::fs::lgetxattr(&at, "user.overlay.opaque", &mut value).is_ok() && value == *b"y" {
                    return true;
                }
            }
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
    false
}

pub fn room_fault(error: sandbox::SandboxError) -> Fault {
    if error.is_disk_full() {
        return Fault::new(FaultKind::DiskFull, "no sandbox can be opened", error).fix("free some disk space");
    }
    let hint = error.hint();
    let fault = Fault::new(FaultKind::Room, "sandbox setup failed; nothing was executed", error);
    match hint {
        Some(hint) => fault.fix(hint),
        None => fault.remedy(Remedy::RunDoctor),
    }
}
