//! Reads the body of a request.
//!
//! A request is read whole, because it is decided by what is in it. **Invariant.** A body that is too long, or a client that stops in the
//! middle, is not waited for.

use crate::admission::Denial;
use dialect::DenialKind;
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use hyper::header::{CONTENT_ENCODING, HeaderMap};
use std::error::Error;
use std::pin::pin;
use std::time::Duration;

/// Bytes of one request. Vendors take 32 MiB.
pub const REQUEST_BYTES_MAX: usize = 32 * 1024 * 1024;
/// A client that sends nothing for so long in the middle of a request has gone to sleep.
const STALL: Duration = Duration::from_secs(30);

/// The whole body, if it is one that can be read.
pub(crate) async fn read<B>(headers: &HeaderMap, body: B) -> Result<Bytes, Denial>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(Denial::new(DenialKind::BadRequest, "the gateway reads requests; send this one uncompressed"));
    }
    let mut body = pin!(body);
    let mut first = Bytes::new();
    let mut more = Vec::new();
    loop {
        let frame = match tokio::time::timeout(STALL, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Err(Denial::new(DenialKind::BadRequest, format!("the request broke off: {}", error.into()))),
            Ok(None) => break,
            Err(_) => return Err(Denial::new(DenialKind::BadRequest, format!("the request did not go on for {} s", STALL.as_secs()))),
        };
        // Trailers say nothing that counts.
        let Ok(data) = frame.into_data() else { continue };
        if first.len().max(more.len()) + data.len() > REQUEST_BYTES_MAX {
            return Err(Denial::new(DenialKind::TooLarge, format!("the request is longer than {} MiB", REQUEST_BYTES_MAX / 1024 / 1024)));
        }
        if first.is_empty() {
            first = data;
            continue;
        }
        if more.is_empty() {
            more.extend_from_slice(&first);
        }
        more.extend_from_slice(&data);
    }
    Ok(if more.is_empty() { first } else { more.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{StreamExt, stream};
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    fn piece(text: &'static str) -> Result<Frame<Bytes>, &'static str> {
        Ok(Frame::data(Bytes::from_static(text.as_bytes())))
    }

    #[tokio::test]
    async fn pieces_are_put_together_up_to_a_size() {
        let none = HeaderMap::new();
        let whole = vec![piece(""), piece("a"), piece(""), piece("bc"), Ok(Frame::trailers(HeaderMap::new())), piece("d")];
        assert_eq!(read(&none, StreamBody::new(stream::iter(whole))).await.unwrap(), "abcd");
        let torn = vec![piece("abc"), Err("it is gone")];
        let denial = read(&none, StreamBody::new(stream::iter(torn))).await.unwrap_err();
        assert_eq!(denial.message, "the request broke off: it is gone");
        let of = |length: usize| Full::new(Bytes::from(vec![b'x'; length]));
        assert_eq!(read(&none, of(REQUEST_BYTES_MAX)).await.unwrap().len(), REQUEST_BYTES_MAX);
        assert_eq!(read(&none, of(REQUEST_BYTES_MAX + 1)).await.unwrap_err().kind, DenialKind::TooLarge);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_in_the_middle_is_not_waited_for() {
        let body = StreamBody::new(stream::iter([piece("{")]).chain(stream::pending()));
        let denial = read(&HeaderMap::new(), body).await.unwrap_err();
        assert_eq!((denial.kind, denial.message.as_str()), (DenialKind::BadRequest, "the request did not go on for 30 s"));
    }
}
