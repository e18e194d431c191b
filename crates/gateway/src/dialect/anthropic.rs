//! Anthropic Messages.

use super::{Dialect, Endpoint, Mode, Trouble, meter::Tally};
use serde_json::{Value, json};

pub(super) const OUTPUT: &[&str] = &["max_tokens"];

pub(super) fn endpoint(method: &str, path: &str) -> Option<Endpoint> {
    match (method, path) {
        ("POST", "messages") => Some(Endpoint::Generate),
        ("POST", "messages/count_tokens") => Some(Endpoint::CountTokens),
        _ => None,
    }
}

/// `message_start` reports the input, `message_delta` the output so far and sometimes all of it again: figures only grow. An answer for
/// which the conversation was shortened first lists each turn in `iterations`, and counts the last of them alone.
pub(super) fn tally(usage: &Value, tally: &mut Tally) {
    let turns = usage.get("iterations").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let read = |name: &str| {
        let of = |usage: &Value| usage.get(name).and_then(Value::as_u64);
        of(usage).max(turns.iter().filter_map(of).reduce(u64::saturating_add))
    };
    let grow = |old: &mut Option<u64>, new: Option<u64>| *old = (*old).max(new);
    grow(&mut tally.input, read("input_tokens"));
    grow(&mut tally.output, read("output_tokens"));
    tally.cache_read = tally.cache_read.max(read("cache_read_input_tokens").unwrap_or(0));
    tally.cache_write = tally.cache_write.max(read("cache_creation_input_tokens").unwrap_or(0));
    let inner = |object: &str, name: &str| usage.get(object).and_then(|inner| inner.get(name)).and_then(Value::as_u64).unwrap_or(0);
    tally.cache_write_1h = tally.cache_write_1h.max(inner("cache_creation", "ephemeral_1h_input_tokens"));
    tally.reasoning = tally.reasoning.max(inner("output_tokens_details", "thinking_tokens"));
    tally.searches = tally.searches.max(inner("server_tool_use", "web_search_requests"));
    let words: Vec<&str> = ["speed", "inference_geo"].iter().filter_map(|name| usage.get(name)?.as_str()).collect();
    if !words.is_empty() {
        tally.mode = Some(Mode::of(Dialect::Anthropic, &words));
    }
}

pub(super) fn error(trouble: Trouble, message: &str) -> Value {
    let kind = match trouble {
        Trouble::Unauthorized => "authentication_error",
        Trouble::Denied | Trouble::Cancelled => "permission_error",
        Trouble::Budget => "billing_error",
        Trouble::RateLimited => "rate_limit_error",
        Trouble::BadRequest => "invalid_request_error",
        Trouble::TooLarge => "request_too_large",
        Trouble::NotFound => "not_found_error",
        Trouble::Overloaded => "overloaded_error",
        Trouble::Upstream | Trouble::Unset => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

pub(super) fn models(names: &[&str]) -> Value {
    let data: Vec<Value> =
        names.iter().map(|name| json!({"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"})).collect();
    json!({"data": data, "has_more": false, "first_id": names.first(), "last_id": names.last()})
}
