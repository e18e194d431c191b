//! A call as the journal may hold it: secrets taken out, long texts cut, a keyed hash of what was really said.

use super::Request;
use crate::Kernel;
use serde_json::Value;
use world::event::CallRefused;
use world::{CallId, Fault, Refusal};

/// The input of a call as its records hold it.
pub(super) struct RedactedInput {
    pub input: Value,
    /// Keyed hash of the exact input.
    pub digest: String,
    /// The exact input, when the record differs from it.
    original: Option<Vec<u8>>,
}

impl RedactedInput {
    pub fn of(kernel: &Kernel, request: &Request) -> RedactedInput {
        let original = request.input.to_string().into_bytes();
        let digest = kernel.ledger.journal().vault().digest(&original);
        let mut input = request.input.clone();
        kernel.ledger.redactor.value(&mut input);
        shorten(&mut input);
        let original = (input != request.input).then_some(original);
        RedactedInput { input, digest, original }
    }

    /// Keeps the original until the call or the question that it belongs to is settled, so that nobody ever runs the redacted one.
    pub fn keep_original(&self, kernel: &Kernel, of: impl std::fmt::Display) -> Result<(), Fault> {
        match &self.original {
            Some(bytes) => kernel.ledger.confide(of, bytes),
            None => Ok(()),
        }
    }

    /// The digest of the exact input, where the record is not that.
    pub fn digest_if_redacted(&self) -> Option<String> {
        self.original.as_ref().map(|_| self.digest.clone())
    }

    /// The record of a refusal. Which rules refused, and on what, the gate adds.
    pub fn refused(&self, request: &Request, call: CallId, refusal: &Refusal) -> CallRefused {
        CallRefused {
            pid: request.pid,
            task: request.task,
            call,
            tool: request.tool.clone(),
            input: self.input.clone(),
            digest: self.digest.clone(),
            code: refusal.code,
            reason: refusal.reason.clone(),
            hint: refusal.hint.clone(),
            detail: refusal.detail.clone(),
            rules: Vec::new(),
            paths: Vec::new(),
            size: None,
            of: request.of,
        }
    }
}

/// Bytes of a long text that its record holds.
pub(crate) const KEPT_CHARS: usize = 2_000;

/// A long value is named in a record, not repeated there; the digest covers it whole.
pub(super) fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > KEPT_CHARS => {
            let cut = text.floor_char_boundary(KEPT_CHARS);
            *text = format!("{}… [{} bytes in all]", &text[..cut], text.len());
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}
