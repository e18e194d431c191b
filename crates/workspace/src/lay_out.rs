//! Kept work, laid out in a workspace again: what somebody who goes on with it finds.
//!
//! **Invariant.** What is laid out is what was kept, with the modes that it had; of the project nothing is hidden but what the task removed.

use crate::keep::KeptChanges;
use crate::replay::{give, whiteout};
use crate::shape::ReadBlob;
use crate::tree::{FileState, FileTree, State};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use world::{Fault, Stop};

/// Lays kept work out in the upper layer of a workspace that is not mounted yet. Blocks.
pub fn lay(kept: &KeptChanges, project: &Path, work: &Path, blobs: &ReadBlob<'_>) -> Result<(), Stop> {
    let (upper, tree) = (work.join("upper"), FileTree::at(project.to_owned())?);
    std::fs::create_dir_all(&upper).map_err(|error| Fault::io("make", &upper, error))?;
    let named = kept.paths.iter().map(|(path, kept)| (Path::new(path), &kept.state));
    let unnamed = kept.unnamed.iter().map(|path| (Path::new(OsStr::from_bytes(&path.name)), &path.state));
    for (path, state) in named.chain(unnamed) {
        if is_beneath_file(kept, path) {
            continue;
        }
        // Gone already, or a folder of the person's by now.
        if *state == State::Absent && matches!(tree.now_at(path)?, FileState::Absent | FileState::Folder) {
            continue;
        }
        let place = upper.join(path);
        let fault = |what: &str, error: std::io::Error| Fault::io(what, &place, error);
        folders(&upper, &tree, path.parent().unwrap_or(Path::new("")))?;
        match state {
            State::Absent => whiteout(&place)?,
            State::Folder => folders(&upper, &tree, path)?,
            State::Link { target } => std::os::unix::fs::symlink(target, &place).map_err(|error| fault("link", error))?,
            State::File { blob, mode, .. } => {
                std::fs::write(&place, blobs(blob)?).map_err(|error| fault("write", error))?;
                let mode = std::fs::Permissions::from_mode(mode.unwrap_or(0o644));
                std::fs::set_permissions(&place, mode).map_err(|error| fault("set the mode of", error))?;
            }
        }
    }
    // The innermost first: a folder is gone when all that was in it is.
    for folder in kept.gone_folders.iter().rev() {
        hide_folder(kept, &tree, &upper, folder)?;
    }
    give(&upper)?;
    // At last, as nothing can be put into a folder that may not be written to.
    for (path, mode) in kept.folder_modes.iter().rev() {
        let place = upper.join(path);
        if place.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            let mode = std::fs::Permissions::from_mode(*mode);
            std::fs::set_permissions(&place, mode).map_err(|error| Fault::io("set the mode of", &place, error))?;
        }
    }
    Ok(())
}

/// Hides a folder of the project that is gone, if nothing is in it that the task did not remove.
fn hide_folder(kept: &KeptChanges, tree: &FileTree, upper: &Path, folder: &str) -> Result<(), Stop> {
    let path = Path::new(folder);
    let mut kept_paths = kept.paths.iter().filter(|(_, kept)| kept.state != State::Absent).map(|(path, _)| Path::new(path));
    let mut unnamed = kept.unnamed.iter().map(|path| Path::new(OsStr::from_bytes(&path.name)));
    let is_taken = kept_paths.any(|at| at.starts_with(path)) || unnamed.any(|at| at.starts_with(path));
    if is_taken || is_beneath_file(kept, path) || !matches!(tree.now(folder)?, FileState::Folder) {
        return Ok(());
    }
    for (name, _) in tree.entries(path)? {
        let inner = path.join(&name);
        let is_gone = inner.to_str().is_some_and(|at| {
            let is_hidden = || kept.gone_folders.contains(at) && upper.join(at).symlink_metadata().is_ok_and(|found| !found.is_dir());
            kept.paths.contains_key(at) || is_hidden()
        });
        if !is_gone {
            return Ok(());
        }
    }
    folders(upper, tree, path.parent().unwrap_or(Path::new("")))?;
    let place = upper.join(path);
    match std::fs::remove_dir_all(&place) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        removed => removed.map_err(|error| Fault::io("remove", &place, error))?,
    }
    Ok(whiteout(&place)?)
}

/// Beneath a file that took a folder's place there is nothing to hide.
fn is_beneath_file(kept: &KeptChanges, path: &Path) -> bool {
    let above = path.ancestors().skip(1).filter_map(Path::to_str);
    let mut above = above.filter_map(|above| kept.paths.get(above));
    above.any(|above| matches!(above.state, State::File { .. } | State::Link { .. }))
}

/// Makes a folder and those above it, each with the mode that the project's has.
fn folders(upper: &Path, tree: &FileTree, path: &Path) -> Result<(), Stop> {
    let mut above: Vec<&Path> = path.ancestors().filter(|above| !above.as_os_str().is_empty()).collect();
    above.reverse();
    for folder in above {
        let place = upper.join(folder);
        match std::fs::create_dir(&place) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
            made => made.map_err(|error| Fault::io("make", &place, error))?,
        }
        let project = tree.project.join(folder);
        let mode = project.symlink_metadata().ok().filter(std::fs::Metadata::is_dir).map_or(0o755, |found| found.permissions().mode());
        let mode = std::fs::Permissions::from_mode(mode & 0o777);
        std::fs::set_permissions(&place, mode).map_err(|error| Fault::io("set the mode of", &place, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keep::UnnamedPath;
    use crate::keep::tests::kept;

    #[test]
    fn kept_work_is_laid_out_and_a_path_that_is_gone_already_needs_no_mark() {
        let folder = tempfile::tempdir().unwrap();
        let (project, work) = (folder.path().join("project"), folder.path().join("work"));
        std::fs::create_dir_all(project.join("src")).unwrap();
        std::fs::create_dir_all(&work).unwrap();
        std::fs::write(project.join("src/old"), "x").unwrap();
        let script = State::File { blob: "aa".into(), mode: Some(0o755), owner: None };
        let link = State::Link { target: "run".into() };
        let mut kept =
            kept(&[("src/run", script), ("src/old", State::Absent), ("src/none", State::Absent), ("l", link), ("e", State::Folder)]);
        let odd = State::File { blob: "bb".into(), mode: None, owner: None };
        kept.unnamed.push(UnnamedPath { name: b"src/caf\xe9".to_vec(), state: odd, size: 1 });
        lay(&kept, &project, &work, &|blob| Ok(format!("blob {blob}").into_bytes())).unwrap();
        let upper = work.join("upper");
        assert_eq!(std::fs::read_to_string(upper.join("src/run")).unwrap(), "blob aa");
        assert_eq!(std::fs::read_to_string(upper.join(OsStr::from_bytes(b"src/caf\xe9"))).unwrap(), "blob bb");
        assert_eq!((KeptChanges::parse(&kept.to_bytes().unwrap()).unwrap(), kept.files()), (kept.clone(), 5));
        assert_eq!(upper.join("src/run").metadata().unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(std::fs::read_link(upper.join("l")).unwrap(), Path::new("run"));
        assert!(upper.join("e").is_dir() && !upper.join("src/none").exists());
        use std::os::unix::fs::FileTypeExt;
        assert!(upper.join("src/old").symlink_metadata().unwrap().file_type().is_char_device(), "it is hidden");
    }

    #[test]
    fn a_folder_that_is_gone_stays_gone_unless_somebody_put_something_into_it() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        for at in ["keep/in", "mine/in"] {
            std::fs::create_dir_all(project.join(at)).unwrap();
            std::fs::write(project.join(at).join("x"), "x").unwrap();
        }
        std::fs::write(project.join("mine/new"), "of the person's").unwrap();
        let mut kept = kept(&[("keep/in/x", State::Absent), ("mine/in/x", State::Absent), ("shut", State::Folder)]);
        kept.gone_folders = ["keep", "keep/in", "mine", "mine/in"].map(str::to_owned).into();
        kept.folder_modes = [("shut".to_owned(), 0o555)].into();
        let work = folder.path().join("work");
        lay(&kept, &project, &work, &|_| Ok(Vec::new())).unwrap();
        let upper = work.join("upper");
        let is_hidden = |at: &str| upper.join(at).symlink_metadata().is_ok_and(|found| !found.is_dir() && !found.is_file());
        assert!(is_hidden("keep") && is_hidden("mine/in"));
        assert!(upper.join("mine").is_dir(), "what is in it now is not the task's");
        assert_eq!(upper.join("shut").metadata().unwrap().permissions().mode() & 0o7777, 0o555);
    }
}
