//! Hosts as rules spell them, brought into the one form in which requests have them.
//!
//! **Invariant.** What could never equal the host of a request is an error: a deny that forbids nothing is worse than none.

use std::net::{Ipv4Addr, Ipv6Addr};

/// What is wrong with a spelling, and what to write.
pub(super) type Bad = (&'static str, &'static str);

/// The glob or name in the form of requests: lower case, no final dot, addresses in their short form.
pub(super) fn canonical(text: &str) -> Result<String, Bad> {
    let name = "write the name alone, without scheme, port and path";
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Ok(address.to_string());
    }
    if !text.is_ascii() {
        return Err(("has letters that no request has", "write it as the network does, beginning with `xn--`"));
    }
    if text.starts_with('!') {
        return Err(("excludes, and hosts cannot be excluded here", "put the host under `except`"));
    }
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.*?[]!^\\".contains(letter);
    if let Some(letter) = text.chars().find(|letter| !fits(*letter)) {
        let hint = if letter == '{' { "write several hosts as a list" } else { name };
        return Err(("is not a host", hint));
    }
    let text = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    if text.split('.').any(str::is_empty) {
        return Err(("is not a host", name));
    }
    // By its last part alone a reader of URLs tells an address from a name: 127.1, 0x7f.1 and 2130706433 are addresses.
    let last = text.rsplit('.').next().unwrap_or_default();
    let number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let glob = text.contains(['*', '?', '[', '\\']);
    if number && !glob && text.parse::<Ipv4Addr>().is_err() {
        return Err(("is an address in a form that no request has", "write it as four numbers, such as 127.0.0.1"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_form_or_is_an_error() {
        for (text, form) in [
            ("Example.COM.", "example.com"),
            ("*.Docs.rs", "*.docs.rs"),
            ("0:0:0:0:0:0:0:1", "::1"),
            ("10.*", "10.*"),
            ("127.0.0.1", "127.0.0.1"),
            ("a_b.test", "a_b.test"),
            ("x[0-9].test", "x[0-9].test"),
        ] {
            assert_eq!(canonical(text), Ok(form.to_owned()), "{text}");
        }
        let bad =
            ["https://a.b", "a.b:80", "u@a.b", "[::1]", "b\u{fc}cher.test", "0x7f.1", "2130706433", "127.1", "a b", "%65vil.test", "!a.b"];
        for text in bad.into_iter().chain(["{a,b}.test", "a..b", ".", "a.b..", ".a.b", "a\0b"]) {
            assert!(canonical(text).is_err(), "{text}");
        }
    }
}
