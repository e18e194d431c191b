//! One form in which a credential can stand in an answer, and whether a text begins with it.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// So many bytes of the text are the credential.
    Whole(usize),
    /// The text is a beginning of it; the next piece tells.
    Partial,
    No,
}

/// For each byte of a form, the ways to write it.
pub(super) struct Needle {
    units: Vec<Vec<Vec<u8>>>,
}

impl Needle {
    /// As it is, with each byte plain or escaped for JSON, a URL or HTML; and as base64 or hex in other text.
    pub fn all(secret: &[u8]) -> Vec<Needle> {
        let mut needles = vec![Needle { units: secret.iter().map(|byte| spellings(*byte)).collect() }];
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        needles.push(Needle { units: hex.bytes().map(|byte| both_cases(&[byte])).collect() });
        for before in 0..3 {
            // What stands before the secret shifts it; characters that depend on its neighbours are left out.
            let shifted: Vec<u8> = std::iter::repeat_n(b'x', before).chain(secret.iter().copied()).collect();
            let first = (before * 8).div_ceil(6);
            let last = shifted.len() * 8 / 6;
            for text in [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)] {
                needles.push(Needle { units: text.as_bytes()[first..last].iter().map(|byte| vec![vec![*byte]]).collect() });
            }
        }
        needles
    }

    /// The bytes it can begin with.
    pub fn firsts(&self) -> impl Iterator<Item = u8> {
        self.units.first().into_iter().flatten().filter_map(|spelling| spelling.first().copied())
    }

    pub fn at(&self, text: &[u8]) -> Match {
        let mut rest = text;
        for unit in &self.units {
            if let Some(spelling) = unit.iter().find(|spelling| rest.starts_with(spelling)) {
                rest = &rest[spelling.len()..];
            } else if unit.iter().any(|spelling| spelling.starts_with(rest)) {
                return Match::Partial;
            } else {
                return Match::No;
            }
        }
        Match::Whole(text.len() - rest.len())
    }
}

fn spellings(byte: u8) -> Vec<Vec<u8>> {
    let mut all = vec![vec![byte]];
    if matches!(byte, b'"' | b'\\' | b'/') {
        all.push(vec![b'\\', byte]);
    }
    for text in [format!("\\u{byte:04x}"), format!("\\x{byte:02x}"), format!("%{byte:02x}"), format!("&#{byte};"), format!("&#x{byte:x};")]
    {
        all.extend(both_cases(text.as_bytes()));
    }
    all
}

/// Hex digits in either case; the letters of an escape itself are lower-case.
fn both_cases(text: &[u8]) -> Vec<Vec<u8>> {
    let upper: Vec<u8> = text.iter().map(|byte| if byte.is_ascii_hexdigit() { byte.to_ascii_uppercase() } else { *byte }).collect();
    if upper == text { vec![text.to_vec()] } else { vec![text.to_vec(), upper] }
}
