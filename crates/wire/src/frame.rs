//! Frames: a length of four bytes, big-endian, then that many bytes of UTF-8 JSON.
//!
//! **Invariant.** Memory follows the bytes that arrived, never the length that was announced.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Bytes of one frame's body. The control protocol carries facts, not files: a larger text belongs in a blob.
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

const LENGTH_BYTES: usize = 4;

/// What a reader asks the stream for at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// The same where it does not know how much is coming: most requests fit.
const LEAST_BYTES: usize = 4 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("a frame of {bytes} bytes is over the limit of {FRAME_BYTES_MAX}")]
    TooLong { bytes: u64 },
    #[error("a frame is empty")]
    Empty,
    #[error("a frame is not UTF-8 (byte {at})")]
    NotUtf8 { at: usize },
    #[error("the stream ended inside a frame")]
    Cut,
    #[error("the stream failed: {0}")]
    Io(#[from] std::io::Error),
}

impl FrameError {
    /// Whether the next frame cannot be found any more, so that the stream ends after the answer.
    pub fn ends_stream(&self) -> bool {
        match self {
            FrameError::TooLong { .. } | FrameError::Cut | FrameError::Io(_) => true,
            FrameError::Empty | FrameError::NotUtf8 { .. } => false,
        }
    }
}

/// Reads one frame. `None` is a stream that ended between two frames. Not cancel-safe; use [`Frames`] where that matters.
pub async fn read<R: AsyncRead + Unpin>(reader: &mut R) -> Result<Option<String>, FrameError> {
    let Some(length) = read_length(reader).await? else { return Ok(None) };
    check(length)?;
    let mut body = Vec::with_capacity((length as usize).min(CHUNK_BYTES));
    (&mut *reader).take(u64::from(length)).read_to_end(&mut body).await?;
    if body.len() < length as usize {
        return Err(FrameError::Cut);
    }
    text(body).map(Some)
}

/// A stream of frames that keeps what has arrived, so that [`Frames::next`] is cancel-safe.
#[derive(Debug)]
pub struct Frames<R> {
    reader: R,
    /// Bytes that belong to frames not given out yet.
    held: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub fn new(reader: R) -> Frames<R> {
        Frames { reader, held: Vec::new() }
    }

    /// The next frame; `None` is a stream that ended between two frames.
    pub async fn next(&mut self) -> Result<Option<String>, FrameError> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(Some(frame));
            }
            self.held.reserve(self.missing().clamp(LEAST_BYTES, CHUNK_BYTES));
            if self.reader.read_buf(&mut self.held).await? == 0 {
                return if self.held.is_empty() { Ok(None) } else { Err(FrameError::Cut) };
            }
        }
    }

    /// Bytes that the first frame still lacks, as far as it says.
    fn missing(&self) -> usize {
        let length = self.held.first_chunk().map_or(0, |length| u32::from_be_bytes(*length) as usize);
        (LENGTH_BYTES + length).saturating_sub(self.held.len())
    }

    /// The first buffered frame, if it is complete.
    fn take(&mut self) -> Result<Option<String>, FrameError> {
        let Some(length) = self.held.first_chunk().map(|length| u32::from_be_bytes(*length)) else { return Ok(None) };
        let end = LENGTH_BYTES + length as usize;
        if let Err(error) = check(length) {
            // An empty frame is stepped over; behind a too long one nothing can be found again.
            self.held.drain(..LENGTH_BYTES);
            return Err(error);
        }
        if self.held.len() < end {
            return Ok(None);
        }
        let frame = self.held[LENGTH_BYTES..end].to_vec();
        self.held.drain(..end);
        // What most requests need is kept for the next.
        if self.held.is_empty() && self.held.capacity() > CHUNK_BYTES {
            self.held = Vec::new();
        }
        text(frame).map(Some)
    }
}

fn check(length: u32) -> Result<(), FrameError> {
    match length as usize {
        0 => Err(FrameError::Empty),
        bytes if bytes > FRAME_BYTES_MAX => Err(FrameError::TooLong { bytes: u64::from(length) }),
        _ => Ok(()),
    }
}

fn text(body: Vec<u8>) -> Result<String, FrameError> {
    String::from_utf8(body).map_err(|error| FrameError::NotUtf8 { at: error.utf8_error().valid_up_to() })
}

/// Writes one frame in one piece and flushes it.
pub async fn write<W: AsyncWrite + Unpin>(writer: &mut W, text: &str) -> Result<(), FrameError> {
    writer.write_all(&encode(text)?).await?;
    writer.flush().await?;
    Ok(())
}

/// The bytes of one frame.
pub fn encode(text: &str) -> Result<Vec<u8>, FrameError> {
    let bytes = text.len();
    if bytes == 0 {
        return Err(FrameError::Empty);
    }
    let length = u32::try_from(bytes).ok().filter(|_| bytes <= FRAME_BYTES_MAX).ok_or(FrameError::TooLong { bytes: bytes as u64 })?;
    let mut frame = Vec::with_capacity(LENGTH_BYTES + bytes);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(text.as_bytes());
    Ok(frame)
}

async fn read_length<R: AsyncRead + Unpin>(reader: &mut R) -> Result<Option<u32>, FrameError> {
    let mut length = [0u8; LENGTH_BYTES];
    let mut filled = 0;
    while filled < length.len() {
        match reader.read(&mut length[filled..]).await? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(FrameError::Cut),
            n => filled += n,
        }
    }
    Ok(Some(u32::from_be_bytes(length)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn read_all(mut bytes: &[u8]) -> Vec<Result<String, FrameError>> {
        block(async {
            let mut frames = Vec::new();
            loop {
                match read(&mut bytes).await {
                    Ok(Some(text)) => frames.push(Ok(text)),
                    Ok(None) => return frames,
                    Err(error) => {
                        let ends = error.ends_stream();
                        frames.push(Err(error));
                        if ends {
                            return frames;
                        }
                    }
                }
            }
        })
    }

    fn next_all(bytes: &[u8]) -> Vec<Result<String, FrameError>> {
        let mut frames = Frames::new(bytes);
        let mut all = Vec::new();
        loop {
            match block(frames.next()) {
                Ok(Some(text)) => all.push(Ok(text)),
                Ok(None) => return all,
                Err(error) => {
                    let ends = error.ends_stream();
                    all.push(Err(error));
                    if ends {
                        return all;
                    }
                }
            }
        }
    }

    #[test]
    fn a_read_that_is_given_up_loses_nothing() {
        block(async {
            let (mut near, far) = tokio::io::duplex(64);
            let mut frames = Frames::new(far);
            let bytes = [encode("{\"a\":1}").unwrap(), encode("{}").unwrap()].concat();
            for byte in &bytes[..bytes.len() - 1] {
                near.write_all(&[*byte]).await.unwrap();
                // Polled once and dropped: the byte is taken, and the frame is not there yet.
                tokio::select! {
                    biased;
                    frame = frames.next() => assert_eq!(frame.unwrap().unwrap(), "{\"a\":1}"),
                    () = std::future::ready(()) => {}
                }
            }
            near.write_all(&bytes[bytes.len() - 1..]).await.unwrap();
            assert_eq!(frames.next().await.unwrap().unwrap(), "{}");
            drop(near);
            assert!(frames.next().await.unwrap().is_none());
        });
    }

    #[test]
    fn a_frame_reads_back_and_the_stream_ends_between_frames() {
        let mut bytes = encode("{}").unwrap();
        bytes.extend(encode("{\"ä\":1}").unwrap());
        let frames: Vec<_> = read_all(&bytes).into_iter().map(Result::unwrap).collect();
        assert_eq!(frames, ["{}", "{\"ä\":1}"]);
    }

    #[test]
    fn a_bad_frame_is_an_error_and_the_next_one_is_read() {
        let mut bytes = vec![0, 0, 0, 0];
        bytes.extend([0, 0, 0, 2, 0xff, 0xfe]);
        bytes.extend(encode("{}").unwrap());
        let frames = read_all(&bytes);
        assert!(matches!(frames[0], Err(FrameError::Empty)));
        assert!(matches!(frames[1], Err(FrameError::NotUtf8 { at: 0 })));
        assert_eq!(frames[2].as_deref().unwrap(), "{}");
    }

    #[test]
    fn an_announced_length_allocates_nothing_and_a_cut_frame_says_so() {
        assert!(matches!(read_all(&[0xff; 4])[0], Err(FrameError::TooLong { bytes: 0xffff_ffff })));
        let mut bytes = (FRAME_BYTES_MAX as u32).to_be_bytes().to_vec();
        bytes.extend(b"{}");
        assert!(matches!(read_all(&bytes)[0], Err(FrameError::Cut)));
        assert!(matches!(read_all(&[0, 0])[0], Err(FrameError::Cut)));
    }

    #[test]
    fn the_limit_holds_both_ways() {
        let full = "x".repeat(FRAME_BYTES_MAX);
        assert_eq!(read_all(&encode(&full).unwrap())[0].as_deref().unwrap().len(), FRAME_BYTES_MAX);
        assert!(matches!(encode(&(full + "x")), Err(FrameError::TooLong { .. })));
        assert!(matches!(encode(""), Err(FrameError::Empty)));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            let (once, held) = (read_all(&bytes), next_all(&bytes));
            prop_assert_eq!(format!("{once:?}"), format!("{held:?}"));
        }

        #[test]
        fn any_text_survives(text in ".{1,200}") {
            let frames = read_all(&encode(&text).unwrap());
            prop_assert_eq!(frames.len(), 1);
            prop_assert_eq!(frames[0].as_deref().unwrap(), text);
        }
    }
}
