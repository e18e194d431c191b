//! Takes the credential out of what a provider answers: an error page that quotes the request would hand it to whoever asked.
//!
//! Each byte of it becomes `*`, so nothing changes its length. Nothing is held back but a beginning of the credential at the very end
//! of a piece, until the next piece tells.

use crate::secret::Secret;
use hyper::Response;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::HeaderValue;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// What is shorter is no credential that anybody could tell from other text, such as the `ollama` of a local server.
const SECRET_BYTES_MIN: usize = 16;

/// An answer on its way, without the credential that it was asked with.
pub(crate) struct Masked<B = Incoming> {
    body: B,
    mask: Mask,
}

struct Mask {
    secret: Vec<u8>,
    /// The end of the last piece, where it is a beginning of the secret.
    held: Vec<u8>,
}

/// The provider's answer to a request with this credential. Headers that hold it do not pass.
pub(crate) fn masked<B>(response: Response<B>, secret: Option<&Secret>) -> Response<Masked<B>> {
    let secret = secret.map(|secret| secret.reveal().as_bytes()).filter(|secret| secret.len() >= SECRET_BYTES_MIN).unwrap_or_default();
    let (mut head, body) = response.into_parts();
    let quotes = |value: &HeaderValue| !secret.is_empty() && value.as_bytes().windows(secret.len()).any(|part| part == secret);
    if head.headers.values().any(quotes) {
        head.headers = head.headers.iter().filter(|(_, value)| !quotes(value)).map(|(name, value)| (name.clone(), value.clone())).collect();
    }
    Response::from_parts(head, Masked { body, mask: Mask { secret: secret.to_owned(), held: Vec::new() } })
}

impl Mask {
    /// What can be passed on now.
    fn pass(&mut self, piece: Bytes) -> Bytes {
        let Some(first) = self.secret.first() else { return piece };
        if self.held.is_empty() && !piece.contains(first) {
            return piece;
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(&piece);
        let (mut at, length) = (0, self.secret.len());
        while let Some(next) = text[at..].iter().position(|byte| byte == first) {
            at += next;
            let rest = &text[at..];
            if rest.len() < length && self.secret.starts_with(rest) {
                self.held = text.split_off(at);
                break;
            }
            if rest.starts_with(&self.secret) {
                text[at..at + length].fill(b'*');
            }
            at += 1;
        }
        text.into()
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Masked<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        loop {
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let Ok(piece) = frame.into_data() else { continue };
                    let passed = this.mask.pass(piece);
                    if !passed.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(passed))));
                    }
                }
                None if !this.mask.held.is_empty() => {
                    let last = std::mem::take(&mut this.mask.held);
                    return Poll::Ready(Some(Ok(Frame::data(last.into()))));
                }
                other => return Poll::Ready(other),
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.mask.held.len() as u64;
        let inner = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + held);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + held);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECRET: &str = "sk-aabaabaabaabaac";

    fn passed(pieces: &[&[u8]], secret: &str) -> Vec<u8> {
        let mut mask = masked(Response::new(()), Some(&Secret::new(secret))).into_body().mask;
        let mut out: Vec<u8> = pieces.iter().flat_map(|piece| mask.pass(Bytes::copy_from_slice(piece))).collect();
        out.extend(mask.held);
        out
    }

    #[test]
    fn a_credential_is_masked_wherever_pieces_are_cut() {
        let stars = "*".repeat(SECRET.len());
        let text = format!("sk-sk-aab {SECRET}{SECRET} s k sk-aabaabaabaabaa, {SECRET}");
        let clean = text.replace(SECRET, &stars);
        for cut in 0..=text.len() {
            let (one, two) = text.as_bytes().split_at(cut);
            assert_eq!(String::from_utf8_lossy(&passed(&[one, two], SECRET)), clean, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(String::from_utf8_lossy(&passed(&bytes, SECRET)), clean);
        assert_eq!(passed(&[b"ask ollama"], "ollama"), b"ask ollama", "no credential but a word");
    }

    #[test]
    fn a_piece_that_ends_with_nothing_of_it_is_passed_on_as_it_came() {
        let mut mask = masked(Response::new(()), Some(&Secret::new(SECRET))).into_body().mask;
        let piece = Bytes::from_static(b"data: {\"text\":\"skies\"}\n\n");
        assert_eq!(mask.pass(piece.clone()), piece);
        assert_eq!(mask.pass(Bytes::from_static(b"ends with sk-")), "ends with ");
        assert_eq!(mask.pass(Bytes::from_static(b"learn")), "sk-learn");
    }

    #[test]
    fn a_header_that_holds_it_does_not_pass() {
        let mut response = Response::new(());
        response.headers_mut().insert("x-request-id", HeaderValue::from_static("r-1"));
        response.headers_mut().insert("anthropic-echo", HeaderValue::from_static("Bearer sk-aabaabaabaabaac"));
        assert_eq!(masked(response.clone(), None).headers(), response.headers());
        let clean = masked(response, Some(&Secret::new(SECRET)));
        assert_eq!(clean.headers().keys().collect::<Vec<_>>(), ["x-request-id"]);
    }

    proptest! {
        #[test]
        fn nothing_else_changes(pieces in prop::collection::vec("[skab-]{0,30}|sk-aabaabaabaabaac", 0..12)) {
            let whole = pieces.concat();
            let parts: Vec<&[u8]> = pieces.iter().map(String::as_bytes).collect();
            prop_assert_eq!(passed(&parts, SECRET), whole.replace(SECRET, &"*".repeat(SECRET.len())).into_bytes());
        }
    }
}
