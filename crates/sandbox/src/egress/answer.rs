//! What the proxy itself says to a client.
//!
//! Clients show the status line and rarely more, so the reason stands there too.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::EgressDenial;
use super::head::Malformed;

pub(super) const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
/// A reason on a status line; the body has it whole.
const PHRASE_BYTES_MAX: usize = 160;
/// What a client that was answered may still have on its way.
const DRAIN_BYTES_MAX: u64 = 1024 * 1024;

pub(super) struct ProxyAnswer {
    status: u16,
    reason: String,
    hint: Option<String>,
}

impl ProxyAnswer {
    fn new(status: u16, reason: impl Into<String>, hint: Option<String>) -> ProxyAnswer {
        ProxyAnswer { status, reason: reason.into(), hint }
    }

    pub fn denied(no: &EgressDenial) -> ProxyAnswer {
        ProxyAnswer::new(403, no.reason.clone(), no.hint.clone())
    }

    /// 511 is for a network on which somebody must do something first, and no client tries that again by itself.
    pub fn pending(no: &EgressDenial) -> ProxyAnswer {
        ProxyAnswer::new(511, no.reason.clone(), no.hint.clone())
    }

    pub fn malformed(malformed: &Malformed) -> ProxyAnswer {
        ProxyAnswer::new(malformed.status, malformed.why.clone(), None)
    }

    pub fn late() -> ProxyAnswer {
        ProxyAnswer::new(408, "the head did not come in time", None)
    }

    pub fn unreached(why: &str) -> ProxyAnswer {
        ProxyAnswer::new(502, why, None)
    }

    fn bytes(&self) -> Vec<u8> {
        let phrase: String = self.reason.chars().map(|letter| if (' '..='~').contains(&letter) { letter } else { '?' }).collect();
        let phrase = &phrase[..phrase.len().min(PHRASE_BYTES_MAX)];
        let hint = self.hint.as_ref().map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
        let body = format!("skep: {}\n{hint}", self.reason);
        format!(
            "HTTP/1.1 {} {phrase}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nx-skep: refused\r\nconnection: close\r\n\r\n{body}",
            self.status,
            body.len()
        )
        .into_bytes()
    }

    /// Sends it and lets the client hear it: a socket that is closed with unread bytes resets the connection.
    pub async fn send(self, client: &mut (impl AsyncRead + AsyncWrite + Unpin), timeouts: Duration) {
        let talk = async {
            client.write_all(&self.bytes()).await?;
            client.shutdown().await?;
            tokio::io::copy(&mut client.take(DRAIN_BYTES_MAX), &mut tokio::io::sink()).await
        };
        // A client that does not listen has its answer all the same.
        let _ = tokio::time::timeout(timeouts.min(Duration::from_secs(5)), talk).await;
    }
}
