//! OpenAI Chat Completions, and the many servers that speak it.

use super::{Endpoint, Trouble, meter::Tally};
use serde_json::{Value, json};

/// The second is the older name, which compatible servers know.
pub(super) const OUTPUT: &[&str] = &["max_completion_tokens", OLD_OUTPUT];
pub(super) const OLD_OUTPUT: &str = "max_tokens";

pub(super) fn endpoint(method: &str, path: &str) -> Option<Endpoint> {
    match (method, path) {
        ("POST", "chat/completions") => Some(Endpoint::Generate),
        ("GET", "models") => Some(Endpoint::Models),
        _ => None,
    }
}

/// The name by which this model's server knows an output limit, for a request that has none.
pub(super) fn output_name(model: &str) -> &'static str {
    let reasons = model.strip_prefix('o').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if model.starts_with("gpt-") || reasons { OUTPUT[0] } else { OLD_OUTPUT }
}

pub(super) fn tally(usage: &Value, tally: &mut Tally) {
    let read = |name: &str| usage.get(name).and_then(Value::as_u64);
    let inner = |object: &str, name: &str| usage.get(object).and_then(|inner| inner.get(name)).and_then(Value::as_u64);
    let Some(input) = read("prompt_tokens") else { return };
    // DeepSeek has its own word for what it read from the cache.
    let cached = inner("prompt_tokens_details", "cached_tokens").or(read("prompt_cache_hit_tokens")).unwrap_or(0);
    tally.cache_read = cached.min(input);
    tally.cache_write = inner("prompt_tokens_details", "cache_write_tokens").unwrap_or(0).min(input - tally.cache_read);
    tally.input = Some(input - tally.cache_read - tally.cache_write);
    tally.output = read("completion_tokens").or(tally.output);
    tally.reasoning = inner("completion_tokens_details", "reasoning_tokens").unwrap_or(0);
}

/// The error of both OpenAI dialects.
pub(super) fn error(trouble: Trouble, message: &str) -> Value {
    let (kind, code) = match trouble {
        Trouble::Unauthorized => ("invalid_request_error", "invalid_api_key"),
        Trouble::Denied => ("permission_error", "permission_denied"),
        Trouble::Cancelled => ("permission_error", "cancelled"),
        Trouble::Budget => ("insufficient_quota", "insufficient_quota"),
        Trouble::RateLimited => ("rate_limit_error", "rate_limit_exceeded"),
        Trouble::BadRequest => ("invalid_request_error", "invalid_request"),
        Trouble::TooLarge => ("invalid_request_error", "request_too_large"),
        Trouble::NotFound => ("invalid_request_error", "not_found"),
        Trouble::Overloaded => ("server_error", "server_is_overloaded"),
        Trouble::Upstream | Trouble::Unset => ("server_error", "server_error"),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

pub(super) fn models(names: &[&str]) -> Value {
    let data: Vec<Value> = names.iter().map(|name| json!({"id": name, "object": "model", "created": 0, "owned_by": "skep"})).collect();
    json!({"object": "list", "data": data})
}
