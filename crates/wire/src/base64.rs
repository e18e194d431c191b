//! Bytes as text (RFC 4648), for streams that travel in JSON.

use base64::prelude::{BASE64_STANDARD, Engine};

pub fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// `None` for what `encode` would not write.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).ok()
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
        for bad in ["Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Z g=", "Zm9v\n", "Zh==", "é==="] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
