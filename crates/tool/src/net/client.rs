//! One HTTP exchange, with its redirects.
//!
//! Each hop resolves the name, judges the addresses, opens a socket to one that was judged, and speaks HTTP/1.1 on it. No pool, no
//! proxy, no cookies, nothing from the environment. Dropping the future closes the socket.

use super::{AddressFilter, HttpTarget, Redirect};
use crate::fault::{ToolFault, ToolStop};
use crate::subcall::SubcallGate;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use world::{Code, Refusal};

/// Browsers follow twenty; an API that needs more than five is a loop.
const REDIRECTS_MAX: u32 = 5;
/// Head of an answer, status line and headers together.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 100;
/// One address of several that does not answer must not take all the time there is.
const CONNECT: Duration = Duration::from_secs(10);
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

pub(crate) struct OutgoingRequest {
    pub target: HttpTarget,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Bytes of the answer's body that are read.
    pub body_max: usize,
}

pub(crate) struct IncomingResponse {
    /// Where it came from in the end.
    pub url: String,
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub truncated: bool,
    pub redirects: u32,
}

pub(crate) async fn fetch(
    mut outgoing: OutgoingRequest,
    filter: &AddressFilter,
    gate: &dyn SubcallGate,
) -> Result<IncomingResponse, ToolStop> {
    let mut redirects = 0;
    loop {
        let (response, _connection) = exchange(&outgoing, filter).await?;
        let Some(next) = redirect(&outgoing, &response)? else {
            return answer(outgoing, response, redirects).await;
        };
        redirects += 1;
        if redirects > REDIRECTS_MAX {
            return Err(Refusal::new(Code::Denied, format!("`{}` redirects more than {REDIRECTS_MAX} times", outgoing.target.host))
                .hint("ask for the final url")
                .into());
        }
        filter.check(&next.target)?;
        gate.allow_redirect(Redirect { from: &outgoing.target, to: &next.target, number: redirects }).await?;
        outgoing = next;
    }
}

/// The request that a redirect asks for; `None` when the response is none.
fn redirect(outgoing: &OutgoingRequest, response: &Response<Incoming>) -> Result<Option<OutgoingRequest>, Refusal> {
    let status = response.status();
    let keeps_method = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    if !keeps_method && !matches!(status, StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
    let from = &outgoing.target;
    let lost = |why: String| Refusal::new(Code::Denied, format!("`{}` redirects {why}", from.host)).hint("ask for the final url");
    let location = location.to_str().map_err(|_| lost("to a url that is not text".to_owned()))?;
    let url = from.url.join(location).map_err(|error| lost(format!("to `{location}`, which is no url: {error}")))?;
    let turns_to_get = !keeps_method && !matches!(from.method.as_str(), "GET" | "HEAD");
    let target = HttpTarget::of(url, if turns_to_get { "GET" } else { &from.method })?;
    if from.is_https() && !target.is_https() {
        return Err(lost(format!("from https to {}", target.url())));
    }
    let same = from.same_origin(&target);
    let body = if turns_to_get { Bytes::new() } else { outgoing.body.clone() };
    if !same && !body.is_empty() {
        return Err(lost(format!("the body on to another server, {}", target.host)));
    }
    // What the caller put there was for the first server.
    let headers = if same { outgoing.headers.clone() } else { HeaderMap::new() };
    Ok(Some(OutgoingRequest { target, headers, body, body_max: outgoing.body_max }))
}

async fn exchange(outgoing: &OutgoingRequest, filter: &AddressFilter) -> Result<(Response<Incoming>, JoinSet<()>), ToolStop> {
    let target = &outgoing.target;
    filter.check(target)?;
    let stream = connect(target, filter).await?;
    if !target.is_https() {
        return talk(outgoing, stream).await;
    }
    let fault = |cause: io::Error| ToolFault::Net { host: target.host.clone(), verb: "secure the connection to", cause };
    let name = ServerName::try_from(target.host.clone()).map_err(|error| fault(io::Error::other(error)))?;
    let stream = TlsConnector::from(tls()?).connect(name, stream).await.map_err(fault)?;
    talk(outgoing, stream).await
}

/// A socket to an address that was judged.
async fn connect(target: &HttpTarget, filter: &AddressFilter) -> Result<TcpStream, ToolStop> {
    let fault = |verb: &'static str, cause: io::Error| ToolFault::Net { host: target.host.clone(), verb, cause };
    let addresses: Vec<SocketAddr> = match target.literal() {
        Some(ip) => vec![SocketAddr::new(ip, target.port)],
        None => tokio::net::lookup_host((target.host.as_str(), target.port)).await.map_err(|error| fault("find", error))?.collect(),
    };
    let addresses = filter.open(target, addresses)?;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses.into_iter().take(ADDRESSES_MAX) {
        match tokio::time::timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(fault("connect to", last).into())
}

async fn talk<S>(outgoing: &OutgoingRequest, stream: S) -> Result<(Response<Incoming>, JoinSet<()>), ToolStop>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let target = &outgoing.target;
    let fault = |error: hyper::Error| ToolFault::Net { host: target.host.clone(), verb: "talk to", cause: broken(error) };
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(fault)?;
    // The set ends its task when it is dropped, and with it the socket.
    let mut task = JoinSet::new();
    task.spawn(async move {
        let _ = connection.await;
    });
    let request = request(outgoing).map_err(|error| Refusal::new(Code::BadInput, format!("the request cannot be made: {error}")))?;
    let response = sender.send_request(request).await.map_err(fault)?;
    Ok((response, task))
}

fn request(outgoing: &OutgoingRequest) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let OutgoingRequest { target, headers, body, .. } = outgoing;
    let path = &target.url[url::Position::BeforePath..];
    let mut request = Request::builder().method(Method::from_bytes(target.method.as_bytes())?).uri(path).body(Full::new(body.clone()))?;
    let own = request.headers_mut();
    *own = headers.clone();
    let host = &target.url[url::Position::BeforeHost..url::Position::AfterPort];
    own.insert(HOST, HeaderValue::from_str(host)?);
    own.entry(USER_AGENT).or_insert(HeaderValue::from_static(concat!("skep/", env!("CARGO_PKG_VERSION"))));
    own.entry(HeaderName::from_static("accept")).or_insert(HeaderValue::from_static("*/*"));
    Ok(request)
}

async fn answer(outgoing: OutgoingRequest, response: Response<Incoming>, redirects: u32) -> Result<IncomingResponse, ToolStop> {
    let (head, mut incoming) = response.into_parts();
    let (mut body, mut truncated) = (Vec::new(), false);
    while let Some(frame) = incoming.frame().await {
        let frame =
            frame.map_err(|error| ToolFault::Net { host: outgoing.target.host.clone(), verb: "read from", cause: broken(error) })?;
        let Some(data) = frame.data_ref() else { continue };
        let wanted = data.len().min(outgoing.body_max - body.len());
        body.extend_from_slice(&data[..wanted]);
        if wanted < data.len() {
            truncated = true;
            break;
        }
    }
    Ok(IncomingResponse {
        url: outgoing.target.url().to_owned(),
        status: head.status.as_u16(),
        headers: head.headers,
        body,
        truncated,
        redirects,
    })
}

/// Hyper's error as what lies beneath it, where something does.
fn broken(error: hyper::Error) -> io::Error {
    let kind = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind);
    let kind = if error.is_incomplete_message() { io::ErrorKind::ConnectionReset } else { kind.unwrap_or(io::ErrorKind::InvalidData) };
    io::Error::new(kind, error)
}

/// The host's own list of whom to believe, read when it is first needed.
fn tls() -> Result<Arc<ClientConfig>, ToolFault> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(Arc::clone(config));
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(ToolFault::NoRoots);
    }
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| ToolFault::Net { host: "tls".to_owned(), verb: "set up", cause: io::Error::other(error) })?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::clone(CONFIG.get_or_init(|| Arc::new(config))))
}
