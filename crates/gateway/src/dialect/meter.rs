//! Reads usage out of an answer as it passes.
//!
//! **Invariant.** Where the answer is cut into chunks makes no difference, and memory does not grow with it. What a provider did not
//! report, or could not because the stream broke off, is counted here and the whole is marked as an estimate.

use super::{
    Ask, Dialect, Mode, Source, Usage,
    count::Counter,
    scan::{Scan, Watch},
    sse::{Piece, Sse},
};
use serde_json::Value;

/// Where the dialects keep what we look for. None uses a path of another for something else.
const VALUES: &[&[&str]] = &[
    &["usage"],
    &["message", "usage"],
    &["response", "usage"],
    &["usageMetadata"],
    // Servers that speak Chat put it in places of their own.
    &["choices", "[]", "usage"],
    &["x_groq", "usage"],
    &["service_tier"],
    &["response", "service_tier"],
    &["output", "[]", "type"],
    &["candidates", "[]", "groundingMetadata", "webSearchQueries"],
    &["model"],
    &["message", "model"],
    &["response", "model"],
    &["modelVersion"],
    &["type"],
    &["error"],
    &["response", "error"],
    &["choices", "[]", "finish_reason"],
    &["candidates", "[]", "finishReason"],
    &["stop_reason"],
    &["status"],
    &["content_block", "type"],
    &["item", "type"],
];

/// What a meter read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metered {
    pub usage: Usage,
    /// The model that answered, where the answer says so.
    pub model: Option<String>,
    /// The answer came to its end; a stream that broke off did not.
    pub complete: bool,
    /// The model thought, and what of that is billed may not be in the answer.
    pub reasoned: bool,
    /// The answer has begun with something else, and this wire format shows thoughts before that.
    pub in_the_open: bool,
    /// What was odd about the answer, for the record.
    pub notes: Vec<String>,
}

impl Metered {
    /// May output be billed that is not in the answer, where the request may have such?
    pub fn hides_output(&self, may_hide: bool) -> bool {
        self.reasoned || (may_hide && !self.in_the_open)
    }
}

/// What was reported so far. A field that no report had is none.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cache_read: u64,
    pub cache_write: u64,
    pub cache_write_1h: u64,
    pub reasoning: u64,
    pub searches: u64,
    pub mode: Option<Mode>,
}

#[derive(Clone, Debug)]
enum Form {
    /// Nothing but white space so far. The first byte of substance decides, whatever the request asked for: a provider answers a
    /// request for a stream with a plain JSON error.
    Open,
    Json,
    Events(Sse),
    /// It is packed in a way that cannot be read along.
    Packed,
}

/// Takes what the client gets, decoded but otherwise unchanged, in pieces of any size; keeps little of it.
#[derive(Clone, Debug)]
pub struct Meter {
    dialect: Dialect,
    form: Form,
    scan: Scan,
    counter: Counter,
    tally: Tally,
    seen: Seen,
    /// Tokens of the request, by its size, for when nobody reports them.
    input: u64,
    /// How the request wanted to be served, for when the answer does not say.
    mode: Mode,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    model: Option<String>,
    /// The answer's own sign of its end.
    ended: bool,
    reasoned: bool,
    in_the_open: bool,
    error: Option<String>,
    unreadable: u64,
    packed: bool,
    /// The first bytes of the current event, to know `[DONE]`.
    head: Vec<u8>,
}

impl Ask {
    /// A meter for the answer to this request.
    pub fn meter(&self) -> Meter {
        Meter { input: self.input_tokens(), mode: self.mode, ..self.dialect.meter(self.stream) }
    }
}

impl Meter {
    /// For an answer that cannot be read along: all that is known is what the request's size says.
    pub fn packed(self) -> Meter {
        Meter { form: Form::Packed, ..self }
    }

    pub(super) fn new(dialect: Dialect, stream: bool) -> Meter {
        let scan = Scan::new(watch(dialect, stream));
        Meter {
            dialect,
            form: Form::Open,
            scan,
            counter: Counter::default(),
            tally: Tally::default(),
            seen: Seen::default(),
            input: 0,
            mode: Mode::default(),
        }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if matches!(self.form, Form::Open) {
            let Some(at) = bytes.iter().position(|byte| !byte.is_ascii_whitespace()) else { return };
            let json = matches!(bytes[at], b'{' | b'[');
            self.form = if json { Form::Json } else { Form::Events(Sse::default()) };
            self.scan = Scan::new(watch(self.dialect, !json));
            rest = &bytes[at..];
        }
        let Meter { dialect, form, scan, counter, tally, seen, .. } = self;
        let mut found = |index: usize, value: &[u8], seen: &mut Seen| note(*dialect, tally, seen, index, value);
        match form {
            Form::Open | Form::Packed => {}
            Form::Json => scan.feed(rest, counter, &mut |index, value| found(index, value, seen)),
            Form::Events(sse) => sse.feed(rest, |piece| event(piece, scan, counter, seen, &mut found)),
        }
    }

    pub fn finish(mut self) -> Metered {
        let Meter { dialect, form, scan, counter, tally, seen, .. } = &mut self;
        let mut found = |index: usize, value: &[u8], seen: &mut Seen| note(*dialect, tally, seen, index, value);
        match std::mem::replace(form, Form::Open) {
            Form::Open => {}
            Form::Packed => seen.packed = true,
            // A JSON answer is complete when it is whole.
            Form::Json => seen.ended = scan.end(&mut |index, value| found(index, value, seen)),
            Form::Events(sse) => sse.finish(|piece| event(piece, scan, counter, seen, &mut found)),
        }
        self.metered()
    }

    fn metered(self) -> Metered {
        let Meter { tally, seen, counter, input, mode, .. } = self;
        let mut notes = Vec::new();
        let counted = counter.tokens();
        let reported = tally.input.is_some() && tally.output.is_some() && seen.ended;
        if let Some(error) = &seen.error {
            notes.push(format!("the provider reported an error: {error}"));
        }
        if seen.packed {
            notes.push("the answer was compressed, though nobody asked for that, and could not be read along".to_owned());
        } else if !seen.ended {
            notes.push("the answer broke off before its end".to_owned());
        }
        if tally.input.is_none() {
            notes.push("no input usage was reported: estimated from the request's size".to_owned());
        }
        if tally.output.is_none() || !seen.ended {
            notes.push("output usage was not reported to the end: counted from the text".to_owned());
        }
        if seen.unreadable > 0 {
            notes.push(format!("{} events could not be read", seen.unreadable));
        }
        let output = match tally.output {
            Some(output) if seen.ended => output,
            other => other.unwrap_or(0).max(counted),
        };
        let usage = Usage {
            input: tally.input.unwrap_or(input),
            output,
            cache_read: tally.cache_read,
            cache_write: tally.cache_write,
            cache_write_1h: tally.cache_write_1h.min(tally.cache_write),
            reasoning: tally.reasoning,
            searches: tally.searches,
            mode: tally.mode.unwrap_or(mode),
            source: if reported { Source::Reported } else { Source::Estimated },
        };
        Metered {
            usage,
            model: seen.model,
            complete: seen.ended,
            reasoned: seen.reasoned || tally.reasoning > 0,
            in_the_open: seen.in_the_open,
            notes,
        }
    }
}

fn watch(dialect: Dialect, stream: bool) -> Watch {
    let text = match (dialect, stream) {
        // The events of Responses tell everything two or three times; only the deltas tell it once.
        (Dialect::Responses, true) => |key: &str| key == "delta",
        _ => written,
    };
    Watch { values: VALUES, text }
}

/// Whether text under this key is what the model wrote. What we do not know counts.
fn written(key: &str) -> bool {
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

fn event(piece: Piece<'_>, scan: &mut Scan, counter: &mut Counter, seen: &mut Seen, found: &mut impl FnMut(usize, &[u8], &mut Seen)) {
    match piece {
        Piece::Data(data) => {
            let room = 8_usize.saturating_sub(seen.head.len()).min(data.len());
            seen.head.extend_from_slice(&data[..room]);
            scan.feed(data, counter, &mut |index, value| found(index, value, seen));
        }
        Piece::End => {
            let head = std::mem::take(&mut seen.head);
            let whole = scan.end(&mut |index, value| found(index, value, seen));
            if head.trim_ascii() == b"[DONE]" {
                seen.ended = true;
            } else if !whole {
                seen.unreadable += 1;
            }
        }
    }
}

/// Takes up one value that was found.
fn note(dialect: Dialect, tally: &mut Tally, seen: &mut Seen, index: usize, value: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(value) else { return };
    if value.is_null() {
        return;
    }
    match VALUES.get(index).copied().unwrap_or_default() {
        [.., "usage"] | ["usageMetadata"] => dialect.tally(&value, tally),
        [.., "service_tier"] => tally.mode = value.as_str().map(|word| Mode::of(dialect, &[word])),
        ["output", ..] => tally.searches += u64::from(value == "web_search_call"),
        [.., "webSearchQueries"] => tally.searches = tally.searches.max(value.as_array().map_or(0, |queries| queries.len() as u64)),
        ["model"] | ["message", "model"] | ["response", "model"] | ["modelVersion"] => {
            seen.model = value.as_str().filter(|model| model.len() <= 200).map(str::to_owned).or(seen.model.take());
        }
        ["error"] | ["response", "error"] => {
            let message = value.get("message").unwrap_or(&value);
            let message = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
            seen.error = Some(message.chars().take(300).collect());
        }
        [place @ ("content_block" | "item"), "type"] => {
            let thought = value.as_str().is_some_and(|kind| ["thinking", "redacted_thinking", "reasoning"].contains(&kind));
            seen.reasoned |= thought;
            // Claude's thoughts are blocks of their own, however little of them is shown.
            seen.in_the_open |= !thought && *place == "content_block";
        }
        ["type"] => {
            if value == "error" {
                seen.error.get_or_insert_with(|| "an error event".to_owned());
            }
            tally.searches += u64::from(value == "response.web_search_call.completed");
            let end = ["message_stop", "response.completed", "response.incomplete", "response.failed"];
            seen.ended |= value.as_str().is_some_and(|kind| end.contains(&kind));
        }
        // A chat stream goes on after this with its usage, if any; the end of a choice is the end of what it says.
        ["choices", ..] | ["candidates", ..] => seen.ended = true,
        _ => {}
    }
}
