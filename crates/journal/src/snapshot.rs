//! A folded world at some record, so that boot does not replay from zero.
//!
//! Signed and bound to its record and its chain: a snapshot that is not ours, or not of this history, is not used.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ed25519_dalek::{SigningKey, VerifyingKey};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::chain::{Genesis, hex, sha256};
use crate::error::JournalError;
use crate::verify::{Finding, Flaw};
use crate::{files, seal, store};

/// The world as it was after record `seq`, in whatever bytes the kernel keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub seq: u64,
    pub bytes: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    v: u32,
    seq: u64,
    /// Hash of record `seq`'s line.
    hash: String,
    genesis: String,
    /// Hash of the bytes after the header line.
    body: String,
    sig: String,
}

impl Header {
    fn message(&self) -> String {
        format!("skep-snapshot-1\n{}\n{}\n{}\n{}\n", self.seq, self.hash, self.genesis, self.body)
    }
}

fn slots(home: &Path) -> [PathBuf; 2] {
    [home.join("snapshot.0"), home.join("snapshot.1")]
}

/// Replaces the older of the two kept snapshots.
pub(crate) fn save(home: &Path, key: &SigningKey, genesis: &Genesis, line: [u8; 32], snapshot: &Snapshot) -> Result<(), JournalError> {
    let mut header = Header {
        v: 1,
        seq: snapshot.seq,
        hash: hex(&line),
        genesis: hex(&genesis.hash()),
        body: hex(&sha256(&snapshot.bytes)),
        sig: String::new(),
    };
    header.sig = seal::sign(key, header.message().as_bytes());
    let [first, second] = slots(home);
    let newer_first = header_seq(&first) > header_seq(&second);
    let path = if newer_first { second } else { first };
    let line = serde_json::to_vec(&header).map_err(|error| JournalError::io("write", &path)(error.into()))?;
    files::replace(&path, &[&line, b"\n", &snapshot.bytes])
}

/// The newest snapshot of this history, and why the others were passed over. Bad files are moved aside, not deleted.
pub(crate) fn load(
    home: &Path,
    key: &VerifyingKey,
    genesis: &Genesis,
    db: &Connection,
) -> Result<(Option<Snapshot>, Vec<Finding>), JournalError> {
    let mut best: Option<Snapshot> = None;
    let mut findings = Vec::new();
    for path in slots(home) {
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(JournalError::io("read", &path)(error)),
        };
        match check(&bytes, key, genesis, db)? {
            Ok(snapshot) if best.as_ref().is_none_or(|best| best.seq < snapshot.seq) => best = Some(snapshot),
            Ok(_) => {}
            Err((seq, why)) => {
                let aside = crate::evidence::place(home, "snapshot")?;
                fs::rename(&path, &aside).map_err(JournalError::io("move aside", &path))?;
                findings.push(Finding { seq, what: Flaw::BadSnapshot, why: format!("{why}; kept as `{}`", name(&aside)) });
            }
        }
    }
    Ok((best, findings))
}

type Checked = Result<Snapshot, (Option<u64>, String)>;

fn check(bytes: &[u8], key: &VerifyingKey, genesis: &Genesis, db: &Connection) -> Result<Checked, JournalError> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return Ok(Err((None, "the snapshot has no header".into())));
    };
    let header: Header = match serde_json::from_slice(&bytes[..end]) {
        Ok(header) => header,
        Err(error) => return Ok(Err((None, format!("the snapshot has no header: {error}")))),
    };
    let refuse = |why: &str| Ok(Err((Some(header.seq), why.to_owned())));
    let body = &bytes[end + 1..];
    if header.v != 1 || !seal::is_signed(key, header.message().as_bytes(), &header.sig) {
        return refuse("the snapshot's signature is not by the seal key");
    }
    if header.body != hex(&sha256(body)) {
        return refuse("the snapshot's bytes were changed");
    }
    if header.genesis != hex(&genesis.hash()) {
        return refuse("the snapshot is of another journal");
    }
    if store::line_hash(db, header.seq)?.map(|hash| hex(&hash)) != Some(header.hash) {
        return refuse("the snapshot's record is not in the journal");
    }
    Ok(Ok(Snapshot { seq: header.seq, bytes: body.to_vec() }))
}

/// Only to choose which slot to replace; nothing is trusted by it.
fn header_seq(path: &Path) -> Option<u64> {
    use std::io::{BufRead, BufReader, Read};
    let mut line = Vec::new();
    let file = fs::File::open(path).ok()?;
    BufReader::new(file.take(4096)).read_until(b'\n', &mut line).ok()?;
    serde_json::from_slice::<Header>(&line).ok().map(|header| header.seq)
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
