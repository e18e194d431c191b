//! OpenAI Responses.

mod answer;
mod request;

use crate::answer::AnswerWriter;
use crate::chat;
use crate::client_request::ClientRequest;
use crate::conversation::{ChatRequest, ServerQuirks};
use crate::decoder::EventDecoder;
use crate::denial::DenialKind;
use crate::format::{Dialect, Endpoint, KeyHeader, WireFormat, without_version};
use crate::image::{carries_data, inline_picture};
use crate::members::{Members, RequestBody, text};
use crate::meter::{AnswerState, Meaning};
use crate::provider_tools::{NO_TYPE, ToolOwner, WEB_SEARCH, tool_type};
use crate::request::{KEPT, LATER, MORE_MODELS};
use crate::thinking::said_by_object;
use serde_json::{Map, Value, json};

pub(crate) struct Responses;

/// Tools that the client runs. `tool_search` searches the tools of the request and no further.
const CLIENT_TOOLS: &[&str] =
    &["function", "custom", "local_shell", "apply_patch", "computer", "computer_use", "computer_use_preview", "tool_search"];

impl WireFormat for Responses {
    fn name(&self) -> &'static str {
        "responses"
    }

    fn endpoint(&self, method: &str, path: &str) -> Option<Endpoint> {
        match (method, without_version(path)?) {
            // Codex has the provider shorten a conversation, which costs what an answer costs.
            ("POST", "responses" | "responses/compact") => Some(Endpoint::Generate),
            ("POST", "responses/input_tokens") => Some(Endpoint::CountTokens),
            _ => None,
        }
    }

    fn is_likely(&self, path: &str, _has_header: &dyn Fn(&str) -> bool) -> bool {
        path.contains("/responses")
    }

    fn output_limit_names(&self) -> &'static [&'static str] {
        &["max_output_tokens"]
    }

    fn refused_members(&self) -> &'static [(&'static [&'static str], &'static str)] {
        &[
            (&["models"], MORE_MODELS),
            (&["background"], LATER),
            (&["previous_response_id"], KEPT),
            (&["conversation"], KEPT),
            (&["prompt"], "names a prompt that the provider keeps, whose length is not known here; send its text"),
        ]
    }

    fn conversation_members(&self) -> &'static [&'static [&'static str]] {
        &[&["input"]]
    }

    fn tool_owner<'a>(&self, tool: &Members<'a>) -> Result<ToolOwner<'a>, String> {
        let kind = tool_type(tool)?.ok_or(NO_TYPE)?;
        let is_client = match kind.as_str() {
            "namespace" => return Ok(ToolOwner::Inner(tool.one(&["tools"])?.map(|(tools, _)| tools))),
            "shell" => is_local(tool)?,
            kind => CLIENT_TOOLS.contains(&kind),
        };
        Ok(if is_client { ToolOwner::Client } else { ToolOwner::Provider(vec![kind]) })
    }

    /// Tools that were found on the way stand within the conversation.
    fn has_tools_in_conversation(&self) -> bool {
        true
    }

    fn client_flag_without(&self, tool: &str) -> Option<(&'static str, &'static str)> {
        match tool {
            WEB_SEARCH => Some(("codex", "-c web_search=disabled")),
            "image_generation" => Some(("codex", "-c features.image_generation=false")),
            _ => None,
        }
    }

    fn content_keys(&self) -> &'static [&'static str] {
        &["content", "output"]
    }

    fn is_address(&self, key: &str, member: &Value) -> bool {
        matches!(key, "image_url" | "file_url") && !member.is_null() && !carries_data(member)
    }

    fn picture_data<'a>(&self, members: &'a Map<String, Value>) -> Option<&'a str> {
        members.get("image_url").and_then(Value::as_str).and_then(inline_picture)
    }

    /// An item of an earlier answer may be as long as a file.
    fn is_kept_item(&self, kind: &str) -> bool {
        kind == "item_reference"
    }

    fn thinking(&self, request: &RequestBody<'_>) -> Result<Vec<Option<bool>>, String> {
        Ok(vec![said_by_object(&request.value("reasoning")?)])
    }

    fn hides_thoughts(&self, model: &str) -> bool {
        !["gpt-3", "gpt-4", "chatgpt-4"].iter().any(|start| model.starts_with(start))
    }

    fn watched(&self) -> &'static [(&'static [&'static str], Meaning)] {
        &[
            (&["response", "usage"], Meaning::Usage),
            (&["response", "service_tier"], Meaning::ServiceTier),
            (&["output", "[]", "type"], Meaning::OutputType),
            (&["response", "model"], Meaning::Model),
            (&["type"], Meaning::EventType),
            (&["response", "error"], Meaning::Error),
            (&["item", "type"], Meaning::PartType { shows_thoughts: false }),
        ]
    }

    /// `input_tokens` includes what was read from and written to the cache, `output_tokens` what was thought.
    fn add_usage(&self, usage: &Value, state: &mut AnswerState) {
        let read = |name: &str| usage.get(name).and_then(Value::as_u64);
        let inner = |object: &str, name: &str| usage.get(object).and_then(|inner| inner.get(name)).and_then(Value::as_u64).unwrap_or(0);
        let Some(input) = read("input_tokens") else { return };
        state.cache_read = inner("input_tokens_details", "cached_tokens").min(input);
        state.cache_write = inner("input_tokens_details", "cache_write_tokens").min(input - state.cache_read);
        state.input = Some(input - state.cache_read - state.cache_write);
        state.output = read("output_tokens").or(state.output);
        state.reasoning = inner("output_tokens_details", "reasoning_tokens");
    }

    fn note_event(&self, kind: &str, state: &mut AnswerState) {
        state.searches += u64::from(kind == "response.web_search_call.completed");
        state.has_ended |= matches!(kind, "response.completed" | "response.incomplete" | "response.failed");
    }

    /// The events tell everything two or three times; only the deltas tell it once.
    fn is_written(&self) -> fn(&str) -> bool {
        |key| key == "delta"
    }

    fn error(&self, _status: u16, kind: DenialKind, message: &str) -> Value {
        chat::openai_error(kind, message)
    }

    fn error_event(&self, error: &Value, message: &str) -> String {
        let event = json!({"type": "error", "code": error["error"]["code"], "message": message, "param": null, "sequence_number": 0});
        format!("event: error\ndata: {event}\n\n")
    }

    /// Its client shows a 400 at once, in our words, and does not try again: Codex takes a 402 for a fault of the moment, and each client
    /// takes a 429 for one.
    fn error_status(&self, kind: DenialKind) -> u16 {
        if matches!(kind, DenialKind::Budget | DenialKind::Cancelled) { 400 } else { kind.status() }
    }

    fn models(&self, names: &[&str]) -> Value {
        chat::openai_models(names)
    }

    fn token_count(&self, tokens: u64) -> Value {
        json!({"object": "response.input_tokens", "input_tokens": tokens})
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
        Box::new(answer::ResponsesDecoder::default())
    }

    fn learn_quirk(&self, refusal: &str, quirks: ServerQuirks) -> Option<ServerQuirks> {
        let has_no_thoughts = refusal.contains("encrypted content") || refusal.contains("encrypted_content");
        has_no_thoughts.then_some(ServerQuirks { no_thoughts: true, ..quirks })
    }
}

/// A shell is the client's where it says so; else it is a container of the provider's.
fn is_local(shell: &Members<'_>) -> Result<bool, String> {
    let Some((place, _)) = shell.one(&["environment"])?.filter(|(value, _)| value.starts_with('{')) else { return Ok(false) };
    Ok(Members::read(place)?.one(&["type"])?.is_some_and(|(kind, _)| text("type", kind).is_ok_and(|kind| kind == "local")))
}

const DIALECT: Dialect = Dialect::Responses;
