//! HTTP/1.1 on a stream that somebody accepted.
//!
//! The listener decides who speaks; a stream serves one process and no other. **Invariant.** A client that says nothing, or takes
//! nothing of its answer, holds its place for a while and no longer, and with it what it holds of its provider.

use crate::gateway::{ClientSession, Gateway};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};

/// A client that opens a connection and says nothing.
const HEAD: Duration = Duration::from_secs(30);
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Connections of one process. A client has a handful.
const CONNECTIONS_MAX: usize = 128;

/// Serves one stream to its end. A client that goes away takes its requests with it. Once `closing` is done, the answer that is on its way
/// is the last one.
async fn serve<S>(gateway: Arc<Gateway>, session: Arc<ClientSession>, stream: S, closing: impl Future<Output = ()>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let wait = gateway.stall();
    let service = service_fn(move |request| {
        let (gateway, session) = (gateway.clone(), session.clone());
        async move { Ok::<_, Infallible>(gateway.answer(&session, request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD.min(wait)).max_buf_size(HEAD_BYTES_MAX).half_close(false);
    let stream = StallGuard::new(stream, wait);
    // A broken connection is the client's own affair; its requests have settled themselves.
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        served = connection.as_mut() => drop(served),
        () = closing => {
            connection.as_mut().graceful_shutdown();
            drop(connection.await);
        }
    }
}

/// A stream to a client that must take what it is sent: one that takes nothing for too long, or a little now and then, holds a slot
/// that others wait for.
struct StallGuard<S> {
    stream: S,
    wait: Duration,
    /// How long writes have waited in all, less what was taken since.
    waited: Duration,
    /// Set while a write waits: since when, and until when at most.
    alarm: Option<(Instant, Pin<Box<Sleep>>)>,
}

/// A byte that is taken makes up for so much waiting: in the long run a kilobyte a second must be taken.
const A_BYTE: Duration = Duration::from_millis(1);

impl<S> StallGuard<S> {
    fn new(stream: S, wait: Duration) -> StallGuard<S> {
        StallGuard { stream, wait, waited: Duration::ZERO, alarm: None }
    }

    /// `taken` is how many bytes of what is written count.
    fn within<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>, taken: impl Fn(&T) -> usize) -> Poll<io::Result<T>> {
        if let Poll::Ready(written) = &written {
            let waited = self.alarm.take().map_or(Duration::ZERO, |(since, _)| since.elapsed());
            let taken = u32::try_from(written.as_ref().map_or(0, taken)).unwrap_or(u32::MAX);
            self.waited = (self.waited + waited).saturating_sub(A_BYTE.saturating_mul(taken));
        } else {
            let left = self.wait.saturating_sub(self.waited);
            let alarm = self.alarm.get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(left))));
            ready!(alarm.1.as_mut().poll(cx));
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")));
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.within(cx, written, |bytes| *bytes)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.within(cx, written, |bytes| *bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.within(cx, flushed, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.within(cx, shut, |()| 0)
    }
}

/// Serves whoever connects, until `closing` becomes true; then nobody else is served, and it comes back when every answer that is on its
/// way has reached its client. Dropping this future ends every connection at once.
pub async fn listen(gateway: Arc<Gateway>, session: Arc<ClientSession>, listener: TcpListener, closing: watch::Receiver<bool>) {
    let mut open = JoinSet::new();
    tokio::select! {
        () = closed(closing.clone()) => {}
        () = accept(gateway, session, listener, &mut open, &closing) => {}
    }
    while open.join_next().await.is_some() {}
}

/// Comes back when the listener closes; never if nobody can close it any more.
async fn closed(mut closing: watch::Receiver<bool>) {
    if closing.wait_for(|closing| *closing).await.is_err() {
        std::future::pending().await
    }
}

async fn accept(
    gateway: Arc<Gateway>,
    session: Arc<ClientSession>,
    listener: TcpListener,
    open: &mut JoinSet<()>,
    closing: &watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut failed = false;
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                failed = false;
                // Small pieces go out as they come.
                if stream.set_nodelay(true).is_err() {
                    continue;
                }
                let (gateway, session, closing) = (gateway.clone(), session.clone(), closed(closing.clone()));
                open.spawn(async move {
                    serve(gateway, session, stream, closing).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Said once, and not twenty times a second for as long as it lasts.
                if !std::mem::replace(&mut failed, true) {
                    world::log!("skep: a connection to the gateway was not accepted: {error}");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        while open.try_join_next().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Writes eight kilobytes to a client that takes so many bytes after each pause.
    async fn write_to(takes: usize, pause: Duration) -> io::Result<()> {
        let (mut client, stream) = tokio::io::duplex(64);
        let mut stream = StallGuard::new(stream, Duration::from_secs(300));
        let taking = tokio::spawn(async move {
            loop {
                tokio::time::sleep(pause).await;
                let mut some = vec![0; takes];
                if client.read(&mut some).await.unwrap_or(0) == 0 {
                    return;
                }
            }
        });
        let written = stream.write_all(&[7; 8 * 1024]).await;
        taking.abort();
        written
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_a_little_now_and_then_is_not_waited_for_either() {
        let no = |written: io::Result<()>| written.unwrap_err().kind();
        assert_eq!(no(write_to(64, Duration::from_secs(299)).await), io::ErrorKind::TimedOut);
        assert_eq!(no(write_to(1, Duration::from_secs(10)).await), io::ErrorKind::TimedOut);
        // Slow, but as fast as it must be; and one that rests once.
        write_to(64, Duration::from_millis(50)).await.unwrap();
        write_to(64, Duration::from_secs(2)).await.unwrap();
    }
}
