//! Git's binary patches: both contents whole, each in a zlib stream, in base 85.

use crate::hash::hex;
use sha1::{Digest, Sha1};

/// Bytes of a stream on one line.
const LINE_BYTES: usize = 52;
/// Bytes of one stored part of a zlib stream.
const STORED_BYTES: usize = 65_535;
/// So many bytes are summed before the sums could overflow.
const UNREDUCED_BYTES: usize = 5_552;
const DIGITS: &[u8; 85] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// The way from `old` to `new`, and back.
pub fn add(patch: &mut Vec<u8>, old: &[u8], new: &[u8], creates: bool, deletes: bool) {
    let name = |bytes: &[u8], absent: bool| if absent { "0".repeat(40) } else { object_name(bytes) };
    patch.extend_from_slice(format!("index {}..{}\nGIT binary patch\n", name(old, creates), name(new, deletes)).as_bytes());
    for bytes in [new, old] {
        patch.extend_from_slice(format!("literal {}\n", bytes.len()).as_bytes());
        for line in stored(bytes).chunks(LINE_BYTES) {
            add_line(patch, line);
        }
        patch.push(b'\n');
    }
}

/// What git calls a file's content.
fn object_name(bytes: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", bytes.len()));
    hash.update(bytes);
    hex(&hash.finalize())
}

/// A zlib stream that compresses nothing: a patch is read once, and git packs what it keeps.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let parts: Vec<&[u8]> = if bytes.is_empty() { vec![&[]] } else { bytes.chunks(STORED_BYTES).collect() };
    for (number, part) in parts.iter().enumerate() {
        // A part is at most as long as two bytes can say.
        let length = part.len() as u16;
        stream.push(u8::from(number + 1 == parts.len()));
        stream.extend_from_slice(&length.to_le_bytes());
        stream.extend_from_slice(&(!length).to_le_bytes());
        stream.extend_from_slice(part);
    }
    stream.extend_from_slice(&adler32(bytes).to_be_bytes());
    stream
}

fn adler32(bytes: &[u8]) -> u32 {
    let (mut low, mut high) = (1u32, 0u32);
    for some in bytes.chunks(UNREDUCED_BYTES) {
        for byte in some {
            low += u32::from(*byte);
            high += low;
        }
        (low, high) = (low % 65_521, high % 65_521);
    }
    high << 16 | low
}

/// One line: a letter for how many bytes it holds, then five digits for each four of them.
fn add_line(patch: &mut Vec<u8>, line: &[u8]) {
    let count = line.len() as u8;
    patch.push(if count <= 26 { b'A' + count - 1 } else { b'a' + count - 27 });
    for four in line.chunks(4) {
        let mut padded = [0; 4];
        padded[..four.len()].copy_from_slice(four);
        let mut value = u32::from_be_bytes(padded);
        let mut digits = [0; 5];
        for digit in digits.iter_mut().rev() {
            *digit = DIGITS[(value % 85) as usize];
            value /= 85;
        }
        patch.extend_from_slice(&digits);
    }
    patch.push(b'\n');
}
