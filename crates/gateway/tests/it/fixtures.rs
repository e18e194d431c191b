//! Requests as the vendors' own clients sent them (prose trimmed) and the answers to them: read, rewritten, metered, recorded and
//! replayed without a changed byte. `SKEP_UPDATE=1` rewrites the answers.

use gateway::cassette::{Exchange, Player, RecordedResponse, Recorder, Redact};
use gateway::script::ModelScript;
use gateway::{Dialect, Endpoint, TimedChunk, UsageSource};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MESSAGES: &str = "/v1/messages?beta=true";
const RESPONSES: &str = "/v1/responses";
const CHAT: &str = "/v1/chat/completions";
const ROUTER: &str = "/v1beta/models/gemini-3.5-flash-lite:generateContent";
const GEMINI: &str = "/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse";

/// File, path, model, stream, output limit.
const REQUESTS: &[(&str, &str, &str, bool, Option<u64>)] = &[
    ("claude-0", MESSAGES, "claude-opus-4-8", true, Some(64_000)),
    ("claude-1", MESSAGES, "claude-opus-4-8", true, Some(64_000)),
    ("claude-2", MESSAGES, "claude-opus-4-8", true, Some(64_000)),
    ("codex-0", RESPONSES, "gpt-5.5", true, None),
    ("codex-1", RESPONSES, "gpt-5.5", true, None),
    ("codex-2", RESPONSES, "gpt-5.5", true, None),
    ("opencode-0", CHAT, "m", true, Some(32_000)),
    ("opencode-1", CHAT, "m", true, Some(32_000)),
    ("opencode-2", CHAT, "m", true, Some(32_000)),
    ("opencode-3", CHAT, "m", true, Some(32_000)),
    ("gemini-0", ROUTER, "gemini-3.5-flash-lite", false, None),
    ("gemini-1", GEMINI, "gemini-3.8-flash", true, None),
    ("gemini-2", GEMINI, "gemini-3.8-flash", true, None),
    ("gemini-3", GEMINI, "gemini-3.8-flash", true, None),
];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn request(name: &str) -> Vec<u8> {
    std::fs::read(file(&format!("{name}.request.json"))).unwrap()
}

#[test]
fn requests_are_read_as_they_are() {
    for (name, path, model, stream, output_max) in REQUESTS {
        let (dialect, endpoint) = Dialect::detect("POST", path).unwrap();
        let body = request(name);
        let ask = dialect.parse_request(path, &body).unwrap();
        assert_eq!((ask.endpoint, ask.model.as_str(), ask.stream, ask.output_max), (endpoint, *model, *stream, *output_max), "{name}");
        assert_eq!((ask.input_bytes, ask.images, ask.answers), (body.len() as u64, 0, 1), "{name}");
    }
}

#[test]
fn a_rewrite_and_back_is_the_same_request() {
    for (name, path, model, _, output_max) in REQUESTS {
        let (dialect, _) = Dialect::detect("POST", path).unwrap();
        let body = request(name);
        assert_eq!(dialect.rewrite_request(path, &body, None, None).unwrap(), ((*path).to_owned(), body.clone()), "{name}");
        let (other_path, other) = dialect.rewrite_request(path, &body, Some("another-model"), output_max.map(|_| 77)).unwrap();
        assert_ne!((other_path.as_str(), &other), (*path, &body), "{name}");
        assert_eq!(dialect.parse_request(&other_path, &other).unwrap().model, "another-model", "{name}");
        let back = dialect.rewrite_request(&other_path, &other, Some(model), *output_max).unwrap();
        assert_eq!(back, ((*path).to_owned(), body), "{name}");
    }
}

#[test]
fn answers_are_as_they_were_and_meter_and_replay() {
    let script = ModelScript::parse(include_str!("../scripts/greet.script")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let cassette = folder.path().join("all.cassette");
    let keep: Redact = Arc::new(str::to_owned);
    let mut recorder = Recorder::open(&cassette, Arc::clone(&keep)).unwrap();
    let mut exchanges = Vec::new();
    for (name, path, model, stream, _) in REQUESTS {
        let (dialect, _) = Dialect::detect("POST", path).unwrap();
        let body = request(name);
        let rendered = script.respond(dialect, Endpoint::Generate, path, &body);
        assert_eq!(rendered.status, 200, "{name}: {}", String::from_utf8_lossy(&rendered.body()));
        let golden = file(&format!("{name}.answer.{}", if *stream { "txt" } else { "json" }));
        if std::env::var_os("SKEP_UPDATE").is_some() {
            std::fs::write(&golden, rendered.body()).unwrap();
        }
        let bytes = std::fs::read(&golden).unwrap();
        assert_eq!(String::from_utf8_lossy(&rendered.body()), String::from_utf8_lossy(&bytes), "{name}: `SKEP_UPDATE=1` rewrites it");

        let mut meter = dialect.parse_request(path, &body).unwrap().meter();
        meter.feed(&bytes);
        let metered = meter.finish();
        assert_eq!(
            (metered.usage.source, metered.complete, metered.model.as_deref()),
            (UsageSource::Reported, true, Some(*model)),
            "{name}"
        );
        assert!(metered.usage.input > 50 && metered.usage.output > 0, "{name} {:?}", metered.usage);

        let chunks: Vec<TimedChunk> = bytes.chunks(100).map(|bytes| TimedChunk { after_ms: 1, bytes: bytes.to_vec() }).collect();
        let answer = RecordedResponse { status: 200, headers: Vec::new(), chunks, complete: true };
        let exchange = Exchange { dialect, method: "POST".into(), path: (*path).to_owned(), headers: Vec::new(), body, answer };
        recorder.record(&exchange).unwrap();
        exchanges.push(exchange);
    }
    let text = std::fs::read_to_string(&cassette).unwrap();
    let mut player = Player::read(&text, keep).unwrap();
    for exchange in exchanges {
        assert_eq!(player.play(exchange.dialect, &exchange.path, &exchange.body).unwrap(), exchange.answer);
    }
    assert_eq!(player.count(), (REQUESTS.len(), 0));
}
