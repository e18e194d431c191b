//! From a name to a connection, by way of an address that was judged.
//!
//! **Invariant.** A socket is opened to exactly the address that was judged: a name is resolved once, here, and never by the room.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;

use super::{Destination, To, closed};

/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// Why there is no connection.
pub(super) enum Unreached {
    /// Where the name leads must not be reached.
    Closed(String),
    Failed(String),
}

pub(super) async fn dial(ask: &Destination, to: To, timeouts: Duration) -> Result<TcpStream, Unreached> {
    let addresses = match to {
        To::Loopback(port) => vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))],
        To::Name => public(ask, timeouts).await?,
    };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match tokio::time::timeout(timeouts, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Small writes of one side should not wait for more of it.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(Unreached::Failed(format!("`{}:{}` cannot be reached: {last}", ask.host, ask.port)))
}

/// Those addresses of a name that lie on the public internet.
async fn public(ask: &Destination, timeouts: Duration) -> Result<Vec<SocketAddr>, Unreached> {
    let failed = |why: String| Unreached::Failed(format!("`{}` cannot be resolved: {why}", ask.host));
    let found = tokio::time::timeout(timeouts, tokio::net::lookup_host((ask.host.as_str(), ask.port))).await;
    let found: Vec<SocketAddr> =
        found.map_err(|_| failed("no answer in time".to_owned()))?.map_err(|error| failed(error.to_string()))?.take(64).collect();
    let refused = found.iter().find_map(|address| Some((address.ip(), closed(address.ip())?)));
    let open: Vec<SocketAddr> = found.into_iter().filter(|address| closed(address.ip()).is_none()).take(ADDRESSES_MAX).collect();
    match refused {
        Some((ip, why)) if open.is_empty() => Err(Unreached::Closed(format!("`{}` leads to {ip}, and {why}", ask.host))),
        None if open.is_empty() => Err(failed("it has no address".to_owned())),
        _ => Ok(open),
    }
}
