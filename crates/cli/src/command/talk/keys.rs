//! The keys of a talk that are not the brain's: ctrl-] and then `d`.

/// Ctrl-].
const PREFIX: u8 = 0x1d;
/// Ctrl-c, to a watcher.
pub const INTERRUPT: u8 = 0x03;
/// The same key as terminals send it where a program asked for other codes. They come in one piece.
const OTHER_CODES: [&[u8]; 2] = [b"\x1b[93;5u", b"\x1b[27;5;93~"];

/// What was typed: what goes to the brain, and whether the person leaves.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Typed {
    pub bytes: Vec<u8>,
    pub leaves: bool,
}

#[derive(Debug, Default)]
pub struct DetachKeys {
    /// The prefix as it came, until it is known what follows.
    prefix: Option<Vec<u8>>,
}

impl DetachKeys {
    pub fn pass(&mut self, typed: &[u8]) -> Typed {
        let mut out = Typed::default();
        let mut rest = typed;
        while !rest.is_empty() {
            let code = prefix_at(rest);
            match (self.prefix.take(), code) {
                // Twice is once for the brain.
                (Some(first), Some(length)) => {
                    out.bytes.extend(first);
                    rest = &rest[length..];
                }
                (Some(_), None) if rest[0] == b'd' => {
                    out.leaves = true;
                    return out;
                }
                (None, Some(length)) => {
                    self.prefix = Some(rest[..length].to_vec());
                    rest = &rest[length..];
                }
                (first, None) => {
                    out.bytes.extend(first.unwrap_or_default());
                    out.bytes.push(rest[0]);
                    rest = &rest[1..];
                }
            }
        }
        out
    }
}

fn prefix_at(typed: &[u8]) -> Option<usize> {
    if typed.first() == Some(&PREFIX) {
        return Some(1);
    }
    OTHER_CODES.iter().find(|code| typed.starts_with(code)).map(|code| code.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&[u8]], bytes: &[u8], leaves: bool) {
        let mut keys = DetachKeys::default();
        let mut all = Typed::default();
        for piece in pieces {
            let typed = keys.pass(piece);
            all.bytes.extend(typed.bytes);
            all.leaves |= typed.leaves;
        }
        assert_eq!((all.bytes.escape_ascii().to_string(), all.leaves), (bytes.escape_ascii().to_string(), leaves));
    }

    #[test]
    fn ctrl_bracket_and_d_leave_and_everything_else_is_the_brains() {
        check(&[b"ab\x03\x1b[A"], b"ab\x03\x1b[A", false);
        check(&[b"a\x1dd"], b"a", true);
        check(&[b"\x1d", b"d"], b"", true);
        check(&[b"\x1dx"], b"\x1dx", false);
        check(&[b"\x1d\x1dd"], b"\x1dd", false);
        check(&[b"\x1b[93;5u", b"d"], b"", true);
        check(&[b"\x1b[27;5;93~d"], b"", true);
        check(&[b"\x1b[93;5u\x1b[93;5u"], b"\x1b[93;5u", false);
        check(&[b"d\x1d"], b"d", false);
    }
}
