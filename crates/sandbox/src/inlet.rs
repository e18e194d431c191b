//! Inlets: sockets of a room's network that are handed out of it, to reach what listens on its loopback.
//!
//! A socket belongs to the network in which it was made, whoever holds it later. So the holder makes some while it is where its next
//! job will be, and nobody has to enter a room, which would take rights. The job inherits none of them.
//!
//! **Invariant.** A connection leads to the room's own loopback and nowhere else; a socket goes back only when it is unconnected.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::fault::{At, Failure, Step};

/// Makes them in the network namespace that this process is in.
pub(crate) fn open(count: usize) -> Result<Vec<OwnedFd>, Failure> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    (0..count).map(|_| rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).at(Step::Inlets)).collect()
}

/// What came out of the room.
#[derive(Debug)]
pub struct Inlets {
    idle: Mutex<Vec<OwnedFd>>,
    /// As many as there are sockets in `idle`, or on their way back.
    free: Arc<Semaphore>,
}

impl Inlets {
    /// Inlets of one job. Browsers open six connections to a host; a descriptor in a packet is one of 253.
    pub const MAX: usize = 64;

    pub(crate) fn new(sockets: Vec<OwnedFd>) -> Arc<Inlets> {
        Arc::new(Inlets { free: Arc::new(Semaphore::new(sockets.len())), idle: Mutex::new(sockets) })
    }

    /// Connects to a port of the room's loopback. While all sockets are in use, this waits.
    pub async fn connect(self: &Arc<Inlets>, port: u16) -> io::Result<Inlet> {
        let permit = Arc::clone(&self.free).acquire_owned().await.map_err(io::Error::other)?;
        let socket = self.idle.lock().pop().ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))?;
        let copy = socket.try_clone();
        // From here on the socket goes back, also when nobody waits for the connection any more.
        let hold = Hold { socket: Some(socket), inlets: Arc::clone(self), permit: Some(permit) };
        let copy = copy?;
        let stream = TcpSocket::from_std_stream(copy.into()).connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        Ok(Inlet { stream, _hold: hold })
    }
}

/// A connection into the room. Dropped, it is cut.
#[derive(Debug)]
pub struct Inlet {
    // Before the hold, so that nothing watches the socket when it goes back.
    stream: TcpStream,
    _hold: Hold,
}

impl Deref for Inlet {
    type Target = TcpStream;
    fn deref(&self) -> &TcpStream {
        &self.stream
    }
}

impl DerefMut for Inlet {
    fn deref_mut(&mut self) -> &mut TcpStream {
        &mut self.stream
    }
}

#[derive(Debug)]
struct Hold {
    socket: Option<OwnedFd>,
    inlets: Arc<Inlets>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Some(socket) = self.socket.take() else { return };
        match rustix::net::connect_unspec(&socket) {
            Ok(()) => self.inlets.idle.lock().push(socket),
            // One that cannot be used again is one fewer.
            Err(_) => self.permit.take().into_iter().for_each(OwnedSemaphorePermit::forget),
        }
    }
}
