//! What a process may try at its door: to be somebody else, to reach something else, to pay with another key, to take all there is.

use crate::bed::{Bed, KEY, Said, head};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LONG: Duration = Duration::from_secs(60);
const BODY: &str = r#"{"model":"claude-x","max_tokens":9,"messages":[]}"#;
const GEMINI: &str = r#"{"contents":[]}"#;

/// A bed whose provider speaks every dialect, below a path of its own.
async fn bed() -> Bed {
    Bed::with("", None, |settings, port| {
        for provider in settings.providers.values_mut() {
            provider.dialect = yaml::from_str("[anthropic, responses, chat, gemini]").unwrap();
            provider.url = format!("http://127.0.0.1:{port}/below/here");
        }
    })
    .await
}

/// Everything that is answered. When the first answer has begun, a last request asks for the connection to be closed behind it.
async fn tell(bed: &Bed, raw: &[u8]) -> String {
    let (mut reader, mut writer) = TcpStream::connect(bed.address).await.unwrap().into_split();
    let raw = raw.to_vec();
    // It may hang up before it has heard everything.
    let writing = tokio::spawn(async move {
        let _ = writer.write_all(&raw).await;
        writer
    });
    let mut all = Vec::new();
    let talk = async {
        if reader.read_buf(&mut all).await.unwrap_or(0) == 0 {
            return;
        }
        let Ok(mut writer) = writing.await else { return };
        let last = format!("GET /last HTTP/1.1\r\nhost: h\r\nx-api-key: {KEY}\r\nconnection: close\r\n\r\n");
        let _ = writer.write_all(last.as_bytes()).await;
        while reader.read_buf(&mut all).await.unwrap_or(0) > 0 {}
    };
    tokio::time::timeout(LONG, talk).await.expect("the gateway answers and hangs up");
    let all = String::from_utf8_lossy(&all).into_owned();
    match all.split_once("the gateway has no `GET /last`") {
        // Without the head of the last answer.
        Some((before, _)) => before[..before.rfind("HTTP/1.1 404").unwrap()].to_owned(),
        None => all,
    }
}

/// A request with everything that it needs.
fn post(path: &str, headers: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: h\r\nx-api-key: {KEY}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

fn statuses(answered: &str) -> Vec<&str> {
    answered.lines().filter(|line| line.starts_with("HTTP/1.1 ")).map(|line| &line[9..12]).collect()
}

#[tokio::test]
async fn a_provider_gets_one_credential_and_listed_headers_only() {
    let bed = bed().await;
    let more = "authorization: Bearer sk-of-the-client\r\nx-api-key: second\r\nx-goog-api-key: third\r\napi-key: fourth\r\ncookie: a=b\r\n\
                proxy-authorization: Basic eA==\r\nx-forwarded-for: 10.0.0.1\r\nforwarded: for=10.0.0.1\r\nvia: 1.1 x\r\nte: trailers\r\n\
                openai-organization: org\r\nx-goog-user-project: p\r\nx-goog-fieldmask: candidates\r\nconnection: x-api-key, close\r\n\
                anthropic-version: 2023-06-01\r\n";
    let path = "/v1/messages?beta=true&key=sk-q&%6bey=sk-q&access_token=t&api_key=a&fields=id";
    // The client's own key counts wherever it stands among others.
    let answered = tell(&bed, post(path, more, BODY).as_bytes()).await;
    assert_eq!(statuses(&answered), ["200"], "{answered}");
    let heard = bed.heard();
    let (first, lines) = heard[0].split_once("\r\n").unwrap();
    assert_eq!(first, "POST /below/here/v1/messages?beta=true HTTP/1.1");
    let lines = lines.split_once("\r\n\r\n").unwrap().0;
    let mut names: Vec<&str> = lines.lines().map(|line| line.split(':').next().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept-encoding", "anthropic-version", "content-length", "host", "x-api-key"], "{lines}");
    assert!(lines.contains("x-api-key: sk-upstream") && lines.contains("host: 127.0.0.1:"), "{lines}");
}

#[tokio::test]
async fn where_a_request_goes_is_not_the_client_s_to_say() {
    let bed = bed().await;
    for (line, host) in
        [("POST http://evil.example/v1/messages HTTP/1.1", "evil.example"), ("POST /v1/messages HTTP/1.1", "169.254.169.254")]
    {
        let raw = format!("{line}\r\nhost: {host}\r\nx-api-key: {KEY}\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len());
        assert_eq!(statuses(&tell(&bed, raw.as_bytes()).await), ["200"], "{line}");
    }
    let heard = bed.heard();
    assert_eq!(heard.len(), 2);
    assert!(heard.iter().all(|heard| heard.starts_with("POST /below/here/v1/messages HTTP/1.1\r\n") && heard.contains("host: 127.0.0.1:")));
    // Neither is what else the provider's host has.
    for path in [
        "/v1/../messages",
        "/v1/messages/../files",
        "/v1/%6dessages",
        "/%76%31/messages",
        "//v1/messages",
        "/v1//messages",
        "/v1/messages/",
        "/v1/messages;x",
        "/v1/messages%3fx",
        "/v1/messages/batches",
        "/v1/files",
        "/below/here/v1/messages",
        "/../../models/m:generateContent",
        "/v1beta/../../x/models/m:generateContent",
        "/v1beta/%2e%2e/%2e%2e/models/m:generateContent",
        "/v1beta/.%2e/models/m:generateContent",
        "/v1beta\\..\\models/m:generateContent",
        "//evil.example/models/m:generateContent",
        "/v1beta//models/m:generateContent",
        "/v1beta/models/m:generateContent/../../x",
        "/v1beta/models/m:batchGenerateContent",
        "/v1beta/models/a/b:generateContent",
    ] {
        let answered = tell(&bed, post(path, "", GEMINI).as_bytes()).await;
        assert!(["404", "400"].contains(&statuses(&answered)[0]), "{path}: {answered}");
    }
    for path in
        ["/v1beta/models/..%2f..%2fx:generateContent", "/v1beta/models/m%00:generateContent", "/v1beta/models/%2e%2e:generateContent"]
    {
        let answered = tell(&bed, post(path, "", GEMINI).as_bytes()).await;
        assert!(statuses(&answered) == ["400"] && answered.contains("is no name of a model"), "{path}: {answered}");
    }
    assert_eq!((bed.heard().len(), bed.asked().len()), (2, 2), "nothing of this reached the door");
}

#[tokio::test]
async fn a_model_is_decided_about_by_its_name_however_it_is_spelled() {
    let bed = bed().await;
    for path in ["/v1beta/models/gemini-pro:generateContent", "/v1beta/models/gem%69ni%2Dpro:generateContent"] {
        assert_eq!(statuses(&tell(&bed, post(path, "", GEMINI).as_bytes()).await), ["200"]);
    }
    assert_eq!(bed.asked(), ["anthropic gemini-pro strategic"; 2]);
    assert!(bed.heard()[1].starts_with("POST /below/here/v1beta/models/gem%69ni%2Dpro:generateContent HTTP/1.1"));
}

#[tokio::test]
async fn other_methods_tunnels_and_upgrades_are_refused() {
    let bed = bed().await;
    let key = format!("x-api-key: {KEY}\r\n");
    for (raw, status) in [
        (format!("CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example:443\r\n{key}\r\n"), "404"),
        (format!("CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example:443\r\nproxy-authorization: Bearer {KEY}\r\n\r\n"), "401"),
        (format!("TRACE /v1/messages HTTP/1.1\r\nhost: h\r\n{key}\r\n"), "404"),
        (format!("OPTIONS * HTTP/1.1\r\nhost: h\r\n{key}\r\n"), "404"),
        (format!("DELETE /v1/messages HTTP/1.1\r\nhost: h\r\n{key}\r\n"), "404"),
        (
            format!(
                "GET /v1/responses HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\n{key}\r\n"
            ),
            "404",
        ),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "401"),
    ] {
        let answered = tell(&bed, raw.as_bytes()).await;
        assert_eq!(statuses(&answered), [status], "{raw}: {answered}");
    }
    assert_eq!(tell(&bed, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await, "");
    // One that asks for an upgrade beside its request gets an answer and no upgrade.
    let answered = tell(&bed, post("/v1/messages", "connection: upgrade\r\nupgrade: h2c\r\n", BODY).as_bytes()).await;
    assert_eq!(statuses(&answered), ["200"], "{answered}");
    assert!(!bed.heard()[0].to_lowercase().contains("upgrade"), "{}", bed.heard()[0]);
    assert_eq!(bed.heard().len(), 1);
}

#[tokio::test]
async fn no_request_is_smuggled_behind_another() {
    let bed = bed().await;
    let hidden = format!("POST /v1/messages HTTP/1.1\r\nhost: h\r\nx-api-key: wrong\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len());
    let chunked = format!("{:x}\r\n{BODY}\r\n0\r\n\r\n", BODY.len());
    let start = format!("POST /v1/messages HTTP/1.1\r\nhost: h\r\nx-api-key: {KEY}\r\n");
    // What follows a request on its connection is a request of its own, and needs the key.
    let answered = tell(&bed, (post("/v1/messages", "", BODY) + &hidden).as_bytes()).await;
    assert_eq!(statuses(&answered), ["200", "401"], "{answered}");
    // Both lengths at once: what is read is one body, and nothing more is read of this connection.
    let both = format!("{start}content-length: {}\r\ntransfer-encoding: chunked\r\n\r\n{chunked}{hidden}", chunked.len() + hidden.len());
    let answered = tell(&bed, both.as_bytes()).await;
    assert!(statuses(&answered) == ["200"] && answered.contains("connection: close"), "{answered}");
    for odd in [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: +5\r\n",
        "content-length: 5, 5\r\n",
        "content-length: 99999999999999999999999\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding : chunked\r\n",
        "x-stainless-os: a\r\n b\r\n",
        "x-stainless-os: a\x0bb\x00\r\n",
        "x-stainless os: a\r\n",
        "user-agent: a\nx-api-key: b\rx: y\r\n",
    ] {
        let answered = tell(&bed, format!("{start}{odd}\r\n{hidden}").as_bytes()).await;
        assert!(!statuses(&answered).contains(&"200"), "{odd:?}: {answered}");
    }
    let bad_chunk = format!("{start}transfer-encoding: chunked\r\n\r\nzz\r\n{hidden}");
    assert!(!statuses(&tell(&bed, bad_chunk.as_bytes()).await).contains(&"200"));
    // Every request that a provider heard was asked for at the door, has one length, and is what was asked.
    let heard = bed.heard();
    assert_eq!(heard.len(), bed.asked().len());
    for heard in &heard {
        let lower = heard.to_lowercase();
        assert!(lower.matches("content-length:").count() == 1 && !lower.contains("transfer-encoding"), "{heard}");
        assert!(heard.ends_with(&format!("\r\n\r\n{BODY}")) && lower.contains("x-api-key: sk-upstream"), "{heard}");
    }
}

#[tokio::test]
async fn a_head_has_a_size() {
    let bed = bed().await;
    let long = "a".repeat(1024 * 1024);
    for (path, headers) in [("/v1/messages", format!("x-stainless-a: {long}\r\n")), ("/v1/messages", "x-a: a\r\n".repeat(5_000))] {
        let answered = tell(&bed, post(path, &headers, BODY).as_bytes()).await;
        assert_eq!(statuses(&answered), ["431"], "{answered}");
    }
    let answered = tell(&bed, post(&format!("/v1/messages?{long}"), "", BODY).as_bytes()).await;
    assert!([["414"], ["431"]].iter().any(|status| statuses(&answered) == *status), "{answered}");
    assert_eq!(bed.heard().len(), 0);
    assert_eq!(bed.post("/v1/messages", BODY).await.status(), 200, "and whoever asks as clients do is served");
}

#[tokio::test]
async fn a_door_that_is_stormed_leaves_the_others_open() {
    let bed = Bed::with_stall_timeout(Duration::from_secs(1), "").await;
    let stormed = bed.door(8).await;
    // More than it has places for: some say nothing, some half a head, each for as long as it is let.
    let mut storm = tokio::task::JoinSet::new();
    for n in 0..1_000 {
        storm.spawn(async move {
            let Ok(mut stream) = TcpStream::connect(stormed).await else { return };
            if n % 2 == 0 {
                let _ = stream.write_all(b"POST /v1/messages HTTP/1.1\r\nx-api-").await;
            }
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
        });
    }
    assert_eq!(bed.post("/v1/messages", BODY).await.status(), 200, "another process does not notice");
    // Whoever waits at the stormed door comes in when the patience with the others is over.
    let mut stream = TcpStream::connect(stormed).await.unwrap();
    stream.write_all(post("/v1/messages", "connection: close\r\n", BODY).as_bytes()).await.unwrap();
    let mut answered = Vec::new();
    tokio::time::timeout(LONG * 3, stream.read_to_end(&mut answered)).await.expect("nobody was sent away").unwrap();
    assert!(answered.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answered));
    storm.shutdown().await;
}

#[tokio::test]
async fn a_provider_that_quotes_the_request_tells_nobody_the_key() {
    let secret = "sk-upstream-which-is-long-enough";
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key");
    std::fs::write(&file, secret).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let bed = Bed::with("", None, |settings, _| {
        settings.providers.values_mut().for_each(|provider| provider.key = Some(gateway::KeySettings::File(file.clone())));
    })
    .await;
    let page = format!("{{\"error\":\"bad key {secret} in x-api-key: {secret}\"}}");
    bed.will(vec![Said::Text(head(401, &format!("content-length: {}\r\nx-request-id: of-{secret}", page.len())) + &page)]);
    let answer = bed.post("/v1/messages", BODY).await;
    assert!(bed.heard()[0].contains(secret), "the provider has it");
    assert_eq!((answer.status(), answer.torn), (401, false));
    let said = String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!(said, page.replace(secret, &"*".repeat(secret.len())));
    assert!(!answer.head.contains("x-request-id"), "{}", answer.head);
    // In its words beside the status, and as the name of a header.
    let line = format!("HTTP/1.1 401 no {secret}\r\nanthropic-{secret}: 1\r\nanthropic-kept: 1\r\ncontent-length: 2\r\n\r\nno");
    bed.will(vec![Said::Text(line)]);
    let answer = bed.post("/v1/messages", BODY).await;
    assert_eq!((answer.status(), answer.body.as_slice()), (401, &b"no"[..]));
    assert!(answer.head.contains("anthropic-kept: 1") && !answer.head.contains(secret), "{}", answer.head);
    // Cut in two, in a stream.
    let (one, two) = secret.split_at(9);
    let mut said = vec![Said::Text(head(200, "content-type: text/event-stream\r\ntransfer-encoding: chunked"))];
    said.extend([Said::Chunk(format!("data: {one}")), Said::Chunk(format!("{two}\n\n")), Said::Text("0\r\n\r\n".into())]);
    bed.will(said);
    let answer = bed.post("/v1/messages", BODY).await;
    assert_eq!(String::from_utf8_lossy(&answer.body), format!("data: {}\n\n", "*".repeat(secret.len())));
}

#[tokio::test]
async fn a_provider_that_switches_protocols_is_not_followed() {
    let bed = bed().await;
    bed.will(vec![
        Said::Text("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nhello".into()),
        Said::UntilGone,
    ]);
    let answer = bed.post("/v1/messages", BODY).await;
    assert_eq!(answer.status(), 502, "{}", answer.head);
    bed.upstream_gone().await;
    bed.rest().await;
    assert_eq!(bed.post("/v1/messages", BODY).await.status(), 200);
}
