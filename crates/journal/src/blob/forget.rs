//! Destroys blobs for good.

use std::fs;
use std::io::ErrorKind;

use super::{BlobError, Blobs};
use crate::chain::from_hex;
use crate::error::JournalError;

impl Blobs {
    /// Destroys the keys and files of these blobs and says how many there were. Their names stay known as forgotten; whoever calls this
    /// has recorded it before, because verification takes a destroyed key that no record speaks of for a loss.
    pub fn forget(&self, names: &[String]) -> Result<u64, BlobError> {
        let hashes: Vec<[u8; 32]> = names
            .iter()
            .map(|name| from_hex::<32>(name).ok_or_else(|| BlobError::BadName { name: name.clone() }))
            .collect::<Result<_, _>>()?;
        let mut keys = self.keys.lock();
        let destroyed = keys
            .transaction()
            .and_then(|transaction| {
                let mut destroyed = 0;
                for hash in &hashes {
                    let sql = "UPDATE key SET key = NULL WHERE name = ?1 AND key IS NOT NULL";
                    destroyed += transaction.prepare_cached(sql)?.execute([&hash[..]])? as u64;
                }
                transaction.commit().map(|()| destroyed)
            })
            .map_err(JournalError::db("destroy the blob keys"))?;
        // The old pages must not survive in the WAL either.
        keys.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(JournalError::db("destroy the blob keys"))?;
        // Under the lock: whoever puts the same bytes again must not lose the new file.
        for name in names {
            let path = self.path(name)?;
            match fs::remove_file(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(JournalError::io("remove", &path)(error).into()),
            }
        }
        Ok(destroyed)
    }
}
