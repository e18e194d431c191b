//! Private files: 0600, in 0700 directories, replaced whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::chain::{from_hex, hex};
use crate::error::JournalError;

const TEMP: &str = ".tmp-";

pub(crate) fn private_dir(path: &Path) -> Result<(), JournalError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => match path.parent() {
            Some(parent) => sync_dir(parent),
            None => Ok(()),
        },
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(JournalError::io("make the directory", path)(error)),
    }
}

pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

pub(crate) fn sync_dir(path: &Path) -> Result<(), JournalError> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(JournalError::io("sync the directory", path))
}

/// Writes a file so that after a crash it is either the old one or the new one.
pub(crate) fn replace(path: &Path, parts: &[&[u8]]) -> Result<(), JournalError> {
    let temp = temp_beside(path)?;
    let written = create_private(&temp).and_then(|mut file| {
        parts.iter().try_for_each(|part| file.write_all(part))?;
        file.sync_all()
    });
    written.map_err(JournalError::io("write", &temp))?;
    fs::rename(&temp, path).map_err(JournalError::io("put in place", path))?;
    match path.parent() {
        Some(parent) => sync_dir(parent),
        None => Ok(()),
    }
}

/// A fresh name in the same directory, so that a rename stays on one file system.
pub(crate) fn temp_beside(path: &Path) -> Result<PathBuf, JournalError> {
    Ok(path.with_file_name(format!("{TEMP}{}", hex(&random::<8>()?))))
}

/// Removes what a crash left half written. Only while the journal's lock is held.
pub(crate) fn sweep(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(TEMP) {
            // One that stays is only space.
            let _ = fs::remove_file(entry.path());
        }
    }
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], JournalError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| JournalError::NoRandom { why: error.to_string() })?;
    Ok(bytes)
}

/// Reads a 32-byte key kept as one line of hex, or makes it. Says whether it was made.
pub(crate) fn key(path: &Path) -> Result<([u8; 32], bool), JournalError> {
    match fs::read_to_string(path) {
        Ok(text) => {
            let mode = fs::metadata(path).map_err(JournalError::io("look at", path))?.permissions().mode();
            if mode & 0o077 != 0 {
                let why = format!("mode is {:o}, others could read this key", mode & 0o777);
                return Err(JournalError::BadFile { path: path.to_owned(), why });
            }
            match from_hex(text.trim_end()) {
                Some(key) => Ok((key, false)),
                None => Err(JournalError::BadFile { path: path.to_owned(), why: "not 64 hex digits".into() }),
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = random::<32>()?;
            replace(path, &[hex(&key).as_bytes(), b"\n"])?;
            Ok((key, true))
        }
        Err(error) => Err(JournalError::io("read", path)(error)),
    }
}
