//! Blobs: bytes kept by the SHA-256 of their content, each encrypted with a key of its own.
//!
//! A record names a blob by its hash. Forgetting a blob destroys its key: the bytes are gone, in every copy of `blobs/`
//! too, and the chain that names them still verifies.

mod batch;
mod forget;

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};

use crate::chain::from_hex;
use crate::error::JournalError;
use crate::files;
pub use batch::Batch;
pub use forget::KeptBlob;

const CHUNK_BYTES: usize = 64 << 10;
const TAG_BYTES: usize = 16;

/// Why a blob can't be put or got.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    #[error("`{name}` is not the name of a blob")]
    BadName { name: String },
    #[error("there is no blob `{name}`")]
    Missing { name: String },
    #[error("blob `{name}` was forgotten")]
    Forgotten { name: String },
    #[error("blob `{name}` was changed on disk")]
    Changed { name: String },
    #[error("more than {max} bytes")]
    TooLarge { max: u64 },
    #[error("could not read what to keep")]
    Source(#[source] io::Error),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// The store of blobs.
pub struct Blobs {
    dir: PathBuf,
    keys: Mutex<Connection>,
}

impl Blobs {
    pub(crate) fn open(home: &Path) -> Result<Self, JournalError> {
        let dir = home.join("blobs");
        files::private_dir(&dir)?;
        files::sweep(&dir);
        let path = home.join("keys").join("blobs.db");
        files::create_private(&path).map_err(JournalError::io("open", &path))?;
        let keys = Connection::open(&path).map_err(JournalError::db("open the blob keys"))?;
        keys.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON; PRAGMA cache_size = -256;
             CREATE TABLE IF NOT EXISTS key (name BLOB PRIMARY KEY, key BLOB) WITHOUT ROWID",
        )
        .map_err(JournalError::db("set up the blob keys"))?;
        Ok(Self { dir, keys: Mutex::new(keys) })
    }

    /// Keeps the bytes and returns their name, 64 hex digits. Durable on return.
    pub fn put(&self, bytes: &[u8]) -> Result<String, BlobError> {
        let batch = self.batch();
        let name = batch.put(bytes)?;
        batch.commit()?;
        Ok(name)
    }

    /// Keeps what the reader yields, if it is no more than `max` bytes; returns name and length.
    pub fn put_from(&self, source: &mut dyn Read, max: u64) -> Result<(String, u64), BlobError> {
        let batch = self.batch();
        let kept = batch.put_from(source, max)?;
        batch.commit()?;
        Ok(kept)
    }

    /// Many blobs that are made durable together, which costs little more than one.
    pub fn batch(&self) -> Batch<'_> {
        Batch { blobs: self, staged: Mutex::default() }
    }

    /// Encrypts to a file that is not durable yet.
    fn write(&self, source: &mut dyn Read, max: u64, key: &[u8; 32], temp: &Path) -> Result<([u8; 32], u64), BlobError> {
        let cipher = XChaCha20Poly1305::new(key.into());
        let mut file = files::create_private(temp).map_err(JournalError::io("make", temp))?;
        let mut hasher = Sha256::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        let (mut len, mut index) = (0u64, 0u64);
        loop {
            let filled = fill(source, &mut chunk).map_err(BlobError::Source)?;
            len += filled as u64;
            if len > max {
                return Err(BlobError::TooLarge { max });
            }
            let is_last = filled < CHUNK_BYTES;
            hasher.update(&chunk[..filled]);
            let sealed = cipher.encrypt(&nonce(index, is_last), &chunk[..filled]).map_err(|_| BlobError::TooLarge { max })?;
            file.write_all(&sealed).map_err(JournalError::io("write", temp))?;
            index += 1;
            if is_last {
                break;
            }
        }
        Ok((hasher.finalize().into(), len))
    }

    /// The bytes of a blob, checked against its name.
    pub fn get(&self, name: &str) -> Result<Vec<u8>, BlobError> {
        let mut bytes = Vec::new();
        self.read_into(name, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes the blob to `out` piece by piece. Each piece is authentic; an error at the end voids the whole.
    pub fn read_into(&self, name: &str, out: &mut dyn Write) -> Result<u64, BlobError> {
        let path = self.path(name)?;
        let hash = from_hex::<32>(name).ok_or_else(|| BlobError::BadName { name: name.into() })?;
        let key = match key_of(&self.keys.lock(), &hash)? {
            Some(Some(key)) => key,
            Some(None) => return Err(BlobError::Forgotten { name: name.into() }),
            None => return Err(BlobError::Missing { name: name.into() }),
        };
        decrypt(&path, name, &hash, &key, out)
    }

    /// Whether the blob is there and readable by key; its bytes are not checked.
    pub fn has(&self, name: &str) -> Result<bool, BlobError> {
        let hash = from_hex::<32>(name).ok_or_else(|| BlobError::BadName { name: name.into() })?;
        Ok(matches!(key_of(&self.keys.lock(), &hash)?, Some(Some(_))) && self.path(name)?.exists())
    }

    /// Only hex digits reach the file system.
    fn path(&self, name: &str) -> Result<PathBuf, BlobError> {
        match from_hex::<32>(name) {
            Some(_) => Ok(self.dir.join(&name[..2]).join(&name[2..])),
            None => Err(BlobError::BadName { name: name.into() }),
        }
    }
}

/// Writes what the file of a blob holds to `out`.
pub(crate) fn decrypt(path: &Path, name: &str, hash: &[u8; 32], key: &[u8; 32], out: &mut dyn Write) -> Result<u64, BlobError> {
    let changed = || BlobError::Changed { name: name.into() };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(BlobError::Missing { name: name.into() }),
        Err(error) => return Err(JournalError::io("read", path)(error).into()),
    };
    let cipher = XChaCha20Poly1305::new(key.into());
    let mut file = BufReader::with_capacity(CHUNK_BYTES + TAG_BYTES, file);
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES + TAG_BYTES];
    let (mut len, mut index) = (0, 0);
    loop {
        let filled = fill(&mut file, &mut chunk).map_err(JournalError::io("read", path))?;
        let is_last = filled < chunk.len();
        let plain = cipher.decrypt(&nonce(index, is_last), &chunk[..filled]).map_err(|_| changed())?;
        hasher.update(&plain);
        out.write_all(&plain).map_err(BlobError::Source)?;
        len += plain.len() as u64;
        index += 1;
        if is_last {
            break;
        }
    }
    let found: [u8; 32] = hasher.finalize().into();
    if found == *hash { Ok(len) } else { Err(changed()) }
}

/// The key of a blob; the inner `None` is a destroyed one.
pub(crate) fn key_of(keys: &Connection, hash: &[u8; 32]) -> Result<Option<Option<[u8; 32]>>, JournalError> {
    let found: Option<Option<Vec<u8>>> = keys
        .prepare_cached("SELECT key FROM key WHERE name = ?1")
        .and_then(|mut select| select.query_row([&hash[..]], |row| row.get(0)).optional())
        .map_err(JournalError::db("read the blob key"))?;
    Ok(found.map(|key| key.and_then(|key| key.try_into().ok())))
}

/// Unique under its key, because a key encrypts one blob once. The last piece is marked, so a cut file does not decrypt.
fn nonce(index: u64, is_last: bool) -> XNonce {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&index.to_be_bytes());
    bytes[8] = u8::from(is_last);
    XNonce::from(bytes)
}

fn fill(source: &mut dyn Read, chunk: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < chunk.len() {
        match source.read(&mut chunk[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::hex;
    use std::fs;

    pub(super) fn store() -> (tempfile::TempDir, Blobs) {
        let home = tempfile::tempdir().unwrap();
        files::private_dir(&home.path().join("keys")).unwrap();
        let blobs = Blobs::open(home.path()).unwrap();
        (home, blobs)
    }

    fn file_of(home: &Path, name: &str) -> PathBuf {
        home.join("blobs").join(&name[..2]).join(&name[2..])
    }

    #[test]
    fn bytes_come_back_and_are_not_in_the_clear() {
        let (home, blobs) = store();
        for len in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES] {
            let bytes: Vec<u8> = (0..len).map(|i| u8::try_from(i % 251).unwrap()).collect();
            let name = blobs.put(&bytes).unwrap();
            assert_eq!(name, hex(&crate::chain::sha256(&bytes)));
            assert_eq!(blobs.get(&name).unwrap(), bytes);
            assert_eq!(blobs.put(&bytes).unwrap(), name);
            let stored = fs::read(file_of(home.path(), &name)).unwrap();
            assert!(len < 16 || !stored.windows(16).any(|window| window == &bytes[..16]));
        }
    }

    #[test]
    fn a_changed_or_cut_file_is_noticed() {
        let (home, blobs) = store();
        let name = blobs.put(&vec![7; 2 * CHUNK_BYTES]).unwrap();
        let path = file_of(home.path(), &name);
        let good = fs::read(&path).unwrap();
        let mut bad = good.clone();
        bad[70_000] ^= 1;
        for bytes in [&bad[..], &good[..CHUNK_BYTES + TAG_BYTES], &[]] {
            fs::write(&path, bytes).unwrap();
            assert!(matches!(blobs.get(&name), Err(BlobError::Changed { .. })));
        }
        fs::write(&path, &good).unwrap();
        assert!(blobs.get(&name).is_ok(), "control");
    }

    #[test]
    fn a_forgotten_blob_stays_forgotten_even_in_a_copy() {
        let (home, blobs) = store();
        let name = blobs.put(b"to be forgotten").unwrap();
        let copy = fs::read(file_of(home.path(), &name)).unwrap();
        let key = key_of(&blobs.keys.lock(), &from_hex(&name).unwrap()).unwrap().unwrap().unwrap();
        assert_eq!(blobs.forget(std::slice::from_ref(&name), None).unwrap(), 1);
        assert_eq!(blobs.forget(std::slice::from_ref(&name), None).unwrap(), 0);
        fs::write(file_of(home.path(), &name), copy).unwrap();
        assert!(matches!(blobs.get(&name), Err(BlobError::Forgotten { .. })));
        for file in ["blobs.db", "blobs.db-wal"] {
            let bytes = fs::read(home.path().join("keys").join(file)).unwrap_or_default();
            assert!(!bytes.windows(32).any(|window| window == key), "the key survives in {file}");
        }
        assert_eq!(blobs.put(b"to be forgotten").unwrap(), name);
    }

    #[test]
    fn what_is_kept_again_meanwhile_is_not_forgotten() {
        let (_home, blobs) = store();
        let (once, twice) = (blobs.put(b"once").unwrap(), blobs.put(b"twice").unwrap());
        let mut listed: Vec<String> = blobs.list().unwrap().into_iter().map(|blob| blob.name).collect();
        listed.sort();
        let mut both = vec![once.clone(), twice.clone()];
        both.sort();
        assert_eq!(listed, both);
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
        for name in &both {
            File::options().append(true).open(blobs.path(name).unwrap()).unwrap().set_modified(old).unwrap();
        }
        let since = old + std::time::Duration::from_secs(1);
        assert_eq!(blobs.put(b"twice").unwrap(), twice);
        assert_eq!(blobs.forget(&both, Some(since)).unwrap(), 1);
        assert!(matches!(blobs.get(&once), Err(BlobError::Forgotten { .. })) && blobs.get(&twice).is_ok());
    }

    #[test]
    fn a_reader_is_capped_and_leaves_nothing_behind() {
        let (home, blobs) = store();
        let source = vec![1; 100_000];
        assert!(matches!(blobs.put_from(&mut &source[..], 99_999), Err(BlobError::TooLarge { max: 99_999 })));
        assert_eq!(fs::read_dir(home.path().join("blobs")).unwrap().count(), 0);
        assert_eq!(blobs.put_from(&mut &source[..], 100_000).unwrap().1, 100_000);
    }

    #[test]
    fn writers_of_the_same_bytes_do_not_hurt_each_other() {
        let (_home, blobs) = store();
        for round in 0..10u8 {
            let bytes = [round; 100];
            std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(|| blobs.put(&bytes).unwrap()))));
            assert_eq!(blobs.get(&hex(&crate::chain::sha256(&bytes))).unwrap(), bytes);
        }
    }

    #[test]
    fn only_a_hash_is_a_name() {
        let (_home, blobs) = store();
        for name in ["", "../../etc/passwd", "ab", &"A".repeat(64), &"/".repeat(64)] {
            assert!(matches!(blobs.get(name), Err(BlobError::BadName { .. })), "{name}");
        }
        assert!(matches!(blobs.get(&"0".repeat(64)), Err(BlobError::Missing { .. })));
    }
}
