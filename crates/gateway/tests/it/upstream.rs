//! The road from a client to a provider and back, over real sockets, with a provider that does what it is told.

use crate::bed::{Bed, Said, head, sse};
use std::time::Duration;

#[tokio::test]
async fn an_answer_passes_byte_for_byte_and_the_key_is_ours_no_more() {
    let bed = Bed::new("").await;
    let body = r#"{"model":"claude-x","max_tokens":9,"messages":[],  "odd" : 1e2}"#;
    let answer = bed.post("/v1/messages?beta=true", body).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.body, sse(3).concat().as_bytes());
    assert!(answer.head.contains("content-type: text/event-stream") && answer.head.contains("request-id: r-1"));
    assert!(!answer.head.contains("set-cookie"));
    let heard = bed.heard();
    assert_eq!(heard.len(), 1);
    assert!(heard[0].starts_with("POST /v1/messages?beta=true HTTP/1.1\r\n"), "{}", heard[0]);
    assert!(heard[0].contains("x-api-key: sk-upstream\r\n") && heard[0].contains("accept-encoding: identity\r\n"));
    assert!(heard[0].ends_with(body), "the body is what the client sent: {}", heard[0]);
    assert!(!heard[0].contains(crate::bed::KEY) && !heard[0].contains("cookie"));
    let ended = bed.ended().await;
    assert!(ended.is_complete() && ended.sent && ended.status == Some(200));
    bed.rest().await;
}

#[tokio::test]
async fn a_wrong_key_or_path_never_reaches_the_door() {
    let bed = Bed::new("").await;
    for (key, path, status) in [("wrong", "/v1/messages", 401), ("", "/v1/messages", 401), (crate::bed::KEY, "/v1/files", 404)] {
        let answer = bed.send(&format!("POST {path} HTTP/1.1\r\nhost: h\r\nx-api-key: {key}\r\ncontent-length: 2\r\n\r\n{{}}")).await;
        assert_eq!(answer.status(), status, "{key} {path}");
    }
    assert!(bed.heard().is_empty() && bed.asked().is_empty());
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_the_client_s_fault() {
    let bed = Bed::new("").await;
    assert_eq!(bed.post("/v1/messages", "{").await.status(), 400);
    let packed = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: h\r\nx-api-key: {}\r\ncontent-encoding: zstd\r\ncontent-length: 2\r\n\r\n{{}}",
        crate::bed::KEY
    );
    assert_eq!(bed.send(&packed).await.status(), 400);
    let huge = format!("POST /v1/messages HTTP/1.1\r\nhost: h\r\nx-api-key: {}\r\ncontent-length: {}\r\n\r\n", crate::bed::KEY, 64 << 20);
    assert_eq!(bed.send(&(huge + &"x".repeat(33 << 20))).await.status(), 413);
    assert!(bed.heard().is_empty());
}

#[tokio::test]
async fn a_long_answer_passes_to_a_slow_reader_without_being_piled_up() {
    let bed = Bed::new("").await;
    // More than the sockets on the way can hold, however far the kernel lets them grow.
    let size = 64 << 20;
    bed.will(vec![Said::Text(head(200, &format!("content-type: application/json\r\ncontent-length: {size}"))), Said::Bytes(size)]);
    let mut client = bed.open("/v1/messages", r#"{"model":"m"}"#).await;
    // Nobody reads: what the provider could write is what sockets hold, not the whole answer.
    let written = bed.written_at_rest().await;
    assert!(written < size, "{written} bytes were taken from the provider");
    let answer = client.rest().await;
    assert_eq!(answer.body.len(), size);
    assert!(bed.ended().await.is_complete());
    bed.rest().await;
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_its_upstream() {
    for half in [false, true] {
        let bed = Bed::new("").await;
        bed.will(vec![
            Said::Text(head(200, "content-type: text/event-stream\r\ntransfer-encoding: chunked")),
            Said::Chunk(sse(1)[..2].concat()),
            Said::UntilGone,
        ]);
        let mut client = bed.open("/v1/messages", r#"{"model":"m","stream":true}"#).await;
        client.until("message_start").await;
        // Closed for writing is gone as well: whoever closes that half of a request has no use for the answer.
        if half {
            client.half_close().await
        } else {
            drop(client)
        }
        bed.upstream_gone().await;
        let ended = bed.ended().await;
        assert!(!ended.is_complete() && ended.sent && ended.why.as_deref() == Some("the client went away"), "{ended:?}");
        bed.rest().await;
    }
}

/// Whoever stops a request does not wait for its provider, nor for a client that takes nothing.
#[tokio::test]
async fn a_request_is_stopped_from_outside_wherever_it_is() {
    let chunked = || Said::Text(head(200, "content-type: text/event-stream\r\ntransfer-encoding: chunked"));
    let size = 64 << 20;
    let long = Said::Text(head(200, &format!("content-type: application/json\r\ncontent-length: {size}")));
    for (place, said) in [
        ("before the answer", vec![Said::UntilGone]),
        ("in the stream", vec![chunked(), Said::Chunk(sse(1)[..2].concat()), Said::UntilGone]),
        ("in an answer that nobody reads", vec![long, Said::Bytes(size)]),
    ] {
        let bed = Bed::new("").await;
        bed.will(said);
        let mut client = bed.open("/v1/messages", r#"{"model":"m","stream":true}"#).await;
        bed.wait_heard(1).await;
        match place {
            "in the stream" => client.until("message_start").await,
            "in an answer that nobody reads" => assert!(bed.written_at_rest().await < size),
            _ => {}
        }
        bed.stop("task-1 was cancelled");
        let ended = bed.ended().await;
        assert!(ended.ending == world::Ending::Cancelled && ended.sent, "{place}: {ended:?}");
        bed.rest().await;
        let answer = client.rest().await;
        match place {
            "before the answer" => assert_eq!(answer.status(), 402, "{place}"),
            "in the stream" => assert!(!answer.torn, "{place}"),
            _ => assert!(answer.torn && answer.body.len() < size, "{place}: {} bytes", answer.body.len()),
        }
        let heard = String::from_utf8_lossy(&answer.body).contains("task-1 was cancelled");
        assert_eq!(heard, place != "in an answer that nobody reads", "{place}");
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_at_the_last_event_has_heard_everything() {
    let bed = Bed::new("").await;
    let chunked = Said::Text(head(200, "content-type: text/event-stream\r\ntransfer-encoding: chunked"));
    bed.will(vec![chunked, Said::Chunk(sse(1).concat()), Said::UntilGone]);
    let mut client = bed.open("/v1/messages", r#"{"model":"m","stream":true}"#).await;
    client.until("message_stop").await;
    drop(client);
    bed.upstream_gone().await;
    let ended = bed.ended().await;
    assert!(ended.is_complete() && ended.why.is_none(), "{ended:?}");
    let metered = ended.metered.unwrap();
    assert_eq!((metered.usage.source, metered.usage.input, metered.usage.output), (gateway::UsageSource::Reported, 11, 7));
    bed.rest().await;
}

#[tokio::test]
async fn whoever_goes_away_before_the_answer_is_settled_too() {
    let bed = Bed::new("").await;
    bed.will(vec![Said::UntilGone]);
    let client = bed.open("/v1/messages", r#"{"model":"m"}"#).await;
    bed.wait_heard(1).await;
    drop(client);
    bed.upstream_gone().await;
    let ended = bed.ended().await;
    assert!(ended.sent && !ended.is_complete() && ended.status.is_none());
    bed.rest().await;
}

#[tokio::test]
async fn what_a_provider_says_against_a_request_reaches_the_client_as_it_is() {
    let bed = Bed::new("").await;
    let error = r#"{"type":"error","error":{"type":"api_error","message":"no"}}"#;
    bed.will(vec![Said::Text(head(500, &format!("content-type: application/json\r\ncontent-length: {}", error.len())) + error)]);
    let answer = bed.post("/v1/messages", r#"{"model":"m"}"#).await;
    assert_eq!((answer.status(), answer.body.as_slice()), (500, error.as_bytes()));
    let ended = bed.ended().await;
    assert!(ended.is_complete() && ended.metered.is_none());
    bed.rest().await;
}

#[tokio::test]
async fn garbage_silence_and_a_torn_answer_are_told_and_leave_nothing_behind() {
    for (said, status) in
        [(vec![Said::Text("this is not http\r\n\r\n".into())], 502), (vec![Said::Close], 502), (vec![Said::UntilGone], 502)]
    {
        let bed = Bed::new("answer_ms: 300").await;
        bed.will(said);
        let answer = bed.post("/v1/messages", r#"{"model":"m"}"#).await;
        assert_eq!(answer.status(), status, "{}", answer.head);
        assert!(String::from_utf8_lossy(&answer.body).contains("`anthropic`: "));
        let ended = bed.ended().await;
        assert!(ended.sent && !ended.is_complete());
        bed.rest().await;
    }
    // Torn in the middle: the client sees its own connection torn, and never an end that was none.
    let bed = Bed::new("").await;
    bed.will(vec![
        Said::Text(head(200, "content-type: text/event-stream\r\ntransfer-encoding: chunked")),
        Said::Chunk("event: me".into()),
        Said::Close,
    ]);
    let answer = bed.post("/v1/messages", r#"{"model":"m","stream":true}"#).await;
    assert!(answer.torn && answer.body == b"event: me");
    assert!(!bed.ended().await.is_complete());
    bed.rest().await;
    // Silent in the middle.
    let bed = Bed::new("idle_ms: 200").await;
    bed.will(vec![
        Said::Text(head(200, "content-type: text/event-stream\r\ntransfer-encoding: chunked")),
        Said::Chunk("event: me".into()),
        Said::UntilGone,
    ]);
    let answer = bed.post("/v1/messages", r#"{"model":"m","stream":true}"#).await;
    assert!(answer.torn);
    assert_eq!(bed.ended().await.why.as_deref(), Some("nothing came for 0.2 s"));
    bed.rest().await;
}

#[tokio::test]
async fn a_provider_that_is_not_there_is_told() {
    let bed = Bed::new("").await;
    bed.close_upstream().await;
    let answer = bed.post("/v1/messages", r#"{"model":"m"}"#).await;
    assert_eq!(answer.status(), 529);
    assert!(!bed.ended().await.sent, "nothing went out, so nothing is to be paid");
    bed.rest().await;
}

#[tokio::test]
async fn a_limit_is_waited_out_and_the_client_never_hears_of_it() {
    let bed = Bed::new("").await;
    bed.will(vec![Said::Text(head(429, "retry-after-ms: 50\r\ncontent-length: 0"))]);
    let answer = bed.post("/v1/messages", r#"{"model":"m"}"#).await;
    assert_eq!((answer.status(), bed.heard().len()), (200, 2));
    assert_eq!(bed.asked().len(), 1, "it is one request, however often it is sent");
    bed.ended().await;
    bed.rest().await;
    // A wait that no client would live to see is passed on.
    bed.will(vec![Said::Text(head(429, "retry-after: 3600\r\ncontent-length: 0"))]);
    let answer = bed.post("/v1/messages", r#"{"model":"m"}"#).await;
    assert_eq!(answer.status(), 429);
    assert!(answer.head.contains("retry-after: 3600"));
}

#[tokio::test]
async fn overload_goes_to_the_next_provider_and_each_is_asked_for_at_the_door() {
    let bed = Bed::new("").await;
    bed.will(vec![Said::Text(head(529, "content-length: 0"))]);
    let answer = bed.post("/v1/messages", r#"{"model":"tactical","max_tokens":5}"#).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(bed.asked(), ["anthropic first tactical", "spare second tactical"]);
    let heard = bed.heard();
    assert!(heard[0].contains(r#""first""#) && heard[1].contains(r#""second""#), "{heard:?}");
    let (first, second) = (bed.ended().await, bed.ended().await);
    assert!(!first.is_complete() && first.status == Some(529) && second.is_complete());
    bed.rest().await;
}

/// A provider that takes the subscription of `claude`, whose token has run out.
async fn with_login(dir: &std::path::Path, client: Option<gateway::VendorClient>) -> Bed {
    let file = dir.join("credentials.json");
    std::fs::write(&file, r#"{"claudeAiOauth":{"accessToken":"at-1","refreshToken":"rt-1","expiresAt":1,"scopes":["x"]},"other":1}"#)
        .unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    Bed::with("", client, |settings, port| {
        let yaml = format!(
            "url: http://127.0.0.1:{port}\ndialect: anthropic\nmodels: ['claude-*']\n\
             login: {{client: claude, file: {}, token_url: 'http://127.0.0.1:{port}/oauth/token'}}\n",
            file.display()
        );
        settings.providers.insert("login".into(), yaml::from_str(&yaml).unwrap());
    })
    .await
}

#[tokio::test]
async fn a_login_is_renewed_here_and_put_into_requests_of_its_own_client() {
    let dir = tempfile::tempdir().unwrap();
    let bed = with_login(dir.path(), Some(gateway::VendorClient::Claude)).await;
    let renewed = r#"{"access_token":"at-2","refresh_token":"rt-2","expires_in":3600}"#;
    bed.will(vec![Said::Text(head(200, &format!("content-length: {}", renewed.len())) + renewed)]);
    for _ in 0..2 {
        assert_eq!(bed.post("/v1/messages", r#"{"model":"claude-x"}"#).await.status(), 200);
    }
    let heard = bed.heard();
    assert_eq!(heard.len(), 3, "one renewal for two requests: {heard:?}");
    assert!(heard[0].starts_with("POST /oauth/token ") && heard[0].contains(r#""refresh_token":"rt-1""#), "{}", heard[0]);
    assert!(
        heard[1].contains("authorization: Bearer at-2\r\n") && heard[1].contains("anthropic-beta: oauth-2025-04-20\r\n"),
        "{}",
        heard[1]
    );
    assert!(!heard[1].contains("x-api-key"));
    let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.path().join("credentials.json")).unwrap()).unwrap();
    assert_eq!(
        (&kept["claudeAiOauth"]["refreshToken"], &kept["other"], &kept["claudeAiOauth"]["scopes"][0]),
        (&"rt-2".into(), &1.into(), &"x".into())
    );
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(dir.path().join("credentials.json")).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_login_is_for_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    for client in [None, Some(gateway::VendorClient::Codex)] {
        let bed = with_login(dir.path(), client).await;
        let answer = bed.post("/v1/messages", r#"{"model":"login/claude-x"}"#).await;
        assert_eq!(answer.status(), 403);
        assert!(String::from_utf8_lossy(&answer.body).contains("works for its vendor's own client"));
        assert!(bed.heard().is_empty() && bed.asked().is_empty());
        // A plain name leads to whoever has a key, though the login lists it.
        assert_eq!(bed.post("/v1/messages", r#"{"model":"claude-x"}"#).await.status(), 200);
        let heard = bed.heard();
        assert!(heard.len() == 1 && !heard[0].contains("at-1") && !heard[0].contains("oauth"), "{heard:?}");
        bed.ended().await;
    }
}

#[tokio::test]
async fn a_login_that_cannot_be_renewed_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let bed = with_login(dir.path(), Some(gateway::VendorClient::Claude)).await;
    bed.will(vec![Said::Text(head(400, "content-length: 4") + "rt-1")]);
    let answer = bed.post("/v1/messages", r#"{"model":"claude-x"}"#).await;
    let body = String::from_utf8_lossy(&answer.body).to_string();
    assert!(answer.status() == 502 && body.contains("refused with 400") && body.contains("/login") && !body.contains("rt-1"), "{body}");
    assert!(!bed.ended().await.sent);
    bed.rest().await;
}

#[tokio::test]
async fn a_no_at_the_door_reaches_no_provider() {
    let bed = Bed::new("").await;
    bed.refuse_next();
    let answer = bed.post("/v1/messages", r#"{"model":"m"}"#).await;
    assert_eq!(answer.status(), 403);
    assert!(String::from_utf8_lossy(&answer.body).contains("not today"));
    assert!(bed.heard().is_empty());
}

#[tokio::test]
async fn what_follows_a_request_on_the_same_connection_is_answered_too() {
    let bed = Bed::new("").await;
    let mut client = bed.open("/v1/messages", r#"{"model":"m"}"#).await;
    assert_eq!(client.answer().await.status(), 200);
    client.ask("/v1/messages", r#"{"model":"m"}"#).await;
    assert_eq!(client.answer().await.status(), 200);
    drop(client);
    bed.ended().await;
    bed.ended().await;
    bed.rest().await;
}

#[tokio::test]
async fn slots_are_shared_and_given_back() {
    let bed = Bed::new("concurrency: 2").await;
    let clients = (0..10).map(|_| bed.post("/v1/messages", r#"{"model":"m"}"#));
    let answers = tokio::time::timeout(Duration::from_secs(60), join(clients)).await.unwrap();
    assert!(answers.iter().all(|answer| answer.status() == 200));
    assert!(bed.most_at_once() <= 2, "{}", bed.most_at_once());
    bed.rest().await;
}

async fn join<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|cx| {
        all.retain_mut(|one| match one.as_mut().poll(cx) {
            std::task::Poll::Ready(output) => {
                done.push(output);
                false
            }
            std::task::Poll::Pending => true,
        });
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}
