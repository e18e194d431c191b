//! Other ways to a provider, over real sockets: TLS, every dialect, a subscription of codex, and answers that are not as they should be.

use crate::bed::{Bed, Said, head};
use gateway::{ModelSettings, UsageSource, VendorClient};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::path::Path;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

fn put(settings: &mut ModelSettings, name: &str, yaml: &str) {
    settings.providers.insert(name.to_owned(), yaml::from_str(yaml).unwrap());
}

/// A body of one piece.
fn whole(kind: &str, body: &[u8]) -> Vec<Said> {
    let head = head(200, &format!("content-type: {kind}\r\ncontent-length: {}", body.len()));
    vec![Said::Text(head), Said::Text(String::from_utf8(body.to_vec()).unwrap())]
}

#[tokio::test]
async fn a_tls_provider_needs_a_trusted_certificate_for_its_name() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    for (root, host, passes) in [(true, "localhost", true), (false, "localhost", false), (true, "127.0.0.1", false)] {
        let roots = if root { vec![cert.der().clone()] } else { Vec::new() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let secure = listener.local_addr().unwrap().port();
        let mut plain = 0;
        let bed = Bed::believing(&roots, "", None, |settings, port| {
            plain = port;
            let key = settings.providers["anthropic"].key.clone().unwrap();
            let yaml = format!("url: https://{host}:{secure}\ndialect: anthropic\nmodels: ['tls-*']\n");
            put(settings, "tls", &yaml);
            settings.providers.get_mut("tls").unwrap().key = Some(key);
        })
        .await;
        // What it takes off its TLS goes to the usual provider.
        let acceptor = acceptor.clone();
        let front = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut behind = TcpStream::connect(("127.0.0.1", plain)).await.unwrap();
                tokio::spawn(async move { tokio::io::copy_bidirectional(&mut stream, &mut behind).await });
            }
        });
        let answer = bed.post("/v1/messages", r#"{"model":"tls-1"}"#).await;
        let said = String::from_utf8_lossy(&answer.body).to_string();
        if passes {
            assert_eq!((answer.status(), answer.body.as_slice()), (200, crate::bed::sse(3).concat().as_bytes()));
            assert!(bed.heard()[0].contains("x-api-key: sk-upstream\r\n"));
            assert!(bed.ended().await.is_complete());
        } else {
            assert_eq!(answer.status(), 529, "{said}");
            assert!(said.contains("`tls` cannot be reached at ") && said.contains(": invalid peer certificate"), "{said}");
            assert!(bed.heard().is_empty(), "the key went to somebody whom nobody vouches for");
            assert!(!bed.ended().await.sent);
        }
        bed.rest().await;
        front.abort();
    }
}

/// What each client sent and was answered, on the road to a provider of its dialect: the same bytes, metered from the provider's own figures.
#[tokio::test]
async fn every_dialect_passes_byte_for_byte_and_is_metered() {
    let fixture = |name: &str| std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).unwrap();
    for (client, dialect, path, key) in [
        ("claude-1", "anthropic", "/v1/messages?beta=true", "x-api-key: sk-upstream\r\n"),
        ("codex-1", "responses", "/v1/responses", "authorization: Bearer sk-upstream\r\n"),
        ("opencode-1", "chat", "/v1/chat/completions", "authorization: Bearer sk-upstream\r\n"),
        ("gemini-2", "gemini", "/v1beta/models/gemini-x:streamGenerateContent?alt=sse", "x-goog-api-key: sk-upstream\r\n"),
    ] {
        let (asked, answered) = (fixture(&format!("{client}.request.json")), fixture(&format!("{client}.answer.txt")));
        let asked = String::from_utf8(asked).unwrap();
        let bed = Bed::with("", None, |settings, _| {
            for provider in settings.providers.values_mut() {
                provider.dialect = yaml::from_str(dialect).unwrap();
            }
        })
        .await;
        bed.will(whole("text/event-stream", &answered));
        let answer = bed.post(path, &asked).await;
        assert_eq!(answer.status(), 200, "{client}: {}", String::from_utf8_lossy(&answer.body));
        assert!(answer.body == answered, "{client}: the answer is not what the provider said");
        let heard = bed.heard().pop().unwrap();
        assert!(heard.ends_with(&asked), "{client}: the request is not what the client said");
        assert!(heard.contains(key) && !heard.contains(crate::bed::KEY), "{client}: {}", heard.split("\r\n\r\n").next().unwrap());
        let metered = bed.ended().await.metered.unwrap();
        assert!(metered.complete && metered.usage.source == UsageSource::Reported, "{client}: {metered:?}");
        assert!(
            metered.usage.input + metered.usage.cache_read + metered.usage.cache_write > 0 && metered.usage.output > 0,
            "{client}: {metered:?}"
        );
        bed.rest().await;
    }
}

#[tokio::test]
async fn a_stream_that_is_none_passes_as_it_is_and_counts_as_an_estimate() {
    let long = format!("data: {}\n\n", "x".repeat(3 << 20));
    let half = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":11";
    for body in [
        "data: {not json}\n\ndata: [1,2\n\n",
        "no colon at all\n\n\n\n:::\ndata\ndata:\n\n",
        "data: {\"type\":\"content_block_delta\",\"delta\":7,\"usage\":\"many\"}\n\n",
        "<html>a proxy says hello</html>",
        &long,
        half,
        "",
    ] {
        let bed = Bed::new("").await;
        bed.will(whole("text/event-stream", body.as_bytes()));
        let answer = bed.post("/v1/messages", r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}"#).await;
        assert_eq!((answer.status(), answer.body.len(), answer.torn), (200, body.len(), false));
        assert_eq!(answer.body, body.as_bytes());
        let metered = bed.ended().await.metered.unwrap();
        assert_eq!(metered.usage.source, UsageSource::Estimated, "{:.60}: {metered:?}", body);
        assert!(metered.usage.input > 0 && !metered.complete, "{:.60}: {metered:?}", body);
        bed.rest().await;
    }
}

#[tokio::test]
async fn ten_megabytes_are_metered_by_the_usage_at_their_end() {
    let text = "x".repeat(10 << 20);
    let body = format!(
        r#"{{"type":"message","model":"m","content":[{{"type":"text","text":"{text}"}}],"stop_reason":"end_turn","usage":{{"input_tokens":11,"output_tokens":7}}}}"#
    );
    let bed = Bed::new("").await;
    for _ in 0..3 {
        bed.will(whole("application/json", body.as_bytes()));
        let answer = bed.post("/v1/messages", r#"{"model":"m"}"#).await;
        assert!(answer.status() == 200 && answer.body == body.as_bytes());
        let metered = bed.ended().await.metered.unwrap();
        assert_eq!((metered.usage.input, metered.usage.output, metered.usage.source), (11, 7, UsageSource::Reported));
    }
    bed.rest().await;
}

#[tokio::test]
async fn a_provider_that_fails_in_every_way_holds_no_slot() {
    let ways: Vec<(Vec<Said>, u16)> = vec![
        (vec![Said::Text(head(500, "content-length: 2") + "no")], 500),
        (vec![Said::Text(head(429, "retry-after: 3600\r\ncontent-length: 0"))], 429),
        (vec![Said::Text("HTTP/9.9 what\r\n\r\n".into())], 502),
        (vec![Said::Text(head(200, "content-length: 99999999999999999999"))], 502),
        (vec![Said::Close], 502),
        (vec![Said::UntilGone], 502),
    ];
    for (said, status) in ways {
        // Silence alone is waited for; what answers has all the time it needs, and so has whoever comes after the silence.
        let (limit, rounds) = if matches!(said[..], [Said::UntilGone]) { ("answer_ms: 3000", 1) } else { ("", 3) };
        let bed = Bed::new(&format!("concurrency: 1\n{limit}")).await;
        for _ in 0..rounds {
            bed.will(said.clone());
            let answer = bed.post("/v1/messages", r#"{"model":"m"}"#).await;
            assert_eq!(answer.status(), status, "{said:?}: {}", String::from_utf8_lossy(&answer.body));
            bed.rest().await;
        }
        if status == 429 {
            assert_eq!(bed.heard().len(), 1, "nobody is asked before the time that it named");
            continue;
        }
        // The one slot is there for whoever comes next.
        assert_eq!(bed.post("/v1/messages", r#"{"model":"m"}"#).await.status(), 200);
        assert_eq!(bed.heard().len(), rounds + 1);
        bed.rest().await;
    }
}

/// A provider that takes the subscription of `codex`. The token's own claim says that it ran out.
async fn with_codex(dir: &Path, client: Option<VendorClient>) -> Bed {
    let file = dir.join("auth.json");
    // {"exp":1}
    let auth = r#"{"OPENAI_API_KEY":null,"tokens":{"id_token":"id-1","access_token":"h.eyJleHAiOjF9.s","refresh_token":"rt-1","account_id":"acc-9"},"other":1}"#;
    std::fs::write(&file, auth).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    Bed::with("", client, |settings, port| {
        let yaml = format!(
            "url: http://127.0.0.1:{port}/backend-api/codex\ndialect: responses\nmodels: ['gpt-*']\n\
             login: {{client: codex, file: {}, token_url: 'http://127.0.0.1:{port}/oauth/token'}}\n",
            file.display()
        );
        put(settings, "login", &yaml);
    })
    .await
}

#[tokio::test]
async fn the_login_of_codex_is_renewed_and_used_for_codex_alone() {
    let dir = tempfile::tempdir().unwrap();
    for client in [None, Some(VendorClient::Claude)] {
        let bed = with_codex(dir.path(), client).await;
        let answer = bed.post("/v1/responses", r#"{"model":"gpt-x","input":"hi"}"#).await;
        assert_eq!(answer.status(), 403);
        assert!(String::from_utf8_lossy(&answer.body).contains("works for its vendor's own client"));
        assert!(bed.heard().is_empty() && bed.asked().is_empty());
    }
    let bed = with_codex(dir.path(), Some(VendorClient::Codex)).await;
    // {"exp":9999999999}
    let renewed = r#"{"access_token":"h.eyJleHAiOjk5OTk5OTk5OTl9.s","refresh_token":"rt-2","id_token":"id-2"}"#;
    bed.will(whole("application/json", renewed.as_bytes()));
    for _ in 0..2 {
        bed.will(whole(
            "application/json",
            br#"{"id":"r","object":"response","status":"completed","output":[],"usage":{"input_tokens":3,"output_tokens":2}}"#,
        ));
        assert_eq!(bed.post("/v1/responses", r#"{"model":"gpt-x","input":"hi"}"#).await.status(), 200);
    }
    let heard = bed.heard();
    assert_eq!(heard.len(), 3, "one renewal for two requests: {heard:?}");
    assert!(heard[0].starts_with("POST /oauth/token ") && heard[0].contains(r#""refresh_token":"rt-1""#), "{}", heard[0]);
    for request in &heard[1..] {
        assert!(request.starts_with("POST /backend-api/codex/responses "), "{request}");
        assert!(request.contains("authorization: Bearer h.eyJleHAiOjk5OTk5OTk5OTl9.s\r\n"), "{request}");
        assert!(request.contains("chatgpt-account-id: acc-9\r\n") && !request.contains(crate::bed::KEY), "{request}");
    }
    let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.path().join("auth.json")).unwrap()).unwrap();
    assert_eq!(
        (&kept["tokens"]["refresh_token"], &kept["tokens"]["id_token"], &kept["other"]),
        (&"rt-2".into(), &"id-2".into(), &1.into())
    );
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(dir.path().join("auth.json")).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    bed.rest().await;
}
