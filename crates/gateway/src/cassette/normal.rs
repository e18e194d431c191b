//! A request without what changes from run to run: how a replayed request finds its recorded twin.
//!
//! | left out | where |
//! |---|---|
//! | `metadata`, `user`, `safety_identifier`, `prompt_cache_key`, `client_metadata`, `service_tier` | top level |
//! | `cache_control`, `encrypted_content`, `signature`, `thoughtSignature`, `logprobs` | everywhere |
//! | ids of messages and calls: replaced by their order of appearance | everywhere |
//! | dates, times, UUIDs, Codex's chunk ids and wall times, Claude Code's billing line | in texts |
//! | the folder that the client says it is in | in texts |
//!
//! Everything else counts, the model and the tools included.

use dialect::Dialect;
use regex::Regex;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::{collections::HashMap, sync::OnceLock};

const TOP: &[&str] = &["metadata", "user", "safety_identifier", "prompt_cache_key", "client_metadata", "service_tier"];
const ANYWHERE: &[&str] = &["cache_control", "encrypted_content", "signature", "thoughtSignature", "thought_signature", "logprobs"];
const IDS: &[&str] = &["id", "call_id", "tool_use_id", "tool_call_id", "item_id", "previous_response_id"];

/// What varies in texts, and what stands in its place.
const TEXTS: &[(&str, &str)] = &[
    (r"x-anthropic-billing-header:[^\n]*", "x-anthropic-billing-header: -"),
    (r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b", "<uuid>"),
    (r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?", "<date>"),
    (
        r"\b(?:(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?,? )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* \d{1,2},? \d{4}\b",
        "<date>",
    ),
    (r"\b\d{1,2}:\d{2}:\d{2}(?:\.\d+)?(?: ?[AP]M)?\b", "<time>"),
    (r"\b1[6-9]\d{11}\b", "<time>"),
    (r"Wall time: [\d.]+", "Wall time: <time>"),
    (r"Chunk ID: [0-9a-f]+", "Chunk ID: -"),
];

/// The key by which a request is found. `path` is without secrets, `body` too.
pub fn key(dialect: Dialect, path: &str, body: &Value) -> String {
    let text = format!("{}\n{}\n{}", dialect.name(), path, request(dialect, body));
    Sha256::digest(text).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The request without what varies. Keys are in order, as serde_json's are.
pub fn request(dialect: Dialect, body: &Value) -> Value {
    let mut walk = Walk { ids: HashMap::new(), folder: dialect.read_conversation(body).folder };
    match body {
        Value::Object(members) => {
            let kept = members.iter().filter(|(key, _)| !TOP.contains(&key.as_str()));
            walk.object(kept)
        }
        other => walk.value(other),
    }
}

struct Walk {
    ids: HashMap<String, usize>,
    folder: Option<String>,
}

impl Walk {
    fn object<'a>(&mut self, members: impl Iterator<Item = (&'a String, &'a Value)>) -> Value {
        let mut out = Map::new();
        for (key, member) in members.filter(|(key, _)| !ANYWHERE.contains(&key.as_str())) {
            let value = match member {
                Value::String(id) if IDS.contains(&key.as_str()) => {
                    let next = self.ids.len() + 1;
                    Value::String(format!("#{}", self.ids.entry(id.clone()).or_insert(next)))
                }
                // Arguments are JSON in a text; a client may write them with other spaces.
                Value::String(text) if key == "arguments" => match serde_json::from_str::<Value>(text) {
                    Ok(arguments) => self.value(&arguments),
                    Err(_) => self.value(member),
                },
                member => self.value(member),
            };
            out.insert(key.clone(), value);
        }
        Value::Object(out)
    }

    fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(members) => self.object(members.iter()),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.value(item)).collect()),
            Value::String(text) => Value::String(self.text(text)),
            other => other.clone(),
        }
    }

    fn text(&self, text: &str) -> String {
        let mut text = match &self.folder {
            Some(cwd) if cwd.len() > 1 => text.replace(cwd.as_str(), "<cwd>"),
            _ => text.to_owned(),
        };
        for (pattern, place) in patterns() {
            if let std::borrow::Cow::Owned(new) = pattern.replace_all(&text, *place) {
                text = new;
            }
        }
        text
    }
}

fn patterns() -> &'static [(Regex, &'static str)] {
    static PATTERNS: OnceLock<Vec<(Regex, &str)>> = OnceLock::new();
    // INVARIANT: all of them compile; a test counts them.
    PATTERNS.get_or_init(|| TEXTS.iter().filter_map(|(pattern, place)| Some((Regex::new(pattern).ok()?, *place))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(patterns().len(), TEXTS.len());
    }

    #[test]
    fn what_varies_is_left_out_and_nothing_else() {
        let body = |id: &str, date: &str, cwd: &str, model: &str, word: &str| {
            json!({"model": model, "metadata": {"user_id": id}, "system": format!("Working directory: {cwd}\nToday's date is {date}."), "messages": [
                {"role": "assistant", "content": [{"type": "tool_use", "id": format!("toolu_{id}"), "input": {"path": format!("{cwd}/a")}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": format!("toolu_{id}"), "content": word, "cache_control": {"type": "ephemeral"}}]},
            ]})
        };
        let key = |body: Value| key(Dialect::Anthropic, "/v1/messages", &body);
        let first = key(body("a", "2026-11-15", "/w/1", "m", "done"));
        for date in ["2027-01-02", "Sunday, November 15, 2026", "Sun Nov 15 2026", "2026-11-15T10:11:12.123Z"] {
            assert_eq!(key(body("b", date, "/x/2", "m", "done")), first, "{date}");
        }
        assert_ne!(key(body("a", "2026-11-15", "/w/1", "other", "done")), first);
        assert_ne!(key(body("a", "2026-11-15", "/w/1", "m", "failed")), first);
        // The order of ids is kept: a result that answers another call is another request.
        let crossed =
            |ids: [&str; 2]| key(json!({"messages": [{"id": "x"}, {"id": "y"}, {"tool_use_id": ids[0]}, {"tool_use_id": ids[1]}]}));
        assert_ne!(crossed(["x", "y"]), crossed(["y", "x"]));
    }
}
