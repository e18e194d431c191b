//! Reads through escapes, however they are mixed, to find a known value behind them.
//!
//! `\u0041`, `\x41`, `%41`, `&#65;`, `&#x41;` each stand for one character; the rest stands for itself.

/// A text without its escapes, and where each byte of it came from.
pub(super) struct Decoded {
    pub bytes: Vec<u8>,
    /// For each byte, where it begins in the original; one more for the end.
    pub places: Vec<usize>,
}

/// `None` where there is nothing to decode.
pub(super) fn decode(text: &[u8]) -> Option<Decoded> {
    if !text.iter().any(|byte| matches!(byte, b'\\' | b'%' | b'&')) {
        return None;
    }
    let mut decoded = Decoded { bytes: Vec::with_capacity(text.len()), places: Vec::with_capacity(text.len() + 1) };
    let (mut at, mut any) = (0, false);
    while at < text.len() {
        match escape(&text[at..]) {
            Some((byte, length)) => {
                any = true;
                decoded.bytes.push(byte);
                decoded.places.push(at);
                at += length;
            }
            None => {
                decoded.bytes.push(text[at]);
                decoded.places.push(at);
                at += 1;
            }
        }
    }
    decoded.places.push(text.len());
    any.then_some(decoded)
}

/// The character that is escaped at the beginning, and how long its escape is. Only ASCII: keys have nothing else.
fn escape(text: &[u8]) -> Option<(u8, usize)> {
    let hex = |digits: &[u8]| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let ascii = |value: u32, length: usize| u8::try_from(value).ok().filter(u8::is_ascii).map(|byte| (byte, length));
    match text.first()? {
        // However often the backslash itself was escaped on its way.
        b'\\' => {
            let slashes = text.iter().take_while(|byte| **byte == b'\\').count();
            let rest = &text[slashes..];
            match rest.first()? {
                b'u' | b'U' if rest.get(1) == Some(&b'{') => {
                    let digits = rest[2..].iter().take(6).take_while(|byte| byte.is_ascii_hexdigit()).count();
                    let closed = rest.get(2 + digits) == Some(&b'}');
                    closed.then(|| ascii(hex(&rest[2..2 + digits])?, slashes + digits + 3))?
                }
                b'u' => ascii(hex(rest.get(1..5)?)?, slashes + 5),
                b'x' => ascii(hex(rest.get(1..3)?)?, slashes + 3),
                byte @ (b'"' | b'/' | b'\'') => Some((*byte, slashes + 1)),
                _ => None,
            }
        }
        b'%' => {
            // `%2541` is `%41` that was encoded once more.
            let again = text[1..].chunks(2).take_while(|pair| *pair == b"25").count() * 2;
            ascii(hex(text.get(1 + again..3 + again)?)?, 3 + again)
        }
        b'&' if text.get(1) == Some(&b'#') => {
            let (from, radix) = if matches!(text.get(2), Some(b'x' | b'X')) { (3, 16) } else { (2, 10) };
            let digits = text[from..].iter().take(6).take_while(|byte| byte.is_ascii_hexdigit()).count();
            let value = u32::from_str_radix(std::str::from_utf8(&text[from..from + digits]).ok()?, radix).ok()?;
            let closed = usize::from(text.get(from + digits) == Some(&b';'));
            ascii(value, from + digits + closed)
        }
        b'&' => {
            let named: [(&[u8], u8); 5] = [(b"&amp;", b'&'), (b"&quot;", b'"'), (b"&lt;", b'<'), (b"&gt;", b'>'), (b"&apos;", b'\'')];
            named.iter().find(|(name, _)| text.starts_with(name)).map(|(name, byte)| (*byte, name.len()))
        }
        _ => None,
    }
}
