//! A bounded queue between the kernel and one reader of a stream.
//!
//! **Invariant.** Whoever writes never waits. A reader that is too slow loses its stream, not the kernel its time: it gets what was waiting, then
//! RESOURCE_EXHAUSTED, and may begin again where it was.

use futures_util::Stream;
use parking_lot::Mutex;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tonic::Status;

/// The reader is too slow or gone: nothing more can be sent.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the reader of the stream is too slow or gone")]
pub struct Lagging;

/// The writing end.
#[derive(Debug)]
pub struct Outbox<T> {
    queue: mpsc::Sender<Result<T, Status>>,
    /// The place of the last word, which is kept free for it. Gone once it was said.
    last: Mutex<Option<mpsc::OwnedPermit<Result<T, Status>>>>,
    capacity: usize,
}

/// The reading end, which a method returns as its stream.
#[derive(Debug)]
pub struct OutboxStream<T> {
    queue: mpsc::Receiver<Result<T, Status>>,
    is_over: bool,
}

/// A queue for at most `capacity` items.
pub fn outbox<T>(capacity: usize) -> (Outbox<T>, OutboxStream<T>) {
    let (queue, receiver) = mpsc::channel(capacity + 1);
    let last = queue.clone().try_reserve_owned().ok();
    (Outbox { queue, last: Mutex::new(last), capacity }, OutboxStream { queue: receiver, is_over: false })
}

impl<T> Outbox<T> {
    /// Queues an item, or ends the stream if there is no room for it.
    pub fn push(&self, item: T) -> Result<(), Lagging> {
        let mut last = self.last.lock();
        if last.is_none() {
            return Err(Lagging);
        }
        self.queue.try_send(Ok(item)).map_err(|error| {
            if let (TrySendError::Full(_), Some(place)) = (error, last.take()) {
                let why = format!("this stream was read too slowly: {} items were waiting", self.capacity);
                place.send(Err(Status::resource_exhausted(why)));
            }
            Lagging
        })
    }

    /// Ends the stream with a status, behind what waits.
    pub fn fail(self, status: Status) {
        if let Some(place) = self.last.lock().take() {
            place.send(Err(status));
        }
    }

    /// Nobody reads any more.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Waits until nobody reads any more.
    pub async fn closed(&self) {
        self.queue.closed().await;
    }
}

impl<T> Stream for OutboxStream<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let item = self.queue.poll_recv(context);
        self.is_over = matches!(item, Poll::Ready(Some(Err(_)) | None));
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;

    #[tokio::test]
    async fn a_slow_reader_gets_what_waited_and_then_the_reason() {
        let (outbox, stream) = outbox(2);
        assert_eq!([outbox.push(1), outbox.push(2), outbox.push(3)], [Ok(()), Ok(()), Err(Lagging)]);
        let read: Vec<_> = stream.collect().await;
        assert_eq!(read.len(), 3);
        assert!(matches!(read[..2], [Ok(1), Ok(2)]), "{read:?}");
        let status = read[2].as_ref().unwrap_err();
        assert_eq!(
            (status.code(), status.message()),
            (tonic::Code::ResourceExhausted, "this stream was read too slowly: 2 items were waiting")
        );
    }

    #[tokio::test]
    async fn a_reader_that_keeps_up_gets_everything() {
        let (outbox, mut stream) = outbox(1);
        for number in 0..1_000 {
            outbox.push(number).unwrap();
            assert!(matches!(stream.next().await, Some(Ok(read)) if read == number));
        }
        drop(outbox);
        assert!(stream.next().await.is_none());
    }

    #[tokio::test]
    async fn what_nobody_reads_is_closed() {
        let (outbox, stream) = outbox(1);
        assert!(!outbox.is_closed());
        drop(stream);
        outbox.closed().await;
        assert_eq!(outbox.push(1), Err(Lagging));
    }
}
