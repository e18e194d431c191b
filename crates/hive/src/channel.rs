//! HTTP/2 on one connection, as the generated clients want it.

use crate::limits::{HEADER_BYTES_MAX, LinkLimits};
use crate::link::fault::{LinkError, LinkErrorKind};
use crate::serve::connection::ConnectionStream;
use crate::stream_tasks::{StreamTasks, StreamTasksGuard};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::body::Body;
use tonic::codegen::http;

/// What the other end may send ahead of being read: one stream, and all of them.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

const ORIGIN: &str = "http://localhost";

/// A connection to a server of gRPC. It ends with its last copy.
#[derive(Clone, Debug)]
pub struct GrpcChannel {
    requests: SendRequest<Body>,
    /// With the last copy go the connection and its streams.
    _tasks: Arc<StreamTasksGuard>,
}

impl GrpcChannel {
    /// Begins HTTP/2. Whether the other end speaks it shows with the first call.
    pub async fn open<S>(stream: S, limits: &LinkLimits) -> Result<GrpcChannel, LinkError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        match tokio::time::timeout(limits.init_timeout, open(Box::new(stream), limits)).await {
            Ok(opened) => opened.map_err(|error| LinkErrorKind::Connection(error).of("connect")),
            Err(_) => Err(LinkErrorKind::Timeout(limits.init_timeout).of("connect")),
        }
    }

    /// The authority that requests name, for `with_origin` of a generated client. Nobody looks at it.
    pub fn origin() -> http::Uri {
        http::Uri::from_static(ORIGIN)
    }

    /// The connection is lost.
    pub fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }
}

async fn open(stream: ConnectionStream, limits: &LinkLimits) -> Result<GrpcChannel, hyper::Error> {
    let tasks = StreamTasks::default();
    let guard = tasks.guard();
    let (requests, connection) = Builder::new(tasks.clone())
        .timer(TokioTimer::new())
        .max_header_list_size(HEADER_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(limits.keepalive_interval)
        .keep_alive_timeout(limits.keepalive_timeout)
        .handshake(TokioIo::new(stream))
        .await?;
    tasks.execute(async move {
        // Whoever has a call open hears of it there.
        let _: Result<(), hyper::Error> = connection.await;
    });
    Ok(GrpcChannel { requests, _tasks: Arc::new(guard) })
}

impl tower_service::Service<http::Request<Body>> for GrpcChannel {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.requests.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.requests.send_request(request))
    }
}
