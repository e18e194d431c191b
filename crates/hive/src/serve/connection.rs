//! One connection, from its greeting to its end.

use super::authority::AuthorityMender;
use super::body::{GrpcRequestBody, PendingBytes};
use crate::byte_stream::BYTE_STREAM_PATH;
use crate::identity::CallerOrigin;
use crate::limits::{HEADER_BYTES_MAX, ServeLimits};
use crate::stream_tasks::StreamTasks;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tonic::codegen::http;

/// A connected socket of either kind: so HTTP/2 is compiled once.
pub(crate) type ConnectionStream = Box<dyn SocketStream>;

pub(crate) trait SocketStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> SocketStream for S {}

/// A connection, and what it proves.
pub(super) struct OpenedConnection {
    pub(super) stream: ConnectionStream,
    pub(super) origin: CallerOrigin,
    pub(super) is_unix: bool,
}

/// The preface of HTTP/2 and the head of the settings that follow it: less is no client.
const GREETING_BYTES: usize = 24 + 9;

/// Frames of a request are at most as large as HTTP/2 allows without asking.
const FRAME_BYTES_MAX: u32 = 16 * 1024;

/// What a client may send ahead of being read: one stream, and all streams of a connection.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// Serves a connection until its peer ends it, it breaks a bound, or the server stops.
pub(super) async fn attend<S>(
    opened: OpenedConnection,
    service: S,
    limits: &ServeLimits,
    pending: Arc<PendingBytes>,
    mut stop: watch::Receiver<Option<Duration>>,
) where
    S: tower_service::Service<http::Request<GrpcRequestBody>, Response = http::Response<tonic::body::Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let tasks = StreamTasks::default();
    let _ends_with_us = tasks.guard();
    let read = Arc::new(AtomicUsize::new(0));
    let mender = opened.is_unix.then(AuthorityMender::default);
    let stream = CountedStream { stream: opened.stream, read: Arc::clone(&read), mender };
    let origin = opened.origin;
    let timeout = limits.request_timeout;
    let answer = hyper::service::service_fn(move |request: http::Request<Incoming>| {
        let lasts = request.uri().path() == BYTE_STREAM_PATH;
        let bounded = |body| if lasts { GrpcRequestBody::lasting(body) } else { GrpcRequestBody::new(body, Arc::clone(&pending), timeout) };
        let request = identified(&origin, request).map(|request| request.map(bounded));
        // A fresh copy is ready: the generated services always are.
        let mut service = service.clone();
        async move {
            match request {
                Ok(request) => service.call(request).await,
                Err(status) => Ok(status.into_http()),
            }
        }
    });
    let mut connection = pin!(builder(tasks, limits).serve_connection(TokioIo::new(stream), answer));
    let mut greeting = pin!(tokio::time::sleep(limits.greeting_timeout));
    let (mut has_greeted, mut is_stopping) = (false, false);
    loop {
        tokio::select! {
            // What went wrong is the peer's affair: it is gone, or it broke the protocol and was told so.
            _ = connection.as_mut() => return,
            _ = stop.changed(), if !is_stopping => {
                // Who has not said a word has nothing to end.
                if read.load(Ordering::Relaxed) < GREETING_BYTES {
                    return;
                }
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            () = greeting.as_mut(), if !has_greeted => {
                has_greeted = read.load(Ordering::Relaxed) >= GREETING_BYTES;
                if !has_greeted {
                    return;
                }
            }
        }
    }
}

fn builder(tasks: StreamTasks, limits: &ServeLimits) -> http2::Builder<StreamTasks> {
    let mut builder = http2::Builder::new(tasks);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_max)
        .max_header_list_size(HEADER_BYTES_MAX)
        .max_frame_size(FRAME_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(limits.send_buffer_bytes_max)
        .keep_alive_interval(limits.keepalive_interval)
        .keep_alive_timeout(limits.keepalive_timeout)
        .auto_date_header(false);
    builder
}

/// The request with its caller beside it, or its refusal.
fn identified(origin: &CallerOrigin, mut request: http::Request<Incoming>) -> Result<http::Request<Incoming>, tonic::Status> {
    let caller = origin.caller(request.uri().path(), request.headers())?;
    request.extensions_mut().insert(caller);
    Ok(request)
}

/// A socket that counts what is read from it, and mends it where it must be.
struct CountedStream {
    stream: ConnectionStream,
    read: Arc<AtomicUsize>,
    /// For clients of a unix socket.
    mender: Option<AuthorityMender>,
}

impl AsyncRead for CountedStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let done = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.read.fetch_add(buffer.filled().len() - before, Ordering::Relaxed);
        if let Some(mender) = &mut self.mender {
            mender.pass(&mut buffer.filled_mut()[before..]);
        }
        done
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, context: &mut Context<'_>, slices: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
