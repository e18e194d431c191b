//! Times and rates as people write them. Those of policy files: case-sensitive, whole numbers, always with a unit.

use wire::Rate;

const UNITS_MS: &[(&str, u64)] = &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// Milliseconds in `30s`.
pub fn duration_ms(text: &str) -> Result<u64, String> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let factor = UNITS_MS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| factor);
    let ms = factor.and_then(|factor| digits.parse::<u64>().ok()?.checked_mul(*factor));
    match ms {
        Some(0) => Err(format!("`{text}` is no time at all")),
        Some(ms) => Ok(ms),
        None => Err(format!("`{text}` is not a time: write a whole number with ms, s, m or h right behind it, such as 30s")),
    }
}

/// Mebibytes in `512M` or `2G`.
pub fn mebibytes(text: &str) -> Result<u64, String> {
    let number = |digits: &str, unit: u64| {
        digits.parse::<u64>().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))?.checked_mul(unit)
    };
    let read = match (text.strip_suffix('M'), text.strip_suffix('G')) {
        (Some(digits), _) => number(digits, 1),
        (_, Some(digits)) => number(digits, 1 << 10),
        _ => None,
    };
    read.filter(|mebibytes| *mebibytes > 0).ok_or_else(|| format!("`{text}` is not a size of memory: write 512M or 2G"))
}

/// Thousandths of a processor in `0.5` or `2`.
pub fn processors_milli(text: &str) -> Result<u64, String> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = digits(whole) && digits(part) && part.len() <= 3;
    let milli = || whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(format!("{part:0<3}").parse().ok()?);
    let milli = is_number.then(milli).flatten().filter(|milli| *milli > 0);
    milli.ok_or_else(|| format!("`{text}` is not a number of processors: write 0.5 or 2"))
}

/// `5/1m`: at most five uses in any minute.
pub fn rate(text: &str) -> Result<Rate, String> {
    let (max, per) = text.split_once('/').ok_or_else(|| format!("`{text}` is not a rate: write uses/time, such as 5/1m"))?;
    let number = |max: &str| max.bytes().all(|byte| byte.is_ascii_digit()).then(|| max.parse().ok()).flatten();
    match number(max) {
        None | Some(0) => Err(format!("`{max}` in `{text}` is not a number of uses")),
        Some(max) => Ok(Rate { max, per_ms: duration_ms(per)? }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_no_gaps() {
        assert_eq!(["5ms", "30s", "10m", "2h"].map(|text| duration_ms(text).unwrap()), [5, 30_000, 600_000, 7_200_000]);
        for bad in ["30", "1S", "1 s", "1d", "-1s", "1.5s", "", "s", "0s", "99999999999999999999h"] {
            assert!(duration_ms(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn memory_and_processors_are_read_exactly() {
        assert_eq!(["512M", "2G"].map(|text| mebibytes(text).unwrap()), [512, 2_048]);
        assert_eq!(["0.5", "2", "0.025", "1.5"].map(|text| processors_milli(text).unwrap()), [500, 2_000, 25, 1_500]);
        for bad in ["", "512", "M", "0M", "-1M", "+5M", "1.5G", "9999999999999999999G"] {
            assert!(mebibytes(bad).is_err(), "{bad}");
        }
        for bad in ["", "0", "0.0", ".5", "1.", "-1", "+1", "0.0001", "two", "99999999999999999999"] {
            assert!(processors_milli(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_rate_is_uses_and_a_time() {
        assert_eq!(rate("5/1m"), Ok(Rate { max: 5, per_ms: 60_000 }));
        for bad in ["5", "5/", "/1m", "0/1m", "-1/1m", "+5/1m", "5/1", "5/1m/1m"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
