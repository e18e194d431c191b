//! The bytes of a request on their way in: counted, bounded and timed.
//!
//! **Invariant.** What requests of a listener hold together before they are whole is never more than its bound.

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;
use tonic::Status;

/// Bytes of all requests of one listener that are not complete.
#[derive(Debug)]
pub(super) struct PendingBytes {
    held: AtomicUsize,
    max: usize,
}

impl PendingBytes {
    pub(super) fn new(max: usize) -> PendingBytes {
        PendingBytes { held: AtomicUsize::new(0), max }
    }
}

/// The body of a request. Dropped when its message is parsed, it gives its share back.
#[derive(Debug)]
pub struct GrpcRequestBody {
    incoming: Incoming,
    /// `None` for a stream of bytes, whose pieces are passed on one by one.
    pending: Option<Arc<PendingBytes>>,
    held: usize,
    timeout: Option<Duration>,
    /// Begins with the first wait: most requests arrive whole and need no clock.
    clock: Option<Pin<Box<Sleep>>>,
}

impl GrpcRequestBody {
    pub(super) fn new(incoming: Incoming, pending: Arc<PendingBytes>, timeout: Option<Duration>) -> GrpcRequestBody {
        GrpcRequestBody { incoming, pending: Some(pending), held: 0, timeout, clock: None }
    }

    /// The body of a stream that lasts as long as its ends want. Its window bounds what is sent ahead.
    pub(super) fn lasting(incoming: Incoming) -> GrpcRequestBody {
        GrpcRequestBody { incoming, pending: None, held: 0, timeout: None, clock: None }
    }

    fn hold(&mut self, bytes: usize) -> Result<(), Status> {
        let Some(pending) = &self.pending else { return Ok(()) };
        self.held += bytes;
        let all = pending.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if all > pending.max {
            return Err(Status::resource_exhausted("too many bytes of unfinished requests are waiting here"));
        }
        Ok(())
    }

    fn poll_clock(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        let Some(timeout) = self.timeout else { return Poll::Pending };
        let clock = self.clock.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        clock.as_mut().poll(context).map(|()| Status::deadline_exceeded(format!("the request did not arrive within {timeout:?}")))
    }
}

impl Drop for GrpcRequestBody {
    fn drop(&mut self) {
        if let Some(pending) = &self.pending {
            pending.held.fetch_sub(self.held, Ordering::Relaxed);
        }
    }
}

impl Body for GrpcRequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.incoming).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                Poll::Ready(Some(self.hold(bytes).map(|()| frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(Status::from_error(Box::new(error))))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => self.poll_clock(context).map(|status| Some(Err(status))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
