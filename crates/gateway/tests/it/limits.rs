//! Limits, keys and refusals, over real sockets: what a provider says about waiting, who shares what, and where a key comes from.

use crate::bed::{Bed, Said, head};
use gateway::ModelSettings;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

const ASK: &str = r#"{"model":"m"}"#;

fn put(settings: &mut ModelSettings, name: &str, yaml: &str) {
    settings.providers.insert(name.to_owned(), yaml::from_str(yaml).unwrap());
}

fn refusal(status: u16, headers: &str, body: &str) -> Vec<Said> {
    vec![Said::Text(head(status, &format!("{headers}\r\ncontent-type: application/json\r\ncontent-length: {}", body.len())) + body)]
}

/// Whatever a provider says it with: the request waits and the client hears nothing of it.
#[tokio::test]
async fn every_way_to_say_wait_is_heeded() {
    for headers in [
        "retry-after-ms: 40",
        "retry-after: 0.04",
        "x-ratelimit-remaining-requests: 0\r\nx-ratelimit-reset-requests: 40ms",
        "x-ratelimit-remaining-tokens: 0\r\nx-ratelimit-reset-tokens: 0.04",
    ] {
        let bed = Bed::new("").await;
        bed.will(refusal(429, headers, "{}"));
        let answer = bed.post("/v1/messages", ASK).await;
        assert_eq!((answer.status(), bed.heard().len(), bed.asked().len()), (200, 2, 1), "{headers}");
        bed.ended().await;
        bed.rest().await;
    }
    // Nobody said for how long: that is for the client to decide.
    let bed = Bed::new("").await;
    bed.will(refusal(429, "x-ratelimit-remaining-requests: 5", r#"{"why":"so"}"#));
    let answer = bed.post("/v1/messages", ASK).await;
    assert_eq!((answer.status(), answer.body.as_slice(), bed.heard().len()), (429, r#"{"why":"so"}"#.as_bytes(), 1));
    assert!(answer.head.contains("request-id: r-1") && answer.head.contains("x-ratelimit-remaining-requests: 5"));
}

/// What is asked again is asked: who hangs up then pays for it, though the first try cost nothing.
#[tokio::test]
async fn a_second_try_that_is_abandoned_was_not_refused() {
    for again in [vec![Said::UntilGone], vec![Said::Close]] {
        let bed = Bed::new("").await;
        bed.will(refusal(429, "retry-after-ms: 20", "{}"));
        bed.will(again.clone());
        let mut caller = bed.open("/v1/messages", ASK).await;
        bed.wait_heard(2).await;
        if matches!(again[0], Said::Close) {
            assert_eq!(caller.answer().await.status(), 502);
        }
        drop(caller);
        let ended = bed.ended().await;
        assert_eq!((ended.sent, ended.status), (true, None), "{ended:?}");
        bed.rest().await;
    }
    // Who leaves while it waits has been refused, and that is all.
    let bed = Bed::new("").await;
    bed.will(refusal(429, "retry-after: 4", "{}"));
    let caller = bed.open("/v1/messages", ASK).await;
    bed.in_line(1).await;
    drop(caller);
    assert_eq!(bed.ended().await.status, Some(429));
}

/// Google has no header for it.
#[tokio::test]
async fn a_wait_in_the_body_of_a_refusal_is_heeded() {
    let gemini = |settings: &mut ModelSettings, _: u16| {
        settings.providers.values_mut().for_each(|provider| provider.dialect = yaml::from_str("gemini").unwrap());
    };
    let path = "/v1beta/models/m:generateContent";
    let body = |delay: &str| {
        let info = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay});
        json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [{"@type": "x"}, info]}}).to_string()
    };
    let bed = Bed::with("", None, gemini).await;
    bed.will(refusal(429, "x-a: b", &body("0.04s")));
    assert_eq!((bed.post(path, "{}").await.status(), bed.heard().len()), (200, 2));
    // Too long for anybody to wait: passed on as it is, and nobody else is sent there meanwhile.
    bed.will(refusal(429, "x-a: b", &body("3600s")));
    let answer = bed.post(path, "{}").await;
    assert_eq!((answer.status(), answer.body.as_slice()), (429, body("3600s").as_bytes()));
    let answer = bed.post(path, "{}").await;
    let said: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((answer.status(), &said["error"]["status"], bed.heard().len()), (429, &json!("RESOURCE_EXHAUSTED"), 3));
    assert!(answer.head.contains("retry-after: 3") && answer.head.lines().count() < 8, "{}", answer.head);
    bed.rest().await;
}

/// One that is closed until later is not waited for where another can be asked, neither by the first that hears of it nor by the next.
#[tokio::test]
async fn a_closed_provider_is_passed_by_where_there_is_another() {
    let bed = Bed::new("").await;
    bed.will(refusal(429, "retry-after: 4", "{}"));
    for _ in 0..2 {
        assert_eq!(bed.post("/v1/messages", r#"{"model":"tactical"}"#).await.status(), 200);
    }
    let heard = bed.heard();
    let models: Vec<&str> = heard.iter().map(|request| if request.contains("first") { "first" } else { "second" }).collect();
    assert_eq!(models, ["first", "second", "second"]);
    bed.rest().await;
}

/// Two entries, one key: its limit holds for both together. And another key has slots of its own.
#[tokio::test]
async fn providers_with_the_same_key_share_its_limits() {
    let other = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(other.path(), "sk-other").unwrap();
    for (same, most) in [(true, 1), (false, 2)] {
        let bed = Bed::with("concurrency: 1", None, |settings, port| {
            let key = settings.providers["anthropic"].key.clone();
            put(
                settings,
                "second",
                &format!("url: http://localhost:{port}\ndialect: [anthropic, chat]\nmodels: ['other-*']\nconcurrency: 9"),
            );
            let second = settings.providers.get_mut("second").unwrap();
            second.key = key;
            if !same {
                second.key = Some(gateway::KeySettings::File(other.path().to_owned()));
            }
        })
        .await;
        bed.will(vec![Said::UntilGone]);
        let first = bed.open("/v1/messages", ASK).await;
        bed.wait_heard(1).await;
        let second = bed.open("/v1/messages", r#"{"model":"other-1"}"#).await;
        if same {
            bed.in_line(1).await;
        } else {
            bed.wait_heard(2).await;
        }
        assert_eq!(bed.heard().len(), most);
        drop((first, second));
        bed.ended().await;
        bed.ended().await;
        bed.rest().await;
    }
}

/// Ollama, vLLM and the like: no key is set, none is sent, and least of all the process's own.
#[tokio::test]
async fn a_server_without_a_key_gets_none() {
    let bed = Bed::with("", None, |settings, port| {
        put(settings, "local", &format!("url: http://127.0.0.1:{port}/v1\ndialect: chat\nfree: true\nmodels: ['qwen*']"));
    })
    .await;
    let answer = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    bed.will(refusal(200, "x-a: b", answer));
    let got = bed.post("/v1/chat/completions", r#"{"model":"qwen3:8b","messages":[]}"#).await;
    assert_eq!((got.status(), got.body.as_slice()), (200, answer.as_bytes()));
    let heard = bed.heard().pop().unwrap().to_lowercase();
    assert!(heard.starts_with("post /v1/chat/completions ") && !heard.contains("authorization") && !heard.contains("api-key"), "{heard}");
    assert!(!heard.contains(crate::bed::KEY));
}

#[tokio::test]
async fn a_key_file_that_changes_counts_from_the_next_request() {
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "sk-old\n").unwrap();
    let bed = Bed::with("", None, |settings, _| {
        settings.providers.get_mut("anthropic").unwrap().key = Some(gateway::KeySettings::File(key.path().to_owned()));
    })
    .await;
    bed.post("/v1/messages", ASK).await;
    std::fs::write(key.path(), "sk-new\n").unwrap();
    bed.post("/v1/messages", ASK).await;
    std::fs::set_permissions(key.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let answer = bed.post("/v1/messages", ASK).await;
    let said = String::from_utf8_lossy(&answer.body).to_string();
    assert!(answer.status() == 502 && said.contains("can be read by others") && said.contains("chmod 600"), "{said}");
    let keys: Vec<bool> = bed.heard().iter().map(|request| request.contains("x-api-key: sk-new\r\n")).collect();
    assert_eq!(keys, [false, true]);
    bed.rest().await;
}

/// A keyring is a program: run once, not for every request, and again when its key is not taken any more.
#[tokio::test]
async fn a_keyring_is_asked_once_and_again_when_its_key_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (program, runs, key) = (dir.path().join("ring"), dir.path().join("runs"), dir.path().join("key"));
    std::fs::write(&key, "sk-1").unwrap();
    std::fs::write(&program, format!("#!/bin/sh\necho x >> {}\ncat {}\n", runs.display(), key.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let ring = gateway::KeySettings::Keyring(vec!["sh".into(), program.to_string_lossy().into()]);
    let bed = Bed::with("", None, |settings, _| settings.providers.get_mut("anthropic").unwrap().key = Some(ring)).await;
    let count = || std::fs::read_to_string(&runs).unwrap().lines().count();
    for _ in 0..5 {
        assert_eq!(bed.post("/v1/messages", ASK).await.status(), 200);
    }
    assert_eq!(count(), 1);
    std::fs::write(&key, "sk-2").unwrap();
    bed.will(refusal(401, "x-a: b", "{}"));
    assert_eq!(bed.post("/v1/messages", ASK).await.status(), 401);
    assert_eq!(bed.post("/v1/messages", ASK).await.status(), 200);
    assert_eq!(count(), 2);
    assert!(bed.heard().last().unwrap().contains("x-api-key: sk-2\r\n"));
    bed.rest().await;
}

/// What the vendors have and the gateway does not is refused as their own clients expect it, and reaches nobody.
#[tokio::test]
async fn what_is_not_metered_is_refused_in_the_words_of_its_client() {
    let bed = Bed::new("").await;
    for (line, sign, word) in [
        ("POST /v1/messages/batches", "x-api-key", "/error/type not_found_error"),
        ("GET /v1/files", "x-api-key", "/error/type not_found_error"),
        ("POST /v1/embeddings", "authorization: Bearer", "/error/code not_found"),
        ("GET /v1/responses/resp_1", "authorization: Bearer", "/error/code not_found"),
        ("POST /v1beta/cachedContents", "x-goog-api-key", "/error/status NOT_FOUND"),
        ("POST /v1beta/models/m:embedContent", "x-goog-api-key", "/error/status NOT_FOUND"),
    ] {
        let sign = if sign.contains(':') { format!("{sign} {}", crate::bed::KEY) } else { format!("{sign}: {}", crate::bed::KEY) };
        let answer = bed.send(&format!("{line} HTTP/1.1\r\nhost: h\r\n{sign}\r\ncontent-length: 2\r\n\r\n{{}}")).await;
        let said: Value = serde_json::from_slice(&answer.body).unwrap();
        let (place, word) = word.split_once(' ').unwrap();
        assert_eq!((answer.status(), said.pointer(place)), (404, Some(&json!(word))), "{line}: {said}");
        assert!(said["error"]["message"].as_str().unwrap().starts_with(&format!("the gateway has no `{line}`: ")), "{said}");
    }
    let later = bed.post("/v1/responses", r#"{"model":"m","input":"x","background":true}"#).await;
    let said: Value = serde_json::from_slice(&later.body).unwrap();
    assert_eq!((later.status(), &said["error"]["type"]), (400, &json!("invalid_request_error")), "{said}");
    assert!(bed.heard().is_empty() && bed.asked().is_empty());
}
