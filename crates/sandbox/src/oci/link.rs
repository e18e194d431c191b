//! The socket between the kernel and pid 1 of one container.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::guest;
use crate::packet;
use crate::sys;

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// Waits for one guest, in a folder that is shown to its container. The folder goes with it.
#[derive(Debug)]
pub(super) struct Listener {
    socket: AsyncFd<OwnedFd>,
    folder: PathBuf,
}

impl Listener {
    pub(super) fn open(folder: PathBuf) -> io::Result<Listener> {
        fs::create_dir_all(&folder)?;
        // The guest is another user, for whom the folder is the only one of these paths that exists.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o711))?;
        let here = rustix::fs::open(&folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        // A home's path may be longer than a socket's name can be.
        let name = format!("/proc/self/fd/{}/{}", here.as_raw_fd(), guest::SOCKET);
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(name.as_str())?)?;
        fs::set_permissions(folder.join(guest::SOCKET), fs::Permissions::from_mode(0o666))?;
        rustix::net::listen(&socket, 1)?;
        Ok(Listener { socket: sys::watch(socket)?, folder })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) async fn accept(&self) -> io::Result<Socket> {
        let accept = |socket: &OwnedFd| Ok(rustix::net::accept_with(socket, FLAGS)?);
        let socket = self.socket.async_io(Interest::READABLE, accept).await?;
        Ok(Socket(sys::watch(socket)?))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.folder.join(guest::SOCKET));
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The kernel's end. When it is dropped the container ends.
#[derive(Debug)]
pub(super) struct Socket(AsyncFd<OwnedFd>);

impl Socket {
    /// The pid on this host of who connected, and its user.
    pub(super) fn peer(&self) -> io::Result<(i32, u32)> {
        let peer = rustix::net::sockopt::socket_peercred(self.0.get_ref())?;
        Ok((peer.pid.as_raw_nonzero().get(), peer.uid.as_raw()))
    }

    pub(super) async fn send(&self, value: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.0.async_io(Interest::WRITABLE, |socket| packet::send(socket, value, fds)).await
    }

    pub(super) async fn receive<T: DeserializeOwned>(&self) -> io::Result<(T, Vec<OwnedFd>)> {
        let received = self.0.async_io(Interest::READABLE, |socket| packet::receive(socket)).await?;
        received.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// The guest's way in.
pub(super) fn connect() -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let path = Path::new(guest::LINK_FOLDER).join(guest::SOCKET);
    loop {
        match rustix::net::connect(socket.as_fd(), &SocketAddrUnix::new(&path)?) {
            Err(Errno::INTR) => {}
            other => return other.map(|()| socket).map_err(Into::into),
        }
    }
}
