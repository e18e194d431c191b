//! The seal: a signed head outside the database, so that a cut tail or a swapped file shows.
//!
//! Two slots are written in turn, in place and fsynced; a slot torn by a crash loses to the other. The slots never grow,
//! so a full disk does not stop a seal.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::chain::{Genesis, Tip, from_hex, hex};
use crate::error::JournalError;
use crate::files;

const SLOT_BYTES: usize = 512;

/// What a slot says. `seq` is the last record's; with `count` 0 it is 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seal {
    pub v: u32,
    pub seq: u64,
    pub hash: String,
    pub count: u64,
    pub genesis: String,
    sig: String,
}

impl Seal {
    fn message(seq: u64, hash: &str, count: u64, genesis: &str) -> String {
        format!("skep-seal-1\n{seq}\n{hash}\n{count}\n{genesis}\n")
    }

    fn is_signed_by(&self, key: &VerifyingKey) -> bool {
        let message = Self::message(self.seq, &self.hash, self.count, &self.genesis);
        self.v == 1 && is_signed(key, message.as_bytes(), &self.sig)
    }
}

/// What the two slots together say.
pub(crate) enum Slots {
    /// The newest slot with a good signature.
    Sealed(Seal),
    Missing,
    /// There are slots, and none has a good signature; with the reason.
    Forged(String),
}

impl Slots {
    /// The good seal, where there is one.
    pub(crate) fn sealed(&self) -> Option<&Seal> {
        match self {
            Slots::Sealed(seal) => Some(seal),
            Slots::Missing | Slots::Forged(_) => None,
        }
    }
}

pub(crate) struct Sealer {
    paths: [PathBuf; 2],
    files: [File; 2],
    key: SigningKey,
    genesis: String,
    next_slot: usize,
}

impl Sealer {
    pub(crate) fn open(home: &Path, key: SigningKey, genesis: &Genesis) -> Result<Self, JournalError> {
        let paths = slot_paths(home);
        let open = |path: &PathBuf| files::create_private(path).map_err(JournalError::io("open the seal", path));
        let files = [open(&paths[0])?, open(&paths[1])?];
        files::sync_dir(home)?;
        // The slot with the newer seal must survive a crash during the next one.
        let counts = paths.each_ref().map(|path| read_slot(path, &key.verifying_key()).ok().flatten().map(|seal| seal.count));
        let next_slot = usize::from(counts[1] < counts[0]);
        Ok(Self { paths, files, key, genesis: hex(&genesis.hash()), next_slot })
    }

    /// Signs the head and has it on disk before returning.
    pub(crate) fn seal(&mut self, tip: &Tip) -> Result<(), JournalError> {
        let head = tip.head();
        let message = Seal::message(head.seq, &head.hash, head.count, &self.genesis);
        let sig = sign(&self.key, message.as_bytes());
        let seal = Seal { v: 1, seq: head.seq, hash: head.hash, count: head.count, genesis: self.genesis.clone(), sig };
        let slot = self.next_slot;
        let written = serde_json::to_vec(&seal).map_err(Into::into).and_then(|mut bytes| {
            bytes.resize(SLOT_BYTES - 1, b' ');
            bytes.push(b'\n');
            self.files[slot].write_all_at(&bytes, 0)?;
            self.files[slot].sync_data()
        });
        written.map_err(JournalError::io("write the seal", &self.paths[slot]))?;
        self.next_slot = 1 - slot;
        Ok(())
    }
}

pub(crate) fn slot_paths(home: &Path) -> [PathBuf; 2] {
    [home.join("seal.0"), home.join("seal.1")]
}

pub(crate) fn read(home: &Path, key: &VerifyingKey) -> Result<Slots, JournalError> {
    let mut best: Option<Seal> = None;
    let mut forged = None;
    for path in slot_paths(home) {
        match read_slot(&path, key) {
            Ok(Some(seal)) if best.as_ref().is_none_or(|best| best.count <= seal.count) => best = Some(seal),
            Ok(_) => {}
            Err(SlotError::Bad(why)) => forged = Some(why),
            Err(SlotError::Io(error)) => return Err(JournalError::io("read the seal", &path)(error)),
        }
    }
    Ok(match (best, forged) {
        (Some(seal), _) => Slots::Sealed(seal),
        (None, Some(why)) => Slots::Forged(why),
        (None, None) => Slots::Missing,
    })
}

enum SlotError {
    Io(std::io::Error),
    Bad(String),
}

fn read_slot(path: &Path, key: &VerifyingKey) -> Result<Option<Seal>, SlotError> {
    let bytes = match fs::read(path) {
        Ok(bytes) if bytes.is_empty() => return Ok(None),
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(SlotError::Io(error)),
    };
    match serde_json::from_slice::<Seal>(&bytes) {
        Ok(seal) if seal.is_signed_by(key) => Ok(Some(seal)),
        Ok(_) => Err(SlotError::Bad("its signature is not by the key in keys/seal.pub".into())),
        Err(error) => Err(SlotError::Bad(format!("it is not a seal: {error}"))),
    }
}

/// The signing key, made on first use, with its public half beside it. Says whether it was made.
pub(crate) fn signing_key(keys: &Path) -> Result<(SigningKey, bool), JournalError> {
    let (seed, made) = files::key(&keys.join("seal.key"))?;
    let key = SigningKey::from_bytes(&seed);
    let public = keys.join("seal.pub");
    let expected = format!("{}\n", hex(key.verifying_key().as_bytes()));
    match fs::read_to_string(&public) {
        Ok(text) if text == expected => {}
        Ok(_) => return Err(JournalError::BadFile { path: public, why: "it does not belong to seal.key".into() }),
        Err(error) if error.kind() == ErrorKind::NotFound => files::replace(&public, &[expected.as_bytes()])?,
        Err(error) => return Err(JournalError::io("read", &public)(error)),
    }
    Ok((key, made))
}

pub(crate) fn public_key(keys: &Path) -> Result<VerifyingKey, JournalError> {
    let path = keys.join("seal.pub");
    let text = fs::read_to_string(&path).map_err(JournalError::io("read", &path))?;
    from_hex::<32>(text.trim_end())
        .and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok())
        .ok_or_else(|| JournalError::BadFile { path, why: "it is not an Ed25519 public key in hex".into() })
}

pub(crate) fn sign(key: &SigningKey, message: &[u8]) -> String {
    hex(&key.sign(message).to_bytes())
}

pub(crate) fn is_signed(key: &VerifyingKey, message: &[u8], sig: &str) -> bool {
    from_hex::<64>(sig).is_some_and(|sig| key.verify_strict(message, &Signature::from_bytes(&sig)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_slot_loses_to_the_other() {
        let home = tempfile::tempdir().unwrap();
        let key = SigningKey::from_bytes(&[7; 32]);
        let genesis = Genesis([1; 32]);
        let mut sealer = Sealer::open(home.path(), key.clone(), &genesis).unwrap();
        for count in 1..=4 {
            sealer.seal(&Tip { count, hash: [u8::try_from(count).unwrap(); 32] }).unwrap();
        }
        let read_count = || match read(home.path(), &key.verifying_key()).unwrap() {
            Slots::Sealed(seal) => seal.count,
            _ => panic!("not sealed"),
        };
        assert_eq!(read_count(), 4, "control: the newest slot wins");
        let newest =
            slot_paths(home.path()).into_iter().max_by_key(|p| read_slot(p, &key.verifying_key()).ok().flatten().unwrap().count).unwrap();
        let mut bytes = fs::read(&newest).unwrap();
        bytes.truncate(100);
        fs::write(&newest, &bytes).unwrap();
        assert_eq!(read_count(), 3);
        let mut again = Sealer::open(home.path(), key.clone(), &genesis).unwrap();
        again.seal(&Tip { count: 5, hash: [5; 32] }).unwrap();
        assert_eq!(read_count(), 5);
        let other = slot_paths(home.path()).into_iter().find(|path| *path != newest).unwrap();
        assert!(matches!(read_slot(&other, &key.verifying_key()), Ok(Some(seal)) if seal.count == 3), "the good slot was not overwritten");
    }
}
