//! A room's resolver: it says at once that no name exists.
//!
//! A room has no network, so its programs can look up nothing. Without an answer they would wait for one: musl's do so for five seconds a name,
//! and they heed neither a refused port nor the answer "refused", only "there is no such name". The holder answers, or a container's steward,
//! by a socket of the job's own network namespace. **Invariant.** An answer is never longer than its question, and nothing of a question is passed on.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::fault::{At, Failure, Step};

/// What a room's `/etc/resolv.conf` says.
pub(crate) const SETTINGS: &str = "nameserver 127.0.0.1\n";

const PORT: u16 = 53;
/// Of a question, as the standard says; one that is longer is none.
const BYTES_MAX: usize = 512;
/// Questions that are answered in a row before anybody else has a turn.
const TURN: usize = 32;
const HEADER: usize = 12;

#[derive(Debug)]
pub(crate) struct Resolver(UdpSocket);

impl Resolver {
    /// Opens it in the network namespace that this process is in.
    pub(crate) fn open() -> Result<Resolver, Failure> {
        let open = || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, PORT))?;
            Resolver::of(socket.into())
        };
        open().at(Step::Resolver)
    }

    /// One that was opened in another network namespace.
    pub(crate) fn of(socket: OwnedFd) -> io::Result<Resolver> {
        let socket = UdpSocket::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Resolver(socket))
    }

    /// Answers what has come. A question whose asker is gone needs no answer.
    pub(crate) fn answer(&self) {
        let mut bytes = [0; BYTES_MAX];
        for _ in 0..TURN {
            match self.0.recv_from(&mut bytes) {
                Ok((length, asker)) => {
                    if let Some(answer) = reply(&bytes[..length]) {
                        let _ = self.0.send_to(&answer, asker);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Such as that the last asker's port was closed, which says nothing about the next question.
                Err(_) => {}
            }
        }
    }
}

impl From<Resolver> for OwnedFd {
    fn from(resolver: Resolver) -> OwnedFd {
        resolver.0.into()
    }
}

impl AsFd for Resolver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// "There is no such name", to one question; `None` for what is no question.
fn reply(query: &[u8]) -> Option<Vec<u8>> {
    const IS_ANSWER: u8 = 0x80;
    const KEPT: u8 = 0x79;
    const CAN_RECURSE: u8 = 0x80;
    const NO_SUCH_NAME: u8 = 3;
    let header = query.first_chunk::<HEADER>()?;
    if header[2] & IS_ANSWER != 0 || header[4..6] != [0, 1] {
        return None;
    }
    let end = question_end(query)?;
    let mut answer = vec![header[0], header[1], IS_ANSWER | (header[2] & KEPT), CAN_RECURSE | NO_SUCH_NAME, 0, 1, 0, 0, 0, 0, 0, 0];
    answer.extend_from_slice(&query[HEADER..end]);
    Some(answer)
}

/// Where the one question ends: a name of labels, a type and a class.
fn question_end(query: &[u8]) -> Option<usize> {
    let mut at = HEADER;
    loop {
        match usize::from(*query.get(at)?) {
            0 => break,
            // A pointer points at another name, and a first question has none to point at.
            length if length > 63 => return None,
            length => at += 1 + length,
        }
    }
    let end = at + 5;
    (end <= query.len()).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_answered_and_nothing_else_is() {
        let question = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x07example\x03com\x00\x00\x01\x00\x01\x00\x00\x29\x10\x00\x00\x00\x00\x00\x00\x00";
        let answer = reply(question).unwrap();
        assert_eq!(answer, b"\x12\x34\x81\x83\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01");
        assert_eq!(reply(&answer), None, "an answer is no question");
        for cut in 0..29 {
            assert_eq!(reply(&question[..cut]), None, "{cut}");
        }
        let mut pointer = question.to_vec();
        pointer[12] = 0xc0;
        assert_eq!(reply(&pointer), None);
        let mut two = question.to_vec();
        two[5] = 2;
        assert_eq!(reply(&two), None);
    }
}
