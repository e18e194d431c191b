//! The beginning of a message as followers of the tree see it, without secrets.
//!
//! A body goes with its message, which may be answered before a follower has read that it was sent. So while somebody follows, the beginnings of
//! the latest messages are kept in memory. **Invariant.** Nothing is kept while nobody follows, and never more than [`KEPT_MAX`].

use journal::Redactor;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use world::MessageId;

/// Characters of a preview: a line on a screen.
const PREVIEW_CHARS: usize = 200;
/// Bytes of a body that are looked at. A secret that begins in the preview ends in them.
const LOOKED_AT_BYTES: usize = 64 * 1024;
/// Messages between a send and a follower that reads at its own pace.
const KEPT_MAX: usize = 4_096;
/// Characters of an id of a trace.
const TRACE_CHARS: usize = 128;

/// What of a message may be shown, and the trace that its sender says it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessagePreview {
    pub text: String,
    pub trace_id: String,
    pub trace_span: String,
}

impl MessagePreview {
    pub fn of(redactor: &Redactor, body: &[u8]) -> MessagePreview {
        let seen = &body[..body.len().min(LOOKED_AT_BYTES)];
        let text = match std::str::from_utf8(seen) {
            Ok(text) => text,
            // The cut may lie within a character.
            Err(error) if seen.len() < body.len() && error.error_len().is_none() => {
                std::str::from_utf8(&seen[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(_) => return MessagePreview { text: format!("{} bytes that are no text", body.len()), ..MessagePreview::default() },
        };
        let mut said = serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
        if let Some(said) = &mut said {
            // What a key calls a secret is one, whatever it looks like.
            redactor.value(said);
        }
        let shown = match &said {
            Some(said) => redactor.text(&said.to_string()).into_owned(),
            None => redactor.text(text).into_owned(),
        };
        let trace = |name: &str| {
            let id = said.as_ref().and_then(|said| said.get(name)).and_then(Value::as_str).unwrap_or_default();
            line(&redactor.text(id), TRACE_CHARS)
        };
        MessagePreview { text: line(&shown, PREVIEW_CHARS), trace_id: trace("trace_id"), trace_span: trace("trace_span") }
    }
}

/// The first characters, on one line.
fn line(text: &str, chars: usize) -> String {
    text.chars().take(chars).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[derive(Default)]
pub(crate) struct MessagePreviews {
    followers: AtomicUsize,
    kept: Mutex<BTreeMap<MessageId, Arc<MessagePreview>>>,
}

impl MessagePreviews {
    /// Somebody follows, until the guard is dropped.
    pub fn follow(self: &Arc<Self>) -> PreviewGuard {
        self.followers.fetch_add(1, Ordering::SeqCst);
        PreviewGuard(Arc::clone(self))
    }

    pub fn is_followed(&self) -> bool {
        self.followers.load(Ordering::SeqCst) > 0
    }

    pub fn keep(&self, id: MessageId, preview: &Arc<MessagePreview>) {
        let mut kept = self.kept.lock();
        kept.insert(id, Arc::clone(preview));
        if kept.len() > KEPT_MAX {
            kept.pop_first();
        }
    }

    pub fn find(&self, id: MessageId) -> Option<Arc<MessagePreview>> {
        self.kept.lock().get(&id).cloned()
    }
}

/// A follower.
pub(crate) struct PreviewGuard(Arc<MessagePreviews>);

impl std::ops::Deref for PreviewGuard {
    type Target = MessagePreviews;

    fn deref(&self) -> &MessagePreviews {
        &self.0
    }
}

impl Drop for PreviewGuard {
    fn drop(&mut self) {
        if self.0.followers.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.kept.lock().clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_is_short_has_its_trace_and_no_secret() {
        let redactor = Redactor::new();
        assert!(redactor.register("hunter2-the-secret"));
        let of = |body: &str| MessagePreview::of(&redactor, body.as_bytes());
        assert_eq!(of("prices\nchanged").text, "prices changed");
        assert_eq!(of(&"x".repeat(900)).text.len(), PREVIEW_CHARS);
        let said = of(r#"{"trace_id": "t-1", "trace_span": "s-2", "note": "login with hunter2-the-secret", "password": "abc"}"#);
        assert_eq!((said.trace_id.as_str(), said.trace_span.as_str()), ("t-1", "s-2"));
        assert!(said.text.contains("login with") && !said.text.contains("hunter2") && !said.text.contains("abc"), "{}", said.text);
        // One that lies across the end of what is shown.
        let long = format!("{}hunter2-the-secret", "y".repeat(PREVIEW_CHARS - 4));
        assert!(!of(&long).text.contains("hunt"), "{}", of(&long).text);
        assert_eq!(MessagePreview::of(&redactor, &[0xff, 0xfe, 0x00]).text, "3 bytes that are no text");
        let cut = format!("{}€", "z".repeat(LOOKED_AT_BYTES - 1));
        assert!(of(&cut).text.starts_with("zzz"));
    }

    #[test]
    fn nothing_is_kept_when_nobody_follows() {
        let previews = Arc::new(MessagePreviews::default());
        let one = Arc::new(MessagePreview::default());
        assert!(!previews.is_followed());
        let guard = previews.follow();
        assert!(previews.is_followed());
        (0..KEPT_MAX as u64 + 10).for_each(|id| guard.keep(MessageId(id), &one));
        assert_eq!((guard.find(MessageId(9)), guard.find(MessageId(10)).is_some()), (None, true), "the oldest go");
        drop(guard);
        assert!(!previews.is_followed() && previews.find(MessageId(10)).is_none());
    }
}
