//! A known secret in any text of any kind of event never reaches a line.

use super::*;
use serde_json::json;

/// One event of each kind, with something in every field that can hold text.
fn samples() -> Vec<(&'static str, Value)> {
    let until = || json!({"boot": "b", "boottime_ms": 1});
    let paths = || json!([{"path": "p", "kind": "created", "from": "f", "refused": "r"}]);
    let like = || json!({"is": "like", "tool": "t", "paths": ["p"], "command": ["c", "d"], "host": "h", "method": "m"});
    let terms = || {
        json!({"until": until(), "constraints": {"readonly_paths": ["p"], "writable_paths": ["p"], "input_overrides": {"k": ["v"]},
               "output_redact_fields": ["f"], "output_allow_fields": ["f"]}})
    };
    vec![
        ("kernel.started", json!({"version": "v", "boot": "b"})),
        ("kernel.stopped", json!({"reason": "r"})),
        ("journal.doubted", json!({"what": "w", "why": "y"})),
        ("journal.acknowledged", json!({"upto": 1, "by": "b"})),
        ("blob.forgotten", json!({"blobs": ["b"], "by": "b", "reason": "r"})),
        ("config.loaded", json!({"files": ["f"], "sections": ["s"]})),
        ("config.rejected", json!({"files": ["f"], "why": "w"})),
        ("zone.opened", json!({"zone": "zone-1", "path": "p", "branch": "b"})),
        ("policy.updated", json!({"zone": "zone-1", "blob": "b", "version": 1, "by": "b"})),
        ("policy.home_updated", json!({"blob": "b", "version": 1, "by": "b"})),
        ("proc.spawned", json!({"parent": 1, "name": "n", "role": "r", "zone": "zone-1", "user": "u"})),
        ("proc.exited", json!({"killed": true, "reason": "r"})),
        ("proc.paused", json!({"reason": "r"})),
        ("proc.resumed", json!({"by": "b"})),
        (
            "task.queued",
            json!({"zone": "zone-1", "mode": "act", "prompt": "p", "brain": "b", "priority": 0, "calls_max": null, "original": "o"}),
        ),
        ("task.finished", json!({"summary": "s"})),
        ("task.failed", json!({"reason": "r"})),
        ("task.cancelled", json!({"by": "b"})),
        ("workspace.opened", json!({"head": "h", "since_us": 1})),
        ("workspace.based", json!({"head": "h", "blob": "b", "until_us": 1})),
        ("workspace.paused", json!({"by": "b"})),
        ("workspace.resumed", json!({"by": "b"})),
        (
            "call.refused",
            json!({"call": "call-1", "tool": "t", "input": {"k": ["v", {"w": "x"}]}, "digest": "d", "code": "denied", "reason": "r", "hint": "h",
                   "rules": ["r"], "paths": ["p"], "size": null, "of": null}),
        ),
        ("call.retried", json!({"call": "call-1", "attempt": 1, "why": "w"})),
        ("call.finished", json!({"call": "call-1", "ok": true, "output": {"k": "v"}, "blob": "b", "blob_bytes": 1, "ms": 1})),
        ("call.lost", json!({"call": "call-1", "tool": "t", "why": "w"})),
        (
            "review.answered",
            json!({"review": "r-1", "answer": "deny", "by": "b", "reason": "r", "alternative": {"tool": "t", "input": {"k": "v"}}}),
        ),
        (
            "grant.given",
            json!({"grant": "g-1", "scope": {"of": "user", "user": "u"}, "what": like(), "terms": terms(), "review": null, "by": "b"}),
        ),
        ("grant.revoked", json!({"grant": "g-1", "by": "b"})),
        (
            "ban.given",
            json!({"ban": "b-1", "scope": {"of": "session", "session": "s"}, "what": like(), "reason": "r", "alternative": null, "review": null, "by": "b"}),
        ),
        ("ban.lifted", json!({"ban": "b-1", "by": "b"})),
        ("token.issued", json!({"token": "t-1", "claims": {"tool": "t", "paths": ["p"]}, "ops": 1, "until": until()})),
        ("token.revoked", json!({"token": "t-1", "by": "b"})),
        ("merge.finished", json!({"merge": "m-1", "paths": paths()})),
        ("merge.rejected", json!({"merge": "m-1", "by": "b", "reason": "r"})),
        ("merge.resolved", json!({"merge": "m-1", "sides": {"p": "mine"}, "by": "b"})),
        ("merge.undone", json!({"merge": "m-1", "paths": paths()})),
        ("net.closed", json!({"call": "call-1", "host": "h", "port": 1, "method": "m", "up": 1, "down": 1, "ms": 1, "end": "e"})),
        ("budget.granted", json!({"tokens": {"all": 1}, "micros": 1, "by": "b"})),
        ("budget.warned", json!({"what": "w", "used": 1, "cap": 1})),
        ("cassette.started", json!({"file": "f"})),
        ("replay.finished", json!({"of": "task-1", "calls": 1, "requests": 1, "difference": "d"})),
        ("brain.said", json!({"text": "t"})),
        ("brain.remembered", json!({"blob": "b", "anew": false})),
        ("brain.talked", json!({"blob": "b", "bytes": 1, "ungated": true, "end": "e"})),
        ("records.dropped", json!({"kind": "k", "count": 1})),
    ]
}

/// Every place of a value that holds text, names of members included, replaced by `with` one at a time.
fn variants(value: &Value, with: &str) -> Vec<Value> {
    match value {
        Value::String(text) => vec![Value::String(with.to_owned()), Value::String(format!("{text} {with}."))],
        Value::Array(items) => {
            let each = items.iter().enumerate().flat_map(|(at, item)| variants(item, with).into_iter().map(move |new| (at, new)));
            each.map(|(at, new)| {
                let mut items = items.clone();
                items[at] = new;
                Value::Array(items)
            })
            .collect()
        }
        Value::Object(members) => {
            let each =
                members.iter().flat_map(|(key, member)| variants(member, with).into_iter().map(move |new| (key.clone(), key.clone(), new)));
            let named = members.iter().map(|(key, member)| (key.clone(), with.to_owned(), member.clone()));
            each.chain(named)
                .map(|(old, key, new)| {
                    let mut members = members.clone();
                    members.remove(&old);
                    members.insert(key, new);
                    Value::Object(members)
                })
                .collect()
        }
        _ => Vec::new(),
    }
}

fn event(kind: &str, mut payload: Value) -> Option<Event> {
    payload["pid"] = 3.into();
    serde_json::from_value(json!({"type": kind, "payload": payload})).ok()
}

#[test]
fn a_known_secret_in_any_text_of_any_event_never_reaches_the_journal() {
    let redactor = Redactor::new();
    let known = "Zx9-koala-lamp";
    redactor.register(known);
    for secret in [known, "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "postgres://a:koala-lamp@h/x", "password=koala-lamp"] {
        let hidden = secret.rsplit(['=', '@']).next_back().filter(|_| secret.contains("koala")).map_or(secret, |_| "koala-lamp");
        let (mut tried, mut refused) = (0, 0);
        for (kind, payload) in samples() {
            let sample = event(kind, payload.clone()).unwrap_or_else(|| panic!("{kind} does not parse"));
            assert!(matches!(clean(&redactor, &sample), Ok((Cow::Borrowed(_), _))), "control: {kind} has no secret");
            for variant in variants(&payload, secret) {
                // A place that takes no free text holds no secret.
                let Some(event) = event(kind, variant) else { continue };
                tried += 1;
                match clean(&redactor, &event) {
                    Ok((_, line)) => {
                        assert!(!line.get().contains(hidden), "{kind}: {}", line.get());
                    }
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(tried > 150 && refused > 5 && refused < tried / 3, "{tried} tried, {refused} refused");
    }
}

#[test]
fn ids_hashes_and_counts_are_left_alone() {
    let redactor = Redactor::new();
    for (kind, payload) in [
        ("token.revoked", json!({"token": "t-1", "by": "operator"})),
        ("budget.granted", json!({"tokens": {"secret": 7, "all": 9}, "micros": 1, "by": "operator"})),
        (
            "blob.forgotten",
            json!({"blobs": ["e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"], "by": "operator", "reason": "asked for"}),
        ),
        ("brain.said", json!({"text": "max_tokens=4096, token: count, sk-learn"})),
    ] {
        let event = event(kind, payload).unwrap();
        assert!(matches!(clean(&redactor, &event), Ok((Cow::Borrowed(_), _))), "{kind}");
    }
}

/// A name of somebody else's makes its value a secret, also inside a field of ours.
#[test]
fn names_count_in_suggested_and_demanded_input() {
    let redactor = Redactor::new();
    let answered = |input: Value| {
        let alternative = json!({"tool": "login", "input": input});
        event("review.answered", json!({"review": "r-1", "answer": "deny", "by": "b", "reason": "r", "alternative": alternative})).unwrap()
    };
    let cleaned = answered(json!({"deep": [{"password": "koala"}], "user": "ann"}));
    let line = clean(&redactor, &cleaned).unwrap().1.get().to_owned();
    assert!(!line.contains("koala") && line.contains("ann"), "{line}");
    assert!(matches!(clean(&redactor, &answered(json!({"max_tokens": 7, "user": "ann"}))), Ok((Cow::Borrowed(_), _))), "the control");
    // What a grant demands is matched word by word, so it is not recorded at all.
    let given = |overrides: Value| {
        let (kind, mut payload) = samples().into_iter().find(|(kind, _)| *kind == "grant.given").unwrap();
        payload["terms"]["constraints"]["input_overrides"] = overrides;
        event(kind, payload).unwrap()
    };
    assert!(clean(&redactor, &given(json!({"password": "koala"}))).is_err());
    assert!(matches!(clean(&redactor, &given(json!({"path": "koala"}))), Ok((Cow::Borrowed(_), _))), "the control");
}
