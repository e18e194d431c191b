//! Answers that are right but unusual, and answers that are wrong in ways that sockets make possible.

use crate::bed::{Bed, Said, head, sse};
use gateway::UsageSource;
use std::time::Duration;

const ASK: &str = r#"{"model":"m","stream":true}"#;

fn chunked() -> Said {
    Said::Text(head(200, "content-type: text/event-stream\r\ntransfer-encoding: chunked"))
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let bed = Bed::new("").await;
        bed.will(vec![Said::Text(head(status, "location: /elsewhere\r\ncontent-length: 0"))]);
        let answer = bed.post("/v1/messages", ASK).await;
        let said = String::from_utf8_lossy(&answer.body).to_string();
        assert!(answer.status() == 502 && said.contains(&format!("`anthropic` redirects requests ({status})")), "{said}");
        assert_eq!(bed.heard().len(), 1, "it went where it was sent, with the key");
        assert_eq!(bed.ended().await.status, Some(status), "what was refused costs nothing");
        bed.rest().await;
        assert_eq!(bed.post("/v1/messages", ASK).await.status(), 200);
    }
}

/// Asked for as it is, it comes compressed: it could carry the key that it was asked with, so nobody gets it.
#[tokio::test]
async fn a_compressed_answer_is_not_passed_on() {
    for encoding in ["gzip", "br", "zstd", "identity"] {
        let bed = Bed::new("").await;
        let body = sse(3).concat();
        let headers = format!("content-type: text/event-stream\r\ncontent-encoding: {encoding}\r\ncontent-length: {}", body.len());
        bed.will(vec![Said::Text(head(200, &headers) + &body)]);
        let answer = bed.post("/v1/messages", ASK).await;
        if encoding == "identity" {
            assert_eq!((answer.status(), answer.body.as_slice()), (200, body.as_bytes()), "the control");
            let metered = bed.ended().await.metered.unwrap();
            assert_eq!((metered.usage.input, metered.usage.output, metered.usage.source), (11, 7, UsageSource::Reported));
        } else {
            let said = String::from_utf8_lossy(&answer.body).to_string();
            assert!(answer.status() == 502 && said.contains("`anthropic` answered compressed"), "{said}");
            assert!(!bed.ended().await.is_complete());
        }
        bed.rest().await;
    }
}

#[tokio::test]
async fn an_answer_that_ends_before_its_end_is_torn_for_the_client_too() {
    let plain = |length: usize| Said::Text(head(200, &format!("content-type: text/event-stream\r\ncontent-length: {length}")));
    for said in [
        vec![chunked(), Said::Text("64\r\nevent: message_start\nda".into()), Said::Close],
        vec![chunked(), Said::Text("zz\r\nnot a size\r\n".into()), Said::Close],
        vec![plain(1000), Said::Text("event: message_start\nda".into()), Said::Close],
    ] {
        let bed = Bed::new("concurrency: 1").await;
        bed.will(said.clone());
        let answer = bed.post("/v1/messages", ASK).await;
        assert!(answer.torn, "{said:?}: {} {:?}", answer.head, String::from_utf8_lossy(&answer.body));
        let ended = bed.ended().await;
        assert!(!ended.is_complete() && ended.sent && ended.why.is_some(), "{ended:?}");
        bed.rest().await;
        assert_eq!(bed.post("/v1/messages", ASK).await.status(), 200);
    }
}

#[tokio::test]
async fn what_comes_before_and_behind_an_answer_is_no_part_of_it() {
    let bed = Bed::new("").await;
    let mut said = vec![
        Said::Text("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".into()),
        Said::Text(head(200, "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\ntrailer: x-odd")),
    ];
    said.extend(sse(3).into_iter().map(Said::Chunk));
    said.push(Said::Text("0\r\nx-odd: 1\r\n\r\n".into()));
    bed.will(said);
    let answer = bed.post("/v1/messages", ASK).await;
    assert_eq!((answer.status(), answer.torn), (200, false));
    assert_eq!(answer.body, sse(3).concat().as_bytes());
    assert!(!answer.head.contains("trailer") && !answer.head.contains("link"));
    assert!(bed.ended().await.is_complete());
    bed.rest().await;
}

#[tokio::test]
async fn a_head_without_end_is_told() {
    let long = format!("x-long: {}", "x".repeat(1 << 20));
    let many = (0..500).map(|n| format!("x-{n}: 1")).collect::<Vec<_>>().join("\r\n");
    for headers in [long, many] {
        let bed = Bed::new("concurrency: 1").await;
        bed.will(vec![Said::Text(head(200, &format!("{headers}\r\ncontent-length: 0"))), Said::Close]);
        let answer = bed.post("/v1/messages", ASK).await;
        let said = String::from_utf8_lossy(&answer.body).to_string();
        assert!(answer.status() == 502 && said.contains("`anthropic`: its answer cannot be read"), "{said}");
        bed.rest().await;
    }
    // From a client it is as unwelcome.
    let bed = Bed::new("").await;
    let head =
        format!("POST /v1/messages HTTP/1.1\r\nhost: h\r\nx-api-key: {}\r\nx-long: {}\r\n\r\n", crate::bed::KEY, "x".repeat(1 << 20));
    assert_eq!(bed.send(&head).await.status(), 431);
    assert!(bed.asked().is_empty());
}

/// Comments, unknown events, line ends of every kind, characters cut in two: a hundred thousand pieces of one byte.
#[tokio::test]
async fn a_hundred_thousand_pieces_of_one_byte_are_passed_on_and_read() {
    let mut body = "\u{feff}: a comment\r\n\r\nevent: ping\rdata: {\"type\": \"ping\"}\r\revent: brand_new\ndata: {\"type\":\"brand_new\",\"x\":[1]}\n\n".to_owned();
    body += &sse(0)[0];
    while body.len() < 100_000 {
        body += "event: content_block_delta\r\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"grün € 😀 \"}}\r\n\r\n";
    }
    body += &sse(0)[1..].concat();
    let bed = Bed::new("").await;
    bed.will(vec![chunked(), Said::Crumbs(body.clone()), Said::Text("0\r\n\r\n".into())]);
    let answer = bed.post("/v1/messages", ASK).await;
    assert!(answer.body == body.as_bytes() && !answer.torn, "{} of {} bytes", answer.body.len(), body.len());
    let ended = bed.ended().await;
    assert!(ended.is_complete());
    let metered = ended.metered.unwrap();
    assert_eq!((metered.usage.input, metered.usage.output, metered.usage.source), (11, 7, UsageSource::Reported), "{:?}", metered.notes);
    assert!(metered.complete);
    bed.rest().await;
}

/// Who takes nothing holds a slot that others wait for, so it is hung up on; and meanwhile nothing piles up here.
#[tokio::test]
async fn a_client_that_takes_nothing_is_let_go() {
    let bed = Bed::with_stall_timeout(Duration::from_secs(1), "concurrency: 1").await;
    let size = 64 << 20;
    bed.will(vec![Said::Text(head(200, &format!("content-type: application/json\r\ncontent-length: {size}"))), Said::Bytes(size)]);
    let client = bed.open("/v1/messages", ASK).await;
    let ended = bed.ended().await;
    assert!(!ended.is_complete() && ended.sent && ended.bytes < size as u64, "{ended:?}");
    bed.rest().await;
    assert_eq!(bed.post("/v1/messages", ASK).await.status(), 200);
    drop(client);
}

#[tokio::test]
async fn a_caller_that_leaves_the_line_leaves_nothing_in_it() {
    let bed = Bed::new("concurrency: 1").await;
    bed.will(vec![Said::UntilGone]);
    let first = bed.open("/v1/messages", ASK).await;
    bed.wait_heard(1).await;
    let second = bed.open("/v1/messages", ASK).await;
    bed.in_line(1).await;
    drop(second);
    let ended = bed.ended().await;
    assert!(!ended.sent && ended.why.as_deref() == Some("the client went away"), "{ended:?}");
    bed.in_line(0).await;
    drop(first);
    bed.ended().await;
    bed.rest().await;
    assert_eq!(bed.heard().len(), 1);
}

/// A process with many connections does not fill the gateway's memory: what does not fit is not read.
#[tokio::test]
async fn requests_of_one_process_wait_for_its_memory() {
    let bed = Bed::with_memory_limit(1 << 20).await;
    let head = |length: usize| {
        format!("POST /v1/messages HTTP/1.1\r\nhost: h\r\nx-api-key: {}\r\ncontent-length: {length}\r\n\r\n", crate::bed::KEY)
    };
    let mut long = bed.begin(&(head(1 << 20) + "{")).await;
    let mut small = bed.begin(&(head(ASK.len()) + ASK)).await;
    assert!(!small.hears_within(Duration::from_millis(300)).await, "it was read beside one that takes all there is");
    assert!(bed.asked().is_empty());
    long.half_close().await;
    assert_eq!(small.answer().await.status(), 200);
    // The same with one that says not how long it is.
    let chunked = format!("POST /v1/messages HTTP/1.1\r\nhost: h\r\nx-api-key: {}\r\ntransfer-encoding: chunked\r\n\r\n", crate::bed::KEY);
    let mut long = bed.begin(&(chunked + "1\r\n{\r\n")).await;
    let mut small = bed.begin(&(head(ASK.len()) + ASK)).await;
    assert!(!small.hears_within(Duration::from_millis(300)).await);
    long.half_close().await;
    assert_eq!(small.answer().await.status(), 200);
    bed.rest().await;
}

/// No clock holds the moment that it names.
#[tokio::test]
async fn a_wait_beyond_all_time_is_passed_on() {
    for wait in ["10000000000000000000", "1e19", "18446744073709551615"] {
        let bed = Bed::new("").await;
        bed.will(vec![Said::Text(head(429, &format!("retry-after: {wait}\r\ncontent-length: 2")) + "{}")]);
        let answer = bed.post("/v1/messages", ASK).await;
        assert_eq!((answer.status(), answer.torn, answer.body.as_slice()), (429, false, b"{}".as_slice()), "{wait}");
        assert_eq!(bed.ended().await.status, Some(429));
        bed.rest().await;
    }
}
