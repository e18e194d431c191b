//! Gemini generateContent and streamGenerateContent. The model and the kind of answer stand in the path.

use super::{Dialect, Endpoint, Mode, Trouble, meter::Tally};
use serde_json::{Value, json};
use std::ops::Range;

pub(super) const CONFIG: &[&str] = &["generationConfig", "generation_config"];
pub(super) const OUTPUT: &[&str] = &["maxOutputTokens", "max_output_tokens"];
pub(super) const THINKING: &[&str] = &["thinkingConfig", "thinking_config"];
pub(super) const ROUTING: &[&str] = &["routingConfig", "routing_config", "modelConfig", "model_config"];
/// What is to be counted, where that is a whole request.
pub(super) const COUNTED: &[&str] = &["generateContentRequest", "generate_content_request"];
pub(super) const ANSWERS: &[&str] = &["candidateCount", "candidate_count"];

/// Where in the path the model's name and the verb behind it stand.
pub(super) fn place(path: &str) -> Option<(Range<usize>, &str)> {
    let path = path.split('?').next().unwrap_or(path);
    let from = path.rfind("/models/")? + "/models/".len();
    let colon = from + path.get(from..)?.rfind(':')?;
    let verb = path.get(colon + 1..)?;
    let before = path[..from].strip_prefix('/')?.trim_end_matches('/');
    let fits = colon > from && !path[from..colon].contains('/') && leads_to_models(before);
    fits.then_some((from..colon, verb))
}

/// Google's models stand below its version, or below a project and Google as their publisher; elsewhere the same name is something else.
fn leads_to_models(before: &str) -> bool {
    let segments: Vec<&str> = before.split('/').collect();
    let rest = match segments.split_first() {
        Some((version, rest)) if matches!(*version, "v1" | "v1alpha" | "v1beta" | "v1beta1") => rest,
        _ => &segments,
    };
    match rest {
        ["models"] | ["publishers", "google", "models"] => true,
        ["projects", project, "locations", place, "publishers", "google", "models"] => is_plain(project) && is_plain(place),
        _ => false,
    }
}

/// A segment that stands for itself, so that nothing leads out of the provider's own path.
fn is_plain(segment: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~@".contains(&byte);
    !matches!(segment, "" | "." | "..") && segment.bytes().all(plain)
}

pub(super) fn endpoint(method: &str, path: &str) -> Option<Endpoint> {
    if method == "GET" {
        return (path == "/v1beta/models").then_some(Endpoint::Models);
    }
    match (method, place(path)?.1) {
        ("POST", "generateContent" | "streamGenerateContent") => Some(Endpoint::Generate),
        ("POST", "countTokens") => Some(Endpoint::CountTokens),
        _ => None,
    }
}

/// Each chunk reports everything so far. What was thought is not part of the candidates.
pub(super) fn tally(usage: &Value, tally: &mut Tally) {
    let served = ["serviceTier", "trafficType"].iter().find_map(|name| usage.get(name)?.as_str());
    tally.mode = served.map(|word| Mode::of(Dialect::Gemini, &[word])).or(tally.mode);
    let read = |name: &str| usage.get(name).and_then(Value::as_u64);
    if let Some(prompt) = read("promptTokenCount") {
        let prompt = prompt.saturating_add(read("toolUsePromptTokenCount").unwrap_or(0));
        tally.cache_read = read("cachedContentTokenCount").unwrap_or(0).min(prompt);
        tally.input = Some(prompt - tally.cache_read);
    }
    let (candidates, thoughts) = (read("candidatesTokenCount"), read("thoughtsTokenCount"));
    if candidates.is_some() || thoughts.is_some() {
        tally.reasoning = thoughts.unwrap_or(0);
        tally.output = Some(candidates.unwrap_or(0).saturating_add(tally.reasoning));
    }
}

pub(super) fn error(status: u16, trouble: Trouble, message: &str) -> Value {
    let word = match trouble {
        Trouble::Unauthorized => "UNAUTHENTICATED",
        Trouble::Denied => "PERMISSION_DENIED",
        Trouble::Cancelled => "CANCELLED",
        Trouble::Budget | Trouble::RateLimited => "RESOURCE_EXHAUSTED",
        Trouble::BadRequest | Trouble::TooLarge => "INVALID_ARGUMENT",
        Trouble::NotFound => "NOT_FOUND",
        Trouble::Overloaded => "UNAVAILABLE",
        Trouble::Upstream | Trouble::Unset => "INTERNAL",
    };
    json!({"error": {"code": status, "message": message, "status": word}})
}

/// `retryDelay` of a `RetryInfo` among the details of an error: `34.5s`.
pub(super) fn wait_in(refusal: &[u8]) -> Option<std::time::Duration> {
    let refusal: Value = serde_json::from_slice(refusal).ok()?;
    // Refused within a stream, it stands in an array.
    let refusal = refusal.get(0).unwrap_or(&refusal);
    let details = refusal["error"]["details"].as_array()?;
    details.iter().find_map(|detail| crate::limiter::span(detail["retryDelay"].as_str()?)).filter(|wait| !wait.is_zero())
}

pub(super) fn models(names: &[&str]) -> Value {
    let methods = ["generateContent", "streamGenerateContent", "countTokens"];
    let each = |name: &&str| json!({"name": format!("models/{name}"), "displayName": name, "supportedGenerationMethods": methods});
    json!({"models": names.iter().map(each).collect::<Vec<Value>>()})
}

/// A model's name out of a path: what a provider reads there, however it is written.
pub(super) fn out_of_path(segment: &str) -> Result<String, String> {
    let mut name = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        let hex = after.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        name.push(hex.ok_or("the model in its path cannot be read")?);
        rest = &after[2..];
    }
    let name = String::from_utf8(name).map_err(|_| "the model in its path is not UTF-8".to_owned())?;
    // A provider that reads such a path another way would be asked for something else.
    let odd = |c: char| c.is_control() || matches!(c, '\\' | '?' | '#' | '%');
    if name.contains(odd) || name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(format!("`{segment}` is no name of a model"));
    }
    Ok(name)
}

/// A model's name as a segment of a path.
pub(super) fn in_path(model: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~@".contains(&byte);
    model.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
