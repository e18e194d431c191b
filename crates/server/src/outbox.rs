//! What goes out on one connection: whole frames, in one order.
//!
//! Whoever has a frame writes it, if nothing waits before it and the socket takes it: to have a task write it costs a wake-up, which is more than
//! the write. What the socket does not take at once waits in a queue for that task. **Invariant.** A frame is written only while the lock is held or
//! by the task, and never beside it, so frames are not mixed.

use parking_lot::Mutex;
use std::io::ErrorKind;
use std::sync::Arc;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;
use wire::{ErrorCode, FrameError, RpcError, RpcResponse, frame};

/// Sends frames. Each waits while the queue is full, so a slow client makes its requests slow. The last clone closes the connection's sending side.
#[derive(Clone)]
pub(crate) struct FrameOutbox {
    half: Arc<OwnedWriteHalf>,
    /// Frames that the task has not written to their end.
    left: Arc<Mutex<usize>>,
    queue: mpsc::Sender<Vec<u8>>,
}

impl FrameOutbox {
    /// With the work of its task, which ends with the last clone or with the connection.
    pub(crate) fn new(half: OwnedWriteHalf, frames_max: usize) -> (FrameOutbox, impl Future<Output = ()> + Send) {
        let (half, left) = (Arc::new(half), Arc::new(Mutex::new(0)));
        let (queue, waiting) = mpsc::channel(frames_max);
        let work = write_waiting(half.clone(), left.clone(), waiting);
        (FrameOutbox { half, left, queue }, work)
    }

    /// Sends one text as a frame. False when the client has hung up.
    pub(crate) async fn send(&self, text: &str) -> bool {
        let frame = encode(text);
        let Ok(place) = self.queue.reserve().await else { return false };
        let mut left = self.left.lock();
        let rest = match *left {
            0 => match self.half.try_write(&frame) {
                Ok(written) if written == frame.len() => return true,
                Ok(written) => frame[written..].to_vec(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => frame,
                Err(_) => return false,
            },
            _ => frame,
        };
        *left += 1;
        place.send(rest);
        true
    }

    /// The same, on a thread that may block.
    pub(crate) fn blocking_send(&self, text: &str) -> bool {
        *self.left.lock() += 1;
        self.queue.blocking_send(encode(text)).is_ok()
    }

    /// Does the client read what it is sent?
    pub(crate) fn has_room(&self) -> bool {
        self.queue.capacity() > 0
    }
}

/// An answer that no frame holds becomes the error that says so.
fn encode(text: &str) -> Vec<u8> {
    frame::encode(text).unwrap_or_else(|error| {
        let bytes = if let FrameError::TooLong { bytes } = error { bytes } else { 0 };
        let error = RpcError::new(ErrorCode::TooLarge, format!("the answer has {bytes} bytes, more than a frame holds"));
        let answer = RpcResponse { id: wire::RpcId::Null, outcome: Err(error.fix("ask for less at a time")) };
        frame::encode(&answer.text()).unwrap_or_default()
    })
}

async fn write_waiting(half: Arc<OwnedWriteHalf>, left: Arc<Mutex<usize>>, mut waiting: mpsc::Receiver<Vec<u8>>) {
    while let Some(frame) = waiting.recv().await {
        let mut written = 0;
        while written < frame.len() {
            match half.try_write(&frame[written..]) {
                Ok(some) => written += some,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if half.writable().await.is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
        *left.lock() -= 1;
    }
}
