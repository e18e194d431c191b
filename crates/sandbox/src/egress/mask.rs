//! Secrets that a room knows only by a sentinel.

use std::fmt;

/// A sentinel and what it stands for, towards one host.
#[derive(Clone, PartialEq, Eq)]
pub struct Swap {
    /// What the room has.
    pub sentinel: String,
    /// What the server gets: one byte for each char, without control characters.
    pub secret: String,
    /// The only header it may stand in, in lower case; any, without one.
    pub header: Option<String>,
}

impl Swap {
    pub(super) fn fits(&self, header: &str) -> bool {
        self.header.as_deref().is_none_or(|own| own == header)
    }
}

impl fmt::Debug for Swap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Swap").field("sentinel", &self.sentinel).field("header", &self.header).finish_non_exhaustive()
    }
}

/// Takes secrets out of a stream that comes in pieces: a server may send back what it was sent. Lengths stay as they are.
#[derive(Default)]
pub(super) struct Mask {
    secrets: Vec<Vec<u8>>,
    /// The end of what came so far, which may be the beginning of a secret.
    held: Vec<u8>,
}

impl Mask {
    pub fn new(swaps: &[Swap]) -> Mask {
        let bytes = |swap: &Swap| swap.secret.chars().map(|letter| u8::try_from(letter).unwrap_or(b'?')).collect::<Vec<u8>>();
        Mask { secrets: swaps.iter().map(bytes).filter(|secret| !secret.is_empty()).collect(), held: Vec::new() }
    }

    /// What may be passed on now.
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        for secret in &self.secrets {
            let mut from = 0;
            while let Some(at) = self.held[from..].windows(secret.len()).position(|window| window == secret) {
                self.held[from + at..from + at + secret.len()].fill(b'*');
                from += at + secret.len();
            }
        }
        let begins = |length: usize| self.secrets.iter().any(|secret| length < secret.len() && self.held.ends_with(&secret[..length]));
        let longest = self.secrets.iter().map(Vec::len).max().unwrap_or(0).min(self.held.len() + 1);
        let kept = (1..longest).rev().find(|length| begins(*length)).unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        std::mem::replace(&mut self.held, rest)
    }

    /// What was held back, at the end.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_however_it_is_cut() {
        let swap = Swap { sentinel: "s".into(), secret: "hunter2".into(), header: None };
        let text = b"xhunhunter2y hunter2hunter";
        for size in 1..text.len() {
            let mut mask = Mask::new(std::slice::from_ref(&swap));
            let mut out: Vec<u8> = text.chunks(size).flat_map(|piece| mask.pass(piece)).collect();
            out.extend(mask.rest());
            assert_eq!(String::from_utf8(out).unwrap(), "xhun*******y *******hunter", "{size}");
        }
        assert!(!format!("{swap:?}").contains("hunter2"));
    }
}
