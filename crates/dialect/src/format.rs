//! What differs from vendor to vendor, as one trait, and the table of those who implement it.

use crate::answer::AnswerWriter;
use crate::client_request::ClientRequest;
use crate::conversation::{ChatRequest, ServerQuirks};
use crate::decoder::EventDecoder;
use crate::denial::DenialKind;
use crate::members::{Edit, Members, RequestBody, Span};
use crate::meter::{AnswerState, Meaning};
use crate::provider_tools::ToolOwner;
use crate::{anthropic, chat, gemini, responses};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

/// A wire format of a vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions, and every server that is compatible with it.
    Chat,
    /// Gemini generateContent and streamGenerateContent.
    Gemini,
}

/// What a path is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Generate,
    CountTokens,
    Models,
}

/// The header that carries an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum KeyHeader {
    #[serde(rename = "x-api-key")]
    ApiKey,
    #[serde(rename = "bearer")]
    Bearer,
    #[serde(rename = "x-goog-api-key")]
    Google,
}

impl Dialect {
    pub const ALL: [Dialect; 4] = [Dialect::Anthropic, Dialect::Responses, Dialect::Chat, Dialect::Gemini];

    /// The table of vendors.
    pub(crate) fn format(self) -> &'static dyn WireFormat {
        match self {
            Dialect::Anthropic => &anthropic::Anthropic,
            Dialect::Responses => &responses::Responses,
            Dialect::Chat => &chat::Chat,
            Dialect::Gemini => &gemini::Gemini,
        }
    }

    /// Its name in settings and records.
    pub fn name(self) -> &'static str {
        self.format().name()
    }

    /// The dialect and endpoint that a method and path (query allowed) belong to. A client may leave the version out of its base URL.
    ///
    /// `GET /v1/models` is the same in two dialects and is taken as OpenAI's; [`Dialect::detect_request`] looks at the headers too.
    pub fn detect(method: &str, path: &str) -> Option<(Dialect, Endpoint)> {
        let path = path.split('?').next().unwrap_or(path);
        Dialect::ALL.into_iter().find_map(|dialect| Some((dialect, dialect.format().endpoint(method, path)?)))
    }

    /// The dialect of a request, and its endpoint where there is one. For a path that no dialect has, the dialect is the likeliest one,
    /// so that its client understands the refusal.
    pub fn detect_request(method: &str, path: &str, has_header: &dyn Fn(&str) -> bool) -> (Dialect, Option<Endpoint>) {
        match Dialect::detect(method, path) {
            Some((_, Endpoint::Models)) if has_header(anthropic::VERSION_HEADER) => (Dialect::Anthropic, Some(Endpoint::Models)),
            Some((dialect, endpoint)) => (dialect, Some(endpoint)),
            None => (crate::unsupported::likely_dialect(path, has_header), None),
        }
    }

    /// The header that carries a key, where the provider's settings name no other.
    pub fn key_header(self) -> KeyHeader {
        self.format().key_header()
    }

    /// The path as the provider wants it: a client may leave the version out.
    pub fn upstream_path(self, path: &str) -> String {
        self.format().upstream_path(path)
    }

    /// The flag by which the vendor's own client leaves this tool of the provider out, where it has one: client and flag.
    pub fn client_flag_without(self, tool: &str) -> Option<(&'static str, &'static str)> {
        self.format().client_flag_without(tool)
    }

    /// How long to wait, where a refusal says so in its body. The others have a header for it.
    pub fn retry_delay(self, refusal: &[u8]) -> Option<Duration> {
        self.format().retry_delay(refusal)
    }
}

/// One vendor's wire format: what only this vendor does. What all share stands beside it and calls these.
///
/// The sections are the four ways through a format: a request parsed, an answer metered, a request rendered and its answer decoded (for
/// the built-in brain), a conversation parsed and an answer rendered (for the scripted model).
pub(crate) trait WireFormat: Sync {
    /// Its name in settings and records.
    fn name(&self) -> &'static str;

    // A client's request.

    /// What this method and path (without query) are for; `None` where they are not this vendor's.
    fn endpoint(&self, method: &str, path: &str) -> Option<Endpoint>;

    /// Whether a path that no dialect has most likely comes from a client of this one.
    fn is_likely(&self, path: &str, has_header: &dyn Fn(&str) -> bool) -> bool;

    /// The model that a request names and whether it wants a stream. `path` includes the query.
    fn model_and_stream(&self, _path: &str, request: &RequestBody<'_>) -> Result<(String, bool), String> {
        let (model, _) = request.members.one(&["model"])?.ok_or("`model` is missing")?;
        let stream = request.members.one(&["stream"])?.is_some_and(|(value, _)| value == "true");
        Ok((crate::members::text("model", model)?, stream))
    }

    /// The path and the edits that name another model.
    fn rename_model(&self, path: &str, request: &RequestBody<'_>, model: &str) -> Result<(String, Vec<Edit>), String> {
        let (_, span) = request.members.one(&["model"])?.ok_or("`model` is missing")?;
        Ok((path.to_owned(), vec![(span, crate::members::quoted(model))]))
    }

    /// Names of the member that limits the output; the first is written where a request has none.
    fn output_limit_names(&self) -> &'static [&'static str];

    /// The output limits of a request and where they stand.
    fn output_limits<'a>(&self, request: &RequestBody<'a>) -> Result<Vec<(&'a str, Span)>, String> {
        let each = self.output_limit_names().iter().map(|name| request.members.one(&[name]));
        Ok(each.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// The edit that adds an output limit for this model.
    fn insert_output_limit(&self, request: &RequestBody<'_>, _model: &str, limit: u64) -> Result<Edit, String> {
        Ok(request.members.insert(self.output_limit_names()[0], &limit.to_string()))
    }

    /// Whether the limit stands in the member that every server of this dialect heeds.
    fn limit_is_heeded_by_all(&self, _members: &Members<'_>) -> Result<bool, String> {
        Ok(true)
    }

    /// Whether the servers of this model heed every name of the limit.
    fn heeds_every_limit(&self, _model: &str) -> bool {
        true
    }

    /// How many answers a request wants at once, as it is written.
    fn answer_count<'a>(&self, _request: &RequestBody<'a>) -> Result<Option<&'a str>, String> {
        Ok(None)
    }

    /// Members that make a request one that nobody could decide about or meter, and why.
    fn refused_members(&self) -> &'static [(&'static [&'static str], &'static str)];

    /// Members that hold the conversation.
    fn conversation_members(&self) -> &'static [&'static [&'static str]];

    /// A whole request within this one: Gemini counts the tokens of such.
    fn inner_request<'a>(&self, _members: &Members<'a>) -> Result<Option<Members<'a>>, String> {
        Ok(None)
    }

    // Tools that the provider runs.

    /// Who runs a tool that a request offers.
    fn tool_owner<'a>(&self, tool: &Members<'a>) -> Result<ToolOwner<'a>, String>;

    /// Members of a request that stand for a tool of the provider, and its name.
    fn tool_members(&self) -> &'static [(&'static [&'static str], &'static str)] {
        &[]
    }

    /// `tools` may be one object in the place of a list.
    fn takes_a_single_tool(&self) -> bool {
        false
    }

    /// Items of the conversation may bring tools.
    fn has_tools_in_conversation(&self) -> bool {
        false
    }

    /// A request makes one search at most.
    fn searches_once(&self) -> bool {
        false
    }

    /// The flag by which the vendor's own client leaves a tool of the provider out: client and flag.
    fn client_flag_without(&self, _tool: &str) -> Option<(&'static str, &'static str)> {
        None
    }

    // Pictures and files.

    /// Keys below which content stands.
    fn content_keys(&self) -> &'static [&'static str];

    /// Whether this member is an address that the provider fetches.
    fn is_address(&self, key: &str, member: &Value) -> bool;

    /// The base64 data of the picture that this object is.
    fn picture_data<'a>(&self, members: &'a Map<String, Value>) -> Option<&'a str>;

    /// Whether an object of this `type` stands for something that the provider keeps.
    fn is_kept_item(&self, _kind: &str) -> bool {
        false
    }

    // Thinking.

    /// What each member says of thinking: wanted, not wanted, or nothing.
    fn thinking(&self, request: &RequestBody<'_>) -> Result<Vec<Option<bool>>, String>;

    /// Whether a model bills thoughts that it does not stream, where the request says nothing of thinking.
    fn hides_thoughts(&self, model: &str) -> bool;

    /// `priority` was paid for beforehand and changes no price.
    fn priority_is_prepaid(&self) -> bool {
        false
    }

    // An answer, metered.

    /// Where this vendor's answers keep what a meter looks for. Each path means the same in every dialect that has it.
    fn watched(&self) -> &'static [(&'static [&'static str], Meaning)];

    /// Takes up a usage object.
    fn add_usage(&self, usage: &Value, state: &mut AnswerState);

    /// Takes up the `type` of an event.
    fn note_event(&self, _kind: &str, _state: &mut AnswerState) {}

    /// Whether text under this key of a stream is what the model wrote.
    fn is_written(&self) -> fn(&str) -> bool {
        crate::meter::is_written
    }

    // Refusals and lists.

    fn error(&self, status: u16, kind: DenialKind, message: &str) -> Value;

    /// An error as the last event of a stream that has begun.
    fn error_event(&self, error: &Value, _message: &str) -> String {
        format!("data: {error}\n\n")
    }

    /// The status that this provider gives such a refusal.
    fn error_status(&self, kind: DenialKind) -> u16 {
        kind.status()
    }

    fn retry_delay(&self, _refusal: &[u8]) -> Option<Duration> {
        None
    }

    fn models(&self, names: &[&str]) -> Value;

    fn token_count(&self, tokens: u64) -> Value {
        serde_json::json!({"input_tokens": tokens})
    }

    // The way to the provider.

    fn key_header(&self) -> KeyHeader;

    fn upstream_path(&self, path: &str) -> String {
        if path.starts_with("/v1/") { path.to_owned() } else { format!("/v1{path}") }
    }

    // For the scripted model: a request understood, an answer rendered.

    /// Reads the conversation of a request.
    fn read_conversation(&self, body: &Value, request: &mut ClientRequest);

    /// The answer in one piece.
    fn render_whole(&self, writer: &AnswerWriter<'_>) -> Value;

    /// The answer as a stream; returns its content type. `path` includes the query.
    fn render_stream(&self, path: &str, writer: &mut AnswerWriter<'_>) -> &'static str;

    // For the built-in brain: a request rendered, an answer decoded.

    /// Path and body of a request.
    fn render_request(&self, request: &ChatRequest<'_>) -> (String, Value);

    fn decoder(&self) -> Box<dyn EventDecoder>;

    /// The name under which a conversation keeps what only this vendor understands. It is stored: it stays.
    fn raw_tag(&self) -> &'static str {
        self.name()
    }

    /// What to do differently, where a refusal (in lower case) says so.
    fn learn_quirk(&self, _refusal: &str, _quirks: ServerQuirks) -> Option<ServerQuirks> {
        None
    }
}

/// A path below the version, which a client may leave out.
pub(crate) fn without_version(path: &str) -> Option<&str> {
    path.strip_prefix("/v1/").or_else(|| path.strip_prefix('/'))
}
