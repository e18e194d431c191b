//! Takes the secrets out of whole events, at the one place that every record passes.
//!
//! What the world is folded from is what the journal says, so the cleaned event is also the one that is applied. **Invariant.** Fields
//! that are matched or found again by what they say are never changed: an event that has a secret there is not recorded at all.

use journal::Redactor;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use world::Event;
use world::{Fault, FaultKind};

/// Fields, at whatever depth, that hold what somebody else wrote, with names of theirs: there a name alone makes its value a secret.
const FOREIGN: [&str; 4] = ["input", "output", "detail", "input_overrides"];
/// Fields whose exact words count.
const EXACT: [(&str, &[&str]); 10] = [
    ("zone.opened", &["path"]),
    ("proc.spawned", &["name", "role", "user"]),
    ("task.queued", &["brain", "original"]),
    ("task.continued", &["original"]),
    ("session.created", &["original"]),
    ("plan.received", &["original"]),
    ("plan.accepted", &["original"]),
    ("grant.given", &["scope", "what", "terms"]),
    ("ban.given", &["scope", "what"]),
    ("merge.resolved", &["sides", "only"]),
];

/// The event as it is recorded, and its payload.
pub(crate) fn clean<'a>(redactor: &Redactor, event: &'a Event) -> Result<(Cow<'a, Event>, Box<RawValue>), Fault> {
    let unwritable = |error: serde_json::Error| Fault::new(FaultKind::Bug, "an event cannot be written", error);
    let payload = event.payload().map_err(unwritable)?;
    if !redactor.suspects(payload.get()) {
        return Ok((Cow::Borrowed(event), payload));
    }
    let mut fields: Map<String, Value> = serde_json::from_str(payload.get()).map_err(unwritable)?;
    let exact = EXACT.iter().find(|(kind, _)| *kind == event.kind()).map_or(&[][..], |(_, fields)| *fields);
    let mut is_changed = false;
    for (name, field) in fields.iter_mut() {
        let before = field.clone();
        clean_field(redactor, name, field);
        if *field == before {
            continue;
        }
        if exact.contains(&name.as_str()) {
            let why = format!("`{name}` of `{}` looks like a secret and cannot be written otherwise", event.kind());
            return Err(Fault::new(FaultKind::Bug, "nothing was recorded", why).fix("use another name, without a key or password in it"));
        }
        is_changed = true;
    }
    if !is_changed {
        return Ok((Cow::Borrowed(event), payload));
    }
    let cleaned = serde_json::to_string(&fields).map_err(unwritable)?;
    let event = Event::parse(event.kind(), &cleaned).map_err(unwritable)?;
    let payload = event.payload().map_err(unwritable)?;
    Ok((Cow::Owned(event), payload))
}

fn clean_field(redactor: &Redactor, name: &str, field: &mut Value) {
    if FOREIGN.contains(&name) {
        return redactor.value(field);
    }
    redactor.strings(field);
    clean_foreign(redactor, field);
}

/// What somebody else wrote, inside a field of ours.
fn clean_foreign(redactor: &Redactor, value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| clean_foreign(redactor, item)),
        Value::Object(members) => members.iter_mut().for_each(|(name, member)| match FOREIGN.contains(&name.as_str()) {
            true => redactor.value(member),
            false => clean_foreign(redactor, member),
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests;
