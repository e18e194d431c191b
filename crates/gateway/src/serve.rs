//! HTTP/1.1 on a stream that somebody accepted.
//!
//! The listener decides who speaks; a stream serves one process and no other.

use crate::gateway::{Gateway, Session};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// A client that opens a connection and says nothing.
const HEAD: Duration = Duration::from_secs(30);
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Connections of one process. A client has a handful.
const CONNECTIONS_MAX: usize = 128;

/// Serves one stream to its end. A client that goes away takes its requests with it.
pub async fn serve<S>(gateway: Arc<Gateway>, session: Arc<Session>, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let (gateway, session) = (gateway.clone(), session.clone());
        async move { Ok::<_, Infallible>(gateway.answer(&session, request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES_MAX).half_close(false);
    // A broken connection is the client's own affair; its requests have settled themselves.
    drop(builder.serve_connection(TokioIo::new(stream), service).await);
}

/// Serves whoever connects, until this future is dropped; then every connection ends with it.
pub async fn listen(gateway: Arc<Gateway>, session: Arc<Session>, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut open = JoinSet::new();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                // Small pieces go out as they come.
                if stream.set_nodelay(true).is_err() {
                    continue;
                }
                let (gateway, session) = (gateway.clone(), session.clone());
                open.spawn(async move {
                    serve(gateway, session, stream).await;
                    drop(place);
                });
            }
            Err(error) => {
                eprintln!("skep: a connection to the gateway was not accepted: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        while open.try_join_next().is_some() {}
    }
}
