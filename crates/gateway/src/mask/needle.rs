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
    /// Encoders break its lines.
    is_wrapped: bool,
}

/// So often an escape may have been escaped itself: text in a string in a string.
const LAYERS_MAX: usize = 8;
/// How lines end, plain and in a string.
const LINE_ENDS: [&[u8]; 4] = [b"\r\n", b"\n", b"\\r\\n", b"\\n"];

impl Needle {
    /// As it is, with each byte plain or escaped for JSON, a URL or HTML; and as base64 or hex in other text.
    pub fn all(secret: &[u8]) -> Vec<Needle> {
        let mut needles = vec![Needle { units: secret.iter().map(|byte| spellings(*byte)).collect(), is_wrapped: false }];
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        needles.push(Needle { units: hex.bytes().map(|byte| both_cases(&[byte])).collect(), is_wrapped: false });
        for before in 0..3 {
            // What stands before the secret shifts it; characters that depend on its neighbours are left out.
            let shifted: Vec<u8> = std::iter::repeat_n(b'x', before).chain(secret.iter().copied()).collect();
            let first = (before * 8).div_ceil(6);
            let last = shifted.len() * 8 / 6;
            for text in [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)] {
                let units = text.as_bytes()[first..last].iter().map(|byte| spellings(*byte)).collect();
                needles.push(Needle { units, is_wrapped: true });
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
        for (number, unit) in self.units.iter().enumerate() {
            if self.is_wrapped && number > 0 {
                let ending = LINE_ENDS.iter().find(|ending| rest.starts_with(ending));
                rest = &rest[ending.map_or(0, |ending| ending.len())..];
                if LINE_ENDS.iter().any(|ending| ending.starts_with(rest)) {
                    return Match::Partial;
                }
            }
            match written(unit, rest) {
                Match::Whole(length) => rest = &rest[length..],
                other => return other,
            }
        }
        Match::Whole(text.len() - rest.len())
    }
}

/// Whether a text begins with one byte of a form, however often its escape was escaped again.
fn written(unit: &[Vec<u8>], rest: &[u8]) -> Match {
    match (plainly(unit, rest), rest.first()) {
        (Match::No, Some(b'\\')) => {
            let extra = rest.iter().take_while(|byte| **byte == b'\\').count() - 1;
            match plainly(unit, &rest[extra..]) {
                _ if extra == 0 || extra > LAYERS_MAX => Match::No,
                Match::Whole(length) => Match::Whole(extra + length),
                other => other,
            }
        }
        // `%2573` is `%73`, encoded once more.
        (Match::No, Some(b'%')) => {
            let layers = rest[1..].chunks(2).take(LAYERS_MAX).take_while(|pair| *pair == b"25").count();
            for extra in (1..=layers).map(|layer| 2 * layer) {
                let end = rest.len().min(extra + 3);
                match plainly(unit, &[&b"%"[..], &rest[1 + extra..end]].concat()) {
                    Match::No => {}
                    Match::Whole(length) => return Match::Whole(extra + length),
                    Match::Partial => return Match::Partial,
                }
            }
            if rest[1 + 2 * layers..] == *b"2" { Match::Partial } else { Match::No }
        }
        (found, _) => found,
    }
}

fn plainly(unit: &[Vec<u8>], rest: &[u8]) -> Match {
    match unit.iter().find(|spelling| rest.starts_with(spelling)) {
        Some(spelling) => Match::Whole(spelling.len()),
        None if unit.iter().any(|spelling| spelling.starts_with(rest)) => Match::Partial,
        None => Match::No,
    }
}

fn spellings(byte: u8) -> Vec<Vec<u8>> {
    let mut all = vec![vec![byte]];
    if matches!(byte, b'"' | b'\\' | b'/') {
        all.push(vec![b'\\', byte]);
    }
    let escapes = [format!("\\u{byte:04x}"), format!("\\u{{{byte:x}}}"), format!("\\x{byte:02x}"), format!("%{byte:02x}")];
    let entities = [format!("&#{byte};"), format!("&#x{byte:x};")];
    for text in escapes.into_iter().chain(entities) {
        all.extend(both_cases(text.as_bytes()));
    }
    all
}

/// Hex digits in either case; the letters of an escape itself are lower-case.
fn both_cases(text: &[u8]) -> Vec<Vec<u8>> {
    let upper: Vec<u8> = text.iter().map(|byte| if byte.is_ascii_hexdigit() { byte.to_ascii_uppercase() } else { *byte }).collect();
    if upper == text { vec![text.to_vec()] } else { vec![text.to_vec(), upper] }
}
