//! Where the kernel listens.
//!
//! The path follows from the home and the user alone, so that a kernel and a client from different login sessions meet.

use rustix::process::geteuid;
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// `sockaddr_un` holds 108 bytes on Linux and 104 on macOS; seed 000 asks for 100.
const PATH_BYTES_MAX: usize = 100;

/// `$SKEP_HOME/kernel.sock`, or a short name below `/tmp/skep-<uid>/` when that is too long for a socket. `$XDG_RUNTIME_DIR` is
/// not used: a kernel started from a login session and a client in a cron job would look in different places.
pub fn socket_path(home: &Path) -> PathBuf {
    let home = std::path::absolute(home).unwrap_or_else(|_| home.to_owned());
    let plain = home.join("kernel.sock");
    if plain.as_os_str().len() <= PATH_BYTES_MAX {
        return plain;
    }
    let hash = Sha256::digest(home.as_os_str().as_bytes());
    let name: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    PathBuf::from(format!("/tmp/skep-{}", geteuid().as_raw())).join(format!("{name}.sock"))
}

/// A folder that other users could put a socket into.
#[derive(Debug, thiserror::Error)]
#[error("the socket folder `{}` is not safe: {why}", path.display())]
pub struct SocketError {
    pub path: PathBuf,
    pub why: String,
}

impl SocketError {
    pub fn fix(&self) -> String {
        format!("remove `{}`, or choose a shorter $SKEP_HOME", self.path.display())
    }
}

/// Makes sure that the folder of `socket` exists and that only this user can enter it. The server calls it before it binds.
pub fn open_socket_dir(socket: &Path) -> Result<(), SocketError> {
    let Some(dir) = socket.parent() else { return Ok(()) };
    let fail = |why: String| SocketError { path: dir.to_owned(), why };
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(fail(error.to_string())),
    }
    let metadata = std::fs::symlink_metadata(dir).map_err(|error| fail(error.to_string()))?;
    check(&metadata).map_err(fail)
}

fn check(dir: &Metadata) -> Result<(), String> {
    let me = geteuid().as_raw();
    if !dir.is_dir() {
        return Err("it is not a folder".into());
    }
    if dir.uid() != me {
        return Err(format!("it belongs to uid {} and not to {me}", dir.uid()));
    }
    match dir.mode() & 0o777 {
        mode if mode & 0o077 == 0 => Ok(()),
        mode => Err(format!("its mode {mode:03o} lets other users in")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_long_home_gets_a_short_stable_name() {
        assert_eq!(socket_path(Path::new("/home/a/.skep")), Path::new("/home/a/.skep/kernel.sock"));
        let long = PathBuf::from(format!("/home/{}", "x".repeat(100)));
        let short = socket_path(&long);
        assert!(short.as_os_str().len() < PATH_BYTES_MAX && short.starts_with(format!("/tmp/skep-{}", geteuid().as_raw())));
        assert_eq!(short, socket_path(&long));
        assert_ne!(short, socket_path(&long.join("y")));
    }

    #[test]
    fn a_folder_that_others_can_enter_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("d");
        open_socket_dir(&dir.join("s")).unwrap();
        assert_eq!(std::fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(open_socket_dir(&dir.join("s")).unwrap_err().why.contains("755"));
        std::os::unix::fs::symlink(temp.path(), temp.path().join("l")).unwrap();
        assert!(open_socket_dir(&temp.path().join("l/s")).unwrap_err().why.contains("not a folder"));
    }
}
