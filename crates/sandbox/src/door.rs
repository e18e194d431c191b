//! Doors: listeners on a room's loopback that are handed out of it.
//!
//! The holder is in the network namespace of its next job until that job starts, so it opens them there. The job inherits none:
//! it closes every descriptor before anything else.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use crate::fault::{At, Failure, SandboxError, Step};
use crate::spec::Door;

/// Opens them in the network namespace that this process is in.
pub(crate) fn open(doors: &[Door]) -> Result<Vec<OwnedFd>, Failure> {
    let listen = |door: &Door| {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, door.port));
        TcpListener::bind(address).at(Step::Doors).map(OwnedFd::from).map_err(|failure| failure.about(address))
    };
    doors.iter().map(listen).collect()
}

/// What came out of the room, ready to accept on.
pub(crate) fn listeners(fds: Vec<OwnedFd>) -> Result<Vec<tokio::net::TcpListener>, SandboxError> {
    let listen = |fd: OwnedFd| {
        let listener = TcpListener::from(fd);
        listener.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(listener)
    };
    fds.into_iter().map(listen).collect::<std::io::Result<_>>().map_err(SandboxError::io("watching a door"))
}
