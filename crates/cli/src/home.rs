//! `$SKEP_HOME`: where the kernel keeps everything.

use crate::command_error::CommandError;
use std::fs::{DirBuilder, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use wire::ErrorCode;

/// `$SKEP_HOME`, or `~/.skep`.
pub fn path() -> Result<PathBuf, CommandError> {
    let named = std::env::var_os("SKEP_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let own = || std::env::var_os("HOME").filter(|home| !home.is_empty()).map(|home| PathBuf::from(home).join(".skep"));
    let home = named.or_else(own).ok_or_else(|| {
        CommandError::new(ErrorCode::BadInput, "there is no place for skep's files")
            .why("neither $SKEP_HOME nor $HOME is set")
            .fix("set $SKEP_HOME to a folder of your own")
    })?;
    std::path::absolute(&home)
        .map_err(|error| CommandError::new(ErrorCode::BadInput, format!("cannot use `{}`", home.display())).why(error))
}

/// Makes `$SKEP_HOME` and its `run/`, for this user alone.
pub fn open(home: &Path) -> Result<(), CommandError> {
    let fail = |path: &Path, error: std::io::Error| {
        let fix = match error.kind() {
            ErrorKind::StorageFull => "free some disk space".to_owned(),
            _ => "make it a folder that you own and can write to, or set $SKEP_HOME to another".to_owned(),
        };
        CommandError::new(ErrorCode::Unavailable, format!("cannot use `{}` for skep's files", path.display())).why(error).fix(fix)
    };
    if let Some(parent) = home.parent() {
        std::fs::create_dir_all(parent).map_err(|error| fail(parent, error))?;
    }
    for dir in [home.to_owned(), home.join("run")] {
        match DirBuilder::new().mode(0o700).create(&dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(fail(&dir, error)),
            _ => {}
        }
    }
    let owner = std::fs::metadata(home).map_err(|error| fail(home, error))?.uid();
    let me = rustix::process::geteuid().as_raw();
    if owner != me {
        return Err(CommandError::new(ErrorCode::Denied, format!("`{}` is not yours", home.display()))
            .why(format!("it belongs to uid {owner}, you are uid {me}"))
            .fix("set $SKEP_HOME to a folder of your own"));
    }
    Ok(())
}

/// Opens a file below `run/` that only this user can read.
pub fn private_file(path: &Path, append: bool) -> Result<std::fs::File, CommandError> {
    OpenOptions::new().create(true).write(true).append(append).mode(0o600).open(path).map_err(|error| {
        CommandError::new(ErrorCode::Unavailable, format!("cannot write `{}`", path.display()))
            .why(error)
            .fix("look at the folder's owner and mode, and at the disk")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_made_for_its_owner_alone_and_a_file_is_none() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().join("a/b");
        open(&home).unwrap();
        open(&home).unwrap();
        assert_eq!(std::fs::metadata(&home).unwrap().mode() & 0o777, 0o700);
        assert_eq!(std::fs::metadata(home.join("run")).unwrap().mode() & 0o777, 0o700);
        std::fs::write(temp.path().join("file"), "").unwrap();
        let error = open(&temp.path().join("file")).unwrap_err();
        assert_eq!(error.code, ErrorCode::Unavailable);
        assert!(error.why.is_some() && error.fix.is_some());
    }
}
