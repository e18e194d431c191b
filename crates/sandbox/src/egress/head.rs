//! The head of a request to the proxy: parsed strictly, because two readers who differ about a head are a hole.
//!
//! **Invariant.** What is sent on is written anew from what was understood; no byte of a head passes unread. Every doubt is an error:
//! a bare line feed, a folded line, a second length, a host that differs from the target.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use super::mask::Swap;

/// Request line and headers together.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;
const HEADERS_MAX: usize = 100;
/// A name of the domain name system.
const HOST_BYTES_MAX: usize = 253;

/// A request that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead {
    pub method: String,
    /// Lower-case, without a final dot.
    pub host: String,
    pub port: u16,
    /// `None` for CONNECT.
    pub path: Option<String>,
    /// Bytes of body that follow.
    pub body: u64,
    headers: Vec<(String, String)>,
}

/// What an answer to a head that is not understood says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    pub status: u16,
    pub why: String,
}

fn bad(why: impl Into<String>) -> Malformed {
    Malformed { status: 400, why: why.into() }
}

/// How far a head has come.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    /// The head, and how many bytes it took.
    Whole(RequestHead, usize),
    More,
    Bad(Malformed),
}

/// Reads a head from the beginning of what a client sent.
pub fn read(bytes: &[u8]) -> Read {
    let seen = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    let mut lines = Vec::new();
    let mut start = 0;
    for (at, byte) in seen.iter().enumerate() {
        match byte {
            b'\n' if at > start && seen[at - 1] == b'\r' => {
                let line = &seen[start..at - 1];
                start = at + 1;
                if line.is_empty() {
                    return match parse(&lines) {
                        Ok(head) => Read::Whole(head, start),
                        Err(malformed) => Read::Bad(malformed),
                    };
                }
                lines.push(line);
                if lines.len() > HEADERS_MAX + 1 {
                    return Read::Bad(Malformed { status: 431, why: format!("the request has more than {HEADERS_MAX} headers") });
                }
            }
            b'\n' => return Read::Bad(bad("a line ends without a carriage return")),
            b'\r' if seen.get(at + 1).is_some_and(|next| *next != b'\n') => {
                return Read::Bad(bad("a carriage return stands within a line"));
            }
            0 => return Read::Bad(bad("the head holds a zero byte")),
            _ => {}
        }
    }
    if bytes.len() >= HEAD_BYTES_MAX {
        return Read::Bad(Malformed { status: 431, why: format!("the head has more than {HEAD_BYTES_MAX} bytes") });
    }
    Read::More
}

fn parse(lines: &[&[u8]]) -> Result<RequestHead, Malformed> {
    let (request, lines) = lines.split_first().ok_or_else(|| bad("the request begins with an empty line"))?;
    let (method, target) = request_line(request)?;
    let headers = lines.iter().map(|line| header(line)).collect::<Result<Vec<_>, _>>()?;
    let (host, port, path) = match method.as_str() {
        "CONNECT" => {
            let (host, port) = authority(&target, None)?;
            (host, port, None)
        }
        "TRACE" => return Err(Malformed { status: 405, why: "TRACE sends headers back".to_owned() }),
        _ => absolute(&target)?,
    };
    host_agrees(&headers, &host, port, path.is_some())?;
    let body = body(&headers, path.is_some())?;
    Ok(RequestHead { method, host, port, path, body, headers })
}

fn request_line(line: &[u8]) -> Result<(String, String), Malformed> {
    let line = std::str::from_utf8(line).ok().filter(|line| line.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
    let line = line.ok_or_else(|| bad("the request line is not plain text"))?;
    let [method, target, version] = line.split(' ').collect::<Vec<_>>()[..] else {
        return Err(bad("the request line is not `METHOD target HTTP/1.1`"));
    };
    if method.is_empty() || method.len() > 32 || !method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
        return Err(bad("the method is not one in upper case"));
    }
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(Malformed { status: 505, why: "only HTTP/1.1 and HTTP/1.0 are spoken here".to_owned() });
    }
    Ok((method.to_owned(), target.to_owned()))
}

/// `http://host[:port]/path`
fn absolute(target: &str) -> Result<(String, u16, Option<String>), Malformed> {
    if target.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
        return Err(bad("https goes through CONNECT"));
    }
    let Some(rest) = target.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://")).map(|_| &target[7..]) else {
        return Err(bad("this is a proxy: the target must be http://host/path, or use CONNECT"));
    };
    if rest.contains('#') {
        return Err(bad("the target has a fragment"));
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (name, path) = rest.split_at(end);
    let (host, port) = authority(name, Some(80))?;
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok((host, port, Some(path)))
}

/// `host[:port]`; the port may be missing only where there is a usual one.
fn authority(text: &str, usual: Option<u16>) -> Result<(String, u16), Malformed> {
    if text.contains('@') {
        return Err(bad("the target holds a user name"));
    }
    let (name, port) = match text.rsplit_once(':') {
        _ if text.starts_with('[') => return Err(by_address()),
        Some((name, port)) => (name, Some(port)),
        None => (text, None),
    };
    let port = match (port, usual) {
        (Some(port), _) => number(port).and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0),
        (None, usual) => usual,
    };
    let port = port.ok_or_else(|| bad("the target has no port that can be used"))?;
    Ok((host(name)?, port))
}

/// Digits and nothing else; `parse` would take a plus sign.
fn number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn by_address() -> Malformed {
    Malformed { status: 403, why: "hosts are reached by name, not by address".to_owned() }
}

/// A host name in the one form in which it is judged, resolved and compared. An address in any notation is none.
pub fn host(name: &str) -> Result<String, Malformed> {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(plain) && !label.starts_with('-') && !label.ends_with('-')
    };
    // What resolvers take for an address: `127.1`, `0x7f000001`, `2130706433`.
    let last = name.rsplit('.').next().unwrap_or_default();
    let numeric = last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if name.parse::<Ipv4Addr>().is_ok() || (numeric && !last.is_empty()) {
        return Err(by_address());
    }
    if name.len() > HOST_BYTES_MAX || !name.split('.').all(label) {
        return Err(bad("the target's host is not a name"));
    }
    Ok(name)
}

fn header(line: &[u8]) -> Result<(String, String), Malformed> {
    if line.first().is_some_and(|first| matches!(first, b' ' | b'\t')) {
        return Err(bad("a header is folded over two lines"));
    }
    let colon = line.iter().position(|byte| *byte == b':').ok_or_else(|| bad("a header has no colon"))?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    if name.is_empty() || !name.iter().all(token) {
        return Err(bad("a header's name is not one"));
    }
    // Bytes above ASCII are sent on as they came, one char for each.
    if value.iter().any(|byte| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f) {
        return Err(bad("a header holds a control character"));
    }
    let value: String = value.iter().map(|byte| char::from(*byte)).collect();
    Ok((String::from_utf8_lossy(name).to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned()))
}

fn values<'a>(headers: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    headers.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str()).collect()
}

/// A `Host` that says something else than the target is how one host is asked for under the name of another.
fn host_agrees(headers: &[(String, String)], target: &str, port: u16, plain: bool) -> Result<(), Malformed> {
    match values(headers, "host")[..] {
        [] if !plain => Ok(()),
        [] => Err(bad("the request has no Host header")),
        [value] => {
            let usual = if plain { 80 } else { port };
            let named = authority(value, Some(usual)).map_err(|_| bad("the Host header is not a host"))?;
            if named == (target.to_owned(), port) {
                return Ok(());
            }
            Err(Malformed { status: 403, why: format!("the Host header names `{}:{}` and the target `{target}:{port}`", named.0, named.1) })
        }
        _ => Err(bad("the request has more than one Host header")),
    }
}

/// How long the body is. There is one way to say it here.
fn body(headers: &[(String, String)], plain: bool) -> Result<u64, Malformed> {
    let (lengths, encodings) = (values(headers, "content-length"), values(headers, "transfer-encoding"));
    match (&lengths[..], &encodings[..]) {
        ([], []) => Ok(0),
        (_, []) if !plain => Err(bad("CONNECT has no body")),
        ([length], []) => number(length).ok_or_else(|| bad("the Content-Length is not a number")),
        (_, []) => Err(bad("the request has more than one Content-Length")),
        ([], _) => Err(Malformed { status: 411, why: "send the body with a Content-Length, not in chunks".to_owned() }),
        _ => Err(bad("the request has both a Content-Length and a Transfer-Encoding")),
    }
}

/// Headers that are between a client and its proxy.
const OWN: &[&str] = &["host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length"];

impl RequestHead {
    /// The head for the server, with sentinels replaced; whether any was. One request is all that a connection carries.
    pub fn onward(&self, swaps: &[Swap]) -> (Vec<u8>, bool) {
        let host = if self.port == 80 { self.host.clone() } else { format!("{}:{}", self.host, self.port) };
        let mut text = format!("{} {} HTTP/1.1\r\nhost: {host}\r\n", self.method, self.path.as_deref().unwrap_or("/"));
        let listed = values(&self.headers, "connection").join(",").to_ascii_lowercase();
        let dropped = |name: &str| OWN.contains(&name) || name.starts_with("proxy-") || listed.split(',').any(|own| own.trim() == name);
        let mut swapped = false;
        let mut sent = Vec::new();
        for (name, value) in self.headers.iter().filter(|(name, _)| !dropped(name)) {
            let mut value = value.clone();
            for swap in swaps.iter().filter(|swap| swap.fits(name)) {
                swapped |= value.contains(&swap.sentinel);
                value = value.replace(&swap.sentinel, &swap.secret);
            }
            sent.push((name.as_str(), value));
        }
        if swapped {
            // A secret that comes back compressed would not be found.
            sent.retain(|(name, _)| *name != "accept-encoding");
            sent.push(("accept-encoding", "identity".to_owned()));
        }
        for (name, value) in sent {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        if self.body > 0 || !values(&self.headers, "content-length").is_empty() {
            let _ = write!(text, "content-length: {}\r\n", self.body);
        }
        text.push_str("connection: close\r\n\r\n");
        (text.chars().map(|letter| u8::try_from(letter).unwrap_or(b'?')).collect(), swapped)
    }
}
