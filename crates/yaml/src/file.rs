//! A settings file's text, read so that whatever stands in its place cannot hold up who reads it.
//!
//! **Invariant.** It comes back within [`WAIT_MAX`], with at most [`FILE_BYTES_MAX`] bytes of a regular file.

use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// Ten thousand rules have a tenth of that.
pub const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// A disk that takes longer does not work.
pub const WAIT_MAX: Duration = Duration::from_secs(2);

/// Reads a file that a person wrote. Links are followed; a pipe, a device or a folder is an error, and so is a file that is too large.
pub fn read_file(path: &Path) -> io::Result<String> {
    let (found, told) = mpsc::sync_channel(1);
    let name = path.to_owned();
    // Beside: a look at a file system that hangs cannot be given up by the thread that looks. Who gave up hears nothing of it any more.
    std::thread::Builder::new().name("settings".into()).spawn(move || drop(found.send(read(&name))))?;
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("it could not be read within {} seconds", WAIT_MAX.as_secs()));
    told.recv_timeout(WAIT_MAX).unwrap_or_else(|_| Err(late()))
}

fn read(path: &Path) -> io::Result<String> {
    // Before it is opened: to open a pipe is to wait for its writer.
    check(&std::fs::metadata(path)?)?;
    let file = std::fs::File::open(path)?;
    check(&file.metadata()?)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(too_large());
    }
    String::from_utf8(bytes).map_err(|_| invalid("it is not UTF-8 text".to_owned()))
}

fn check(meta: &std::fs::Metadata) -> io::Result<()> {
    match meta.is_file() {
        false => Err(invalid("it is not a regular file".to_owned())),
        true if meta.len() > FILE_BYTES_MAX => Err(too_large()),
        true => Ok(()),
    }
}

fn too_large() -> io::Error {
    invalid(format!("it has more than {} MiB", FILE_BYTES_MAX / 1024 / 1024))
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
