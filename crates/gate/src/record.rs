//! A call as the journal may hold it: secrets taken out, long texts cut, a keyed hash of what was really said.

use crate::{Gate, Request};
use ledger::Ledger;
use serde_json::Value;
use world::event::CallRefused;
use world::{CallId, Fault, Refusal};

/// The input of a call as its records hold it.
pub struct RedactedInput {
    pub input: Value,
    /// Keyed hash of the exact words of the caller.
    pub digest: String,
    /// The exact input, when the record differs from it.
    original: Option<Vec<u8>>,
}

impl RedactedInput {
    pub fn of(ledger: &Ledger, request: &Request) -> RedactedInput {
        let original = request.input.to_string();
        let digest = match &request.asked {
            Some(asked) => ledger.journal().vault().digest(asked.to_string().as_bytes()),
            None => ledger.journal().vault().digest(original.as_bytes()),
        };
        let mut input = request.input.clone();
        // Nothing short that looks like no secret is recorded otherwise than it is.
        if original.len() <= KEPT_CHARS && !ledger.redactor.suspects(&original) {
            return RedactedInput { input, digest, original: None };
        }
        ledger.redactor.value(&mut input);
        shorten(&mut input);
        let original = (input != request.input).then(|| original.into_bytes());
        RedactedInput { input, digest, original }
    }

    /// Keeps the original until the call or the question that it belongs to is settled, so that nobody ever runs the redacted one.
    pub fn keep_original(&self, ledger: &Ledger, of: impl std::fmt::Display) -> Result<(), Fault> {
        match &self.original {
            Some(bytes) => ledger.keep_original(of, bytes),
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
            remedy: refusal.remedy.clone(),
            detail: refusal.detail.clone(),
            rules: Vec::new(),
            paths: Vec::new(),
            size: None,
            of: request.of,
            workflow: None,
            step: request.step.clone().map(Box::new),
        }
    }
}

impl Gate {
    /// Records a refusal that needed no policy: no such tool, bad input, no such file.
    pub async fn record_refusal(&self, request: &Request, refusal: &Refusal) -> Result<CallId, Fault> {
        self.record_denial(request, refusal, Vec::new()).await
    }

    /// Records the refusal of a call that no gate saw, such as a trial, with the rules that refuse it.
    pub async fn record_denial(&self, request: &Request, refusal: &Refusal, rules: Vec<String>) -> Result<CallId, Fault> {
        let redacted = RedactedInput::of(&self.ledger, request);
        let pending = self.ledger.commit(|world, _| {
            let call = world.next_call();
            let workflow = crate::admit::mark_of(world, request.task);
            (vec![CallRefused { rules, workflow, ..redacted.refused(request, call, refusal) }.into()], call)
        })?;
        pending.durable().await
    }
}

/// Bytes of a long text that its record holds.
pub const KEPT_CHARS: usize = 2_000;

/// A long value is named in a record, not repeated there; the digest covers it whole.
pub fn shorten(value: &mut Value) {
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
