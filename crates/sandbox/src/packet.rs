//! Messages between kernel, launcher and holders: one JSON value and some descriptors per SEQPACKET packet.
//!
//! A packet must fit the socket's buffer, and an argument list need not: a long value travels in a memfd, the last descriptor.

use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::inlet::Inlets;
use crate::spec::Door;
use rustix::fs::MemfdFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Well under the smallest default socket buffer (about 200 KiB), so that several packets fit.
const INLINE_BYTES_MAX: usize = 32 * 1024;
/// Linux refuses argument lists over a few MiB anyway.
const VALUE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// To a holder four for a job's streams and report and up to three cgroups, back a pidfd, the doors and the inlets; and one memfd.
const FDS_MAX: usize = Door::MAX + Inlets::MAX + 2;

const INLINE: u8 = 0;
const IN_MEMFD: u8 = 1;

/// A connected pair of packet sockets, close-on-exec.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends one value. On a non-blocking socket a full buffer is `WouldBlock` and nothing has been sent.
pub(crate) fn send(socket: impl AsFd, value: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut bytes = vec![INLINE];
    serde_json::to_writer(&mut bytes, value)?;
    let memfd;
    let mut fds = fds.to_vec();
    if bytes.len() > INLINE_BYTES_MAX {
        memfd = rustix::fs::memfd_create("skep-packet", MemfdFlags::CLOEXEC)?;
        let mut file = std::fs::File::from(memfd.try_clone()?);
        file.write_all(&bytes[1..])?;
        bytes = vec![IN_MEMFD];
        fds.push(memfd.as_fd());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one value and its descriptors; `None` when the other side is gone.
pub(crate) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; INLINE_BYTES_MAX + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        match rustix::net::recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            other => break other?,
        }
    };
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if got.bytes == 0 {
        return Ok(None);
    }
    if got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    let value = match bytes[0] {
        INLINE => serde_json::from_slice(&bytes[1..got.bytes])?,
        _ => {
            let memfd = fds.pop().ok_or_else(|| io::Error::from_raw_os_error(libc::EBADMSG))?;
            let mut file = std::fs::File::from(memfd);
            file.rewind()?;
            let mut long = Vec::new();
            file.take(VALUE_BYTES_MAX).read_to_end(&mut long)?;
            serde_json::from_slice(&long)?
        }
    };
    Ok(Some((value, fds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_values_arrive_with_their_descriptors() {
        for size in [0, 10, INLINE_BYTES_MAX, 3 * 1024 * 1024] {
            let (here, there) = pair().unwrap();
            let (read_end, write_end) = rustix::pipe::pipe().unwrap();
            let value = "x".repeat(size);
            send(&here, &value, &[write_end.as_fd()]).unwrap();
            drop(write_end);
            let (got, mut fds) = receive::<String>(&there).unwrap().unwrap();
            assert_eq!(got, value);
            assert_eq!(fds.len(), 1);
            rustix::io::write(fds.pop().unwrap(), b"ok").unwrap();
            let mut buffer = [0; 2];
            rustix::io::read(&read_end, &mut buffer).unwrap();
            assert_eq!(&buffer, b"ok");
        }
    }

    #[test]
    fn the_end_of_the_peer_is_none() {
        let (here, there) = pair().unwrap();
        drop(here);
        assert!(receive::<String>(&there).unwrap().is_none());
    }
}
