//! Reads usage out of an answer as it passes.
//!
//! **Invariant.** Where the answer is cut into chunks makes no difference, and memory does not grow with it. What a provider did not
//! report, or could not because the stream broke off, is counted here and the whole is marked as an estimate.

use crate::count::Counter;
use crate::format::{Dialect, WireFormat};
use crate::request::ParsedRequest;
use crate::scan::{JsonScan, WatchList};
use crate::service_mode::ServiceMode;
use crate::sse::{Piece, SseSplitter};
use crate::usage::{TokenUsage, UsageSource};
use serde_json::Value;
use std::sync::LazyLock;

/// What a value that a meter looks for means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A usage object, which the vendor's `add_usage` reads.
    Usage,
    /// How the request was served.
    ServiceTier,
    /// The type of an output item; a search among them is charged for.
    OutputType,
    /// A list of searches.
    SearchQueries,
    /// The model that answered.
    Model,
    /// The type of an event, which the vendor's `note_event` reads.
    EventType,
    Error,
    /// The type of a part that begins. `shows_thoughts` where thoughts are parts of their own and come before all others.
    PartType {
        shows_thoughts: bool,
    },
    /// The answer came to its end.
    End,
}

/// What every vendor's answers are searched for: a compatible server may answer with another's members, and no vendor uses a path of
/// another for something else.
static WATCHED: LazyLock<(Vec<&'static [&'static str]>, Vec<Meaning>)> =
    LazyLock::new(|| Dialect::ALL.iter().flat_map(|dialect| dialect.format().watched()).copied().unzip());

/// What a meter read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metered {
    pub usage: TokenUsage,
    /// The model that answered, where the answer says so.
    pub model: Option<String>,
    /// The answer came to its end; a stream that broke off did not.
    pub complete: bool,
    /// The model thought, and what of that is billed may not be in the answer.
    pub reasoned: bool,
    /// The answer began with something else than thoughts, in a format that shows thoughts first.
    pub began_without_thoughts: bool,
    /// What was odd about the answer, for the record.
    pub notes: Vec<String>,
}

impl Metered {
    /// Whether output may be billed that is not in the answer, where the request may have such.
    pub fn hides_output(&self, may_hide: bool) -> bool {
        self.reasoned || (may_hide && !self.began_without_thoughts)
    }
}

/// What was found in an answer so far. A figure that no report had is none.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerState {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cache_read: u64,
    pub cache_write: u64,
    pub cache_write_1h: u64,
    pub reasoning: u64,
    pub searches: u64,
    pub mode: Option<ServiceMode>,
    /// The answer's own sign of its end.
    pub has_ended: bool,
    model: Option<String>,
    reasoned: bool,
    began_without_thoughts: bool,
    error: Option<String>,
    unreadable_events: u64,
    is_packed: bool,
}

#[derive(Clone, Debug)]
enum Form {
    /// Nothing but white space so far. The first byte of substance decides, whatever the request asked for: a provider answers a
    /// request for a stream with a plain JSON error.
    Unknown,
    Json,
    Events(SseSplitter),
    /// It is compressed in a way that cannot be read along.
    Packed,
}

/// Takes what the client gets, decoded but otherwise unchanged, in pieces of any size; keeps little of it.
#[derive(Clone, Debug)]
pub struct Meter {
    dialect: Dialect,
    form: Form,
    scan: JsonScan,
    counter: Counter,
    state: AnswerState,
    /// The first bytes of the current event, to know `[DONE]`.
    event_head: Vec<u8>,
    /// Tokens of the request, by its size, for when nobody reports them.
    input: u64,
    /// How the request wanted to be served, for when the answer does not say.
    mode: ServiceMode,
}

impl Dialect {
    /// A meter for an answer in this dialect. [`ParsedRequest::meter`] also knows the request's size, for when no usage is reported.
    pub fn meter(self, stream: bool) -> Meter {
        Meter {
            dialect: self,
            form: Form::Unknown,
            scan: JsonScan::new(watch(self.format(), stream)),
            counter: Counter::default(),
            state: AnswerState::default(),
            event_head: Vec::new(),
            input: 0,
            mode: ServiceMode::default(),
        }
    }
}

impl Meter {
    pub(crate) fn for_request(request: &ParsedRequest) -> Meter {
        Meter { input: request.input_tokens(), mode: request.mode, ..request.dialect.meter(request.stream) }
    }

    /// For an answer that cannot be read along: all that is known is what the request's size says.
    pub fn packed(self) -> Meter {
        Meter { form: Form::Packed, ..self }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if matches!(self.form, Form::Unknown) {
            let Some(at) = bytes.iter().position(|byte| !byte.is_ascii_whitespace()) else { return };
            let is_json = matches!(bytes[at], b'{' | b'[');
            self.form = if is_json { Form::Json } else { Form::Events(SseSplitter::default()) };
            self.scan = JsonScan::new(watch(self.dialect.format(), !is_json));
            rest = &bytes[at..];
        }
        let Meter { dialect, form, scan, counter, state, event_head, .. } = self;
        match form {
            Form::Unknown | Form::Packed => {}
            Form::Json => scan.feed(rest, counter, &mut |index, value| note(*dialect, state, index, value)),
            Form::Events(sse) => sse.feed(rest, |piece| event(*dialect, piece, scan, counter, state, event_head)),
        }
    }

    pub fn finish(mut self) -> Metered {
        let Meter { dialect, form, scan, counter, state, event_head, .. } = &mut self;
        match std::mem::replace(form, Form::Unknown) {
            Form::Unknown => {}
            Form::Packed => state.is_packed = true,
            // A JSON answer is complete when it is whole.
            Form::Json => state.has_ended = scan.end(&mut |index, value| note(*dialect, state, index, value)),
            Form::Events(sse) => sse.finish(|piece| event(*dialect, piece, scan, counter, state, event_head)),
        }
        self.metered()
    }

    fn metered(self) -> Metered {
        let Meter { state, counter, input, mode, .. } = self;
        let mut notes = Vec::new();
        let counted = counter.tokens();
        let is_reported = state.input.is_some() && state.output.is_some() && state.has_ended;
        if let Some(error) = &state.error {
            notes.push(format!("the provider reported an error: {error}"));
        }
        if state.is_packed {
            notes.push("the answer was compressed, though nobody asked for that, and could not be read along".to_owned());
        } else if !state.has_ended {
            notes.push("the answer broke off before its end".to_owned());
        }
        if state.input.is_none() {
            notes.push("no input usage was reported: estimated from the request's size".to_owned());
        }
        if state.output.is_none() || !state.has_ended {
            notes.push("output usage was not reported to the end: counted from the text".to_owned());
        }
        if state.unreadable_events > 0 {
            notes.push(format!("{} events could not be read", state.unreadable_events));
        }
        let output = match state.output {
            Some(output) if state.has_ended => output,
            other => other.unwrap_or(0).max(counted),
        };
        let usage = TokenUsage {
            input: state.input.unwrap_or(input),
            output,
            cache_read: state.cache_read,
            cache_write: state.cache_write,
            cache_write_1h: state.cache_write_1h.min(state.cache_write),
            reasoning: state.reasoning,
            searches: state.searches,
            mode: state.mode.unwrap_or(mode),
            source: if is_reported { UsageSource::Reported } else { UsageSource::Estimated },
        };
        Metered {
            usage,
            model: state.model,
            complete: state.has_ended,
            reasoned: state.reasoned || state.reasoning > 0,
            began_without_thoughts: state.began_without_thoughts,
            notes,
        }
    }
}

fn watch(format: &dyn WireFormat, stream: bool) -> WatchList {
    WatchList { values: &WATCHED.0, text: if stream { format.is_written() } else { is_written } }
}

/// Whether text under this key is what the model wrote. A key that is not known counts.
pub(crate) fn is_written(key: &str) -> bool {
    const NOT: &[&str] = &[
        "id",
        "object",
        "model",
        "role",
        "type",
        "status",
        "finish_reason",
        "finishReason",
        "stop_reason",
        "stop_sequence",
        "system_fingerprint",
        "service_tier",
        "obfuscation",
        "signature",
        "thoughtSignature",
        "encrypted_content",
        "data",
        "mimeType",
        "responseId",
        "modelVersion",
        "call_id",
        "tool_use_id",
        "item_id",
        "instructions",
        "description",
        "category",
        "probability",
        "trafficType",
        "inference_geo",
        "prompt_cache_key",
        "previous_response_id",
    ];
    !NOT.contains(&key)
}

fn event(dialect: Dialect, piece: Piece<'_>, scan: &mut JsonScan, counter: &mut Counter, state: &mut AnswerState, head: &mut Vec<u8>) {
    match piece {
        Piece::Data(data) => {
            let room = 8_usize.saturating_sub(head.len()).min(data.len());
            head.extend_from_slice(&data[..room]);
            scan.feed(data, counter, &mut |index, value| note(dialect, state, index, value));
        }
        Piece::End => {
            let head = std::mem::take(head);
            let is_whole = scan.end(&mut |index, value| note(dialect, state, index, value));
            if head.trim_ascii() == b"[DONE]" {
                state.has_ended = true;
            } else if !is_whole {
                state.unreadable_events += 1;
            }
        }
    }
}

/// Takes up one value that was found.
fn note(dialect: Dialect, state: &mut AnswerState, index: usize, value: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(value) else { return };
    let (false, Some(meaning)) = (value.is_null(), WATCHED.1.get(index)) else { return };
    let format = dialect.format();
    match meaning {
        Meaning::Usage => format.add_usage(&value, state),
        Meaning::ServiceTier => state.mode = value.as_str().map(|word| ServiceMode::of(format, &[word])),
        Meaning::OutputType => state.searches += u64::from(value == "web_search_call"),
        Meaning::SearchQueries => state.searches = state.searches.max(value.as_array().map_or(0, |queries| queries.len() as u64)),
        Meaning::Model => {
            state.model = value.as_str().filter(|model| model.len() <= 200).map(str::to_owned).or(state.model.take());
        }
        Meaning::Error => {
            let message = value.get("message").unwrap_or(&value);
            let message = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
            state.error = Some(message.chars().take(300).collect());
        }
        Meaning::PartType { shows_thoughts } => {
            let is_thought = value.as_str().is_some_and(|kind| ["thinking", "redacted_thinking", "reasoning"].contains(&kind));
            state.reasoned |= is_thought;
            state.began_without_thoughts |= !is_thought && *shows_thoughts;
        }
        Meaning::EventType => {
            if value == "error" {
                state.error.get_or_insert_with(|| "an error event".to_owned());
            }
            let kind = value.as_str().unwrap_or_default();
            Dialect::ALL.iter().for_each(|dialect| dialect.format().note_event(kind, state));
        }
        Meaning::End => state.has_ended = true,
    }
}
