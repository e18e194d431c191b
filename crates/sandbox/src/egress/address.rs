//! Which addresses lie on the public internet.
//!
//! By the registries of special-purpose addresses (RFC 6890 and its successors). IPv6 is closed but for the global block, so a form
//! that nobody thought of is closed too.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is not on the public internet; `None` for one that is.
pub fn closed(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(ip) => closed_v4(ip),
        IpAddr::V6(ip) => closed_v6(ip),
    }
}

/// Why a name is not one of the public internet's, whatever a resolver says of it; `None` for one that may be. The name is in lower case and
/// without a final dot.
pub fn closed_name(name: &str) -> Option<&'static str> {
    let is_below = |zone: &str| name == zone || name.strip_suffix(zone).is_some_and(|rest| rest.ends_with('.'));
    if is_below("localhost") || is_below("localdomain") {
        return Some("that is this machine (loopback)");
    }
    // Google's own names of the server that hands out a machine's credentials.
    if is_below("metadata.goog") || name == "metadata.google.internal" {
        return Some("that is a cloud's metadata, where it keeps credentials");
    }
    // Set apart for local networks (RFC 6762, RFC 8375, ICANN's `internal`), or never to be delegated because so many use them.
    const LOCAL: [&str; 9] = ["local", "internal", "home.arpa", "lan", "home", "corp", "intranet", "private", "mail"];
    if LOCAL.into_iter().any(is_below) {
        return Some("that is a name of a local network");
    }
    (!name.contains('.')).then_some("that is a name without a domain, which only a local network knows")
}

fn closed_v4(ip: Ipv4Addr) -> Option<&'static str> {
    Some(match ip.octets() {
        [0, ..] => "that is this network (0.0.0.0/8)",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "that is a private network",
        [100, 64..=127, ..] => "that is a carrier's own network (100.64.0.0/10)",
        [127, ..] => "that is this machine (loopback)",
        [169, 254, ..] => "that is link-local, where clouds keep credentials",
        [192, 0, 0, _] => "that is reserved for protocols (192.0.0.0/24)",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "that is for documentation",
        [192, 88, 99, _] => "that is a 6to4 relay",
        [198, 18..=19, ..] => "that is for benchmarks (198.18.0.0/15)",
        [224..=239, ..] => "that is multicast",
        [255, 255, 255, 255] => "that is broadcast",
        [240..=255, ..] => "that is reserved (240.0.0.0/4)",
        _ => return None,
    })
}

fn closed_v6(ip: Ipv6Addr) -> Option<&'static str> {
    Some(match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => "that is this machine (loopback)",
        [0, 0, 0, 0, 0, 0, ..] => "that is unspecified or an IPv4-compatible address",
        [0, 0, 0, 0, 0, 0xffff, ..] => "that is an IPv4-mapped address",
        [0, 0, 0, 0, 0xffff, 0, ..] => "that is an IPv4-translated address",
        [0x64, 0xff9b, ..] => "that is translated to IPv4 (64:ff9b::)",
        [0x100, 0, 0, 0, ..] => "that is discarded (100::/64)",
        [0xfc00..=0xfdff, ..] => "that is a private network (fc00::/7)",
        [0xfe80..=0xfebf, ..] => "that is link-local",
        [0xfec0..=0xfeff, ..] => "that is site-local",
        [0xff00..=0xffff, ..] => "that is multicast",
        [0x2001, 0, ..] => "that is Teredo, which holds an IPv4 address",
        [0x2001, 0x1..=0x1ff, ..] => "that is reserved for protocols (2001::/23)",
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => "that is for documentation",
        [0x2002, ..] => "that is 6to4, which holds an IPv4 address",
        [_, _, _, _, 0 | 0x200, 0x5efe, _, _] => "that is ISATAP, which holds an IPv4 address",
        [0x2000..=0x3fff, ..] => return None,
        _ => "that is not a global address",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_closed_by_where_they_end() {
        for name in ["localhost", "a.localhost", "printer.local", "metadata.google.internal", "metadata.goog", "x.svc.cluster.local"] {
            assert!(closed_name(name).is_some(), "{name}");
        }
        for name in ["internal", "db.corp", "router.home.arpa", "nas.lan", "metadata", "localhost.localdomain"] {
            assert!(closed_name(name).is_some(), "{name}");
        }
        for name in ["example.com", "internal.example.com", "local.dev", "notlocal.com", "mylocalhost.org", "goog.com", "x.home.arpa.com"] {
            assert_eq!(closed_name(name), None, "{name}");
        }
    }
}
