//! The first message of TLS: which server a client asks for.
//!
//! Read only, never changed, and never more than the first message: what follows is between client and server. It may come in any
//! number of records and pieces.

/// All records of a first message. A large one, with keys for new algorithms, has two thousand bytes.
pub const HELLO_BYTES_MAX: usize = 32 * 1024;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const RECORD_BYTES_MAX: usize = 16 * 1024;
const SERVER_NAME: u16 = 0;
/// A name that only the server can read: another host behind the one that was asked for. Its draft had another number.
const ENCRYPTED_HELLO: [u16; 2] = [0xfe0d, 0xffce];

/// How far it has come.
#[derive(Debug, PartialEq, Eq)]
pub enum Hello {
    More,
    /// The name in it, in lower case.
    Named(String),
    /// It names nobody.
    Nameless,
    Bad(&'static str),
}

/// Reads it from the beginning of what a client sent.
pub fn read(bytes: &[u8]) -> Hello {
    match message(bytes) {
        Ok(Some(message)) => parse(&message).unwrap_or(Hello::Bad("the first TLS message is broken")),
        Ok(None) if bytes.len() >= HELLO_BYTES_MAX => Hello::Bad("the first TLS message is too long"),
        Ok(None) => Hello::More,
        Err(why) => Hello::Bad(why),
    }
}

/// The message out of its records; `None` while something is missing.
fn message(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
    const NOT_TLS: &str = "what came is not TLS";
    let mut message: Vec<u8> = Vec::new();
    loop {
        if bytes.first().is_some_and(|kind| *kind != HANDSHAKE) || bytes.get(1).is_some_and(|major| *major != 3) {
            return Err(NOT_TLS);
        }
        let Some((header, rest)) = bytes.split_at_checked(5) else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if length == 0 || length > RECORD_BYTES_MAX {
            return Err(NOT_TLS);
        }
        let whole = rest.len() >= length;
        message.extend_from_slice(&rest[..length.min(rest.len())]);
        if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
            return Err("the first TLS message is not a client's");
        }
        if let Some(size) = message.get(1..4) {
            let size = 4 + (usize::from(size[0]) << 16 | usize::from(size[1]) << 8 | usize::from(size[2]));
            if size > HELLO_BYTES_MAX {
                return Err("the first TLS message is too long");
            }
            if message.len() > size {
                return Err("something follows the first TLS message in its record");
            }
            if message.len() == size && whole {
                return Ok(Some(message));
            }
        }
        if !whole {
            return Ok(None);
        }
        bytes = &rest[length..];
    }
}

/// Takes fields off the front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn short(&mut self) -> Option<u16> {
        self.take(2).map(|two| u16::from_be_bytes([two[0], two[1]]))
    }

    /// A field with its length before it, in one or two bytes.
    fn sized(&mut self, width: usize) -> Option<Fields<'a>> {
        let length = if width == 1 { usize::from(self.take(1)?[0]) } else { usize::from(self.short()?) };
        self.take(length).map(Fields)
    }
}

/// `None` where it does not hold what it says.
fn parse(message: &[u8]) -> Option<Hello> {
    let mut fields = Fields(message.get(4..)?);
    fields.take(2 + 32)?;
    let session = fields.sized(1)?;
    let suites = fields.sized(2)?;
    let compression = fields.sized(1)?;
    if session.0.len() > 32 || suites.0.is_empty() || suites.0.len() % 2 != 0 || compression.0.is_empty() {
        return None;
    }
    if fields.0.is_empty() {
        return Some(Hello::Nameless);
    }
    let mut extensions = fields.sized(2)?;
    if !fields.0.is_empty() {
        return None;
    }
    let mut seen = Vec::new();
    let mut name = None;
    while !extensions.0.is_empty() {
        let kind = extensions.short()?;
        let content = extensions.sized(2)?;
        if seen.contains(&kind) {
            return Some(Hello::Bad("the first TLS message says something twice"));
        }
        seen.push(kind);
        if ENCRYPTED_HELLO.contains(&kind) {
            return Some(Hello::Bad("the server's name is encrypted (ECH), so it cannot be compared"));
        }
        if kind == SERVER_NAME {
            name = Some(server_name(content)?);
        }
    }
    Some(match name {
        Some(name) => Hello::Named(name),
        None => Hello::Nameless,
    })
}

/// Exactly one name of the one kind there is.
fn server_name(mut content: Fields<'_>) -> Option<String> {
    let mut list = content.sized(2)?;
    let kind = list.take(1)?[0];
    let name = list.sized(2)?;
    let text = std::str::from_utf8(name.0).ok().filter(|text| !text.is_empty() && text.is_ascii())?;
    (kind == 0 && list.0.is_empty() && content.0.is_empty()).then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &(content.len() as u16).to_be_bytes(), content].concat()
    }

    fn named(names: &[(&str, u8)]) -> Vec<u8> {
        let list: Vec<u8> =
            names.iter().flat_map(|(name, kind)| [&[*kind][..], &(name.len() as u16).to_be_bytes(), name.as_bytes()].concat()).collect();
        extension(0, &[&(list.len() as u16).to_be_bytes()[..], &list].concat())
    }

    fn hello(extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 1, 1, 0]);
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
        [&[1, 0][..], &(body.len() as u16).to_be_bytes(), &body].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        message.chunks(size).flat_map(|part| [&[22, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat()).collect()
    }

    #[test]
    fn the_name_is_found_in_any_number_of_records_and_pieces() {
        let message = hello(&[extension(10, &[0, 2, 0, 29]), named(&[("Docs.RS", 0)])].concat());
        for size in [1, 3, 17, 1000] {
            let bytes = records(&message, size);
            for cut in 0..bytes.len() {
                assert_eq!(read(&bytes[..cut]), Hello::More, "{size} {cut}");
            }
            assert_eq!(read(&bytes), Hello::Named("docs.rs".into()), "{size}");
        }
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let read = |extensions: &[u8]| read(&records(&hello(extensions), 16_000));
        assert_eq!(read(&[]), Hello::Nameless);
        assert_eq!(read(&extension(10, &[0, 0])), Hello::Nameless);
        let broken = Hello::Bad("the first TLS message is broken");
        assert_eq!(read(&named(&[("a.example", 0), ("b.example", 0)])), broken);
        assert_eq!(read(&named(&[("a.example", 1)])), broken);
        assert_eq!(read(&named(&[("", 0)])), broken);
        assert_eq!(read(&extension(0, &[0, 9, 0, 0, 1])), broken);
        assert_eq!(read(&[named(&[("a", 0)]), named(&[("b", 0)])].concat()), Hello::Bad("the first TLS message says something twice"));
        for kind in ENCRYPTED_HELLO {
            let both = [named(&[("a", 0)]), extension(kind, &[0, 0])].concat();
            assert_eq!(read(&both), Hello::Bad("the server's name is encrypted (ECH), so it cannot be compared"));
        }
    }

    #[test]
    fn what_is_not_tls_is_told_at_once() {
        let not = Hello::Bad("what came is not TLS");
        for bytes in [&b"G"[..], b"SSH-2.0-x", &[22, 2], &[22, 3, 1, 0, 0], &[22, 3, 1, 0xff, 0xff], &[0x80, 0x2e, 1]] {
            assert_eq!(read(bytes), not, "{bytes:?}");
        }
        assert_eq!(read(&[22, 3, 1, 0, 4, 2]), Hello::Bad("the first TLS message is not a client's"));
        assert_eq!(read(&[22, 3, 1, 0, 4, 1, 0xff, 0, 0]), Hello::Bad("the first TLS message is too long"));
        let mut two = hello(&[]);
        two.push(0);
        assert_eq!(read(&records(&two, 16_000)), Hello::Bad("something follows the first TLS message in its record"));
    }
}
