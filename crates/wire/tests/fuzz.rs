//! Bytes from a peer become values or errors that can be answered, never a panic.

#[path = "../../testkit/fuzz/fuzz.rs"]
mod fuzz;

use wire::frame::{Frames, encode};
use wire::jsonrpc::Message;

const JSON: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"jsonrpc\":\"2.0\"",
    "\"id\":",
    "\"method\":\"ps\"",
    "\"params\":",
    "\"result\":",
    "\"error\":",
    "null",
    "true",
    "1",
    "-1",
    "1e999",
    "\"a\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "{\"code\":1,\"message\":\"x\"}",
    "99999999999999999999",
    " ",
    "\n",
];

/// Whatever arrives in whatever pieces: each frame is one that could have been sent, or the stream ends with an error.
#[test]
fn frames() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    fuzz::bytes("frames", |input| {
        runtime.block_on(async {
            // Short lengths, so that some frames are whole.
            let bytes: Vec<u8> = input.chunks(9).flat_map(|chunk| [&[0, 0, 0, chunk[0] % 12], &chunk[1..]].concat()).collect();
            for stream in [input, &bytes] {
                let mut frames = Frames::new(stream);
                loop {
                    match frames.next().await {
                        Ok(Some(text)) => assert!(encode(&text).is_ok_and(|bytes| bytes.len() == text.len() + 4)),
                        Ok(None) => break,
                        Err(error) if error.ends_stream() => break,
                        Err(_) => {}
                    }
                }
            }
        });
    });
}

#[test]
fn jsonrpc() {
    fuzz::text("jsonrpc", JSON, |text| match Message::parse(text) {
        Ok(message) => {
            let again = match &message {
                Message::Request(request) => request.text(),
                Message::Notification(notification) => notification.text(),
                Message::Response(response) => response.text(),
            };
            assert!(Message::parse(&again).is_ok(), "{text} became {again}");
        }
        Err(malformed) => {
            let answer = malformed.answer().text();
            assert!(Message::parse(&answer).is_ok(), "{text} was answered with {answer}");
        }
    });
}
