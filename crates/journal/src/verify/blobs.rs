//! Looks after the blobs: whether those that records name are there, and whether they are what they were.
//!
//! A destroyed key is in order if a record says that the blob was forgotten, and a loss otherwise.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::{Checker, Flaw, Names};
use crate::blob::{self, BlobError};
use crate::chain::{Hash, from_hex, hex};
use crate::error::JournalError;

/// Keys of one slice.
const SLICE_KEYS: usize = 1_000;

/// How closely a blob is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Whether it is there.
    Presence,
    /// Every byte of it.
    Contents,
}

/// What a record says about blobs, by their names.
pub(super) struct NamedBlobs {
    kept: Vec<String>,
    forgotten: Vec<String>,
}

impl NamedBlobs {
    /// `None` where it says nothing about any.
    pub(super) fn of(names: Names, kind: &str, payload: &str) -> Option<Self> {
        let (kept, forgotten) = names(kind, payload);
        (!kept.is_empty() || !forgotten.is_empty()).then_some(Self { kept, forgotten })
    }
}

pub(crate) struct BlobCheck {
    dir: PathBuf,
    /// `None` where there is no such file.
    keys: Option<Connection>,
    names: Names,
    /// Blobs without a key that no record has spoken of yet. Taken before the walk, so that one which is forgotten meanwhile is not
    /// among them.
    destroyed: HashSet<Hash>,
    /// Blobs that were told of already.
    told: HashSet<Hash>,
}

impl BlobCheck {
    pub(super) fn open(home: &Path, names: Names) -> Result<Self, JournalError> {
        let path = home.join("keys").join("blobs.db");
        let open = |path: &Path| Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX);
        let keys = match path.exists() {
            true => Some(open(&path).map_err(JournalError::db("open the blob keys"))?),
            false => None,
        };
        let mut check = Self { dir: home.join("blobs"), keys, names, destroyed: HashSet::new(), told: HashSet::new() };
        if let Some(keys) = &check.keys {
            check.destroyed = destroyed(keys).map_err(JournalError::db("read the blob keys"))?;
        }
        Ok(check)
    }

    /// The blobs that a record names.
    pub(super) fn named(&self, kind: &str, payload: &str) -> Option<NamedBlobs> {
        NamedBlobs::of(self.names, kind, payload)
    }

    /// What is wrong with them.
    pub(super) fn see(&mut self, NamedBlobs { kept, forgotten }: &NamedBlobs) -> Vec<String> {
        for hash in forgotten.iter().filter_map(|name| from_hex::<32>(name)) {
            self.destroyed.remove(&hash);
        }
        let mut wrong = Vec::new();
        for name in kept {
            let Some(hash) = from_hex::<32>(name) else { continue };
            let known = self.keys.as_ref().is_some_and(|keys| matches!(blob::key_of(keys, &hash), Ok(Some(_))));
            if !known && self.told.insert(hash) {
                wrong.push(format!("it names blob `{name}`, which has no key"));
            }
        }
        wrong
    }

    /// The blobs that have a key, after `after`.
    fn slice(&self, after: &[u8]) -> Result<Vec<Hash>, JournalError> {
        let Some(keys) = &self.keys else { return Ok(Vec::new()) };
        let sql = format!("SELECT name FROM key WHERE name > ?1 AND key IS NOT NULL ORDER BY name LIMIT {SLICE_KEYS}");
        let found = keys.prepare_cached(&sql).and_then(|mut select| {
            let rows = select.query_map([after], |row| row.get::<_, Vec<u8>>(0))?;
            rows.collect::<Result<Vec<_>, _>>()
        });
        let found = found.map_err(JournalError::db("read the blob keys"))?;
        Ok(found.into_iter().filter_map(|name| name.try_into().ok()).collect())
    }

    fn look(&self, hash: &Hash, depth: Depth) -> Option<(Flaw, String)> {
        let keys = self.keys.as_ref()?;
        let name = hex(hash);
        // One whose key is gone by now is forgotten at this moment.
        let Ok(Some(Some(key))) = blob::key_of(keys, hash) else { return None };
        let path = self.dir.join(&name[..2]).join(&name[2..]);
        let result = match depth {
            Depth::Presence => match fs::metadata(&path) {
                Ok(_) => Ok(0),
                Err(_) => Err(BlobError::Missing { name: name.clone() }),
            },
            Depth::Contents => blob::decrypt(&path, &name, hash, &key, &mut std::io::sink()),
        };
        let (flaw, why) = match result {
            Ok(_) => return None,
            Err(BlobError::Missing { .. }) => (Flaw::BlobMissing, format!("there is a key for blob `{name}` and no file")),
            Err(error) => (Flaw::BlobChanged, format!("blob `{name}` cannot be read: {error}")),
        };
        match blob::key_of(keys, hash) {
            Ok(Some(Some(now))) if now == key => Some((flaw, why)),
            // It was forgotten, or forgotten and kept anew, while we looked.
            _ => None,
        }
    }
}

fn destroyed(keys: &Connection) -> Result<HashSet<Hash>, rusqlite::Error> {
    let mut select = keys.prepare("SELECT name FROM key WHERE key IS NULL")?;
    let names = select.query_map([], |row| row.get::<_, Vec<u8>>(0))?;
    names.filter_map(|name| name.map(|name| name.try_into().ok()).transpose()).collect()
}

/// After all records: what no record explains, and what is not on disk. `false` when `go_on` said no.
pub(super) fn finish(checker: &mut Checker, depth: Depth, go_on: &dyn Fn() -> bool) -> Result<bool, JournalError> {
    let Some(check) = checker.blobs.take() else { return Ok(true) };
    let mut lost: Vec<String> = check.destroyed.iter().map(|hash| hex(hash)).collect();
    lost.sort();
    for name in lost {
        checker.found(None, Flaw::BlobMissing, format!("the key of blob `{name}` was destroyed, and no record says that it was forgotten"));
    }
    let mut after = Vec::new();
    loop {
        let slice = check.slice(&after)?;
        let Some(last) = slice.last() else { return Ok(true) };
        after = last.to_vec();
        for hash in &slice {
            if !go_on() {
                return Ok(false);
            }
            if let Some((what, why)) = check.look(hash, depth) {
                checker.found(None, what, why);
            }
        }
    }
}
