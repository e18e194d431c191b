//! Blobs that become durable together.
//!
//! **Invariant.** Files first, then their names, then their keys: a crash between leaves blobs that are missing, and can be put again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::forget::touch;
use super::{BlobError, Blobs, key_of};
use crate::chain::{Hash, hex, sha256};
use crate::error::JournalError;
use crate::files;

/// From here on one sync of the whole file system costs less than one of each file.
const MANY: usize = 16;

/// Puts that wait for [`Batch::commit`]; dropped without it, they leave nothing.
pub struct Batch<'a> {
    pub(super) blobs: &'a Blobs,
    pub(super) staged: Mutex<BTreeMap<Hash, Staged>>,
}

pub(super) struct Staged {
    key: [u8; 32],
    temp: PathBuf,
}

impl Batch<'_> {
    /// Takes the bytes and returns the name that they have after the commit.
    pub fn put(&self, bytes: &[u8]) -> Result<String, BlobError> {
        let hash = sha256(bytes);
        let name = hex(&hash);
        if self.staged.lock().contains_key(&hash) || self.blobs.keep_again(&name)? {
            return Ok(name);
        }
        self.put_from(&mut { bytes }, u64::MAX).map(|(name, _)| name)
    }

    pub fn put_from(&self, source: &mut dyn Read, max: u64) -> Result<(String, u64), BlobError> {
        let key = files::random::<32>()?;
        let temp = files::temp_beside(&self.blobs.dir.join("x"))?;
        match self.blobs.write(source, max, &key, &temp) {
            Ok((hash, len)) => {
                if let Some(same) = self.staged.lock().insert(hash, Staged { key, temp }) {
                    remove(&same.temp);
                }
                Ok((hex(&hash), len))
            }
            Err(error) => {
                remove(&temp);
                Err(error)
            }
        }
    }

    /// Makes all of them durable.
    pub fn commit(self) -> Result<(), BlobError> {
        let staged = std::mem::take(&mut *self.staged.lock());
        let kept = self.place(&staged);
        staged.values().for_each(|staged| remove(&staged.temp));
        kept
    }

    fn place(&self, staged: &BTreeMap<Hash, Staged>) -> Result<(), BlobError> {
        self.sync(staged.len(), staged.values().map(|staged| staged.temp.as_path()))?;
        // Held to the end: two writers of the same bytes must not leave the file of one with the key of the other.
        let mut keys = self.blobs.keys.lock();
        let (mut shards, mut fresh) = (BTreeSet::new(), Vec::new());
        for (hash, staged) in staged {
            let path = self.blobs.path(&hex(hash))?;
            if matches!(key_of(&keys, hash)?, Some(Some(_))) && touch(&path)? {
                continue;
            }
            if let Some(shard) = path.parent() {
                files::private_dir(shard)?;
                fs::rename(&staged.temp, &path).map_err(JournalError::io("put in place", &path))?;
                shards.insert(shard.to_owned());
                fresh.push((hash, &staged.key));
            }
        }
        self.sync(shards.len(), shards.iter().map(PathBuf::as_path))?;
        let keep = JournalError::db("keep the blob keys");
        let kept = keys.transaction().and_then(|transaction| {
            for (hash, key) in &fresh {
                transaction.prepare_cached("INSERT OR REPLACE INTO key VALUES (?1, ?2)")?.execute((&hash[..], &key[..]))?;
            }
            transaction.commit()
        });
        Ok(kept.map_err(keep)?)
    }

    fn sync<'p>(&self, count: usize, paths: impl Iterator<Item = &'p Path>) -> Result<(), JournalError> {
        if count < MANY {
            return paths.into_iter().try_for_each(files::sync_dir);
        }
        let dir = &self.blobs.dir;
        File::open(dir).and_then(|dir| Ok(rustix::fs::syncfs(&dir)?)).map_err(JournalError::io("sync the file system of", dir))
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.staged.get_mut().values().for_each(|staged| remove(&staged.temp));
    }
}

/// After a rename there is nothing to remove; what stays all the same is only space, until the next start.
fn remove(temp: &Path) {
    let _ = fs::remove_file(temp);
}

#[cfg(test)]
mod tests {
    use super::super::tests::store;
    use super::*;

    #[test]
    fn many_become_durable_at_once_and_each_once() {
        let (home, blobs) = store();
        let files = || walkdir(&home.path().join("blobs"));
        let batch = blobs.batch();
        let names: Vec<String> = (0..200_u32).map(|n| batch.put(&(n % 150).to_be_bytes()).unwrap()).collect();
        assert!(matches!(blobs.get(&names[0]), Err(BlobError::Missing { .. })), "nothing is there before the commit");
        batch.commit().unwrap();
        for (n, name) in names.iter().enumerate() {
            assert_eq!(blobs.get(name).unwrap(), (n as u32 % 150).to_be_bytes());
        }
        assert_eq!(files(), 150);
        let batch = blobs.batch();
        batch.put(b"never kept").unwrap();
        assert_eq!(batch.put(&7_u32.to_be_bytes()).unwrap(), names[7], "what is there is not written again");
        assert_eq!(files(), 151);
        drop(batch);
        assert_eq!(files(), 150, "a batch that was given up leaves nothing");
    }

    fn walkdir(dir: &Path) -> usize {
        let entries = fs::read_dir(dir).unwrap().flatten();
        entries.map(|entry| if entry.path().is_dir() { walkdir(&entry.path()) } else { 1 }).sum()
    }
}
