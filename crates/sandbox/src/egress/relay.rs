//! Bytes from one side to the other, counted, as fast as the slower side takes them.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::mask::Mask;

const PIECE_BYTES: usize = 16 * 1024;

/// What has passed so far.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub up: AtomicU64,
    pub down: AtomicU64,
}

impl Counts {
    fn sum(&self) -> u64 {
        self.up.load(Ordering::Relaxed).wrapping_add(self.down.load(Ordering::Relaxed))
    }
}

/// One direction.
pub(super) struct Flow<'a> {
    pub counts: &'a Counts,
    pub counter: &'a AtomicU64,
    /// Nothing in either direction for this long ends it.
    pub idle: Duration,
    /// Is the writer told that nothing more comes?
    pub close: bool,
    pub mask: Option<Mask>,
}

impl Flow<'_> {
    /// Copies until the reader ends or `limit` bytes have passed, then lets the writer know. Gives what is left of the limit.
    pub async fn run(mut self, reader: impl AsyncRead, writer: impl AsyncWrite, mut limit: u64) -> io::Result<u64> {
        let (mut reader, mut writer) = (pin!(reader), pin!(writer));
        let mut buffer = vec![0; PIECE_BYTES];
        while limit > 0 {
            let most = usize::try_from(limit).unwrap_or(usize::MAX).min(buffer.len());
            let read = self.read(&mut reader, &mut buffer[..most]).await?;
            if read == 0 {
                break;
            }
            limit -= read as u64;
            self.counter.fetch_add(read as u64, Ordering::Relaxed);
            let write = async {
                match &mut self.mask {
                    Some(mask) => writer.write_all(&mask.pass(&buffer[..read])).await,
                    None => writer.write_all(&buffer[..read]).await,
                }
            };
            // A side that takes nothing for that long will not.
            tokio::time::timeout(self.idle, write).await.map_err(|_| io::ErrorKind::TimedOut)??;
        }
        if let Some(mask) = &mut self.mask {
            writer.write_all(&mask.rest()).await?;
        }
        if self.close {
            writer.shutdown().await?
        } else {
            writer.flush().await?
        }
        Ok(limit)
    }

    async fn read(&self, reader: &mut (impl AsyncRead + Unpin), buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let before = self.counts.sum();
            match tokio::time::timeout(self.idle, reader.read(buffer)).await {
                Ok(read) => return read,
                // The other direction may be busy meanwhile.
                Err(_) if self.counts.sum() != before => {}
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }
}
