use super::*;
use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt;

fn plain() -> Redact {
    Arc::new(str::to_owned)
}

fn hide() -> Redact {
    Arc::new(|text| text.replace("sk-secret", "[redacted]"))
}

fn exchange(word: &str, chunks: Vec<TimedChunk>) -> Exchange {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Exchange {
        dialect: Dialect::Gemini,
        method: "POST".into(),
        path: "/v1beta/models/m:streamGenerateContent?alt=sse&key=sk-secret".into(),
        headers: vec![pair("Content-Type", "application/json"), pair("x-goog-api-key", "sk-secret"), pair("cookie", "sk-secret")],
        body: serde_json::json!({"contents": [{"role": "user", "parts": [{"text": word}]}]}).to_string().into_bytes(),
        answer: RecordedResponse {
            status: 200,
            headers: vec![pair("content-type", "text/event-stream"), pair("set-cookie", "sk-secret")],
            chunks,
            complete: true,
        },
    }
}

fn chunk(after_ms: u64, text: &str) -> TimedChunk {
    TimedChunk { after_ms, bytes: text.as_bytes().to_vec() }
}

fn recorded(exchanges: &[Exchange], redact: Redact) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cassette");
    for exchange in exchanges {
        // Opened anew for each, as after a restart.
        Recorder::open(&path, Arc::clone(&redact)).unwrap().record(exchange).unwrap();
    }
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::read_to_string(&path).unwrap()
}

#[test]
fn equal_requests_are_answered_in_order_and_a_third_time_not() {
    let exchanges = [exchange("hi", vec![chunk(0, "one")]), exchange("ho", vec![chunk(0, "other")]), exchange("hi", vec![chunk(7, "two")])];
    let text = recorded(&exchanges, plain());
    let mut player = Player::read(&text, plain()).unwrap();
    let mut play = |exchange: &Exchange| player.play(exchange.dialect, &exchange.path, &exchange.body);
    assert_eq!(play(&exchanges[0]).unwrap().chunks, vec![chunk(0, "one")]);
    assert_eq!(play(&exchanges[0]).unwrap().chunks, vec![chunk(7, "two")]);
    let third = play(&exchanges[0]).unwrap_err();
    assert_eq!(
        third.to_string(),
        "this request to `/v1beta/models/m:streamGenerateContent?alt=sse` was recorded 2 times and is asked for once more"
    );
    assert_eq!(play(&exchanges[1]).unwrap().chunks, vec![chunk(0, "other")]);
    assert_eq!(player.count(), (3, 0));
}

#[test]
fn a_mismatch_shows_the_difference_to_the_nearest() {
    let text = recorded(&[exchange("something else entirely", vec![]), exchange("write a\nand b", vec![])], plain());
    let mut player = Player::read(&text, plain()).unwrap();
    let asked = exchange("write a\nand c", vec![]);
    let mismatch = player.play(asked.dialect, &asked.path, &asked.body).unwrap_err();
    let path = "/v1beta/models/m:streamGenerateContent?alt=sse";
    assert_eq!(
        mismatch.to_string(),
        format!(
            "this request to `{path}` was not recorded; it differs from request 2 in:\n  recorded contents[0].parts[0].text: and b\n  asked    contents[0].parts[0].text: and c"
        )
    );
    assert_eq!(player.count(), (2, 2), "a mismatch plays nothing");
}

#[test]
fn no_secret_reaches_the_file() {
    let chunks = vec![chunk(3, "data: {\"text\":\"the key is sk-s"), chunk(4, "ecret\"}\n\ndata: [DONE]\n\n")];
    let exchange = exchange("my key is sk-secret", chunks);
    let text = recorded(std::slice::from_ref(&exchange), hide());
    assert!(!text.contains("sk-secret"), "{text}");
    // The control: without redaction the body's secrets are there, the headers' and the path's are not.
    let open = recorded(std::slice::from_ref(&exchange), plain());
    assert!(open.contains("my key is sk-secret") && !open.contains("key=") && !open.contains("cookie") && !open.contains("x-goog"));
    let answer = Player::read(&text, hide()).unwrap().play(exchange.dialect, &exchange.path, &exchange.body).unwrap();
    assert_eq!(answer.chunks, vec![chunk(3, "data: {\"text\":\"the key is [redacted]\"}\n\n"), chunk(4, "data: [DONE]\n\n")]);
}

#[test]
fn a_recording_that_was_cut_off_is_read_up_to_there_and_continued() {
    let whole = recorded(&[exchange("a", vec![chunk(0, "A")]), exchange("b", vec![chunk(0, "B")])], plain());
    for cut in 0..whole.len() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        std::fs::write(&path, &whole.as_bytes()[..cut]).unwrap();
        let Ok(mut recorder) = Recorder::open(&path, plain()) else {
            assert!(cut < whole.find('\n').unwrap(), "cut at {cut}");
            continue;
        };
        recorder.record(&exchange("c", vec![chunk(0, "C")])).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut player = Player::read(&text, plain()).unwrap();
        let c = exchange("c", vec![]);
        assert_eq!(player.play(c.dialect, &c.path, &c.body).unwrap().chunks, vec![chunk(0, "C")], "cut at {cut}");
    }
}

#[test]
fn what_is_no_cassette_is_refused() {
    let error = |text: &str| Player::read(text, plain()).err().map(|error| error.to_string());
    assert_eq!(error("").as_deref(), Some("line 1: this is no cassette"));
    assert_eq!(error("hello").as_deref(), Some("line 1: this is no cassette"));
    assert_eq!(error("{\"cassette\":{\"version\":9}}").as_deref(), Some("line 1: version 9 of cassettes is not known here"));
    assert_eq!(error("{\"cassette\":{\"version\":1}}\n"), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn what_is_recorded_is_replayed_byte_for_byte(
        words in proptest::collection::vec("\\PC{0,20}", 1..5),
        chunks in proptest::collection::vec((0..1000_u64, proptest::collection::vec(any::<u8>(), 0..40)), 0..6),
        complete in any::<bool>(),
    ) {
        let chunks: Vec<TimedChunk> = chunks.into_iter().map(|(after_ms, bytes)| TimedChunk { after_ms, bytes }).collect();
        let exchanges: Vec<Exchange> = words.iter().map(|word| {
            let mut exchange = exchange(word, chunks.clone());
            exchange.answer.complete = complete;
            exchange
        }).collect();
        let text = recorded(&exchanges, plain());
        let mut player = Player::read(&text, plain()).unwrap();
        for exchange in &exchanges {
            let answer = player.play(exchange.dialect, &exchange.path, &exchange.body).unwrap();
            prop_assert_eq!(&answer.chunks, &exchange.answer.chunks);
            prop_assert_eq!((answer.status, answer.complete), (200, complete));
        }
        prop_assert_eq!(player.count().1, 0);
    }
}
