//! Where http.request may go.
//!
//! An [`HttpTarget`] is a URL that was looked at once: scheme, port, host and method in the form in which policies see them. An
//! [`AddressFilter`] says which addresses may be connected to. **Invariant.** An address is judged where it is used: whatever a name
//! resolves to, a socket is opened to no address that `AddressFilter::refuses`.

mod client;
mod hosts;

pub(crate) use client::{IncomingResponse, OutgoingRequest, fetch};

use std::net::{IpAddr, SocketAddr};
use url::{Host, Url};
use world::{Code, Refusal};

/// Seed 002's list.
const PORTS: [u16; 4] = [80, 443, 8080, 8443];
/// Servers stop at about this length too.
const URL_BYTES_MAX: usize = 8 * 1024;

/// Addresses and ports that may be connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressFilter {
    /// Exactly these are fine though they are not global: what a trusted configuration names, or a test serves.
    pub allow: Vec<SocketAddr>,
    /// Ports on global addresses.
    pub ports: Vec<u16>,
}

impl Default for AddressFilter {
    fn default() -> AddressFilter {
        AddressFilter { allow: Vec::new(), ports: PORTS.to_vec() }
    }
}

impl AddressFilter {
    /// Why a socket must not be opened to this address.
    pub fn refuses(&self, address: SocketAddr) -> Option<&'static str> {
        if self.allow.contains(&address) {
            return None;
        }
        if !self.ports.contains(&address.port()) {
            return Some("its port is not one of those that may be used");
        }
        sandbox::egress::closed(address.ip())
    }

    /// What can be said before a name is resolved. Nobody is asked about a name: a question to a name server goes out of this machine, and
    /// whoever decides about the request has not said yes yet. Names that this host itself knows are looked up.
    pub fn check(&self, target: &HttpTarget) -> Result<(), Refusal> {
        if let Some(ip) = target.literal() {
            let address = SocketAddr::new(ip, target.port);
            return self.refuses(address).map_or(Ok(()), |why| Err(closed(&target.host, address, why)));
        }
        if self.ports.contains(&target.port) || self.allow.iter().any(|address| address.port() == target.port) {
            let known: Vec<SocketAddr> = hosts::known(&target.host).into_iter().map(|ip| SocketAddr::new(ip, target.port)).collect();
            // What this host says of a name goes before what the name says of itself, and so does an address that was allowed by name.
            let may_be_allowed = self.allow.iter().any(|address| address.port() == target.port);
            return match sandbox::egress::closed_name(&target.host).filter(|_| known.is_empty() && !may_be_allowed) {
                Some(why) => Err(closed_by_name(&target.host, why)),
                None => self.open(target, known).map(drop),
            };
        }
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        Err(Refusal::new(Code::Denied, format!("port {} of `{}` may not be used", target.port, target.host))
            .hint(format!("the ports are {}", ports.join(", "))))
    }

    /// Those of a name's addresses that may be connected to.
    pub(crate) fn open(&self, target: &HttpTarget, addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Refusal> {
        let refused = addresses.iter().find_map(|address| Some((*address, self.refuses(*address)?)));
        let open: Vec<SocketAddr> = addresses.into_iter().filter(|address| self.refuses(*address).is_none()).collect();
        match refused {
            Some((address, why)) if open.is_empty() => Err(closed(&target.host, address, why)),
            _ => Ok(open),
        }
    }
}

fn closed(host: &str, address: SocketAddr, why: &str) -> Refusal {
    Refusal::new(Code::Denied, format!("`{host}` leads to {address}, and {why}"))
        .hint("only public addresses can be reached; run what needs a local service in the sandbox with shell.run")
}

fn closed_by_name(host: &str, why: &str) -> Refusal {
    Refusal::new(Code::Denied, format!("`{host}` cannot be reached: {why}"))
        .hint("only public hosts can be reached; run what needs a local service in the sandbox with shell.run")
}

/// Where an HTTP request goes, as policies see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpTarget {
    url: Url,
    /// Lower-case and ASCII, without a final dot; an address in its usual notation, without brackets.
    pub host: String,
    pub port: u16,
    pub method: String,
}

impl HttpTarget {
    pub fn parse(url: &str, method: &str) -> Result<HttpTarget, Refusal> {
        let bad = |why: String| Refusal::new(Code::BadInput, why).hint("write it as https://host/path");
        if url.len() > URL_BYTES_MAX {
            return Err(Refusal::new(Code::TooLarge, format!("the url has {} bytes", url.len())).hint("send long data as `body`"));
        }
        // The standard says to drop these silently, and then what a person reads is not what is asked.
        if url.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(bad("the url holds a space, backslash or control character".to_owned()));
        }
        let url = Url::parse(url).map_err(|error| bad(format!("`{url}` is not a url: {error}")))?;
        HttpTarget::of(url, method)
    }

    pub(crate) fn of(mut url: Url, method: &str) -> Result<HttpTarget, Refusal> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::new(Code::Denied, format!("`{}` is not a scheme that may be used", url.scheme()))
                .hint("only http and https can be reached"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::new(Code::BadInput, "the url holds a user name or password").hint("send it as a header"));
        }
        url.set_fragment(None);
        let (Some(port), Some(host)) = (url.port_or_known_default(), host(&url)) else {
            return Err(Refusal::new(Code::BadInput, "the url names no host").hint("write it as https://host/path"));
        };
        Ok(HttpTarget { url, host, port, method: method.to_ascii_uppercase() })
    }

    /// The address that the host itself is, in whatever notation it was written.
    pub fn literal(&self) -> Option<IpAddr> {
        match self.url.host()? {
            Host::Ipv4(ip) => Some(ip.into()),
            Host::Ipv6(ip) => Some(ip.into()),
            Host::Domain(_) => None,
        }
    }

    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Do both speak to the same server?
    pub fn same_origin(&self, other: &HttpTarget) -> bool {
        self.url.scheme() == other.url.scheme() && self.host == other.host && self.port == other.port
    }
}

/// The host that a URL leads to, in the one form in which policies see it. By the same reader as the request's own: `%65xample.com`,
/// full-width letters and an address as one number are what they stand for.
pub fn host_of(url: &str) -> Option<String> {
    host(&Url::parse(url).ok()?)
}

/// The port that a request to this URL would go to.
pub fn port_of(url: &str) -> Option<u16> {
    Url::parse(url).ok()?.port_or_known_default()
}

fn host(url: &Url) -> Option<String> {
    let host = match url.host()? {
        Host::Domain(name) => name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase(),
        Host::Ipv4(ip) => ip.to_string(),
        Host::Ipv6(ip) => ip.to_string(),
    };
    (!host.is_empty()).then_some(host)
}

/// A redirect that http.request is about to follow.
#[derive(Debug, Clone, Copy)]
pub struct Redirect<'a> {
    pub from: &'a HttpTarget,
    pub to: &'a HttpTarget,
    /// The first redirect is 1.
    pub number: u32,
}

#[cfg(test)]
mod tests;
