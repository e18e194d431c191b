//! Takes the credential out of what a provider answers: an error page that quotes the request would hand it to whoever asked.
//!
//! Each byte of it becomes `*`, so nothing changes its length. It is found plain, escaped, as base64 and as hex (`needle.rs`), and in
//! parts that come in many events (`split.rs`). Nothing is held back but a beginning of the credential at the very end of a piece, until
//! the next piece tells. What is compressed cannot be looked through: `attempt.rs` does not pass it on where a header says so, and what
//! says nothing is masked as a whole.

mod needle;
mod split;

use crate::secret::Secret;
use hyper::Response;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::ext::ReasonPhrase;
use hyper::header::{HeaderName, HeaderValue};
use needle::{Match, Needle};
use split::Split;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// What is shorter is no credential that anybody could tell from other text, such as the `ollama` of a local server.
const SECRET_BYTES_MIN: usize = 16;

/// An answer on its way, without the credential that it was asked with.
pub(crate) struct Masked<B = Incoming> {
    body: B,
    mask: Box<Mask>,
}

struct Mask {
    needles: Vec<Needle>,
    /// The bytes that one of them can begin with.
    firsts: [bool; 256],
    split: Split,
    /// The end of the last piece, where it is a beginning of the secret.
    held: Vec<u8>,
    /// Once something came: whether it is compressed, though no header said so.
    is_packed: Option<bool>,
}

/// How compressed data begins, where that can be told: gzip and zstd.
const PACKED: [&[u8]; 2] = [&[0x1f], &[0x28, 0xb5, 0x2f, 0xfd]];

/// The provider's answer to a request with this credential. Headers that hold it do not pass.
pub(crate) fn masked<B>(response: Response<B>, secret: Option<&Secret>) -> Response<Masked<B>> {
    let secret = secret.map(|secret| secret.reveal().as_bytes()).filter(|secret| secret.len() >= SECRET_BYTES_MIN).unwrap_or_default();
    let (mut head, body) = response.into_parts();
    let mask = Box::new(Mask::new(secret));
    // A name comes in small letters, however it was sent.
    let small = secret.to_ascii_lowercase();
    let is_name = |name: &HeaderName| !small.is_empty() && name.as_str().as_bytes().windows(small.len()).any(|part| part == small);
    let holds = |(name, value): (&HeaderName, &HeaderValue)| is_name(name) || mask.finds(value);
    if head.headers.iter().any(holds) {
        let kept = head.headers.iter().filter(|header| !holds(*header));
        head.headers = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    }
    // The server's own words beside the status code.
    head.extensions.remove::<ReasonPhrase>();
    Response::from_parts(head, Masked { body, mask })
}

impl Mask {
    /// An empty secret is none.
    fn new(secret: &[u8]) -> Mask {
        let needles = if secret.is_empty() { Vec::new() } else { Needle::all(secret) };
        let mut firsts = [false; 256];
        needles.iter().flat_map(Needle::firsts).for_each(|first| firsts[usize::from(first)] = true);
        Mask { needles, firsts, split: Split::new(secret), held: Vec::new(), is_packed: None }
    }

    /// Whether a header holds it.
    fn finds(&self, value: &HeaderValue) -> bool {
        let text = value.as_bytes();
        (0..text.len()).any(|at| {
            self.firsts[usize::from(text[at])] && self.needles.iter().any(|needle| matches!(needle.at(&text[at..]), Match::Whole(_)))
        })
    }

    /// What can be passed on now.
    fn pass(&mut self, piece: Bytes) -> Bytes {
        if self.needles.is_empty() {
            return piece;
        }
        if self.is_packed.is_none() && !piece.is_empty() {
            self.is_packed = Some(PACKED.iter().any(|beginning| piece.starts_with(beginning)));
        }
        if self.is_packed == Some(true) {
            return vec![b'*'; piece.len()].into();
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(&piece);
        let mut at = 0;
        while at < text.len() {
            if !self.firsts[usize::from(text[at])] {
                at += 1;
                continue;
            }
            let found: Vec<Match> = self.needles.iter().map(|needle| needle.at(&text[at..])).collect();
            if let Some(length) = found.iter().find_map(|found| if let Match::Whole(length) = found { Some(*length) } else { None }) {
                text[at..at + length].fill(b'*');
                at += length;
            } else if found.contains(&Match::Partial) {
                self.held = text.split_off(at);
            } else {
                at += 1;
            }
        }
        self.split.pass(&mut text);
        text.into()
    }

    /// What was held back, when nothing more comes.
    fn rest(&mut self) -> Bytes {
        let mut last = std::mem::take(&mut self.held);
        self.split.pass(&mut last);
        last.into()
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
                    return Poll::Ready(Some(Ok(Frame::data(this.mask.rest()))));
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
        out.extend(mask.rest());
        out
    }

    #[test]
    fn a_credential_is_found_in_every_spelling() {
        use base64::Engine;
        let spelled = |one: fn(u8) -> String| SECRET.bytes().map(one).collect::<String>();
        let forms = [
            spelled(|byte| format!("\\u{byte:04x}")),
            spelled(|byte| format!("\\u{byte:04X}")),
            spelled(|byte| format!("%{byte:02X}")),
            spelled(|byte| format!("&#{byte};")),
            spelled(|byte| format!("&#x{byte:x};")),
            spelled(|byte| format!("{byte:02x}")),
            spelled(|byte| format!("\\u{{{byte:x}}}")),
            spelled(|byte| format!("\\\\u{byte:04x}")),
            spelled(|byte| format!("\\\\\\\\u{byte:04X}")),
            spelled(|byte| format!("%25{byte:02x}")),
            spelled(|byte| format!("%2525{byte:02X}")),
            spelled(|byte| if byte == b'a' { "\\u0061".into() } else { char::from(byte).to_string() }),
        ];
        for form in forms {
            let text = format!("it is {form}, so");
            for cut in 0..=text.len() {
                let (one, two) = text.as_bytes().split_at(cut);
                let clean = format!("it is {}, so", "*".repeat(form.len()));
                assert_eq!(String::from_utf8_lossy(&passed(&[one, two], SECRET)), clean, "{form} cut at {cut}");
            }
        }
        for before in ["", "a", "ab", "Bearer "] {
            let text = base64::engine::general_purpose::STANDARD.encode(format!("{before}{SECRET} and more"));
            let clean = String::from_utf8(passed(&[text.as_bytes()], SECRET)).unwrap();
            assert!(clean.contains("********************"), "{clean}");
            for broken in
                [text.as_bytes().chunks(9).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\\n"), text.replace('c', "\\u0063")]
            {
                let clean = String::from_utf8(passed(&[broken.as_bytes()], SECRET)).unwrap();
                assert!(clean.contains("********************"), "{broken}: {clean}");
                let bytes: Vec<&[u8]> = broken.as_bytes().chunks(1).collect();
                assert_eq!(String::from_utf8(passed(&bytes, SECRET)).unwrap(), clean);
            }
        }
        // The controls: what is only like it, in the same spellings.
        for other in ["it is sk\\\\u002daabaab and no more", "%2573%256b", "c2stYWFi\\nYWFi", "\\\\\\\\", "100%25 of %252"] {
            for cut in 0..=other.len() {
                let (one, two) = other.as_bytes().split_at(cut);
                assert_eq!(String::from_utf8_lossy(&passed(&[one, two], SECRET)), other, "cut at {cut}");
            }
        }
    }

    #[test]
    fn what_is_compressed_without_saying_so_is_masked_as_a_whole() {
        assert_eq!(passed(&[b"\x1f\x8b\x08\0sk", b"-aab"], SECRET), b"**********");
        assert_eq!(passed(&[b"", b"\x28\xb5\x2f\xfdabc"], SECRET), b"*******");
        assert_eq!(passed(&[b"(\xc2\xb5 is no secret)", b"\x1f"], SECRET), b"(\xc2\xb5 is no secret)\x1f", "the control");
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
        response.headers_mut().insert("location", HeaderValue::from_static("https://x/?k=sk%2Daabaabaabaabaac"));
        response.headers_mut().insert("x-sk-aabaabaabaabaac", HeaderValue::from_static("1"));
        response.headers_mut().insert("x-basic", HeaderValue::from_static("OnNrLWFhYmFhYmFhYmFhYmFhYw=="));
        assert_eq!(masked(response.clone(), None).headers(), response.headers());
        response.extensions_mut().insert(ReasonPhrase::from_static(b"no sk-aabaabaabaabaac"));
        let clean = masked(response, Some(&Secret::new(SECRET)));
        assert_eq!(clean.headers().keys().collect::<Vec<_>>(), ["x-request-id"]);
        assert!(clean.extensions().get::<ReasonPhrase>().is_none(), "the words beside the status");
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
