//! What the vendors' clients say on the wire, read and answered without changing it.
//!
//! Pure: bytes in, facts out. Requests are read leniently: a member that we do not know is none of our business. What would make the
//! bill uncertain, such as a model that is named twice, is refused.
//!
//! **Invariant.** A rewritten request differs from the original in `model` and the output limit, and in no other byte.

mod anthropic;
mod body;
mod chat;
pub mod count;
pub(crate) mod elsewhere;
mod gemini;
mod image;
mod meter;
mod mode;
mod reasoning;
mod responses;
pub(crate) mod runs;
mod scan;
pub mod sse;
#[cfg(test)]
mod tests;
mod whole;

use body::{Members, number, quoted, splice, text};
pub use meter::{Meter, Metered};
pub use mode::{Mode, Pace};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::Range;

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

/// Who counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The provider's own usage fields.
    Reported,
    /// Nobody but us: the answer carried no usage.
    #[default]
    Estimated,
}

/// Tokens of one request. `input` is what was neither read from nor written to a cache; `output` includes `reasoning`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    /// The part of `cache_write` that is kept for an hour and costs more.
    #[serde(default)]
    pub cache_write_1h: u64,
    pub reasoning: u64,
    /// Searches that the provider made and charges for one by one.
    #[serde(default)]
    pub searches: u64,
    #[serde(default)]
    pub mode: Mode,
    pub source: Source,
}

/// What a request wants, read from path and body without changing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub dialect: Dialect,
    pub endpoint: Endpoint,
    /// As the client named it; empty where the endpoint has none.
    pub model: String,
    pub stream: bool,
    /// The most that one answer may have.
    pub output_max: Option<u64>,
    /// That stands in the one member that every server of this dialect heeds.
    pub output_heeded: bool,
    /// How many answers are asked for at once; each may be as long as `output_max`.
    pub answers: u32,
    /// Bytes of the body, images left out.
    pub input_bytes: u64,
    /// Pictures. A file that is only referred to counts as many, as nobody here knows its length.
    pub images: u32,
    /// Searches that the provider may make and charges for.
    pub searches: u64,
    /// What the provider is to run by itself, by the names of `runs` in config.yml.
    pub runs: BTreeSet<String>,
    pub mode: Mode,
    /// Whether it asks for thoughts, or asks for none, where it says so.
    pub thinking: Option<bool>,
}

/// Why we answer instead of the provider; each dialect has its own word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The key is not this process's.
    Unauthorized,
    /// Policy says no, or a person must answer first.
    Denied,
    /// A budget is used up.
    Budget,
    /// Too many requests.
    RateLimited,
    /// The request cannot be read.
    BadRequest,
    TooLarge,
    NotFound,
    /// The provider is busy or cannot be reached.
    Overloaded,
    /// The provider failed, or we did.
    Upstream,
    /// It cannot be asked until the operator mends the settings: no key, or a url that leads elsewhere.
    Unset,
    /// The operator cancelled the work that it was for, or the kernel stops.
    Cancelled,
}

/// An answer of our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub content_type: &'static str,
    /// Further headers. The vendors' clients retry some refusals unless they are told not to.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

/// A request that this dialect cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request is not one of {dialect:?}: {why}")]
pub struct BadRequest {
    pub dialect: Dialect,
    pub why: String,
}

/// Tokens that one picture is taken to have: what most providers charge for their largest. A few charge two or three times that for a photo.
pub const IMAGE_TOKENS: u64 = 5_000;
/// Bytes of a model's name, which every record of a request repeats. The longest in use have some eighty.
const MODEL_BYTES_MAX: usize = 256;
/// Bytes of a request that are taken to be one token. English has more than four, code and JSON about three and a half.
const REQUEST_BYTES_A_TOKEN: u64 = 3;

impl Ask {
    /// What this request costs in input, by its size. An estimate that errs high.
    pub fn input_tokens(&self) -> u64 {
        self.input_bytes.div_ceil(REQUEST_BYTES_A_TOKEN) + u64::from(self.images) * IMAGE_TOKENS
    }

    /// The most that one answer of `model` may have; `unsaid` where the request does not say, or says it by a name that not every
    /// server heeds.
    pub fn output_most(&self, model: &str, unsaid: u64) -> u64 {
        match self.output_max {
            None => unsaid,
            Some(most) if self.output_heeded || chat::output_name(model) != chat::OLD_OUTPUT => most,
            Some(most) => most.max(unsaid),
        }
    }
}

impl Dialect {
    pub const ALL: [Dialect; 4] = [Dialect::Anthropic, Dialect::Responses, Dialect::Chat, Dialect::Gemini];

    pub fn word(self) -> &'static str {
        match self {
            Dialect::Anthropic => "anthropic",
            Dialect::Responses => "responses",
            Dialect::Chat => "chat",
            Dialect::Gemini => "gemini",
        }
    }

    /// Which dialect and endpoint a method and path (query allowed) belong to. A client may leave the version out of its base URL.
    ///
    /// `GET /v1/models` is the same in two dialects and is taken as OpenAI's; a client that sends `anthropic-version` means the other.
    pub fn of(method: &str, path: &str) -> Option<(Dialect, Endpoint)> {
        let path = path.split('?').next().unwrap_or(path);
        if let Some(endpoint) = gemini::endpoint(method, path) {
            return Some((Dialect::Gemini, endpoint));
        }
        let rest = path.strip_prefix("/v1/").or_else(|| path.strip_prefix('/'))?;
        let anthropic = anthropic::endpoint(method, rest).map(|endpoint| (Dialect::Anthropic, endpoint));
        let responses = || responses::endpoint(method, rest).map(|endpoint| (Dialect::Responses, endpoint));
        let chat = || chat::endpoint(method, rest).map(|endpoint| (Dialect::Chat, endpoint));
        anthropic.or_else(responses).or_else(chat)
    }

    /// Reads a request. `path` includes the query.
    pub fn read(self, path: &str, body: &[u8]) -> Result<Ask, BadRequest> {
        self.read_parts(path, body).map_err(|why| BadRequest { dialect: self, why })
    }

    fn read_parts(self, path: &str, body: &[u8]) -> Result<Ask, String> {
        let method = if body.is_empty() { "GET" } else { "POST" };
        let endpoint = match Dialect::of(method, path) {
            Some((dialect, endpoint)) if dialect == self || endpoint == Endpoint::Models => endpoint,
            _ => return Err(format!("`{path}` is none of its paths")),
        };
        let mut ask = Ask {
            dialect: self,
            endpoint,
            model: String::new(),
            stream: false,
            output_max: None,
            output_heeded: true,
            answers: 1,
            input_bytes: 0,
            images: 0,
            searches: 0,
            runs: BTreeSet::new(),
            mode: Mode::default(),
            thinking: None,
        };
        if endpoint == Endpoint::Models {
            return Ok(ask);
        }
        let body = std::str::from_utf8(body).map_err(|_| "it is not UTF-8".to_owned())?;
        body::bounded(body)?;
        let members = Members::read(body)?;
        self.whole(&members)?;
        ask.runs = runs::asked(self, &members)?;
        let mut images = image::Images::default();
        if let (Dialect::Gemini, Some((value, _))) = (self, members.one(gemini::COUNTED)?) {
            let counted = Members::read(value)?;
            ask.runs.extend(runs::asked(self, &counted)?);
            self.look(&counted, &mut images)?;
        }
        self.look(&members, &mut images)?;
        if images.fetched {
            ask.runs.insert(runs::WEB_FETCH.to_owned());
        }
        if ask.runs.contains(runs::WEB_SEARCH) {
            ask.searches = mode::searches(self, &members)?;
        }
        ask.mode = Mode::wanted(self, &members)?;
        ask.thinking = reasoning::asked(self, body, &members)?;
        let answers = match self {
            Dialect::Anthropic | Dialect::Responses => None,
            Dialect::Chat => members.one(&["n"])?.map(|(value, _)| value),
            Dialect::Gemini => {
                let config = self.config(body, &members)?;
                config.map(|(config, _)| config.one(gemini::ANSWERS)).transpose()?.flatten().map(|(value, _)| value)
            }
        };
        ask.answers = answers.map(|value| number("n", value)).transpose()?.flatten().unwrap_or(1).clamp(1, u64::from(u32::MAX)) as u32;
        (ask.model, ask.stream) = match self {
            Dialect::Gemini => {
                let (place, verb) = gemini::place(path).ok_or("its path names no model")?;
                let model = gemini::out_of_path(&path[place])?;
                let config = self.config(body, &members)?;
                let routed = config.map(|(config, _)| config.one(gemini::ROUTING)).transpose()?.flatten();
                if routed.is_some_and(|(value, _)| value != "null") {
                    return Err(format!("`{}` has the provider choose another model; name it in the path", gemini::ROUTING[0]));
                }
                if let Some((named, _)) = members.one(&["model"])?
                    && text("model", named)?.trim_start_matches("models/") != model
                {
                    return Err(format!("its `model` is another than that of its path, `{model}`"));
                }
                (model, verb == "streamGenerateContent")
            }
            _ => {
                let (model, _) = members.one(&["model"])?.ok_or("`model` is missing")?;
                let stream = members.one(&["stream"])?.is_some_and(|(value, _)| value == "true");
                (text("model", model)?, stream)
            }
        };
        if ask.model.is_empty() {
            return Err("`model` is empty".to_owned());
        }
        if ask.model.len() > MODEL_BYTES_MAX {
            return Err(format!("`model` is longer than {MODEL_BYTES_MAX} bytes"));
        }
        for (value, _) in self.limits(body, &members)? {
            ask.output_max = ask.output_max.max(number(self.output()[0], value)?);
        }
        if self == Dialect::Chat {
            ask.output_heeded = members.one(&[chat::OLD_OUTPUT])?.is_some_and(|(value, _)| value != "null");
        }
        ask.images = images.count;
        ask.input_bytes = (body.len() as u64).saturating_sub(images.bytes);
        Ok(ask)
    }

    /// Looks through the parts of a request that hold conversation.
    fn look(self, members: &Members<'_>, images: &mut image::Images) -> Result<(), String> {
        let conversation: &[&[&str]] = match self {
            Dialect::Anthropic => &[&["messages"], &["system"]],
            Dialect::Chat => &[&["messages"]],
            Dialect::Responses => &[&["input"]],
            Dialect::Gemini => &[&["contents"], &["systemInstruction", "system_instruction"]],
        };
        for names in conversation {
            if let Some((value, _)) = members.one(names)? {
                image::count(self, value, images)?;
            }
        }
        Ok(())
    }

    /// The same request for another model or output limit; byte for byte the same where neither is given.
    pub fn rewrite(self, path: &str, body: &[u8], model: Option<&str>, output_max: Option<u64>) -> Result<(String, Vec<u8>), BadRequest> {
        if model.is_none() && output_max.is_none() {
            return Ok((path.to_owned(), body.to_vec()));
        }
        self.rewrite_parts(path, body, model, output_max).map_err(|why| BadRequest { dialect: self, why })
    }

    fn rewrite_parts(self, path: &str, body: &[u8], model: Option<&str>, output_max: Option<u64>) -> Result<(String, Vec<u8>), String> {
        let body = std::str::from_utf8(body).map_err(|_| "it is not UTF-8".to_owned())?;
        let members = Members::read(body)?;
        let mut path = path.to_owned();
        let mut edits = Vec::new();
        let named = members.one(&["model"])?.map(|(value, span)| Ok::<_, String>((text("model", value)?, span))).transpose()?;
        match (model, self, &named) {
            (None, ..) => {}
            (Some(model), Dialect::Gemini, _) => {
                let (place, _) = gemini::place(&path).ok_or("its path names no model")?;
                path.replace_range(place, &gemini::in_path(model));
                // A body may name it again, and must then name the same.
                edits.extend(named.iter().map(|(old, span)| {
                    let before = if old.starts_with("models/") { "models/" } else { "" };
                    (span.clone(), quoted(&format!("{before}{model}")))
                }));
            }
            (Some(model), _, Some((_, span))) => edits.push((span.clone(), quoted(model))),
            (Some(_), _, None) => return Err("`model` is missing".to_owned()),
        }
        if let Some(output_max) = output_max {
            let limit = output_max.to_string();
            let places: Vec<Range<usize>> = self.limits(body, &members)?.into_iter().map(|(_, span)| span).collect();
            if places.is_empty() {
                let name = match self {
                    Dialect::Chat => chat::output_name(model.or(named.as_ref().map(|(model, _)| model.as_str())).unwrap_or_default()),
                    _ => self.output()[0],
                };
                edits.push(match (self, self.config(body, &members)?) {
                    (Dialect::Gemini, Some((config, at))) => {
                        let (span, new) = config.insert(name, &limit);
                        (span.start + at..span.end + at, new)
                    }
                    (Dialect::Gemini, None) => members.insert(gemini::CONFIG[0], &format!("{{\"{name}\":{limit}}}")),
                    _ => members.insert(name, &limit),
                });
            }
            edits.extend(places.into_iter().map(|span| (span, limit.clone())));
        }
        Ok((path, splice(body.as_bytes(), edits)))
    }

    fn output(self) -> &'static [&'static str] {
        match self {
            Dialect::Anthropic => anthropic::OUTPUT,
            Dialect::Responses => responses::OUTPUT,
            Dialect::Chat => chat::OUTPUT,
            Dialect::Gemini => gemini::OUTPUT,
        }
    }

    /// Gemini's object of settings and where it stands. `null` is none.
    fn config<'a>(self, body: &'a str, members: &Members<'a>) -> Result<Option<(Members<'a>, usize)>, String> {
        match members.one(gemini::CONFIG)? {
            Some((_, span)) if self == Dialect::Gemini && &body[span.clone()] != "null" => {
                Ok(Some((Members::read(&body[span.clone()])?, span.start)))
            }
            _ => Ok(None),
        }
    }

    /// The output limits of a request and where they stand.
    fn limits<'a>(self, body: &'a str, members: &Members<'a>) -> Result<Vec<(&'a str, Range<usize>)>, String> {
        if self == Dialect::Gemini {
            let Some((config, at)) = self.config(body, members)? else { return Ok(Vec::new()) };
            let limit = config.one(self.output())?;
            return Ok(limit.into_iter().map(|(value, span)| (value, span.start + at..span.end + at)).collect());
        }
        let each = self.output().iter().map(|name| members.one(&[name]));
        Ok(each.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    fn tally(self, usage: &Value, tally: &mut meter::Tally) {
        match self {
            Dialect::Anthropic => anthropic::tally(usage, tally),
            Dialect::Responses => responses::tally(usage, tally),
            Dialect::Chat => chat::tally(usage, tally),
            Dialect::Gemini => gemini::tally(usage, tally),
        }
    }

    /// How long to wait, where a refusal says so in its body. The others have a header for it.
    pub(crate) fn wait_in(self, refusal: &[u8]) -> Option<std::time::Duration> {
        match self {
            Dialect::Gemini => gemini::wait_in(refusal),
            Dialect::Anthropic | Dialect::Responses | Dialect::Chat => None,
        }
    }

    /// A meter for an answer in this dialect. [`Ask::meter`] also knows the request's size, for when no usage is reported.
    pub fn meter(self, stream: bool) -> Meter {
        Meter::new(self, stream)
    }

    /// A refusal as this provider's client expects it.
    pub fn refusal(self, status: u16, trouble: Trouble, message: &str) -> Reply {
        // Waiting does not help against these, and the clients would try ten times.
        let retry = matches!(trouble, Trouble::RateLimited | Trouble::Overloaded | Trouble::Upstream);
        let headers = if retry { Vec::new() } else { vec![("x-should-retry", "false".to_owned())] };
        let body = self.error(status, trouble, message).to_string().into_bytes();
        Reply { status, content_type: "application/json", headers, body }
    }

    /// A refusal within a stream that has begun, as the bytes of its last event.
    pub fn refusal_event(self, status: u16, trouble: Trouble, message: &str) -> Vec<u8> {
        let error = self.error(status, trouble, message);
        let event = match self {
            Dialect::Anthropic => format!("event: error\ndata: {error}\n\n"),
            Dialect::Responses => {
                let inner = &error["error"];
                let event =
                    serde_json::json!({"type": "error", "code": inner["code"], "message": message, "param": null, "sequence_number": 0});
                format!("event: error\ndata: {event}\n\n")
            }
            Dialect::Chat | Dialect::Gemini => format!("data: {error}\n\n"),
        };
        event.into_bytes()
    }

    /// The status that this provider gives such a refusal.
    pub fn status(self, trouble: Trouble) -> u16 {
        match trouble {
            Trouble::Unauthorized => 401,
            Trouble::Denied => 403,
            // What its client shows at once, in our words, and does not try again: Codex takes a 402 for a fault of the moment, and
            // each of them a 429.
            Trouble::Budget | Trouble::Cancelled if self == Dialect::Responses => 400,
            Trouble::Budget | Trouble::Cancelled => 402,
            Trouble::RateLimited => 429,
            Trouble::BadRequest => 400,
            Trouble::TooLarge => 413,
            Trouble::NotFound => 404,
            Trouble::Overloaded if self == Dialect::Anthropic => 529,
            Trouble::Overloaded => 503,
            Trouble::Upstream | Trouble::Unset => 502,
        }
    }

    fn error(self, status: u16, trouble: Trouble, message: &str) -> Value {
        match self {
            Dialect::Anthropic => anthropic::error(trouble, message),
            Dialect::Responses | Dialect::Chat => chat::error(trouble, message),
            Dialect::Gemini => gemini::error(status, trouble, message),
        }
    }

    /// The list of models that a client may ask for.
    pub fn models(self, names: &[&str]) -> Reply {
        let list = match self {
            Dialect::Anthropic => anthropic::models(names),
            Dialect::Responses | Dialect::Chat => chat::models(names),
            Dialect::Gemini => gemini::models(names),
        };
        Reply { status: 200, content_type: "application/json", headers: Vec::new(), body: list.to_string().into_bytes() }
    }
}
