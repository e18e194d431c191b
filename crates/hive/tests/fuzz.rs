//! What a program prints and what a header says: a value or an error, never a panic, and always within its bound.

#[path = "../../testkit/fuzz/fuzz.rs"]
mod fuzz;

use hive::{PeerIdentity, ProcessSecrets, ReadyScanner, parse_pid};

const OUTPUT_BYTES_MAX: usize = 40;

const WORDS: &[&str] = &["READY", "READY ", " ", "\n", "\r", "0", "1", "50123", "65535", "65536", "-", "+", "x", "RE", "ADY 7\n"];

/// Pieces of any size find the same line as the whole does, and what stands before it is kept up to its bound.
#[test]
fn ready_lines() {
    fuzz::text("ready_lines", WORDS, |text| {
        let bytes = text.as_bytes();
        let mut whole = ReadyScanner::new(OUTPUT_BYTES_MAX);
        let found = whole.push(bytes).map_err(|error| error.to_string());
        for size in [1, 3, 7] {
            let mut scanner = ReadyScanner::new(OUTPUT_BYTES_MAX);
            let mut before = 0;
            let mut again: Result<Option<(u16, usize)>, String> = Ok(None);
            for piece in bytes.chunks(size) {
                again = scanner.push(piece).map(|found| found.map(|(port, used)| (port, before + used))).map_err(|error| error.to_string());
                if !matches!(again, Ok(None)) {
                    break;
                }
                before += piece.len();
            }
            assert_eq!(again, found, "{text:?} in pieces of {size}");
            let (output, dropped) = scanner.into_output();
            assert!(output.len() <= OUTPUT_BYTES_MAX && output.len() as u64 + dropped <= bytes.len() as u64, "{text:?}");
        }
        // The line that was found is one, and no line before it is.
        if let Ok(Some((port, used))) = &found {
            let mut lines = text[..*used].split_terminator('\n').rev();
            assert_eq!(lines.next().and_then(|line| line.strip_prefix("READY ")?.trim().parse().ok()), Some(*port), "{text:?}");
            assert!(lines.all(|line| !line.starts_with("READY ")), "{text:?}");
        }
        if found == Ok(None) {
            assert!(!text.split_inclusive('\n').any(|line| line.starts_with("READY ") && line.ends_with('\n')), "{text:?}");
        }
    });
}

/// A header is digits that fit, or nothing; a secret is the one that was issued, or nobody's.
#[test]
fn pid_headers() {
    let secrets = ProcessSecrets::default();
    let secret = secrets.issue(7).unwrap();
    fuzz::bytes("pid_headers", |input| {
        let plain = std::str::from_utf8(input).ok().filter(|text| !text.starts_with('+')).and_then(|text| text.parse::<u64>().ok());
        assert_eq!(parse_pid(input), plain, "{input:?}");
        assert_eq!(secrets.owner(input), (input == secret.as_bytes()).then_some(7), "{input:?}");
        // One byte of the true secret changed, at a place and to a value that the input says.
        if let [place, value, ..] = input {
            let mut near = secret.clone().into_bytes();
            let place = usize::from(*place) % near.len();
            near[place] = *value;
            assert_eq!(secrets.owner(&near).is_some(), near == secret.as_bytes(), "{near:?}");
        }
        let known = hive::CallerOrigin::Known(PeerIdentity::Process(7));
        let mut headers = hive::tonic::codegen::http::HeaderMap::new();
        if let Ok(value) = hive::tonic::codegen::http::HeaderValue::from_bytes(input) {
            headers.insert(hive::PID_HEADER, value);
            let caller = known.caller("/hivekernel.core.CoreService/Log", &headers);
            assert_eq!(caller.is_ok(), parse_pid(input) == Some(7), "{input:?}");
        }
    });
}
