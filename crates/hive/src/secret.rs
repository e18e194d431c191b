//! Secrets by which processes prove on TCP who they are.
//!
//! **Invariant.** A secret names one process and is compared in constant time. What is printed of this holds none.

use crate::metadata::parse_pid;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::fmt;
use subtle::ConstantTimeEq;

const SECRET_BYTES: usize = 32;

/// The system gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("no secret could be made")]
pub struct SecretError(#[from] getrandom::Error);

/// The secrets of the processes that live.
#[derive(Default)]
pub struct ProcessSecrets {
    by_pid: RwLock<HashMap<u64, [u8; SECRET_BYTES]>>,
}

impl ProcessSecrets {
    /// A new secret of a process; an earlier one of it counts no more. It begins with the pid, so that one comparison is enough.
    pub fn issue(&self, pid: u64) -> Result<String, SecretError> {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret)?;
        let mut text = format!("{pid}.");
        for byte in secret {
            text.push_str(&format!("{byte:02x}"));
        }
        self.by_pid.write().insert(pid, secret);
        Ok(text)
    }

    /// The process is gone, and its secret with it.
    pub fn revoke(&self, pid: u64) {
        self.by_pid.write().remove(&pid);
    }

    /// Whose secret this is.
    pub fn owner(&self, text: &[u8]) -> Option<u64> {
        let dot = text.iter().position(|byte| *byte == b'.')?;
        let pid = parse_pid(&text[..dot])?;
        let said = unhexed(&text[dot + 1..])?;
        let known = self.by_pid.read().get(&pid).copied()?;
        bool::from(known.ct_eq(&said)).then_some(pid)
    }
}

impl fmt::Debug for ProcessSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ProcessSecrets").field("processes", &self.by_pid.read().len()).finish_non_exhaustive()
    }
}

fn unhexed(text: &[u8]) -> Option<[u8; SECRET_BYTES]> {
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    let pairs: &[[u8; 2]; SECRET_BYTES] = pairs.try_into().ok()?;
    let mut bytes = [0; SECRET_BYTES];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// Lower case only, as it was issued: a secret has one spelling.
fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_of_the_process_that_it_was_issued_to_until_it_is_revoked() {
        let secrets = ProcessSecrets::default();
        let (seven, eight) = (secrets.issue(7).unwrap(), secrets.issue(8).unwrap());
        assert_eq!((secrets.owner(seven.as_bytes()), secrets.owner(eight.as_bytes())), (Some(7), Some(8)));

        let forged = seven.replacen("7.", "8.", 1);
        let (short, long, upper) = (&seven[..seven.len() - 1], format!("{seven}0"), seven.to_uppercase());
        let mut other = seven.clone().into_bytes();
        let last = other.len() - 1;
        other[last] = if other[last] == b'0' { b'1' } else { b'0' };
        for wrong in [forged.as_bytes(), short.as_bytes(), long.as_bytes(), &other, b"", b"7", b"7.", b".", b"9.00"] {
            assert_eq!(secrets.owner(wrong), None, "{}", String::from_utf8_lossy(wrong));
        }
        assert!(upper == seven || secrets.owner(upper.as_bytes()).is_none());

        let again = secrets.issue(7).unwrap();
        assert_eq!((secrets.owner(seven.as_bytes()), secrets.owner(again.as_bytes())), (None, Some(7)));
        secrets.revoke(7);
        assert_eq!((secrets.owner(again.as_bytes()), secrets.owner(eight.as_bytes())), (None, Some(8)));
    }

    #[test]
    fn what_is_printed_has_no_secret() {
        let secrets = ProcessSecrets::default();
        secrets.issue(7).unwrap();
        assert_eq!(format!("{secrets:?}"), "ProcessSecrets { processes: 1, .. }");
    }
}
