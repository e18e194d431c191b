//! What kernel and child say to each other: JSON behind its length in four bytes, big end first.
//!
//! **Invariant.** A frame is at most [`FRAME_BYTES`] long; a longer one is an error before anything is allocated for it.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use crate::fault::RuleFlaw;
use crate::limits::FRAME_BYTES;

/// Both sides come from one binary, but an update may replace it under a running kernel.
pub(crate) const VERSION: u32 = 1;

/// Kernel to child.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Names and texts of the rule files; the first order, and given once.
    Load(Vec<(String, String)>),
    /// A call to give opinions about.
    Judge(Box<RawValue>),
}

/// Child to kernel.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ChildReply {
    /// The first word.
    Hello {
        version: u32,
    },
    /// The names of all rules, in the order in which they speak.
    Loaded {
        rules: Vec<String>,
    },
    Flawed(RuleFlaw),
    /// A stage is set and the child waits for a call.
    Ready,
    /// One answer for each rule, in their order.
    Judged(Vec<RuleAnswer>),
}

/// What one rule said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RuleAnswer {
    Said {
        says: Says,
        reason: String,
        hint: Option<String>,
    },
    /// It threw, overran or answered nonsense.
    Lost {
        why: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Says {
    Allow,
    Deny,
    Review,
    Pass,
}

/// The message as it goes over the pipe.
pub(crate) fn pack(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = length(bytes.len() - 4)?;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    Ok(bytes)
}

pub(crate) fn write(pipe: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    pipe.write_all(&pack(message)?)?;
    pipe.flush()
}

/// `None` is the end of the stream, between two frames.
pub(crate) fn read<T: DeserializeOwned>(pipe: &mut impl Read) -> io::Result<Option<T>> {
    let mut head = [0; 4];
    match pipe.read(&mut head)? {
        0 => return Ok(None),
        some => pipe.read_exact(&mut head[some..])?,
    }
    let mut body = vec![0; length(u32::from_be_bytes(head) as usize)? as usize];
    pipe.read_exact(&mut body)?;
    Ok(Some(serde_json::from_slice(&body)?))
}

pub(crate) async fn send(pipe: &mut pipe::Sender, frame: &[u8]) -> io::Result<()> {
    pipe.write_all(frame).await
}

/// Not safe to abandon: who stops waiting must stop listening for good.
pub(crate) async fn receive<T: DeserializeOwned>(pipe: &mut pipe::Receiver) -> io::Result<T> {
    let mut head = [0; 4];
    pipe.read_exact(&mut head).await?;
    let mut body = vec![0; length(u32::from_be_bytes(head) as usize)? as usize];
    pipe.read_exact(&mut body).await?;
    Ok(serde_json::from_slice(&body)?)
}

fn length(bytes: usize) -> io::Result<u32> {
    let too_long = || io::Error::new(io::ErrorKind::InvalidData, format!("a message of {bytes} bytes, and {FRAME_BYTES} is the most"));
    u32::try_from(bytes).ok().filter(|_| bytes <= FRAME_BYTES).ok_or_else(too_long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_out_as_it_went_in() {
        let mut bytes = Vec::new();
        write(&mut bytes, &ChildReply::Loaded { rules: vec!["a".to_owned()] }).unwrap();
        let mut pipe = bytes.as_slice();
        assert!(matches!(read(&mut pipe).unwrap(), Some(ChildReply::Loaded { rules }) if rules == ["a"]));
        assert!(read::<ChildReply>(&mut pipe).unwrap().is_none());
    }

    #[test]
    fn lengths_and_ends_are_checked() {
        let most = "x".repeat(FRAME_BYTES - 2);
        assert!(pack(&most).is_ok());
        assert!(pack(&(most + "x")).is_err());
        let refused = |bytes: &[u8]| read::<ChildReply>(&mut &*bytes).unwrap_err().kind();
        assert_eq!(refused(&[0xff, 0xff, 0xff, 0xff, b'"']), io::ErrorKind::InvalidData);
        assert_eq!(refused(&[0, 0]), io::ErrorKind::UnexpectedEof);
        assert_eq!(refused(&[0, 0, 0, 7, b'"']), io::ErrorKind::UnexpectedEof);
        assert_eq!(refused(&[0, 0, 0, 2, b'"', b'"']), io::ErrorKind::InvalidData);
    }
}
