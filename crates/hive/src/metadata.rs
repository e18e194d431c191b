//! The two headers that say who calls. Pure.

use hyper::header::HeaderMap;
use tonic::Status;

/// HiveKernel's only header: the pid of the process that calls, in decimal.
pub const PID_HEADER: &str = "x-hivekernel-pid";

/// Ours: what proves on TCP that the caller is the process that it names.
pub const SECRET_HEADER: &str = "x-skep-secret";

/// How much of a value that cannot be used is quoted.
const QUOTED_CHARS_MAX: usize = 64;

/// A pid as the contract writes it: decimal digits and nothing else, as Go's `ParseUint` reads them.
pub fn parse_pid(text: &[u8]) -> Option<u64> {
    // `u64::from_str` would take a plus sign.
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The pid that the headers claim, if they claim one.
pub(crate) fn claimed_pid(headers: &HeaderMap) -> Result<Option<u64>, Status> {
    match sole(headers, PID_HEADER)? {
        None => Ok(None),
        Some(value) => match parse_pid(value) {
            Some(pid) => Ok(Some(pid)),
            None => Err(Status::invalid_argument(format!("invalid pid: {}", quoted(value)))),
        },
    }
}

/// The secret that the headers carry, if they carry one.
pub(crate) fn secret(headers: &HeaderMap) -> Result<Option<&[u8]>, Status> {
    sole(headers, SECRET_HEADER)
}

/// A header that may stand once. Of two values nobody could say which one is meant.
fn sole<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a [u8]>, Status> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.next() {
        None => Ok(first.map(|value| value.as_bytes())),
        Some(_) => Err(Status::invalid_argument(format!("{name} stands more than once"))),
    }
}

fn quoted(value: &[u8]) -> String {
    let visible = |letter: char| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter };
    String::from_utf8_lossy(value).chars().take(QUOTED_CHARS_MAX).map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;
    use tonic::Code;

    fn check(values: &[&[u8]], expected: Result<Option<u64>, (Code, &str)>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(PID_HEADER, HeaderValue::from_bytes(value).unwrap());
        }
        let found = claimed_pid(&headers);
        let found = found.as_ref().map(|pid| *pid).map_err(|status| (status.code(), status.message()));
        assert_eq!(found, expected, "{values:?}");
    }

    #[test]
    fn a_pid_is_digits_and_nothing_else() {
        check(&[], Ok(None));
        check(&[b"7"], Ok(Some(7)));
        check(&[b"007"], Ok(Some(7)));
        check(&[b"18446744073709551615"], Ok(Some(u64::MAX)));
        check(&[b"18446744073709551616"], Err((Code::InvalidArgument, "invalid pid: 18446744073709551616")));
        check(&[b"abc"], Err((Code::InvalidArgument, "invalid pid: abc")));
        check(&[b"+7"], Err((Code::InvalidArgument, "invalid pid: +7")));
        check(&[b"-1"], Err((Code::InvalidArgument, "invalid pid: -1")));
        check(&[b"1 "], Err((Code::InvalidArgument, "invalid pid: 1 ")));
        check(&[b""], Err((Code::InvalidArgument, "invalid pid: ")));
        check(&[b"\xff"], Err((Code::InvalidArgument, "invalid pid: \u{fffd}")));
        check(&[b"1", b"1"], Err((Code::InvalidArgument, "x-hivekernel-pid stands more than once")));
        check(&[&[b'x'; 500]], Err((Code::InvalidArgument, &format!("invalid pid: {}", "x".repeat(64)))));
    }
}
