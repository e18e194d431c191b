//! No bytes make the gateway's readers panic: requests, answers, scripts, cassettes, prices.

#[path = "../../testkit/fuzz/fuzz.rs"]
mod fuzz;

use gateway::cassette::Player;
use gateway::price::Prices;
use gateway::script::ModelScript;
use gateway::{Dialect, Endpoint};
use std::sync::Arc;

const REQUEST: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u00e4",
    "\\ud83d",
    "null",
    "true",
    "1e3",
    "-1",
    "\"model\":\"m\",",
    "\"max_tokens\":5,",
    "\"stream\":true,",
    "\"messages\":[",
    "{\"role\":\"user\",\"content\":",
    "{\"role\":\"assistant\",\"content\":",
    "\"hello\"",
    "\"tools\":[{\"name\":\"Bash\",\"input_schema\":{}}]",
    "\"input\":[",
    "\"contents\":[",
    "\"generationConfig\":{\"maxOutputTokens\":",
    "{\"type\":\"tool_result\",\"content\":",
    "{\"type\":\"image\",\"source\":{\"data\":\"iVBORw0\"}}",
    "\"parts\":[{\"text\":",
    "\"n\":2",
    " ",
    "\n",
    "\"x\":",
];

const ANSWER: &[&str] = &[
    "data: ",
    "data:",
    "event: message_start\n",
    "\n",
    "\r\n",
    "\r",
    ": ping\n",
    "[DONE]",
    "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":",
    "1",
    "}",
    "{",
    "[",
    "]",
    "\"",
    ",",
    "{\"usage\":",
    "{\"usageMetadata\":{\"promptTokenCount\":",
    "{\"choices\":[{\"delta\":{\"content\":\"",
    "{\"type\":\"response.completed\",\"response\":{\"usage\":",
    "null",
    "\\",
    "\\u12",
    "18446744073709551615",
    "\"output_tokens\":",
    "\"finish_reason\":\"stop\"",
];

const SCRIPT: &[&str] = &[
    "on ",
    "on result ",
    "ok",
    "error ",
    "contains ",
    "then",
    "else",
    "otherwise",
    "repeat",
    "say ",
    "think ",
    "call ",
    "write ",
    "shell ",
    "path=",
    "x",
    "\"a b\"",
    "{\"a\":1}",
    "<<END",
    "END",
    "\n",
    " ",
    "usage in=",
    "1",
    "delay ",
    "5ms",
    "529 ",
    "times=2 ",
    "stop ",
    "length",
    "cut",
    "#",
    "=",
    "{",
    "ä",
];

const CASSETTE: &[&str] = &[
    "{\"cassette\":{\"version\":1}}\n",
    "{\"request\":{\"n\":1,\"dialect\":\"chat\",\"method\":\"POST\",\"path\":\"/\",\"headers\":{},\"key\":\"k\",\"body\":",
    "{}",
    "}}\n",
    "{\"answer\":{\"n\":1,\"status\":200,\"headers\":{}}}\n",
    "{\"text\":{\"n\":1,\"ms\":0,\"text\":\"x\"}}\n",
    "{\"hex\":{\"n\":1,\"ms\":0,\"hex\":\"",
    "ff",
    "f",
    "\"}}\n",
    "{\"end\":{\"n\":1,\"complete\":true}}\n",
    "\n",
    "{",
    "\"",
];

const PRICES: &[&str] = &[
    "as_of: x\n",
    "providers:\n",
    "  p:\n",
    "    models:\n",
    "      m: ",
    "{ input: ",
    "1",
    ", output: ",
    " }",
    "-1",
    "1e300",
    ".nan",
    ".inf",
    "\n",
    "any: ",
    "long: { over: 5, ",
    "search: ",
    "'",
    "&a ",
    "*a",
];

fn path(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Anthropic => "/v1/messages",
        Dialect::Responses => "/v1/responses",
        Dialect::Chat => "/v1/chat/completions",
        Dialect::Gemini => "/v1beta/models/m:streamGenerateContent?alt=sse",
    }
}

#[test]
fn requests() {
    let script = match ModelScript::parse("call shell command=x\nthen\non result ok\nsay a\nelse\nsay b") {
        Ok(script) => script,
        Err(error) => panic!("no script to answer with: {error}"),
    };
    fuzz::text("requests", REQUEST, |text| {
        let text = format!("{{\"model\":\"m\",{text}");
        for dialect in Dialect::ALL {
            let path = path(dialect);
            if let Ok(ask) = dialect.parse_request(path, text.as_bytes()) {
                let rewritten = dialect.rewrite_request(path, text.as_bytes(), Some("other"), Some(7));
                let again = rewritten.map(|(path, body)| dialect.parse_request(&path, &body));
                assert!(matches!(&again, Ok(Ok(ask)) if ask.model == "other" && ask.output_max == Some(7)), "{text}\n{ask:?}\n{again:?}");
            }
            script.respond(dialect, Endpoint::Generate, path, text.as_bytes());
        }
    });
}

#[test]
fn answers() {
    fuzz::text("answers", ANSWER, |text| {
        for dialect in Dialect::ALL {
            let metered = |step: usize| {
                let mut meter = dialect.meter(true);
                text.as_bytes().chunks(step).for_each(|chunk| meter.feed(chunk));
                meter.finish()
            };
            assert_eq!(metered(1), metered(1 << 20), "{dialect:?} {text}");
        }
    });
}

#[test]
fn scripts() {
    fuzz::text("scripts", SCRIPT, |text| match ModelScript::parse(text) {
        Ok(script) => {
            let body = br#"{"model":"m","messages":[{"role":"user","content":"x a b"}]}"#;
            script.respond(Dialect::Anthropic, Endpoint::Generate, "/v1/messages", body);
        }
        Err(error) => assert!(error.line >= 1 && error.column >= 1, "{error}"),
    });
}

#[test]
fn cassettes() {
    fuzz::text("cassettes", CASSETTE, |text| {
        if let Ok(mut player) = Player::read(text, Arc::new(str::to_owned)) {
            player.play(Dialect::Chat, "/", b"{}").ok();
        }
    });
}

#[test]
fn prices() {
    fuzz::text("prices", PRICES, |text| {
        if let Ok(prices) = Prices::parse(text) {
            let most = gateway::TokenUsage { input: u64::MAX, output: u64::MAX, ..gateway::TokenUsage::default() };
            prices.price("p", "m").map(|price| price.micros(&most));
        }
    });
}
