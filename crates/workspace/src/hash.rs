//! SHA-256 in hex, the name of everything.

use sha2::{Digest, Sha256};

pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Of all that can be read.
pub fn sha256_of(mut from: impl std::io::Read) -> std::io::Result<String> {
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 128 * 1024]);
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(hex(&hash.finalize())),
            count => hash.update(&piece[..count]),
        }
    }
}

/// Hash of several parts that cannot be confused with each other: each is preceded by its length.
pub fn of_parts(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}
