//! Anthropic Messages.

mod answer;
mod request;

use crate::answer::AnswerWriter;
use crate::client_request::ClientRequest;
use crate::conversation::ChatRequest;
use crate::decoder::EventDecoder;
use crate::denial::DenialKind;
use crate::format::{Dialect, Endpoint, KeyHeader, WireFormat, without_version};
use crate::image::is_image;
use crate::members::{Members, RequestBody};
use crate::meter::{AnswerState, Meaning};
use crate::provider_tools::{ToolOwner, tool_type, undated};
use crate::request::MORE_MODELS;
use crate::service_mode::ServiceMode;
use crate::thinking::said_by_object;
use serde_json::{Map, Value, json};

pub(crate) struct Anthropic;

/// The header that every client of this vendor sends.
pub(crate) const VERSION_HEADER: &str = "anthropic-version";

/// Typed tools that the client runs, dates left out. `tool_search_tool` searches the tools of the request and no further.
const CLIENT_TOOLS: &[&str] = &["custom", "bash", "text_editor", "memory", "computer", "tool_search_tool_regex", "tool_search_tool_bm25"];

impl WireFormat for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn raw_tag(&self) -> &'static str {
        "messages"
    }

    fn endpoint(&self, method: &str, path: &str) -> Option<Endpoint> {
        match (method, without_version(path)?) {
            ("POST", "messages") => Some(Endpoint::Generate),
            ("POST", "messages/count_tokens") => Some(Endpoint::CountTokens),
            _ => None,
        }
    }

    fn is_likely(&self, path: &str, has_header: &dyn Fn(&str) -> bool) -> bool {
        has_header(VERSION_HEADER) || has_header("x-api-key") || path.starts_with("/v1/messages")
    }

    fn output_limit_names(&self) -> &'static [&'static str] {
        &["max_tokens"]
    }

    fn refused_members(&self) -> &'static [(&'static [&'static str], &'static str)] {
        // In words by which Claude Code knows that it can ask again without.
        &[
            (&["fallbacks"], "names further models, and only one is decided about: skep does not support the `fallbacks` parameter"),
            (&["fallback"], "names a further model, and only one is decided about: skep does not support the `fallback` parameter"),
            (&["models"], MORE_MODELS),
        ]
    }

    fn conversation_members(&self) -> &'static [&'static [&'static str]] {
        &[&["messages"], &["system"]]
    }

    fn tool_owner<'a>(&self, tool: &Members<'a>) -> Result<ToolOwner<'a>, String> {
        Ok(match tool_type(tool)? {
            None => ToolOwner::Client,
            Some(kind) if CLIENT_TOOLS.contains(&undated(&kind)) => ToolOwner::Client,
            Some(kind) => ToolOwner::Provider(vec![kind]),
        })
    }

    fn tool_members(&self) -> &'static [(&'static [&'static str], &'static str)] {
        // `container` holds skills and files for code that the provider runs.
        &[(&["mcp_servers"], "mcp"), (&["container"], "code_execution")]
    }

    fn content_keys(&self) -> &'static [&'static str] {
        &["content", "source"]
    }

    fn is_address(&self, key: &str, member: &Value) -> bool {
        key == "source" && (member["type"] == "url" || !member["url"].is_null())
    }

    fn picture_data<'a>(&self, members: &'a Map<String, Value>) -> Option<&'a str> {
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        text("data").filter(|_| text("type") == Some("base64") && is_image(text("media_type")))
    }

    fn thinking(&self, request: &RequestBody<'_>) -> Result<Vec<Option<bool>>, String> {
        Ok(vec![said_by_object(&request.value("thinking")?)])
    }

    /// Without the member Claude thinks aloud or not at all.
    fn hides_thoughts(&self, _model: &str) -> bool {
        false
    }

    fn priority_is_prepaid(&self) -> bool {
        true
    }

    fn watched(&self) -> &'static [(&'static [&'static str], Meaning)] {
        &[
            (&["usage"], Meaning::Usage),
            (&["message", "usage"], Meaning::Usage),
            (&["model"], Meaning::Model),
            (&["message", "model"], Meaning::Model),
            (&["type"], Meaning::EventType),
            (&["error"], Meaning::Error),
            // Claude's thoughts are blocks of their own, however little of them is shown.
            (&["content_block", "type"], Meaning::PartType { shows_thoughts: true }),
        ]
    }

    /// `message_start` reports the input, `message_delta` the output so far and sometimes all of it again: figures only grow. An answer
    /// for which the conversation was shortened first lists each turn in `iterations`, and counts the last of them alone.
    fn add_usage(&self, usage: &Value, state: &mut AnswerState) {
        let turns = usage.get("iterations").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let read = |name: &str| {
            let of = |usage: &Value| usage.get(name).and_then(Value::as_u64);
            of(usage).max(turns.iter().filter_map(of).reduce(u64::saturating_add))
        };
        let grow = |old: &mut Option<u64>, new: Option<u64>| *old = (*old).max(new);
        grow(&mut state.input, read("input_tokens"));
        grow(&mut state.output, read("output_tokens"));
        state.cache_read = state.cache_read.max(read("cache_read_input_tokens").unwrap_or(0));
        state.cache_write = state.cache_write.max(read("cache_creation_input_tokens").unwrap_or(0));
        let inner = |object: &str, name: &str| usage.get(object).and_then(|inner| inner.get(name)).and_then(Value::as_u64).unwrap_or(0);
        state.cache_write_1h = state.cache_write_1h.max(inner("cache_creation", "ephemeral_1h_input_tokens"));
        state.reasoning = state.reasoning.max(inner("output_tokens_details", "thinking_tokens"));
        state.searches = state.searches.max(inner("server_tool_use", "web_search_requests"));
        let words: Vec<&str> = ["speed", "inference_geo"].iter().filter_map(|name| usage.get(name)?.as_str()).collect();
        if !words.is_empty() {
            state.mode = Some(ServiceMode::of(self, &words));
        }
    }

    fn note_event(&self, kind: &str, state: &mut AnswerState) {
        state.has_ended |= kind == "message_stop";
    }

    fn error(&self, _status: u16, kind: DenialKind, message: &str) -> Value {
        let kind = match kind {
            DenialKind::Unauthorized => "authentication_error",
            DenialKind::Denied | DenialKind::Cancelled => "permission_error",
            DenialKind::Budget => "billing_error",
            DenialKind::RateLimited => "rate_limit_error",
            DenialKind::BadRequest => "invalid_request_error",
            DenialKind::TooLarge => "request_too_large",
            DenialKind::NotFound => "not_found_error",
            DenialKind::Overloaded => "overloaded_error",
            DenialKind::Upstream | DenialKind::Misconfigured => "api_error",
        };
        json!({"type": "error", "error": {"type": kind, "message": message}})
    }

    fn error_event(&self, error: &Value, _message: &str) -> String {
        format!("event: error\ndata: {error}\n\n")
    }

    fn error_status(&self, kind: DenialKind) -> u16 {
        if kind == DenialKind::Overloaded { 529 } else { kind.status() }
    }

    fn models(&self, names: &[&str]) -> Value {
        let one = |name: &&str| json!({"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"});
        let data: Vec<Value> = names.iter().map(one).collect();
        json!({"data": data, "has_more": false, "first_id": names.first(), "last_id": names.last()})
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader::ApiKey
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
        Box::new(answer::AnthropicDecoder::default())
    }
}

const DIALECT: Dialect = Dialect::Anthropic;
