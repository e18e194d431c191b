//! Whose socket is at the other end of a TCP connection of this machine, by what Linux tells in `/proc/self/net`.
//!
//! **Invariant.** A user is named only for a socket that is connected and still held by somebody: a socket that its program closed belongs to
//! nobody, and Linux lists it as root's. Doubt is `None`.

use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Lines of a table that are read. A host with more sockets has nobody to trust.
const ROWS_MAX: usize = 200_000;
const ROW_BYTES_MAX: u64 = 512;
const ESTABLISHED: &str = "01";

/// A table of sockets could not be read.
#[derive(Debug, thiserror::Error)]
#[error("`{table}` cannot be read")]
pub struct TcpOwnerError {
    pub table: &'static str,
    pub source: io::Error,
}

/// The user of the socket that `peer` is, connected to our `local`. Reads files: not for an async worker.
pub fn tcp_peer_uid(local: SocketAddr, peer: SocketAddr) -> Result<Option<u32>, TcpOwnerError> {
    let (local, peer) = (plain(local), plain(peer));
    // A client of IPv6 that reaches an IPv4 address is in the second table, so both are read.
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        let fault = |source| TcpOwnerError { table, source };
        let file = match std::fs::File::open(table) {
            Ok(file) => file,
            // A host without IPv6 has no second table.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(fault(error)),
        };
        if let Some(uid) = owner_in(BufReader::new(file), local, peer).map_err(fault)? {
            return Ok(Some(uid));
        }
    }
    Ok(None)
}

/// Without what only IPv6 says of an address: its scope, and that it is an IPv4 one.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn owner_in(mut table: impl BufRead, local: SocketAddr, peer: SocketAddr) -> io::Result<Option<u32>> {
    let mut row = Vec::new();
    for _ in 0..ROWS_MAX {
        row.clear();
        if table.by_ref().take(ROW_BYTES_MAX).read_until(b'\n', &mut row)? == 0 {
            return Ok(None);
        }
        if let Some((of, to, uid)) = std::str::from_utf8(&row).ok().and_then(connected)
            && (of, to) == (peer, local)
        {
            return Ok(Some(uid));
        }
    }
    Ok(None)
}

/// Both ends and the user of a row, if its socket is connected and held.
fn connected(row: &str) -> Option<(SocketAddr, SocketAddr, u32)> {
    let mut words = row.split_ascii_whitespace();
    let (of, to, state) = (words.nth(1)?, words.next()?, words.next()?);
    // Then queues, timers and retransmissions; then the user, its timeout and the inode.
    let (uid, inode) = (words.nth(3)?, words.nth(1)?);
    if state != ESTABLISHED || inode == "0" {
        return None;
    }
    Some((address(of)?, address(to)?, uid.parse().ok()?))
}

/// `0100007F:1F90`: words of four bytes, each as a number of this machine.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(host.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match host.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let mut bytes = [0; 16];
            bytes.copy_from_slice(words.as_flattened());
            IpAddr::from(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    fn check(row: &str, expected: Option<u32>) {
        let table = format!("{HEADER}{row}\n");
        let (local, peer) = ("127.0.0.1:8080".parse().unwrap(), "127.0.0.1:50000".parse().unwrap());
        assert_eq!(owner_in(table.as_bytes(), local, peer).unwrap(), expected, "{row}");
    }

    /// The tables are of a machine whose numbers begin with their last byte, as those of this product do.
    #[test]
    fn only_a_connected_socket_that_somebody_holds_has_an_owner() {
        check(
            "   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 20 4 30 10 -1",
            Some(1000),
        );
        // In the other table, as IPv6 writes it.
        check("1: 0000000000000000FFFF00000100007F:C350 0000000000000000FFFF00000100007F:1F90 01 0:0 00:0 0  1000  0 4711 1", Some(1000));
        // Our own end of the connection; another port; another state; nobody's.
        check("   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1", None);
        check("   1: 0100007F:C351 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1", None);
        check("   1: 0100007F:C350 0100007F:1F90 04 00000000:00000000 00:00000000 00000000     0        0 4711 1", None);
        check("   1: 0100007F:C350 0100007F:1F90 06 00000000:00000000 00:00000000 00000000     0        0 0 1", None);
        check("   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 0 1", None);
        // Not a table at all.
        check("1: 0100007F:C350", None);
        check("1: 0100007F 0100007F 01 0:0 0 0 0 0 1", None);
        check(&"1".repeat(10_000), None);
        check("1: é100007F:C350 0100007F:1F90 01 0:0 0 0 1000 0 1", None);
    }

    #[test]
    fn a_connection_of_ours_is_ours_until_its_client_hangs_up() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, peer) = listener.accept().unwrap();
        let local = server.local_addr().unwrap();
        let me = rustix::process::geteuid().as_raw();
        assert_eq!(tcp_peer_uid(local, peer).unwrap(), Some(me));
        assert_eq!(tcp_peer_uid(peer, local).unwrap(), Some(me), "both ends are ours");
        drop(client);
        assert_eq!(tcp_peer_uid(local, peer).unwrap(), None);
    }
}
