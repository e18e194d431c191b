//! Requests and answers of the four dialects, each in every cut.

use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

const ANTHROPIC: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-opus-4-8\",\"content\":[],\"usage\":{\"input_tokens\":12,\"cache_creation_input_tokens\":300,\"cache_read_input_tokens\":4000,\"cache_creation\":{\"ephemeral_5m_input_tokens\":100,\"ephemeral_1h_input_tokens\":200},\"output_tokens\":1}}}\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello, \\u00fcber world\"}}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":15,\"server_tool_use\":{\"web_search_requests\":2}}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
const RESPONSES: &str = "event: response.created\r\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"model\":\"gpt-5.5\",\"usage\":null}}\r\n\r\nevent: response.output_text.delta\r\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hello world\"}\r\n\r\nevent: response.completed\r\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"model\":\"gpt-5.5\",\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"Hello world\"}]}],\"usage\":{\"input_tokens\":100,\"input_tokens_details\":{\"cached_tokens\":60,\"cache_write_tokens\":30},\"output_tokens\":20,\"output_tokens_details\":{\"reasoning_tokens\":8},\"total_tokens\":120}}}\r\n\r\n";
const CHAT: &str = ": keep-alive\n\ndata: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"gpt-5.4\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hello world\"}}],\"usage\":null}\n\ndata: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":50,\"completion_tokens\":9,\"prompt_tokens_details\":{\"cached_tokens\":20},\"completion_tokens_details\":{\"reasoning_tokens\":3}}}\n\ndata: [DONE]\n\n";
const GEMINI: &str = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hello\"}],\"role\":\"model\"}}],\"usageMetadata\":{\"promptTokenCount\":70,\"totalTokenCount\":70},\"modelVersion\":\"gemini-3-pro\"}\r\n\r\ndata: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\" world\"}]},\"finishReason\":\"STOP\"}],\r\ndata: \"usageMetadata\":{\"promptTokenCount\":70,\"cachedContentTokenCount\":30,\"candidatesTokenCount\":6,\"thoughtsTokenCount\":4}}\r\n\r\n";

fn metered(dialect: Dialect, chunks: &[&[u8]]) -> Metered {
    let mut meter = dialect.meter(true);
    chunks.iter().for_each(|chunk| meter.feed(chunk));
    meter.finish()
}

fn reported(input: u64, output: u64, cache_read: u64, cache_write: u64, reasoning: u64) -> TokenUsage {
    TokenUsage { input, output, cache_read, cache_write, reasoning, source: UsageSource::Reported, ..TokenUsage::default() }
}

fn streams() -> [(Dialect, &'static str, TokenUsage); 4] {
    let anthropic = TokenUsage { cache_write_1h: 200, searches: 2, ..reported(12, 15, 4000, 300, 0) };
    [
        (Dialect::Anthropic, ANTHROPIC, anthropic),
        (Dialect::Responses, RESPONSES, reported(10, 20, 60, 30, 8)),
        (Dialect::Chat, CHAT, reported(30, 9, 20, 0, 3)),
        (Dialect::Gemini, GEMINI, reported(40, 10, 30, 0, 4)),
    ]
}

#[test]
fn each_stream_is_metered_by_its_own_usage() {
    for (dialect, stream, usage) in streams() {
        let whole = metered(dialect, &[stream.as_bytes()]);
        assert_eq!((whole.usage, whole.complete, &whole.notes), (usage, true, &Vec::new()), "{dialect:?}");
        assert!(whole.model.is_some(), "{dialect:?}");
        let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
        assert_eq!(metered(dialect, &bytes), whole, "{dialect:?}");
    }
}

#[test]
fn an_answer_in_one_piece_is_metered_too() {
    let check = |dialect: Dialect, body: Value, usage: TokenUsage| {
        let text = serde_json::to_string_pretty(&body).unwrap();
        let metered = metered(dialect, &[text.as_bytes()]);
        assert_eq!((metered.usage, metered.complete, metered.notes), (usage, true, vec![]), "{dialect:?}");
    };
    check(
        Dialect::Anthropic,
        json!({"type": "message", "content": [{"type": "text", "text": "x"}], "usage": {"input_tokens": 3, "output_tokens": 4}}),
        reported(3, 4, 0, 0, 0),
    );
    check(
        Dialect::Responses,
        json!({"object": "response", "status": "completed", "usage": {"input_tokens": 3, "output_tokens": 4}}),
        reported(3, 4, 0, 0, 0),
    );
    check(
        Dialect::Chat,
        json!({"choices": [{"finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}),
        reported(3, 4, 0, 0, 0),
    );
    // Without `alt=sse` Gemini streams an array.
    let chunk = |output: u64| json!({"candidates": [{}], "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": output}});
    check(Dialect::Gemini, json!([chunk(1), chunk(4)]), reported(3, 4, 0, 0, 0));
}

#[test]
fn what_nobody_reported_is_counted_and_marked() {
    // The client did not ask for usage.
    let chat = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello world, how are you?\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let parsed = Dialect::Chat.parse_request("/v1/chat/completions", br#"{"model":"m","stream":true,"messages":[]}"#).unwrap();
    let mut meter = parsed.meter();
    meter.feed(chat.as_bytes());
    let metered = meter.finish();
    assert_eq!(
        metered.usage,
        TokenUsage { input: parsed.input_tokens(), output: 7, source: UsageSource::Estimated, ..TokenUsage::default() }
    );
    assert!(metered.complete && metered.notes.len() == 2, "{:?}", metered.notes);
}

#[test]
fn a_stream_that_breaks_off_is_an_estimate_of_no_less_than_was_said() {
    for (dialect, stream, _) in streams() {
        let cut = stream.find("world").unwrap() + 20;
        let metered = metered(dialect, &[&stream.as_bytes()[..cut]]);
        assert_eq!(metered.usage.source, UsageSource::Estimated, "{dialect:?}");
        assert!(!metered.complete && metered.usage.output >= 2, "{dialect:?} {metered:?}");
    }
}

#[test]
fn an_error_in_a_stream_is_noted() {
    for dialect in Dialect::ALL {
        let mut meter = dialect.meter(true);
        meter.feed(&dialect.render_error_event(529, DenialKind::Overloaded, "try later"));
        let metered = meter.finish();
        // Responses tells its error at the top level of the event, which is not kept.
        let words = if dialect == Dialect::Responses { "an error event" } else { "try later" };
        let told = metered.notes.iter().any(|note| note == &format!("the provider reported an error: {words}"));
        assert!(told && !metered.complete, "{dialect:?} {:?}", metered.notes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_cut_gives_the_same_usage(which in 0..4_usize, cuts in proptest::collection::vec(0..2000_usize, 0..12), until in 0..2000_usize) {
        let (dialect, stream, _) = streams()[which];
        let stream = &stream.as_bytes()[..until.min(stream.len())];
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
        cuts.sort_unstable();
        let (mut chunks, mut at) = (Vec::new(), 0);
        for cut in cuts {
            chunks.push(&stream[at..cut]);
            at = cut;
        }
        chunks.push(&stream[at..]);
        prop_assert_eq!(metered(dialect, &chunks), metered(dialect, &[stream]));
    }
}

#[test]
fn paths_tell_the_dialect() {
    let check = |method: &str, path: &str, expected: Option<(Dialect, Endpoint)>| {
        assert_eq!(Dialect::detect(method, path), expected, "{method} {path}")
    };
    check("POST", "/v1/messages?beta=true", Some((Dialect::Anthropic, Endpoint::Generate)));
    check("POST", "/v1/messages/count_tokens", Some((Dialect::Anthropic, Endpoint::CountTokens)));
    check("POST", "/v1/responses", Some((Dialect::Responses, Endpoint::Generate)));
    check("POST", "/responses/compact", Some((Dialect::Responses, Endpoint::Generate)));
    check("POST", "/v1/chat/completions", Some((Dialect::Chat, Endpoint::Generate)));
    check("GET", "/v1/models", Some((Dialect::Chat, Endpoint::Models)));
    check("GET", "/v1beta/models", Some((Dialect::Gemini, Endpoint::Models)));
    check("POST", "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", Some((Dialect::Gemini, Endpoint::Generate)));
    check("POST", "/v1beta/models/gemini-3-pro:countTokens", Some((Dialect::Gemini, Endpoint::CountTokens)));
    for (method, path) in [
        ("GET", "/v1/messages"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1beta/models/m:embedContent"),
        ("POST", "/v1beta/models/:generateContent"),
        ("GET", "/v1/responses/resp_1"),
        ("POST", "messages"),
        ("POST", ""),
    ] {
        check(method, path, None);
    }
}

#[test]
fn a_request_is_read() {
    let parsed = |dialect: Dialect, path: &str, body: &str| {
        let parsed = dialect.parse_request(path, body.as_bytes()).unwrap();
        (parsed.model, parsed.stream, parsed.output_max, parsed.answers, parsed.images)
    };
    let body = r#"{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgoAAAA"}},{"type":"tool_result","content":[{"type":"image","source":{"type":"url","url":"https://x/y.png"}}]}]}]}"#;
    let read = Dialect::Anthropic.parse_request("/v1/messages", body.as_bytes()).unwrap();
    assert_eq!((read.model.as_str(), read.stream, read.output_max), ("m", true, Some(100)));
    assert_eq!((read.input_bytes, read.images), (body.len() as u64 - 15, 2));
    assert_eq!(
        parsed(Dialect::Chat, "/v1/chat/completions", r#"{"model":"m","n":3,"max_tokens":5,"max_completion_tokens":9}"#),
        ("m".into(), false, Some(9), 3, 0)
    );
    assert_eq!(parsed(Dialect::Responses, "/v1/responses", r#"{"model":"m","max_output_tokens":null}"#), ("m".into(), false, None, 1, 0));
    let gemini = r#"{"generation_config":{"maxOutputTokens":"77","candidateCount":2},"contents":[]}"#;
    assert_eq!(parsed(Dialect::Gemini, "/v1beta/models/g-1:streamGenerateContent?alt=sse", gemini), ("g-1".into(), true, Some(77), 2, 0));
    // A tool's input is text, however it is dressed up.
    let dressed = r#"{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"source":{"type":"base64","data":"iVBORw0KGgoAAAA"}}}]}]}"#;
    assert_eq!(Dialect::Anthropic.parse_request("/v1/messages", dressed.as_bytes()).unwrap().input_bytes, dressed.len() as u64);
}

#[test]
fn what_would_make_the_bill_uncertain_is_refused() {
    let check = |dialect: Dialect, path: &str, body: &[u8], why: &str| assert_eq!(dialect.parse_request(path, body).unwrap_err().why, why);
    check(Dialect::Anthropic, "/v1/messages", br#"{"model":"a","model":"b"}"#, "`model` is given twice");
    check(Dialect::Anthropic, "/v1/messages", br#"{"model":"a","\u006dodel":"b"}"#, "`model` is given twice");
    check(Dialect::Anthropic, "/v1/messages", br#"{"model":"a","max_tokens":"many"}"#, "`max_tokens` is not a whole number");
    check(Dialect::Anthropic, "/v1/messages", br#"{"model":"a","max_tokens":-1}"#, "`max_tokens` is not a whole number");
    check(Dialect::Responses, "/v1/responses", br#"{"input":[]}"#, "`model` is missing");
    check(Dialect::Responses, "/v1/responses", br#"{"model":7}"#, "`model` is not text");
    check(Dialect::Chat, "/v1/chat/completions", b"\xff", "it is not UTF-8");
    check(Dialect::Chat, "/v1/messages", b"{}", "`/v1/messages` is none of its paths");
    let twice = br#"{"generationConfig":{"maxOutputTokens":1},"generation_config":{"maxOutputTokens":9}}"#;
    check(Dialect::Gemini, "/v1beta/models/m:generateContent", twice, "`generation_config` is given twice");
    let other = br#"{"model":"models/dear","contents":[]}"#;
    check(Dialect::Gemini, "/v1beta/models/m:generateContent", other, "its `model` is another than that of its path, `m`");
    assert_eq!(Dialect::Gemini.parse_request("/v1beta/models/m:countTokens", br#"{"model":"models/m"}"#).unwrap().model, "m");
    for (odd, name) in [("Model", "model"), ("MODEL", "model"), ("Max_Tokens", "max_tokens"), ("max_to\u{212a}ens", "max_tokens")] {
        let body = format!(r#"{{"model":"a","max_tokens":1,"{odd}":2}}"#);
        check(Dialect::Anthropic, "/v1/messages", body.as_bytes(), &format!("`{odd}` is in another case; write `{name}`"));
    }
    let many = br#"{"model":"a","models":["dear"]}"#;
    check(Dialect::Chat, "/v1/chat/completions", many, "`models` names further models, and only one is decided about; name it in `model`");
    let routed = br#"{"generation_config":{"routing_config":{"manual_mode":{"model_name":"dear"}}}}"#;
    let why = "`routingConfig` has the provider choose another model; name it in the path";
    check(Dialect::Gemini, "/v1beta/models/m:generateContent", routed, why);
    for further in [r#""fallbacks":[{"model":"dear","max_tokens":99999}]"#, r#""fallbacks":"default""#, r#""fallback":{"model":"dear"}"#] {
        let said =
            Dialect::Anthropic.parse_request("/v1/messages", format!(r#"{{"model":"a",{further}}}"#).as_bytes()).unwrap_err().to_string();
        assert!(said.contains("does not support the `fallback"), "as Claude Code looks for it: {said}");
    }
    assert!(Dialect::Anthropic.parse_request("/v1/messages", br#"{"model":"a","fallbacks":null}"#).is_ok());
    let positive = br#"{"model":"a","max_tokens":1}"#;
    assert_eq!(Dialect::Anthropic.parse_request("/v1/messages", positive).unwrap().output_max, Some(1));
}

#[test]
fn a_rewrite_changes_model_and_limit_and_no_other_byte() {
    let check = |dialect: Dialect, path: &str, body: &str, expected: (&str, &str)| {
        let (path, body) = dialect.rewrite_request(path, body.as_bytes(), Some("new"), Some(7)).unwrap();
        assert_eq!((path.as_str(), std::str::from_utf8(&body).unwrap()), expected);
    };
    let path = "/v1/messages?beta=true";
    check(
        Dialect::Anthropic,
        path,
        " {\"z\" : 1.0e0,\r\n\t\"model\" : \"old\" , \"messages\":[ {\"model\":\"old\",\"max_tokens\":5, \"\\u00e4\":\"ä\"} ], \"max_tokens\": 4096 }\n",
        (
            path,
            " {\"z\" : 1.0e0,\r\n\t\"model\" : \"new\" , \"messages\":[ {\"model\":\"old\",\"max_tokens\":5, \"\\u00e4\":\"ä\"} ], \"max_tokens\": 7 }\n",
        ),
    );
    check(Dialect::Responses, "/v1/responses", r#"{"model":"old"}"#, ("/v1/responses", r#"{"max_output_tokens":7,"model":"new"}"#));
    let path = "/v1/chat/completions";
    check(
        Dialect::Chat,
        path,
        r#"{"model":"old","max_tokens":1,"max_completion_tokens":2}"#,
        (path, r#"{"model":"new","max_tokens":7,"max_completion_tokens":7}"#),
    );
    check(Dialect::Chat, path, r#"{"model":"old"}"#, (path, r#"{"max_tokens":7,"model":"new"}"#));
    let (old, new) = ("/v1beta/models/old:generateContent?alt=sse", "/v1beta/models/new:generateContent?alt=sse");
    check(Dialect::Gemini, old, r#"{"model":"old"}"#, (new, r#"{"generationConfig":{"maxOutputTokens":7},"model":"new"}"#));
    check(Dialect::Gemini, old, r#"{ }"#, (new, r#"{"generationConfig":{"maxOutputTokens":7} }"#));
    check(Dialect::Gemini, old, r#"{"generationConfig": {"a":1}}"#, (new, r#"{"generationConfig": {"maxOutputTokens":7,"a":1}}"#));
    check(
        Dialect::Gemini,
        old,
        r#"{"generation_config":{"maxOutputTokens": 900}}"#,
        (new, r#"{"generation_config":{"maxOutputTokens": 7}}"#),
    );
    let (_, same) = Dialect::Chat.rewrite_request(path, b" not json", None, None).unwrap();
    assert_eq!(same, b" not json");
    let odd = Dialect::Gemini.rewrite_request(old, b"{}", Some("a/b c"), None).unwrap();
    assert_eq!(odd.0, "/v1beta/models/a%2Fb%20c:generateContent?alt=sse");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn a_rewrite_reads_back_and_leaves_the_rest(words in proptest::collection::vec(("[a-z]{1,6}", "\\PC{0,8}"), 0..5), has in any::<(bool, u64)>(), limit in 1..1_000_000_u64) {
        for dialect in [Dialect::Anthropic, Dialect::Responses, Dialect::Chat] {
            let path = match dialect { Dialect::Anthropic => "/v1/messages", Dialect::Responses => "/v1/responses", _ => "/v1/chat/completions" };
            let mut value = json!({"model": "old"});
            for (key, text) in &words {
                if !["model", "models", "n", "stream", "input", "tools", "system"].contains(&key.as_str()) {
                    value[key] = json!([text]);
                }
            }
            if has.0 {
                value[dialect.format().output_limit_names()[0]] = json!(has.1);
            }
            let body = serde_json::to_vec_pretty(&value).unwrap();
            let (_, new) = dialect.rewrite_request(path, &body, Some("new"), Some(limit)).unwrap();
            let parsed = dialect.parse_request(path, &new).unwrap();
            prop_assert_eq!((parsed.model.as_str(), parsed.output_max), ("new", Some(limit)));
            let mut back: Value = serde_json::from_slice(&new).unwrap();
            back["model"] = json!("old");
            for name in ["max_tokens", "max_output_tokens", "max_completion_tokens"] {
                back.as_object_mut().unwrap().remove(name);
                value.as_object_mut().unwrap().remove(name);
            }
            prop_assert_eq!(back, value);
        }
    }
}

#[test]
fn refusals_are_in_the_providers_own_words() {
    let body = |dialect: Dialect| {
        let reply = dialect.render_error(dialect.error_status(DenialKind::Budget), DenialKind::Budget, "no");
        assert_eq!(reply.headers, vec![("x-should-retry", "false".to_owned())]);
        (reply.status, String::from_utf8(reply.body).unwrap())
    };
    assert_eq!(body(Dialect::Anthropic), (402, r#"{"error":{"message":"no","type":"billing_error"},"type":"error"}"#.into()));
    let openai = r#"{"error":{"code":"insufficient_quota","message":"no","param":null,"type":"insufficient_quota"}}"#;
    assert_eq!(body(Dialect::Chat), (402, openai.into()));
    assert_eq!(body(Dialect::Responses), (400, openai.into()));
    assert_eq!(body(Dialect::Gemini), (402, r#"{"error":{"code":402,"message":"no","status":"RESOURCE_EXHAUSTED"}}"#.into()));
    assert!(Dialect::Chat.render_error(429, DenialKind::RateLimited, "no").headers.is_empty());
    let event = String::from_utf8(Dialect::Anthropic.render_error_event(529, DenialKind::Overloaded, "no")).unwrap();
    assert_eq!(event, "event: error\ndata: {\"error\":{\"message\":\"no\",\"type\":\"overloaded_error\"},\"type\":\"error\"}\n\n");
}

#[test]
fn what_a_request_only_refers_to_or_has_answered_later_is_refused() {
    let why = |dialect: Dialect, path: &str, body: &str| dialect.parse_request(path, body.as_bytes()).map(drop).map_err(|error| error.why);
    let responses = |member: &str| why(Dialect::Responses, "/v1/responses", &format!(r#"{{"model":"m","input":"hi",{member}}}"#));
    for (member, begins) in [
        (r#""background":true"#, "`background` has the provider answer later"),
        (r#""previous_response_id":"resp_1""#, "`previous_response_id` refers to what the provider keeps"),
        (r#""conversation":{"id":"conv_1"}"#, "`conversation` refers to"),
        (r#""prompt":{"id":"pmpt_1"}"#, "`prompt` names a prompt"),
    ] {
        let said = responses(member).unwrap_err();
        assert!(said.starts_with(begins), "{said}");
    }
    for fine in [r#""background":false,"previous_response_id":null"#, r#""store":true"#, r#""conversation":null"#] {
        assert_eq!(responses(fine), Ok(()), "{fine}");
    }
    let gemini = "/v1beta/models/m:generateContent";
    for name in ["cachedContent", "cached_content"] {
        let said = why(Dialect::Gemini, gemini, &format!(r#"{{"{name}":"cachedContents/x"}}"#)).unwrap_err();
        assert!(said.starts_with("`cachedContent` refers to"), "{said}");
    }
    // Its own names mean nothing in another dialect.
    assert_eq!(why(Dialect::Chat, "/v1/chat/completions", r#"{"model":"m","background":true,"cachedContent":"x"}"#), Ok(()));
}

#[test]
fn a_model_in_a_path_is_what_the_provider_reads_there() {
    let model = |path: &str| Dialect::Gemini.parse_request(path, b"{}").map(|parsed| parsed.model).map_err(|error| error.why);
    assert_eq!(model("/v1beta/models/gemini%2Dultra:generateContent"), Ok("gemini-ultra".to_owned()));
    assert_eq!(model("/v1beta/models/google%2fg%3A1:generateContent"), Ok("google/g:1".to_owned()));
    for bad in ["/v1beta/models/a%2:generateContent", "/v1beta/models/a%zz:generateContent", "/v1beta/models/a%ff:generateContent"] {
        assert!(model(bad).unwrap_err().starts_with("the model in its path"), "{bad}");
    }
    let (path, _) = Dialect::Gemini.rewrite_request("/v1beta/models/a%2Fb:countTokens?x=1", b"{}", Some("c d"), None).unwrap();
    assert_eq!(path, "/v1beta/models/c%20d:countTokens?x=1");
}

#[test]
fn a_file_that_is_only_referred_to_may_be_long() {
    let tokens = |dialect: Dialect, path: &str, body: &str| dialect.parse_request(path, body.as_bytes()).unwrap().input_tokens();
    let anthropic = |content: &str| {
        tokens(Dialect::Anthropic, "/v1/messages", &format!(r#"{{"model":"m","messages":[{{"role":"user","content":[{content}]}}]}}"#))
    };
    assert!(anthropic(r#"{"type":"document","source":{"type":"url","url":"https://x/long.pdf"}}"#) > 200_000);
    assert!(anthropic(r#"{"type":"document","source":{"type":"file","file_id":"file_1"}}"#) > 200_000);
    assert!(anthropic(r#"{"type":"image","source":{"type":"url","url":"https://x/y.png"}}"#) < 6_000);
    assert!(anthropic(r#"{"type":"document","source":{"type":"text","data":"short"}}"#) < 100);
    let body = r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_url":"https://x/y.pdf"}]}]}"#;
    assert!(tokens(Dialect::Responses, "/v1/responses", body) > 200_000);
    // An item of an earlier answer, kept by the provider, is as long as that was.
    let body = r#"{"model":"m","input":[{"type":"item_reference","id":"msg_1"}]}"#;
    assert!(tokens(Dialect::Responses, "/v1/responses", body) > 200_000);
    let body = r#"{"contents":[{"parts":[{"fileData":{"fileUri":"https://x/y.mp4"}}]}]}"#;
    assert!(tokens(Dialect::Gemini, "/v1beta/models/m:generateContent", body) > 200_000);
}

#[test]
fn how_an_answer_was_served_is_read_from_it_or_taken_from_the_request() {
    let served = |path: &str, body: &str, answer: &str| {
        let (dialect, _) = Dialect::detect("POST", path).unwrap();
        let mut meter = dialect.parse_request(path, body.as_bytes()).unwrap().meter();
        meter.feed(answer.as_bytes());
        let usage = meter.finish().usage;
        assert_eq!(usage.source, UsageSource::Reported, "{answer}");
        (usage.mode.pace, usage.mode.us, usage.searches)
    };
    let messages = |asked: &str, usage: &str| {
        let answer = format!(r#"{{"type":"message","usage":{{"input_tokens":1,"output_tokens":1{usage}}}}}"#);
        served("/v1/messages", &format!(r#"{{"model":"m"{asked}}}"#), &answer)
    };
    assert_eq!(messages("", ""), (Pace::Standard, false, 0));
    assert_eq!(messages(r#","speed":"fast""#, ""), (Pace::Fast, false, 0));
    assert_eq!(messages(r#","speed":"fast""#, r#","speed":"standard","inference_geo":"us""#), (Pace::Standard, true, 0));
    assert_eq!(messages("", r#","server_tool_use":{"web_search_requests":4},"service_tier":"priority""#), (Pace::Standard, false, 4));
    let chat = r#"{"choices":[{"finish_reason":"stop"}],"service_tier":"priority","usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    assert_eq!(served("/v1/chat/completions", r#"{"model":"m","service_tier":"auto"}"#, chat), (Pace::Priority, false, 0));
    let stream = "data: {\"type\":\"response.created\",\"response\":{\"service_tier\":\"auto\"}}\n\n\
        data: {\"type\":\"response.web_search_call.completed\",\"item_id\":\"a\"}\n\n\
        data: {\"type\":\"response.web_search_call.completed\",\"item_id\":\"b\"}\n\n\
        data: {\"type\":\"response.completed\",\"response\":{\"service_tier\":\"flex\",\"output\":[{\"type\":\"web_search_call\"},{\"type\":\"web_search_call\"}],\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n";
    assert_eq!(served("/v1/responses", r#"{"model":"m"}"#, stream), (Pace::Flex, false, 2));
    let whole = r#"{"object":"response","output":[{"type":"web_search_call"},{"type":"message","content":[]}],"usage":{"input_tokens":1,"output_tokens":1}}"#;
    assert_eq!(served("/v1/responses", r#"{"model":"m","service_tier":"priority"}"#, whole), (Pace::Priority, false, 1));
    let gemini = r#"[{"candidates":[{"groundingMetadata":{"webSearchQueries":["a","b"]}}]},{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"trafficType":"ON_DEMAND_PRIORITY"}}]"#;
    assert_eq!(served("/v1beta/models/m:generateContent", "{}", gemini), (Pace::Priority, false, 2));
}

#[test]
fn usage_is_found_where_some_servers_put_it() {
    for place in [
        r#""choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":3,"completion_tokens":4}}]"#,
        r#""choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":3,"completion_tokens":4}}"#,
        r#""choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4}"#,
    ] {
        let stream = format!("data: {{{place}}}\n\ndata: [DONE]\n\n");
        assert_eq!(metered(Dialect::Chat, &[stream.as_bytes()]).usage, reported(3, 4, 0, 0, 0), "{place}");
    }
    // A conversation that the provider shortened first.
    let body = r#"{"type":"message","usage":{"input_tokens":10,"output_tokens":5,"iterations":[{"type":"compaction","input_tokens":900,"output_tokens":70},{"type":"message","input_tokens":10,"output_tokens":5}]}}"#;
    assert_eq!(metered(Dialect::Anthropic, &[body.as_bytes()]).usage, reported(910, 75, 0, 0, 0));
}

/// Read as text, it is as long as it is, whatever it begins with.
#[test]
fn text_that_begins_like_a_picture_counts() {
    let long = "x".repeat(50_000);
    let bytes = |dialect: Dialect, path: &str, body: &str| {
        let parsed = dialect.parse_request(path, body.as_bytes()).unwrap();
        (parsed.images, parsed.input_bytes > 50_000)
    };
    let anthropic = |source: &str| {
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":[{{"type":"document","source":{source}}}]}}]}}"#);
        bytes(Dialect::Anthropic, "/v1/messages", &body)
    };
    assert_eq!(anthropic(&format!(r#"{{"type":"text","media_type":"text/plain","data":"R0lGOD{long}"}}"#)), (0, true));
    assert_eq!(anthropic(&format!(r#"{{"type":"text","media_type":"image/gif","data":"R0lGOD{long}"}}"#)), (0, true));
    assert_eq!(anthropic(&format!(r#"{{"type":"base64","media_type":"text/plain","data":"R0lGOD{long}"}}"#)), (0, true));
    assert_eq!(anthropic(&format!(r#"{{"type":"base64","media_type":"image/gif","data":"R0lGOD{long}"}}"#)), (1, false));
    let gemini = |data: &str| {
        bytes(Dialect::Gemini, "/v1beta/models/m:generateContent", &format!(r#"{{"contents":[{{"parts":[{{"inlineData":{data}}}]}}]}}"#))
    };
    assert_eq!(gemini(&format!(r#"{{"mimeType":"text/plain","data":"R0lGOD{long}"}}"#)), (0, true));
    assert_eq!(gemini(&format!(r#"{{"mimeType":"image/gif","mime_type":"text/plain","data":"R0lGOD{long}"}}"#)), (0, true));
    assert_eq!(gemini(&format!(r#"{{"mime_type":"image/gif","data":"R0lGOD{long}"}}"#)), (1, false));
    let chat = |url: &str| {
        let body =
            format!(r#"{{"model":"m","messages":[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"{url}"}}}}]}}]}}"#);
        bytes(Dialect::Chat, "/v1/chat/completions", &body)
    };
    assert_eq!(chat(&format!("data:text/plain;base64,R0lGOD{long}")), (0, true));
    assert_eq!(chat(&format!("data:image/gif;base64,R0lGOD{long}")), (1, false));
}

#[test]
fn a_request_that_would_fill_memory_is_refused() {
    let why = |body: String| Dialect::Anthropic.parse_request("/v1/messages", body.as_bytes()).map(drop).map_err(|bad| bad.why);
    let many = |piece: &str| format!(r#"{{"model":"m","messages":[{{"content":[{}0]}}],"url":0}}"#, format!("{piece},").repeat(300_000));
    for piece in [r#"{"":0}"#, "[]  ", "0   ", r#""a""#] {
        assert_eq!(why(many(piece)), Err("it has more than 250000 values".to_owned()), "{piece}");
    }
    // As much text is one value.
    let text = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{}"}}]}}"#, r#"{\\\"a\\\":[1,2]},"#.repeat(300_000));
    assert_eq!(why(text), Ok(()));
    assert_eq!(why(format!(r#"{{"model":"{}"}}"#, "m".repeat(256))), Ok(()));
    assert_eq!(why(format!(r#"{{"model":"{}"}}"#, "m".repeat(257))), Err("`model` is longer than 256 bytes".into()));
}

#[test]
fn a_model_of_google_s_stands_where_google_has_models() {
    for path in [
        "/v1beta/models/m:generateContent",
        "/models/m:generateContent",
        "/v1/publishers/google/models/m:generateContent",
        "/v1/projects/p-1/locations/eu/publishers/google/models/m:generateContent",
    ] {
        assert_eq!(Dialect::detect("POST", path), Some((Dialect::Gemini, Endpoint::Generate)), "{path}");
    }
    for path in [
        "/v1/projects/p/locations/l/publishers/anthropic/models/m:generateContent",
        "/v1/projects/../locations/l/publishers/google/models/m:generateContent",
        "/upload/v1beta/models/m:generateContent",
        "/v1beta/cachedContents/models/m:generateContent",
        "/v1beta/v1/models/m:generateContent",
        "/v2/models/m:generateContent",
    ] {
        assert_eq!(Dialect::detect("POST", path), None, "{path}");
    }
}

#[test]
fn a_limit_that_a_server_may_not_know_holds_nothing_back() {
    let most = |dialect: Dialect, path: &str, body: &str, model: &str| {
        dialect.parse_request(path, body.as_bytes()).unwrap().output_most(model, 16_384)
    };
    let chat = |limits: &str, model: &str| most(Dialect::Chat, "/v1/chat/completions", &format!(r#"{{"model":"m"{limits}}}"#), model);
    assert_eq!(chat("", "deepseek-chat"), 16_384);
    assert_eq!(chat(r#","max_completion_tokens":1"#, "deepseek-chat"), 16_384);
    assert_eq!(chat(r#","max_completion_tokens":1,"max_tokens":null"#, "deepseek-chat"), 16_384);
    assert_eq!(chat(r#","max_completion_tokens":50000"#, "deepseek-chat"), 50_000);
    assert_eq!(chat(r#","max_completion_tokens":1"#, "gpt-5.5"), 1);
    assert_eq!(chat(r#","max_completion_tokens":1"#, "o4-mini"), 1);
    assert_eq!(chat(r#","max_tokens":1"#, "deepseek-chat"), 1);
    assert_eq!(chat(r#","max_tokens":1,"max_completion_tokens":2"#, "deepseek-chat"), 2);
    assert_eq!(most(Dialect::Anthropic, "/v1/messages", r#"{"model":"m","max_tokens":7}"#, "m"), 7);
}

#[test]
fn a_model_that_gemini_is_told_twice_is_rewritten_twice() {
    let path = "/v1beta/models/m:generateContent";
    for (named, rewritten) in [("m", "new"), ("models/m", "models/new")] {
        let body = format!(r#"{{"model":"{named}","contents":[],"n":2}}"#);
        let (path, body) = Dialect::Gemini.rewrite_request(path, body.as_bytes(), Some("new"), Some(7)).unwrap();
        assert_eq!(path, "/v1beta/models/new:generateContent");
        let body = String::from_utf8(body).unwrap();
        assert!(body.contains(&format!(r#""model":"{rewritten}""#)), "{body}");
        let parsed = Dialect::Gemini.parse_request(&path, body.as_bytes()).unwrap();
        assert_eq!((parsed.model.as_str(), parsed.output_max), ("new", Some(7)));
    }
    let other = br#"{"model":"dear","contents":[]}"#;
    assert!(Dialect::Gemini.parse_request(path, other).is_err(), "the control: two names are refused");
}
