//! Bodies: short texts that stand beside records, under a number, encrypted, and go when nobody needs them any more.
//!
//! They are written and removed in the transaction of the records that say so, and cost no sync of their own. No line of the chain holds
//! them, so one that is gone changes nothing that verifies. **Invariant.** A body is there exactly as long as its records say.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use rusqlite::{Connection, OptionalExtension};

use crate::error::JournalError;
use crate::files;

const NONCE_BYTES: usize = 24;
const OPENING_BYTES: usize = 16;

pub(crate) const TABLE: (&str, &str) = ("body", "CREATE TABLE body (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL)");

/// Bodies that come and go with a batch of records.
#[derive(Clone, Default)]
pub struct BodyChanges {
    pub put: Vec<(u64, std::sync::Arc<[u8]>)>,
    pub remove: Vec<u64>,
}

impl BodyChanges {
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.remove.is_empty()
    }

    pub fn append(&mut self, mut other: BodyChanges) {
        self.put.append(&mut other.put);
        self.remove.append(&mut other.remove);
    }

    pub(crate) fn len(&self) -> usize {
        self.put.iter().map(|(_, bytes)| bytes.len() + NONCE_BYTES + 32).sum::<usize>() + 16 * self.remove.len()
    }
}

/// Encrypts bodies, each bound to its number.
pub(crate) struct BodyCipher {
    cipher: XChaCha20Poly1305,
    /// Random for each opening of the journal; with a count it is a nonce that is used once.
    opening: [u8; OPENING_BYTES],
    count: AtomicU64,
}

impl BodyCipher {
    pub(crate) fn open(keys: &Path) -> Result<Self, JournalError> {
        let (key, _) = files::key(&keys.join("bodies.key"))?;
        Ok(Self { cipher: XChaCha20Poly1305::new((&key).into()), opening: files::random()?, count: AtomicU64::new(0) })
    }

    fn seal(&self, id: u64, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_BYTES];
        nonce[..OPENING_BYTES].copy_from_slice(&self.opening);
        nonce[OPENING_BYTES..].copy_from_slice(&self.count.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        let sealed = self.cipher.encrypt(&XNonce::from(nonce), Payload { msg: bytes, aad: &id.to_be_bytes() }).ok()?;
        Some([&nonce[..], &sealed].concat())
    }

    fn unseal(&self, id: u64, stored: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = stored.split_first_chunk::<NONCE_BYTES>()?;
        self.cipher.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: &id.to_be_bytes() }).ok()
    }

    /// Inside the transaction of the records.
    pub(crate) fn write(&self, db: &Connection, changes: &BodyChanges) -> Result<(), rusqlite::Error> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut insert = db.prepare_cached("INSERT OR REPLACE INTO body (id, bytes) VALUES (?1, ?2)")?;
        for (id, bytes) in &changes.put {
            let sealed = self.seal(*id, bytes).ok_or_else(|| rusqlite::Error::ToSqlConversionFailure("a body is too large".into()))?;
            insert.execute((id.cast_signed(), sealed))?;
        }
        let mut delete = db.prepare_cached("DELETE FROM body WHERE id = ?1")?;
        changes.remove.iter().try_for_each(|id| delete.execute([id.cast_signed()]).map(drop))
    }

    /// What stands under a number. A changed one is an error, not an absence.
    pub(crate) fn read(&self, db: &Connection, id: u64, path: &Path) -> Result<Option<Vec<u8>>, JournalError> {
        let stored: Option<Vec<u8>> = db
            .prepare_cached("SELECT bytes FROM body WHERE id = ?1")
            .and_then(|mut select| select.query_row([id.cast_signed()], |row| row.get(0)).optional())
            .map_err(JournalError::db("read a body"))?;
        let bad = || JournalError::BadFile { path: path.to_owned(), why: format!("body {id} was changed on disk") };
        stored.map(|stored| self.unseal(id, &stored).ok_or_else(bad)).transpose()
    }
}

/// The numbers of all bodies that are there.
pub(crate) fn ids(db: &Connection) -> Result<Vec<u64>, JournalError> {
    let mut select = db.prepare("SELECT id FROM body ORDER BY id").map_err(JournalError::db("list the bodies"))?;
    let rows = select.query_map([], |row| row.get::<_, i64>(0)).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    Ok(rows.map_err(JournalError::db("list the bodies"))?.into_iter().map(i64::cast_unsigned).collect())
}
