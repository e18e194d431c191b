//! Streams of bytes between a parent and its child. The bytes themselves are nobody's record; that there was a stream, and how much it carried, is.

use crate::{Pid, StreamId};
use serde::{Deserialize, Serialize};

/// A stream that is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteStream {
    pub id: StreamId,
    /// Who opened it first, and who is at the other end: a parent and its child.
    pub from: Pid,
    pub to: Pid,
    /// What both call it.
    pub name: String,
    pub opened_ms: i64,
}

impl ByteStream {
    /// Is this process at one of its ends?
    pub fn is_of(&self, pid: Pid) -> bool {
        self.from == pid || self.to == pid
    }
}
