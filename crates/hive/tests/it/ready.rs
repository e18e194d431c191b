//! Programs and the line by which they say that they listen.

use hive::{AgentReady, ReadyError, ReadyErrorKind, ReadyLimits, wait_ready};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

async fn after(output: &[u8]) -> Result<AgentReady<&[u8]>, ReadyError> {
    wait_ready(output, &ReadyLimits::default()).await
}

async fn check(output: &str, expected: Result<(u16, &str), &str>) {
    let found = after(output.as_bytes()).await;
    let found = found.map(|ready| (ready.port, String::from_utf8(ready.output).unwrap())).map_err(|error| error.to_string());
    assert_eq!(found, expected.map(|(port, output)| (port, output.to_owned())).map_err(str::to_owned), "{output:?}");
}

#[tokio::test]
async fn the_line_is_found_behind_other_output() {
    check("READY 50123\n", Ok((50123, ""))).await;
    check("READY 50123\r\n", Ok((50123, ""))).await;
    check("hello\nREADY 1\n", Ok((1, "hello\n"))).await;
    check("\n\nREADY 65535\n", Ok((65535, "\n\n"))).await;
    check("I am READY 7\nREADYNESS\nREADY\nREA\nREADY 9\n", Ok((9, "I am READY 7\nREADYNESS\nREADY\nREA\n"))).await;
}

#[tokio::test]
async fn a_line_without_a_port_ends_the_wait() {
    let bad = |text: &str| format!("the program said `READY` without a port that it could listen on: `{text}`");
    for text in ["abc", "", "0", "65536", "-1", "+1", "1 2", "1e3", "99999999999999999999"] {
        check(&format!("READY {text}\n"), Err(&bad(text))).await;
    }
    check("READY \u{7}\n", Err(&bad("\\u{7}"))).await;
    // It never ends, so it is cut.
    check(&format!("READY {}", "1".repeat(1_000_000)), Err(&bad(&"1".repeat(58)))).await;
}

#[tokio::test]
async fn a_program_that_ends_first_is_told_of_with_its_output() {
    let error = after(b"Traceback\nREADY 5").await.unwrap_err();
    assert!(matches!(error.kind, ReadyErrorKind::Ended), "{error}");
    assert_eq!((String::from_utf8(error.output).unwrap(), error.dropped_bytes), ("Traceback\nREADY 5".to_owned(), 0));
}

#[tokio::test]
async fn ten_thousand_lines_are_output_of_which_the_end_is_kept() {
    let lines: String = (0..10_000).map(|number| format!("line {number}\n")).collect();
    let output = format!("{lines}READY 77\nbehind");
    let ready = after(output.as_bytes()).await.unwrap();
    let max = ReadyLimits::default().output_bytes_max;
    assert_eq!(ready.port, 77);
    assert_eq!(ready.output, &lines.as_bytes()[lines.len() - max..]);
    assert_eq!(ready.dropped_bytes, (lines.len() - max) as u64);
    let mut rest = String::new();
    let mut behind = ready.rest;
    behind.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "behind");
}

#[tokio::test]
async fn a_line_without_an_end_is_bounded_and_the_wait_too() {
    let (mut program, stdout): (DuplexStream, DuplexStream) = tokio::io::duplex(64 * 1024);
    let writing = tokio::spawn(async move {
        let piece = [b'x'; 16 * 1024];
        let mut written: u64 = 0;
        while program.write_all(&piece).await.is_ok() {
            written += piece.len() as u64;
        }
        written
    });
    let limits = ReadyLimits { timeout: Duration::from_millis(300), output_bytes_max: 1000 };
    let error = wait_ready(stdout, &limits).await.unwrap_err();
    assert_eq!(error.kind.to_string(), "the program did not say `READY` within 300ms");
    assert_eq!(error.output, [b'x'; 1000]);
    assert!(error.dropped_bytes > 100_000, "{}", error.dropped_bytes);
    assert!(writing.await.unwrap() >= error.dropped_bytes);
}
