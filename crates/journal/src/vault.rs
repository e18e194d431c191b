//! The vault: encrypted originals of calls whose record is redacted, kept only until the call settles.
//!
//! Not fsynced: an original lost in a crash means a review, never a run of the redacted input.

use std::collections::HashSet;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use parking_lot::Mutex;
use sha2::Sha256;

use crate::chain::{hex, sha256};
use crate::error::JournalError;
use crate::files;

const NONCE_BYTES: usize = 24;

/// The store of originals.
pub struct Vault {
    dir: PathBuf,
    cipher: XChaCha20Poly1305,
    /// Keyed once; each digest starts from a copy.
    mac: Hmac<Sha256>,
    /// What is there, so that most calls, which have no original, never reach the disk.
    kept: Mutex<HashSet<PathBuf>>,
}

impl Vault {
    pub(crate) fn open(home: &Path) -> Result<Self, JournalError> {
        let dir = home.join("vault");
        files::private_dir(&dir)?;
        files::sweep(&dir);
        let path = home.join("keys").join("vault.key");
        let (key, _) = files::key(&path)?;
        // Two keys from one, so that a digest tells nothing about the cipher.
        let mut bytes = b"skep-vault-digest-1".to_vec();
        bytes.extend_from_slice(&key);
        let mac = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(&sha256(&bytes))
            .map_err(|error| JournalError::BadFile { path, why: error.to_string() })?;
        let listed = fs::read_dir(&dir).and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
        let kept = Mutex::new(listed.map_err(JournalError::io("list", &dir))?);
        Ok(Self { dir, cipher: XChaCha20Poly1305::new((&key).into()), mac, kept })
    }

    /// Keeps the original of a call.
    pub fn put(&self, call: &str, bytes: &[u8]) -> Result<(), JournalError> {
        self.write(call, bytes, false)
    }

    /// The same for what must outlive a crash: durable on return.
    pub fn put_durably(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        self.write(name, bytes, true)?;
        files::sync_dir(&self.dir)
    }

    fn write(&self, call: &str, bytes: &[u8], durable: bool) -> Result<(), JournalError> {
        let path = self.path(call);
        let nonce = files::random::<NONCE_BYTES>()?;
        let sealed = self
            .cipher
            .encrypt(&XNonce::from(nonce), Payload { msg: bytes, aad: call.as_bytes() })
            .map_err(|_| JournalError::BadFile { path: path.clone(), why: "the original is too large to encrypt".into() })?;
        let temp = files::temp_beside(&path)?;
        let written = files::create_private(&temp).and_then(|mut file| {
            file.write_all(&nonce)?;
            file.write_all(&sealed)?;
            if durable { file.sync_all() } else { Ok(()) }
        });
        written.map_err(JournalError::io("write", &temp))?;
        self.kept.lock().insert(path.clone());
        fs::rename(&temp, &path).map_err(JournalError::io("put in place", &path))
    }

    /// The original, or `None` where there is none any more. A changed file is an error, not an absence.
    pub fn get(&self, call: &str) -> Result<Option<Vec<u8>>, JournalError> {
        let path = self.path(call);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(JournalError::io("read", &path)(error)),
        };
        let opened = bytes
            .split_first_chunk::<NONCE_BYTES>()
            .and_then(|(nonce, sealed)| self.cipher.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: call.as_bytes() }).ok());
        match opened {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(JournalError::BadFile { path, why: format!("it is not the original of `{call}`") }),
        }
    }

    /// Deletes the original; says whether there was one.
    pub fn delete(&self, call: &str) -> Result<bool, JournalError> {
        let path = self.path(call);
        let removed = match fs::remove_file(&path) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(JournalError::io("remove", &path)(error)),
        };
        self.kept.lock().remove(&path);
        Ok(removed)
    }

    /// Whether there is an original to delete; asks no disk.
    pub fn has(&self, call: &str) -> bool {
        self.kept.lock().contains(&self.path(call))
    }

    /// Whether there is nothing at all.
    pub fn is_empty(&self) -> bool {
        self.kept.lock().is_empty()
    }

    /// A keyed digest of an original for its record: equal originals match, and nobody can guess them from it.
    pub fn digest(&self, bytes: &[u8]) -> String {
        let mut mac = self.mac.clone();
        mac.update(bytes);
        hex(&mac.finalize().into_bytes())
    }

    fn path(&self, call: &str) -> PathBuf {
        self.dir.join(hex(&sha256(call.as_bytes())[..16]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_original_belongs_to_its_call_and_key() {
        let home = tempfile::tempdir().unwrap();
        files::private_dir(&home.path().join("keys")).unwrap();
        let vault = Vault::open(home.path()).unwrap();
        vault.put("call-1", b"password=hunter2").unwrap();
        assert_eq!(vault.get("call-1").unwrap().as_deref(), Some(&b"password=hunter2"[..]));
        assert_eq!(vault.get("call-2").unwrap(), None);
        let stored = fs::read(vault.path("call-1")).unwrap();
        assert!(!stored.windows(7).any(|window| window == b"hunter2"));

        assert!(vault.has("call-1") && !vault.has("call-2"));
        let again = Vault::open(home.path()).unwrap();
        assert!(again.has("call-1") && !again.has("call-2"), "what an earlier kernel left is known");
        assert_eq!(again.digest(b"x"), vault.digest(b"x"));
        assert_ne!(vault.digest(b"x"), hex(&sha256(b"x")), "the digest is keyed");

        fs::copy(vault.path("call-1"), vault.path("call-3")).unwrap();
        assert!(matches!(vault.get("call-3"), Err(JournalError::BadFile { .. })), "an original can't stand in for another");
        assert!(vault.delete("call-1").unwrap());
        assert!(!vault.delete("call-1").unwrap() && !vault.has("call-1"));
        assert_eq!(vault.get("call-1").unwrap(), None);
    }
}
