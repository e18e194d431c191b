//! OpenAI Responses.

use super::{Endpoint, meter::Tally};
use serde_json::Value;

pub(super) const OUTPUT: &[&str] = &["max_output_tokens"];

pub(super) fn endpoint(method: &str, path: &str) -> Option<Endpoint> {
    match (method, path) {
        // Codex has the provider shorten a conversation, which costs what an answer costs.
        ("POST", "responses" | "responses/compact") => Some(Endpoint::Generate),
        ("POST", "responses/input_tokens") => Some(Endpoint::CountTokens),
        _ => None,
    }
}

/// `input_tokens` includes what was read from and written to the cache, `output_tokens` what was thought.
pub(super) fn tally(usage: &Value, tally: &mut Tally) {
    let read = |name: &str| usage.get(name).and_then(Value::as_u64);
    let inner = |object: &str, name: &str| usage.get(object).and_then(|inner| inner.get(name)).and_then(Value::as_u64).unwrap_or(0);
    let Some(input) = read("input_tokens") else { return };
    tally.cache_read = inner("input_tokens_details", "cached_tokens").min(input);
    tally.cache_write = inner("input_tokens_details", "cache_write_tokens").min(input - tally.cache_read);
    tally.input = Some(input - tally.cache_read - tally.cache_write);
    tally.output = read("output_tokens").or(tally.output);
    tally.reasoning = inner("output_tokens_details", "reasoning_tokens");
}
