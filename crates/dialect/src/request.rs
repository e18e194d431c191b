//! A client's request, parsed without changing it, and rewritten for another model or output limit.
//!
//! Requests are read leniently: a member that is not known here is ignored. What would make the bill uncertain, such as a model that is
//! named twice, is refused.

use crate::denial::RequestError;
use crate::format::{Dialect, Endpoint, WireFormat};
use crate::image::{IMAGE_TOKENS, Images};
use crate::members::{Members, RequestBody, number, splice};
use crate::meter::Meter;
use crate::provider_tools::{self, WEB_FETCH, WEB_SEARCH};
use crate::service_mode::{self, ServiceMode};
use std::collections::BTreeSet;

/// What a request wants, read from path and body without changing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedRequest {
    pub dialect: Dialect,
    pub endpoint: Endpoint,
    /// As the client named it; empty where the endpoint has none.
    pub model: String,
    pub stream: bool,
    /// The most tokens that one answer may have.
    pub output_max: Option<u64>,
    /// Whether every server of this dialect heeds `output_max`, by the name that the request gives it.
    pub output_max_is_heeded: bool,
    /// How many answers are asked for at once; each may be as long as `output_max`.
    pub answers: u32,
    /// Bytes of the body, images left out.
    pub input_bytes: u64,
    /// Pictures. A file that is only referred to counts as many, as its length is not known here.
    pub images: u32,
    /// Searches that the provider may make and charges for.
    pub searches: u64,
    /// Tools that the provider is to run by itself, by the names of `runs` in config.yml.
    pub provider_tools: BTreeSet<String>,
    pub mode: ServiceMode,
    /// Whether the request asks for thoughts, or asks for none, where it says so.
    pub thinking: Option<bool>,
}

/// Bytes of a model's name, which every record of a request repeats. The longest in use have some eighty.
const MODEL_BYTES_MAX: usize = 256;
/// Bytes of a request that are taken to be one token. English has more than four, code and JSON about three and a half.
const REQUEST_BYTES_PER_TOKEN: u64 = 3;

impl ParsedRequest {
    /// The input tokens of this request, by its size. An estimate that errs high.
    pub fn input_tokens(&self) -> u64 {
        self.input_bytes.div_ceil(REQUEST_BYTES_PER_TOKEN) + u64::from(self.images) * IMAGE_TOKENS
    }

    /// The most tokens that one answer of `model` may have; `default` where the request sets no limit, or sets it by a name that not
    /// every server heeds.
    pub fn output_most(&self, model: &str, default: u64) -> u64 {
        match self.output_max {
            None => default,
            Some(most) if self.output_max_is_heeded || self.dialect.format().heeds_every_limit(model) => most,
            Some(most) => most.max(default),
        }
    }

    /// A meter for the answer to this request.
    pub fn meter(&self) -> Meter {
        Meter::for_request(self)
    }
}

impl Dialect {
    /// Parses a request. `path` includes the query.
    pub fn parse_request(self, path: &str, body: &[u8]) -> Result<ParsedRequest, RequestError> {
        self.parse(path, body).map_err(|why| RequestError { dialect: self, why })
    }

    fn parse(self, path: &str, body: &[u8]) -> Result<ParsedRequest, String> {
        let format = self.format();
        let method = if body.is_empty() { "GET" } else { "POST" };
        let endpoint = match Dialect::detect(method, path) {
            Some((dialect, endpoint)) if dialect == self || endpoint == Endpoint::Models => endpoint,
            _ => return Err(format!("`{path}` is none of its paths")),
        };
        let mut parsed = ParsedRequest {
            dialect: self,
            endpoint,
            model: String::new(),
            stream: false,
            output_max: None,
            output_max_is_heeded: true,
            answers: 1,
            input_bytes: 0,
            images: 0,
            searches: 0,
            provider_tools: BTreeSet::new(),
            mode: ServiceMode::default(),
            thinking: None,
        };
        if endpoint == Endpoint::Models {
            return Ok(parsed);
        }
        let request = RequestBody::parse(body)?;
        let members = &request.members;
        check_self_contained(format, members)?;
        parsed.provider_tools = provider_tools::wanted(format, members)?;
        let mut images = Images::default();
        if let Some(inner) = format.inner_request(members)? {
            parsed.provider_tools.extend(provider_tools::wanted(format, &inner)?);
            images.count_conversation(format, &inner)?;
        }
        images.count_conversation(format, members)?;
        if images.are_fetched {
            parsed.provider_tools.insert(WEB_FETCH.to_owned());
        }
        if parsed.provider_tools.contains(WEB_SEARCH) {
            parsed.searches = service_mode::searches_max(format, members)?;
        }
        parsed.mode = ServiceMode::wanted(format, members)?;
        // A request that says both wants it.
        parsed.thinking = format.thinking(&request)?.into_iter().flatten().reduce(|one, other| one || other);
        let answers = format.answer_count(&request)?.map(|value| number("n", value)).transpose()?.flatten();
        parsed.answers = answers.unwrap_or(1).clamp(1, u64::from(u32::MAX)) as u32;
        (parsed.model, parsed.stream) = format.model_and_stream(path, &request)?;
        if parsed.model.is_empty() {
            return Err("`model` is empty".to_owned());
        }
        if parsed.model.len() > MODEL_BYTES_MAX {
            return Err(format!("`model` is longer than {MODEL_BYTES_MAX} bytes"));
        }
        for (value, _) in format.output_limits(&request)? {
            parsed.output_max = parsed.output_max.max(number(format.output_limit_names()[0], value)?);
        }
        parsed.output_max_is_heeded = format.limit_is_heeded_by_all(members)?;
        parsed.images = images.count;
        parsed.input_bytes = (request.text.len() as u64).saturating_sub(images.bytes);
        Ok(parsed)
    }

    /// The same request for another model or output limit; byte for byte the same where neither is given.
    pub fn rewrite_request(
        self,
        path: &str,
        body: &[u8],
        model: Option<&str>,
        output_max: Option<u64>,
    ) -> Result<(String, Vec<u8>), RequestError> {
        if model.is_none() && output_max.is_none() {
            return Ok((path.to_owned(), body.to_vec()));
        }
        self.rewrite(path, body, model, output_max).map_err(|why| RequestError { dialect: self, why })
    }

    fn rewrite(self, path: &str, body: &[u8], model: Option<&str>, output_max: Option<u64>) -> Result<(String, Vec<u8>), String> {
        let format = self.format();
        let request = RequestBody::parse(body)?;
        let (mut path, mut edits) = (path.to_owned(), Vec::new());
        if let Some(model) = model {
            (path, edits) = format.rename_model(&path, &request, model)?;
        }
        if let Some(output_max) = output_max {
            let limits = format.output_limits(&request)?;
            if limits.is_empty() {
                let named = || request.value("model").ok()?.as_str().map(str::to_owned);
                let model = model.map(str::to_owned).or_else(named).unwrap_or_default();
                edits.push(format.insert_output_limit(&request, &model, output_max)?);
            }
            edits.extend(limits.into_iter().map(|(_, span)| (span, output_max.to_string())));
        }
        Ok((path, splice(body, edits)))
    }
}

/// Refuses a request that refers to what the provider keeps, names further models or is answered later: nobody here could reserve or
/// meter that.
fn check_self_contained(format: &dyn WireFormat, members: &Members<'_>) -> Result<(), String> {
    for (names, why) in format.refused_members() {
        if members.one(names)?.is_some_and(|(value, _)| !matches!(value, "null" | "false" | "\"\"" | "[]")) {
            return Err(format!("`{}` {why}", names[0]));
        }
    }
    Ok(())
}

/// Why some members are refused, where several vendors have them.
pub(crate) const KEPT: &str = "refers to what the provider keeps, whose length is not known here; send the conversation itself";
pub(crate) const LATER: &str = "has the provider answer later, where nothing meters it; leave it out";
/// One model is decided about, and its price reserved.
pub(crate) const MORE_MODELS: &str = "names further models, and only one is decided about; name it in `model`";
