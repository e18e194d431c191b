//! Sizes and times as people write them in policy files. Case-sensitive, whole numbers only, nothing is guessed.

use std::time::Duration;

/// Text that is not a size or a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {kind}")]
pub struct UnitError {
    pub text: String,
    pub kind: &'static str,
    pub hint: &'static str,
}

const SIZE_UNITS: &[(&str, u64)] =
    &[("", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("KB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)];

const TIME_UNITS_MS: &[(&str, u64)] = &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// Bytes. A bare number is bytes; `KiB MiB GiB` count by 1,024 and `KB MB GB` by 1,000.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    parse(text, SIZE_UNITS).ok_or_else(|| UnitError {
        text: text.to_owned(),
        kind: "size",
        hint: "write a whole number of bytes, or one with KiB, MiB, GiB, KB, MB or GB right behind it, such as `100KiB`",
    })
}

/// A duration always names its unit: `ms`, `s`, `m` or `h`.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    parse(text, TIME_UNITS_MS).map(Duration::from_millis).ok_or_else(|| UnitError {
        text: text.to_owned(),
        kind: "duration",
        hint: "write a whole number with ms, s, m or h right behind it, such as `30s`",
    })
}

fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits_end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_end);
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let table = [
            ("0", Some(0)),
            ("100", Some(100)),
            ("1KiB", Some(1024)),
            ("100KiB", Some(102_400)),
            ("2MiB", Some(2 << 20)),
            ("1GiB", Some(1 << 30)),
            ("1KB", Some(1_000)),
            ("3MB", Some(3_000_000)),
            ("4GB", Some(4_000_000_000)),
            ("1kb", None),
            ("1Kib", None),
            ("1 KiB", None),
            (" 1", None),
            ("1.5MiB", None),
            ("-1", None),
            ("+1", None),
            ("1K", None),
            ("1TiB", None),
            ("", None),
            ("KiB", None),
            ("٣", None),
            ("99999999999999999999", None),
            ("18446744073709551615KiB", None),
        ];
        for (text, expect) in table {
            assert_eq!(parse_size(text).ok(), expect, "{text}");
        }
    }

    #[test]
    fn durations() {
        let table = [
            ("5ms", Some(5)),
            ("30s", Some(30_000)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("30", None),
            ("1S", None),
            ("1 s", None),
            ("1d", None),
            ("1h30m", None),
            ("", None),
        ];
        for (text, expect_ms) in table {
            assert_eq!(parse_duration(text).ok(), expect_ms.map(Duration::from_millis), "{text}");
        }
        assert_eq!(parse_duration("30").unwrap_err().to_string(), "`30` is not a duration");
    }
}
