//! Where a template of JavaScript ends.

use crate::limits::NESTING_MAX;

/// Where a template ends that begins at `from`, and whether it ends at all. Templates within its expressions are passed over.
pub(super) fn end(text: &str, from: usize, depth: usize) -> (usize, bool) {
    let bytes = text.as_bytes();
    let mut at = from + 1;
    if depth > NESTING_MAX {
        return (text.len(), false);
    }
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'`' => return (at + 1, true),
            b'$' if bytes.get(at + 1) == Some(&b'{') => {
                let (end, is_whole) = expression_end(text, at + 2, depth);
                if !is_whole {
                    return (text.len(), false);
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    (text.len(), false)
}

fn expression_end(text: &str, from: usize, depth: usize) -> (usize, bool) {
    let bytes = text.as_bytes();
    let (mut at, mut braces) = (from, 1_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' => braces += 1,
            b'}' => braces -= 1,
            b'`' => {
                let (end, is_whole) = end(text, at, depth + 1);
                if !is_whole {
                    return (text.len(), false);
                }
                at = end;
                continue;
            }
            b'"' | b'\'' => {
                let quote = *byte;
                at += 1;
                while bytes.get(at).is_some_and(|byte| *byte != quote && *byte != b'\n') {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
            }
            _ => {}
        }
        at += 1;
        if braces == 0 {
            return (at, true);
        }
    }
    (text.len(), false)
}
