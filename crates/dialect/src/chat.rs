//! OpenAI Chat Completions, and the many servers that are compatible with it.

mod answer;
mod request;

use crate::answer::AnswerWriter;
use crate::client_request::ClientRequest;
use crate::conversation::{ChatRequest, ServerQuirks};
use crate::decoder::EventDecoder;
use crate::denial::DenialKind;
use crate::format::{Endpoint, KeyHeader, WireFormat, without_version};
use crate::image::{carries_data, inline_picture};
use crate::members::{Edit, Members, RequestBody};
use crate::meter::{AnswerState, Meaning};
use crate::provider_tools::{NO_TYPE, ToolOwner, WEB_SEARCH, tool_type};
use crate::request::MORE_MODELS;
use crate::thinking::{said_by_object, said_by_word};
use serde_json::{Map, Value, json};

pub(crate) struct Chat;

const NEW_LIMIT: &str = "max_completion_tokens";
/// The older name, which every compatible server knows.
const OLD_LIMIT: &str = "max_tokens";

const CLIENT_TOOLS: &[&str] = &["function", "custom"];

impl WireFormat for Chat {
    fn name(&self) -> &'static str {
        "chat"
    }

    fn endpoint(&self, method: &str, path: &str) -> Option<Endpoint> {
        match (method, without_version(path)?) {
            ("POST", "chat/completions") => Some(Endpoint::Generate),
            ("GET", "models") => Some(Endpoint::Models),
            _ => None,
        }
    }

    /// Most servers are compatible with this one, so it is the guess that is left.
    fn is_likely(&self, _path: &str, _has_header: &dyn Fn(&str) -> bool) -> bool {
        true
    }

    fn output_limit_names(&self) -> &'static [&'static str] {
        &[NEW_LIMIT, OLD_LIMIT]
    }

    fn insert_output_limit(&self, request: &RequestBody<'_>, model: &str, limit: u64) -> Result<Edit, String> {
        let name = if self.heeds_every_limit(model) { NEW_LIMIT } else { OLD_LIMIT };
        Ok(request.members.insert(name, &limit.to_string()))
    }

    fn limit_is_heeded_by_all(&self, members: &Members<'_>) -> Result<bool, String> {
        Ok(members.one(&[OLD_LIMIT])?.is_some_and(|(value, _)| value != "null"))
    }

    /// The vendor's own models know the newer name.
    fn heeds_every_limit(&self, model: &str) -> bool {
        model.starts_with("gpt-") || model.strip_prefix('o').is_some_and(starts_with_digit)
    }

    fn answer_count<'a>(&self, request: &RequestBody<'a>) -> Result<Option<&'a str>, String> {
        Ok(request.members.one(&["n"])?.map(|(value, _)| value))
    }

    fn refused_members(&self) -> &'static [(&'static [&'static str], &'static str)] {
        &[(&["models"], MORE_MODELS)]
    }

    fn conversation_members(&self) -> &'static [&'static [&'static str]] {
        &[&["messages"]]
    }

    fn tool_owner<'a>(&self, tool: &Members<'a>) -> Result<ToolOwner<'a>, String> {
        Ok(match tool_type(tool)? {
            Some(kind) if CLIENT_TOOLS.contains(&kind.as_str()) => ToolOwner::Client,
            Some(kind) => ToolOwner::Provider(vec![kind]),
            None if tool.one(&["function"])?.is_some() => ToolOwner::Client,
            None => return Err(NO_TYPE.to_owned()),
        })
    }

    fn tool_members(&self) -> &'static [(&'static [&'static str], &'static str)] {
        &[
            (&["web_search_options"], WEB_SEARCH),
            // Of compatible servers: xAI, Qwen, OpenRouter.
            (&["search_parameters"], WEB_SEARCH),
            (&["enable_search"], WEB_SEARCH),
            (&["plugins"], "plugins"),
        ]
    }

    fn searches_once(&self) -> bool {
        true
    }

    fn content_keys(&self) -> &'static [&'static str] {
        &["content", "image_url"]
    }

    /// Compatible servers know `video_url` and `audio_url` too, and files by address.
    fn is_address(&self, key: &str, member: &Value) -> bool {
        if key == "file" {
            return member["file_data"].as_str().is_some_and(|text| text.contains("://"))
                || member.get("file_url").is_some_and(|url| !url.is_null());
        }
        key.ends_with("_url") && !member.is_null() && !carries_data(member) && !carries_data(&member["url"])
    }

    fn picture_data<'a>(&self, members: &'a Map<String, Value>) -> Option<&'a str> {
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        text("url").or(text("image_url")).and_then(inline_picture)
    }

    fn thinking(&self, request: &RequestBody<'_>) -> Result<Vec<Option<bool>>, String> {
        Ok(vec![
            said_by_word(&request.value("reasoning_effort")?),
            said_by_object(&request.value("reasoning")?),
            said_by_object(&request.value("thinking")?),
            request.value("enable_thinking")?.as_bool(),
        ])
    }

    fn hides_thoughts(&self, model: &str) -> bool {
        let is = |starts: &[&str]| starts.iter().any(|start| model.starts_with(start));
        let gpt = model.strip_prefix("gpt-").is_some_and(starts_with_digit) && !is(&["gpt-3", "gpt-4"]);
        let o = model.strip_prefix('o').is_some_and(starts_with_digit);
        let gemini = is(&["gemini-"]) && !is(&["gemini-1", "gemini-2.0"]);
        gpt || o || gemini || is(&["grok-"])
    }

    fn watched(&self) -> &'static [(&'static [&'static str], Meaning)] {
        &[
            (&["usage"], Meaning::Usage),
            // Compatible servers put it in places of their own.
            (&["choices", "[]", "usage"], Meaning::Usage),
            (&["x_groq", "usage"], Meaning::Usage),
            (&["service_tier"], Meaning::ServiceTier),
            (&["model"], Meaning::Model),
            (&["error"], Meaning::Error),
            // A stream goes on after this with its usage, if any; the end of a choice is the end of what it says.
            (&["choices", "[]", "finish_reason"], Meaning::End),
        ]
    }

    fn add_usage(&self, usage: &Value, state: &mut AnswerState) {
        let read = |name: &str| usage.get(name).and_then(Value::as_u64);
        let inner = |object: &str, name: &str| usage.get(object).and_then(|inner| inner.get(name)).and_then(Value::as_u64);
        let Some(input) = read("prompt_tokens") else { return };
        // DeepSeek has its own word for what it read from the cache.
        let cached = inner("prompt_tokens_details", "cached_tokens").or(read("prompt_cache_hit_tokens")).unwrap_or(0);
        state.cache_read = cached.min(input);
        state.cache_write = inner("prompt_tokens_details", "cache_write_tokens").unwrap_or(0).min(input - state.cache_read);
        state.input = Some(input - state.cache_read - state.cache_write);
        state.output = read("completion_tokens").or(state.output);
        state.reasoning = inner("completion_tokens_details", "reasoning_tokens").unwrap_or(0);
    }

    fn error(&self, _status: u16, kind: DenialKind, message: &str) -> Value {
        openai_error(kind, message)
    }

    fn models(&self, names: &[&str]) -> Value {
        openai_models(names)
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader::Bearer
    }

    fn read_conversation(&self, body: &Value, request: &mut ClientRequest) {
        request::read_conversation(body, request);
    }

    fn render_whole(&self, writer: &AnswerWriter<'_>) -> Value {
        answer::whole(writer)
    }

    fn render_stream(&self, _path: &str, writer: &mut AnswerWriter<'_>) -> &'static str {
        answer::stream(writer);
        "text/event-stream"
    }

    fn render_request(&self, request: &ChatRequest<'_>) -> (String, Value) {
        request::render(request)
    }

    fn decoder(&self) -> Box<dyn EventDecoder> {
        Box::new(answer::ChatDecoder::default())
    }

    fn learn_quirk(&self, refusal: &str, quirks: ServerQuirks) -> Option<ServerQuirks> {
        refusal.contains(NEW_LIMIT).then_some(ServerQuirks { new_limit_name: true, ..quirks })
    }
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// The error of both OpenAI dialects.
pub(crate) fn openai_error(kind: DenialKind, message: &str) -> Value {
    let (kind, code) = match kind {
        DenialKind::Unauthorized => ("invalid_request_error", "invalid_api_key"),
        DenialKind::Denied => ("permission_error", "permission_denied"),
        DenialKind::Cancelled => ("permission_error", "cancelled"),
        DenialKind::Budget => ("insufficient_quota", "insufficient_quota"),
        DenialKind::RateLimited => ("rate_limit_error", "rate_limit_exceeded"),
        DenialKind::BadRequest => ("invalid_request_error", "invalid_request"),
        DenialKind::TooLarge => ("invalid_request_error", "request_too_large"),
        DenialKind::NotFound => ("invalid_request_error", "not_found"),
        DenialKind::Overloaded => ("server_error", "server_is_overloaded"),
        DenialKind::Upstream | DenialKind::Misconfigured => ("server_error", "server_error"),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// The list of models of both OpenAI dialects.
pub(crate) fn openai_models(names: &[&str]) -> Value {
    let data: Vec<Value> = names.iter().map(|name| json!({"id": name, "object": "model", "created": 0, "owned_by": "skep"})).collect();
    json!({"object": "list", "data": data})
}
