//! Destroys blobs for good.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;

use super::{BlobError, Blobs, key_of};
use crate::chain::from_hex;
use crate::error::JournalError;

/// A blob as it lies on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptBlob {
    pub name: String,
    pub bytes: u64,
    /// When it was kept last.
    pub touched: SystemTime,
}

/// Stamps a file with the present; says whether it is there.
pub(super) fn touch(path: &Path) -> Result<bool, BlobError> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    match rustix::fs::utimensat(CWD, path, &Timestamps { last_access: now, last_modification: now }, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(JournalError::io("touch", path)(error.into()).into()),
    }
}

impl Blobs {
    /// Destroys the keys and files of these blobs and says how many there were. Their names stay known as forgotten; whoever calls this
    /// has recorded it before, because verification takes a destroyed key that no record speaks of for a loss.
    /// With `untouched`, those that were kept again at that time or later stay.
    pub fn forget(&self, names: &[String], untouched: Option<SystemTime>) -> Result<u64, BlobError> {
        let mut keys = self.keys.lock();
        let mut going: Vec<(PathBuf, [u8; 32])> = Vec::new();
        for name in names {
            let path = self.path(name)?;
            let hash = from_hex::<32>(name).ok_or_else(|| BlobError::BadName { name: name.clone() })?;
            let is_fresh = |since| fs::metadata(&path).and_then(|meta| meta.modified()).is_ok_and(|touched| touched >= since);
            if !untouched.is_some_and(is_fresh) {
                going.push((path, hash));
            }
        }
        let destroyed = keys
            .transaction()
            .and_then(|transaction| {
                let mut destroyed = 0;
                for (_, hash) in &going {
                    let sql = "UPDATE key SET key = NULL WHERE name = ?1 AND key IS NOT NULL";
                    destroyed += transaction.prepare_cached(sql)?.execute([&hash[..]])? as u64;
                }
                transaction.commit().map(|()| destroyed)
            })
            .map_err(JournalError::db("destroy the blob keys"))?;
        // The old pages must not survive in the WAL either.
        keys.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(JournalError::db("destroy the blob keys"))?;
        // Under the lock: whoever puts the same bytes again must not lose the new file.
        for (path, _) in &going {
            match fs::remove_file(path) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(JournalError::io("remove", path)(error).into()),
            }
        }
        Ok(destroyed)
    }

    /// Every blob that has a file.
    pub fn list(&self) -> Result<Vec<KeptBlob>, BlobError> {
        let mut found = Vec::new();
        let entries =
            |dir: &Path| fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(JournalError::io("list", dir));
        for shard in entries(&self.dir)?.into_iter().map(|shard| shard.path()).filter(|shard| shard.is_dir()) {
            for file in entries(&shard)? {
                let name = format!("{}{}", shard.file_name().unwrap_or_default().display(), file.file_name().display());
                let meta = match file.metadata() {
                    Ok(meta) => meta,
                    // Forgotten while we looked.
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    Err(error) => return Err(JournalError::io("look at", &file.path())(error).into()),
                };
                if from_hex::<32>(&name).is_some() {
                    let touched = meta.modified().map_err(JournalError::io("look at", &file.path()))?;
                    found.push(KeptBlob { name, bytes: meta.len(), touched });
                }
            }
        }
        Ok(found)
    }

    /// Says whether a blob is there, and if so that somebody keeps it again.
    pub(super) fn keep_again(&self, name: &str) -> Result<bool, BlobError> {
        let (path, hash) = (self.path(name)?, from_hex::<32>(name).ok_or_else(|| BlobError::BadName { name: name.into() })?);
        let keys = self.keys.lock();
        if !matches!(key_of(&keys, &hash)?, Some(Some(_))) {
            return Ok(false);
        }
        touch(&path)
    }
}
