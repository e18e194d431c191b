//! Settle: the end of a call. Redacts, caps, keeps what is large as a blob, records.
//!
//! **Invariant.** What a caller hears of an output, and what is on record of it, holds no secret that is known and nothing that the grant
//! keeps from the caller.

use crate::{CallEnd, CallOutcome, Gate, Permit, Request, shorten};
use ledger::Urgency;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tool::{Output, RegisteredTool};
use world::event::{CallFinished, CallObserved, RecordsDropped};
use world::{CallId, Constraints, Event, Fault, FaultKind, Observe, Refusal, Stop, limits};

/// What a tool gave, and how long it took.
pub struct TimedOutput {
    pub output: Result<Output, Stop>,
    pub took: Duration,
}

impl TimedOutput {
    /// Of what was carried out elsewhere and went well.
    pub fn success(value: Value, took: Duration) -> TimedOutput {
        TimedOutput { output: Ok(Output { ok: true, value, retries: 0 }), took }
    }
}

impl Gate {
    /// Records a refusal that needed no policy: no such tool, bad input, no such file.
    pub async fn refuse(&self, request: &Request, refusal: Refusal, start: Instant) -> Result<CallOutcome, Fault> {
        let call = self.record_refusal(request, &refusal).await?;
        Ok(CallOutcome { call: Some(call), rules: Vec::new(), end: CallEnd::Refused(refusal), gate: start.elapsed(), run: Duration::ZERO })
    }

    /// Records what a tool gave, and gives the caller what is fit to be read of it.
    pub async fn finish(
        &self,
        tool: Option<&RegisteredTool>,
        request: &Request,
        permit: &Permit,
        ran: TimedOutput,
    ) -> Result<CallEnd, Fault> {
        let TimedOutput { output, took } = ran;
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let (ok, mut whole) = match output {
            Ok(output) => (output.ok, output.value),
            Err(Stop::Refused(refusal)) => (false, refusal.told()),
            Err(Stop::Failed(fault)) => {
                let (reason, hint) = (fault.to_string(), fault.advice());
                let mut told = json!({"error": "fault", "reason": reason, "hint": hint, "is_retryable": fault.is_retryable});
                if let Some(remedy) = &fault.remedy {
                    told["remedy"] = json!(remedy);
                }
                (false, told)
            }
        };
        let exact = (request.is_handed_on && ok).then(|| whole.clone());
        let CleanOutput { text, is_plain } = redact(self, &mut whole)?;
        let text = if narrow(permit, &mut whole) { json_text(&whole)? } else { text };
        let mut value = whole.clone();
        let is_whole = match (tool, self.policies.trusted(request.zone)?) {
            (Some(tool), Some(trusted)) if !is_plain || !trusted.sanitizer.leaves(tool.manifest(), text.len()) => {
                trusted.sanitizer.clean(tool.manifest(), &mut value);
                value == whole
            }
            _ => true,
        };
        let bytes = text.len() as u64;
        let observed = observed(self, permit, request, &whole, bytes, ms);
        let mut inline = if is_whole { whole } else { value.clone() };
        let mut blob = None;
        let mut dropped = None;
        // What a record or a caller does not have whole is kept beside.
        if !is_whole || text.len() > limits::OUTPUT_INLINE_MAX {
            if self.fits_its_share(request, bytes) {
                blob = Some(self.ledger.keep(text.as_bytes())?);
            } else {
                dropped = Some(RecordsDropped { pid: request.pid, task: request.task, kind: "blob".into(), count: 1 });
            }
            shorten(&mut inline);
            if inline.to_string().len() > limits::OUTPUT_INLINE_MAX {
                inline = json!({"bytes": bytes});
            }
        }
        if let Some(exact) = exact {
            self.keep_handed_on(request, permit, exact, &value, dropped.is_some())?;
        }
        let blob_bytes = if blob.is_some() { bytes } else { 0 };
        let event = CallFinished { pid: request.pid, task: request.task, call: permit.call, ok, output: inline, blob, blob_bytes, ms };
        let mut events = vec![event.into()];
        events.extend(dropped.map(Event::from));
        events.extend(observed);
        let pending = self.ledger.commit_late(|world, _| match world.calls.contains_key(&permit.call) {
            true => ((events, true), if permit.is_late { Urgency::Written } else { Urgency::Synced }),
            // Its task was cancelled, and its end is on record with that.
            false => ((Vec::new(), false), Urgency::Synced),
        })?;
        let open = pending.durable().await?;
        self.ledger.delete_original(permit.call)?;
        match request.task.filter(|_| !open).and_then(|task| self.ledger.cancelled(task)) {
            Some(refusal) => Ok(CallEnd::Refused(refusal)),
            None if !open && permit.is_late => {
                Err(Fault::new(FaultKind::Io, "the call is not on record", "what was written with its admission was lost"))
            }
            None => Ok(CallEnd::Done { ok, value }),
        }
    }

    /// Keeps what another step is to get exactly, where neither the caller nor the record has it so. What the grant withholds is not handed on either.
    fn keep_handed_on(&self, request: &Request, permit: &Permit, mut exact: Value, told: &Value, is_dropped: bool) -> Result<(), Fault> {
        let (Some(task), Some(step)) = (request.task, &request.step) else { return Ok(()) };
        if let Some(Constraints { output_redact_fields, output_allow_fields, .. }) = permit.constraints() {
            if !output_allow_fields.is_empty() {
                narrow(permit, &mut exact);
            }
            remove(&mut exact, output_redact_fields);
        }
        let text = json_text(&exact)?;
        // What looks like a place where a secret was is told from one by being kept.
        if exact == *told && !is_dropped && !text.contains(journal::REDACTED) {
            return Ok(());
        }
        self.ledger.keep_exact_output(task, &step.step, permit.call, &exact)
    }

    /// Is there room for more of this task's output?
    fn fits_its_share(&self, request: &Request, more: u64) -> bool {
        let held = self.ledger.look(|world| request.task.and_then(|task| world.tasks.get(&task)).map_or(0, |task| task.blob_bytes));
        held.saturating_add(more) <= self.task_blob_bytes_max
    }

    /// Settles a call that its caller made with its own hands, on the caller's word.
    pub async fn report(&self, call: CallId, ok: bool, text: &str) -> Result<(), Fault> {
        let mut output = json!({"claimed": text});
        self.ledger.redactor.value(&mut output);
        shorten(&mut output);
        let pending = self.ledger.commit(|world, now_ms| match world.calls.get(&call) {
            Some(open) => {
                let ms = open.open_ms(now_ms);
                (vec![CallFinished { pid: open.pid, task: open.task, call, ok, output, blob: None, blob_bytes: 0, ms }.into()], ())
            }
            None => (Vec::new(), ()),
        })?;
        pending.durable().await?;
        self.ledger.delete_original(call)
    }
}

/// Takes out of an output what the grant keeps from the caller. False where it keeps nothing.
fn narrow(permit: &Permit, value: &mut Value) -> bool {
    let Some(Constraints { output_redact_fields, output_allow_fields, .. }) = permit.constraints() else { return false };
    if !output_allow_fields.is_empty() {
        match value.as_object_mut() {
            Some(fields) => fields.retain(|key, _| output_allow_fields.contains(key)),
            // What has no fields has none that may be seen.
            None => *value = Value::Null,
        }
    }
    hide(value, output_redact_fields);
    true
}

/// What the grant wants written down besides the call itself: sizes, and for `detailed` what went in and came out.
fn observed(gate: &Gate, permit: &Permit, request: &Request, whole: &Value, bytes_out: u64, ms: u64) -> Option<Event> {
    let grant = permit.grant.as_ref()?;
    let level = grant.terms.observe?;
    let detail = (level == Observe::Detailed).then(|| {
        let mut detail = json!({"input": request.input, "output": whole});
        gate.ledger.redactor.value(&mut detail);
        shorten(&mut detail);
        detail
    });
    let bytes_in = request.input.to_string().len() as u64;
    Some(
        CallObserved { pid: request.pid, task: request.task, call: permit.call, grant: grant.id, level, bytes_in, bytes_out, ms, detail }
            .into(),
    )
}

/// An output without its secrets, as JSON.
struct CleanOutput {
    text: String,
    /// Nothing in it acts on a terminal or deceives a reader.
    is_plain: bool,
}

/// Takes the secrets out of an output, also those with escape codes inside: what a reader sees must hold none. Codes that hid one are
/// not kept either.
fn redact(gate: &Gate, whole: &mut Value) -> Result<CleanOutput, Fault> {
    let text = json_text(whole)?;
    if is_plain(&text) && !gate.ledger.redactor.suspects(&text) {
        return Ok(CleanOutput { text, is_plain: true });
    }
    let mut seen = whole.clone();
    let hidden = tool::visible(&mut seen);
    gate.ledger.redactor.value(whole);
    if hidden {
        gate.ledger.redactor.value(&mut seen);
        let mut plain = whole.clone();
        tool::visible(&mut plain);
        if plain != seen {
            *whole = seen;
        }
    }
    Ok(CleanOutput { text: json_text(whole)?, is_plain: false })
}

fn json_text(value: &Value) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|error| Fault::new(FaultKind::Bug, "an output cannot be written", error))
}

/// Whether JSON holds nothing that acts on a terminal or deceives a reader: ASCII without other escapes than those of ordinary text.
fn is_plain(json: &str) -> bool {
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        let is_ordinary = match byte {
            b'\\' => matches!(bytes.next(), Some(b'n' | b't' | b'"' | b'\\')),
            byte => byte.is_ascii() && !byte.is_ascii_control(),
        };
        if !is_ordinary {
            return false;
        }
    }
    true
}

/// Takes these names away with what stands under them, at any depth.
fn remove(value: &mut Value, names: &[String]) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !names.contains(name));
            fields.values_mut().for_each(|field| remove(field, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| remove(item, names)),
        _ => {}
    }
}

/// Takes what stands under these names away, at any depth.
fn hide(value: &mut Value, names: &[String]) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, field)| match names.contains(name) {
            true => *field = journal::REDACTED.into(),
            false => hide(field, names),
        }),
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_json_has_nothing_that_could_hide_something() {
        for text in ["hello\n\tworld", "a \"quoted\" \\ word", "", "{}[],:"] {
            assert!(is_plain(&json!({ "content": text }).to_string()), "{text:?}");
            let mut value = json!({ "content": text });
            assert!(!tool::visible(&mut value), "{text:?} is shown as it is");
        }
        for text in ["\u{1b}[31mred", "bell\u{7}", "over\rwritten", "back\u{8}", "\u{202e}turned", "\u{200b}", "ümlaut", "\u{7f}", "\u{c}"]
        {
            assert!(!is_plain(&json!({ "content": text }).to_string()), "{text:?}");
            assert!(!is_plain(&json!({ (text): 1 }).to_string()), "{text:?} as a name");
        }
    }
}
