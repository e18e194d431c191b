//! Gemini generateContent and streamGenerateContent. The model and the kind of answer stand in the path.

mod answer;
mod path;
mod request;

use crate::answer::AnswerWriter;
use crate::client_request::ClientRequest;
use crate::conversation::ChatRequest;
use crate::decoder::EventDecoder;
use crate::denial::DenialKind;
use crate::duration::parse_duration;
use crate::format::{Dialect, Endpoint, KeyHeader, WireFormat};
use crate::image::is_image;
use crate::members::{Edit, Members, RequestBody, Span, quoted, text, tree};
use crate::meter::{AnswerState, Meaning};
use crate::provider_tools::{ToolOwner, snake_case};
use crate::request::KEPT;
use crate::service_mode::ServiceMode;
use serde_json::{Map, Value, json};
use std::time::Duration;

pub(crate) struct Gemini;

const CONFIG: &[&str] = &["generationConfig", "generation_config"];
const OUTPUT_LIMIT: &[&str] = &["maxOutputTokens", "max_output_tokens"];
const THINKING: &[&str] = &["thinkingConfig", "thinking_config"];
const ROUTING: &[&str] = &["routingConfig", "routing_config", "modelConfig", "model_config"];
/// What is to be counted, where that is a whole request.
const COUNTED: &[&str] = &["generateContentRequest", "generate_content_request"];
const ANSWERS: &[&str] = &["candidateCount", "candidate_count"];
const CLIENT_TOOLS: &[&str] = &["function_declarations", "computer_use"];
/// Where Google keeps files: what lies there belongs to the key, and nobody else is asked for it.
const GOOGLE_FILES: &str = "https://generativelanguage.googleapis.com/";

/// The object of settings and where it stands. `null` is none.
fn config<'a>(request: &RequestBody<'a>) -> Result<Option<(Members<'a>, usize)>, String> {
    match request.members.one(CONFIG)? {
        Some((value, span)) if value != "null" => Ok(Some((Members::read(value)?, span.start))),
        _ => Ok(None),
    }
}

/// A member of the settings and where it stands in the request.
fn setting<'a>(request: &RequestBody<'a>, names: &[&str]) -> Result<Option<(&'a str, Span)>, String> {
    let Some((config, at)) = config(request)? else { return Ok(None) };
    Ok(config.one(names)?.map(|(value, span)| (value, span.start + at..span.end + at)))
}

impl WireFormat for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn endpoint(&self, method: &str, path: &str) -> Option<Endpoint> {
        if method == "GET" {
            return (path == "/v1beta/models").then_some(Endpoint::Models);
        }
        match (method, path::model_and_verb(path)?.1) {
            ("POST", "generateContent" | "streamGenerateContent") => Some(Endpoint::Generate),
            ("POST", "countTokens") => Some(Endpoint::CountTokens),
            _ => None,
        }
    }

    fn is_likely(&self, path: &str, has_header: &dyn Fn(&str) -> bool) -> bool {
        let version = path.split('/').nth(1).unwrap_or_default();
        has_header("x-goog-api-key") || matches!(version, "v1beta" | "v1alpha" | "upload")
    }

    fn model_and_stream(&self, path: &str, request: &RequestBody<'_>) -> Result<(String, bool), String> {
        let (place, verb) = path::model_and_verb(path).ok_or(path::NO_MODEL)?;
        let model = path::decode_model(&path[place])?;
        if setting(request, ROUTING)?.is_some_and(|(value, _)| value != "null") {
            return Err(format!("`{}` has the provider choose another model; name it in the path", ROUTING[0]));
        }
        if let Some((named, _)) = request.members.one(&["model"])?
            && text("model", named)?.trim_start_matches("models/") != model
        {
            return Err(format!("its `model` is another than that of its path, `{model}`"));
        }
        Ok((model, verb == "streamGenerateContent"))
    }

    /// A body may name the model again, and must then name the same.
    fn rename_model(&self, path: &str, request: &RequestBody<'_>, model: &str) -> Result<(String, Vec<Edit>), String> {
        let mut path = path.to_owned();
        let (place, _) = path::model_and_verb(&path).ok_or(path::NO_MODEL)?;
        path.replace_range(place, &path::encode_model(model));
        let Some((named, span)) = request.members.one(&["model"])? else { return Ok((path, Vec::new())) };
        let before = if text("model", named)?.starts_with("models/") { "models/" } else { "" };
        Ok((path, vec![(span, quoted(&format!("{before}{model}")))]))
    }

    fn output_limit_names(&self) -> &'static [&'static str] {
        OUTPUT_LIMIT
    }

    fn output_limits<'a>(&self, request: &RequestBody<'a>) -> Result<Vec<(&'a str, Span)>, String> {
        Ok(setting(request, OUTPUT_LIMIT)?.into_iter().collect())
    }

    fn insert_output_limit(&self, request: &RequestBody<'_>, _model: &str, limit: u64) -> Result<Edit, String> {
        let name = OUTPUT_LIMIT[0];
        Ok(match config(request)? {
            Some((config, at)) => {
                let (span, new) = config.insert(name, &limit.to_string());
                (span.start + at..span.end + at, new)
            }
            None => request.members.insert(CONFIG[0], &format!("{{\"{name}\":{limit}}}")),
        })
    }

    fn answer_count<'a>(&self, request: &RequestBody<'a>) -> Result<Option<&'a str>, String> {
        Ok(setting(request, ANSWERS)?.map(|(value, _)| value))
    }

    fn refused_members(&self) -> &'static [(&'static [&'static str], &'static str)] {
        &[(&["cachedContent", "cached_content"], KEPT)]
    }

    fn conversation_members(&self) -> &'static [&'static [&'static str]] {
        &[&["contents"], &["systemInstruction", "system_instruction"]]
    }

    fn inner_request<'a>(&self, members: &Members<'a>) -> Result<Option<Members<'a>>, String> {
        members.one(COUNTED)?.map(|(value, _)| Members::read(value)).transpose()
    }

    /// Each key of a tool is one.
    fn tool_owner<'a>(&self, tool: &Members<'a>) -> Result<ToolOwner<'a>, String> {
        let given = tool.iter().filter(|(_, value)| *value != "null").map(|(key, _)| snake_case(key));
        Ok(ToolOwner::Provider(given.filter(|name| !CLIENT_TOOLS.contains(&name.as_str())).collect()))
    }

    fn takes_a_single_tool(&self) -> bool {
        true
    }

    fn content_keys(&self) -> &'static [&'static str] {
        &["parts", "inlineData", "inline_data", "functionResponse", "function_response"]
    }

    fn is_address(&self, key: &str, member: &Value) -> bool {
        let is_foreign = |name: &str| member.get(name).is_some_and(|uri| !uri.as_str().is_some_and(|uri| uri.starts_with(GOOGLE_FILES)));
        matches!(key, "fileData" | "file_data") && (is_foreign("fileUri") || is_foreign("file_uri"))
    }

    fn picture_data<'a>(&self, members: &'a Map<String, Value>) -> Option<&'a str> {
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        match (text("mimeType"), text("mime_type")) {
            (kind, None) | (None, kind) => text("data").filter(|_| is_image(kind)),
            _ => None,
        }
    }

    fn thinking(&self, request: &RequestBody<'_>) -> Result<Vec<Option<bool>>, String> {
        let thinking = setting(request, THINKING)?.map(|(value, _)| tree(value)).transpose()?.unwrap_or_default();
        let budget = thinking.get("thinkingBudget").or(thinking.get("thinking_budget")).and_then(Value::as_i64);
        Ok(vec![thinking.is_object().then_some(budget != Some(0))])
    }

    fn hides_thoughts(&self, model: &str) -> bool {
        !["gemini-1", "gemini-2.0", "gemma"].iter().any(|start| model.starts_with(start))
    }

    fn watched(&self) -> &'static [(&'static [&'static str], Meaning)] {
        &[
            (&["usageMetadata"], Meaning::Usage),
            (&["candidates", "[]", "groundingMetadata", "webSearchQueries"], Meaning::SearchQueries),
            (&["modelVersion"], Meaning::Model),
            (&["error"], Meaning::Error),
            (&["candidates", "[]", "finishReason"], Meaning::End),
        ]
    }

    /// Each chunk reports everything so far. What was thought is not part of the candidates.
    fn add_usage(&self, usage: &Value, state: &mut AnswerState) {
        let served = ["serviceTier", "trafficType"].iter().find_map(|name| usage.get(name)?.as_str());
        state.mode = served.map(|word| ServiceMode::of(self, &[word])).or(state.mode);
        let read = |name: &str| usage.get(name).and_then(Value::as_u64);
        if let Some(prompt) = read("promptTokenCount") {
            let prompt = prompt.saturating_add(read("toolUsePromptTokenCount").unwrap_or(0));
            state.cache_read = read("cachedContentTokenCount").unwrap_or(0).min(prompt);
            state.input = Some(prompt - state.cache_read);
        }
        let (candidates, thoughts) = (read("candidatesTokenCount"), read("thoughtsTokenCount"));
        if candidates.is_some() || thoughts.is_some() {
            state.reasoning = thoughts.unwrap_or(0);
            state.output = Some(candidates.unwrap_or(0).saturating_add(state.reasoning));
        }
    }

    fn error(&self, status: u16, kind: DenialKind, message: &str) -> Value {
        let word = match kind {
            DenialKind::Unauthorized => "UNAUTHENTICATED",
            DenialKind::Denied => "PERMISSION_DENIED",
            DenialKind::Cancelled => "CANCELLED",
            DenialKind::Budget | DenialKind::RateLimited => "RESOURCE_EXHAUSTED",
            DenialKind::BadRequest | DenialKind::TooLarge => "INVALID_ARGUMENT",
            DenialKind::NotFound => "NOT_FOUND",
            DenialKind::Overloaded => "UNAVAILABLE",
            DenialKind::Upstream | DenialKind::Misconfigured => "INTERNAL",
        };
        json!({"error": {"code": status, "message": message, "status": word}})
    }

    /// `retryDelay` of a `RetryInfo` among the details of an error: `34.5s`.
    fn retry_delay(&self, refusal: &[u8]) -> Option<Duration> {
        let refusal: Value = serde_json::from_slice(refusal).ok()?;
        // Refused within a stream, it stands in an array.
        let refusal = refusal.get(0).unwrap_or(&refusal);
        let details = refusal["error"]["details"].as_array()?;
        details.iter().find_map(|detail| parse_duration(detail["retryDelay"].as_str()?)).filter(|wait| !wait.is_zero())
    }

    fn models(&self, names: &[&str]) -> Value {
        let methods = ["generateContent", "streamGenerateContent", "countTokens"];
        let each = |name: &&str| json!({"name": format!("models/{name}"), "displayName": name, "supportedGenerationMethods": methods});
        json!({"models": names.iter().map(each).collect::<Vec<Value>>()})
    }

    fn token_count(&self, tokens: u64) -> Value {
        json!({"totalTokens": tokens})
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader::Google
    }

    fn upstream_path(&self, path: &str) -> String {
        path.to_owned()
    }

    fn read_conversation(&self, body: &Value, request: &mut ClientRequest) {
        request::read_conversation(body, request);
    }

    fn render_whole(&self, writer: &AnswerWriter<'_>) -> Value {
        answer::whole(writer)
    }

    fn render_stream(&self, path: &str, writer: &mut AnswerWriter<'_>) -> &'static str {
        answer::stream(path, writer)
    }

    fn render_request(&self, request: &ChatRequest<'_>) -> (String, Value) {
        request::render(request)
    }

    fn decoder(&self) -> Box<dyn EventDecoder> {
        Box::new(answer::GeminiDecoder::default())
    }
}

const DIALECT: Dialect = Dialect::Gemini;
