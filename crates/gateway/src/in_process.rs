//! Requests from inside the kernel's own process: the same way as any other, without a socket.

use crate::attempt::AskedProvider;
use crate::gateway::{ClientSession, Gateway, OwnRefusal};
use crate::tee::Tee;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request};
use std::time::Duration;

/// The version of Anthropic's api that we speak when we speak ourselves; other providers ignore it.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// An answer on its way. Dropping it cancels the request.
pub struct InProcessResponse {
    pub status: u16,
    pub retry_after: Option<Duration>,
    /// Whoever answered said that asking again is of no use.
    pub settled: bool,
    /// The gateway refused it; no model was asked, or none could be.
    pub is_own: bool,
    /// The provider's host took no connection.
    pub is_unreachable: bool,
    /// Who gave the answer, where a provider did.
    pub asked: Option<AskedProvider>,
    body: Tee,
}

/// An answer that broke off, or a request that could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoResponse(String);

impl Gateway {
    /// Makes a request for a process that has no socket here.
    pub async fn ask(&self, session: &ClientSession, path: &str, body: Vec<u8>) -> Result<InProcessResponse, NoResponse> {
        let key = HeaderValue::from_str(session.key.reveal()).map_err(|error| NoResponse(error.to_string()))?;
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = path.parse().map_err(|error| NoResponse(format!("`{path}` is no path: {error}")))?;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("anthropic-version", HeaderValue::from_static(ANTHROPIC_VERSION));
        headers.insert("x-api-key", key);
        let (head, body) = self.answer(session, request).await.into_parts();
        let seconds = head.headers.get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.parse().ok());
        let settled = head.headers.get("x-should-retry").is_some_and(|again| again == "false");
        let own = head.extensions.get::<OwnRefusal>();
        let (is_own, is_unreachable) = (own.is_some(), own.is_some_and(|own| own.is_unreachable));
        let asked = head.extensions.get::<AskedProvider>().cloned();
        let (status, retry_after) = (head.status.as_u16(), seconds.map(Duration::from_secs));
        Ok(InProcessResponse { status, retry_after, settled, is_own, is_unreachable, asked, body })
    }
}

impl InProcessResponse {
    /// The next piece; `None` at the end, when what it cost is on record.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, NoResponse> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(broken)) => return Err(NoResponse(broken.to_string())),
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data() {
                        return Ok(Some(piece));
                    }
                }
            }
        }
    }
}
