//! Bytes as text (RFC 4648), for streams that travel in JSON.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let three = chunk.iter().chain(&[0, 0]).take(3).fold(0_usize, |all, byte| all << 8 | usize::from(*byte));
        for place in 0..4 {
            let letter = LETTERS[three >> (18 - 6 * place) & 63];
            text.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// `None` for what `encode` would not write.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(4) {
        return None;
    }
    let mut decoded = Vec::with_capacity(bytes.len() / 4 * 3);
    let groups = bytes.len() / 4;
    for (index, group) in bytes.chunks(4).enumerate() {
        let padding = group.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > 2 || padding > 0 && index + 1 < groups {
            return None;
        }
        let mut all = 0_u32;
        for byte in &group[..4 - padding] {
            all = all << 6 | u32::try_from(LETTERS.iter().position(|letter| letter == byte)?).ok()?;
        }
        all <<= 6 * padding;
        decoded.extend_from_slice(&all.to_be_bytes()[1..4 - padding]);
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for length in 0..200_usize {
            let bytes: Vec<u8> = (0..length).map(|n| (n * 7 + length) as u8).collect();
            assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
        assert_eq!((encode(b"foob").as_str(), decode("Zm9vYg==")), ("Zm9vYg==", Some(b"foob".to_vec())));
        for bad in ["Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Z g=", "Zm9v\n", "é==="] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
