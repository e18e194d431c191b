//! The way out: connections to providers, kept open between requests, TLS by the host's own list of whom to believe.
//!
//! Follows no redirect, keeps no cookie, reads nothing from the environment. Dropping a request or its answer closes its connection.

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde_json::Value;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A host that does not answer a knock for this long is taken for gone.
const CONNECT: Duration = Duration::from_secs(10);
/// Idle connections are kept this long; providers close theirs after about as much.
const KEEP: Duration = Duration::from_secs(60);
const KEPT_PER_HOST: usize = 32;
/// Answers to questions of our own, such as a token's renewal.
const OWN_ANSWER: Duration = Duration::from_secs(30);
const OWN_BYTES_MAX: usize = 256 * 1024;

/// Cheap to clone; all clones share their connections.
#[derive(Clone, Debug)]
pub struct Upstream {
    client: Client<Connector, Full<Bytes>>,
}

/// A request that came to no answer.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(crate) struct Unanswered {
    pub why: String,
    /// The provider never saw it, so another may be asked.
    pub unseen: bool,
}

impl Upstream {
    /// `roots` are believed beside the host's own list.
    pub fn new(roots: &[CertificateDer<'static>]) -> Upstream {
        let connector = Connector { tls: Arc::new(Tls { roots: roots.to_vec(), config: std::sync::OnceLock::new() }) };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(KEEP)
            .pool_max_idle_per_host(KEPT_PER_HOST)
            .build(connector);
        Upstream { client }
    }

    /// Sends one request and waits `answer` at most for the head of its answer.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>, answer: Duration) -> Result<Response<Incoming>, Unanswered> {
        match tokio::time::timeout(answer, self.client.request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(Unanswered { unseen: error.is_connect(), why: root_cause(&error) }),
            Err(_) => Err(Unanswered { unseen: false, why: format!("it did not answer within {} s", answer.as_secs_f64()) }),
        }
    }

    /// A question of our own, asked and answered in JSON.
    pub(crate) async fn post_json(&self, url: &str, body: &Value) -> Result<Value, String> {
        let uri: Uri = url.parse().map_err(|error| format!("`{url}` is no url: {error}"))?;
        let mut request = Request::new(Full::new(Bytes::from(body.to_string())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let response = self.send(request, OWN_ANSWER).await.map_err(|error| error.why)?;
        let status = response.status();
        let read = tokio::time::timeout(OWN_ANSWER, Limited::new(response.into_body(), OWN_BYTES_MAX).collect()).await;
        let bytes = match read {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("the answer did not end".into()),
        };
        // The answer to a refused renewal may quote what was sent; the status says enough.
        if !status.is_success() {
            return Err(format!("it was refused with {status}"));
        }
        serde_json::from_slice(&bytes).map_err(|_| "the answer is not JSON".to_owned())
    }
}

/// What lies beneath: "connection refused", not "client error (Connect)".
fn root_cause(error: &Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if error.is_connect() { cause.to_string() } else { format!("its answer cannot be read: {cause}") }
}

#[derive(Clone, Debug)]
struct Connector {
    tls: Arc<Tls>,
}

#[derive(Debug)]
struct Tls {
    roots: Vec<CertificateDer<'static>>,
    config: std::sync::OnceLock<Arc<ClientConfig>>,
}

impl Tls {
    /// Set up when it is first needed: reading the host's list takes a while.
    fn config(&self) -> io::Result<Arc<ClientConfig>> {
        if let Some(config) = self.config.get() {
            return Ok(config.clone());
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(self.roots.iter().cloned());
        if roots.is_empty() {
            return Err(io::Error::other("this host has no list of certificates; install `ca-certificates`"));
        }
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(self.config.get_or_init(|| Arc::new(config)).clone())
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Stream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tls = self.tls.clone();
        Box::pin(async move {
            match tokio::time::timeout(CONNECT, connect(&tls, &uri)).await {
                Ok(stream) => stream.map(TokioIo::new),
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {} s", CONNECT.as_secs()))),
            }
        })
    }
}

async fn connect(tls: &Tls, uri: &Uri) -> io::Result<Stream> {
    let secure = uri.scheme_str() == Some("https");
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    stream.set_nodelay(true)?;
    if !secure {
        return Ok(Stream::Plain(stream));
    }
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    let stream = TlsConnector::from(tls.config()?).connect(name, stream).await?;
    Ok(Stream::Secure(Box::new(stream)))
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Secure(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Secure(stream) => Pin::new(stream.as_mut()).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Secure(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Secure(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}
