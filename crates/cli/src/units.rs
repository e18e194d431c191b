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
    fn a_rate_is_uses_and_a_time() {
        assert_eq!(rate("5/1m"), Ok(Rate { max: 5, per_ms: 60_000 }));
        for bad in ["5", "5/", "/1m", "0/1m", "-1/1m", "+5/1m", "5/1", "5/1m/1m"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
