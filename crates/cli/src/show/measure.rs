//! Sizes as people read them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Columns that a terminal gives `text`. Good for what names and sentences contain; exotic scripts may be off by one.
pub fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

fn columns(c: char) -> usize {
    match u32::from(c) {
        0x300..=0x36f | 0x200c..=0x200d | 0x20d0..=0x20f0 | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0x303e | 0x3041..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff => 2,
        0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// What people call a zone.
pub fn repository(zone: wire::ZoneId) -> String {
    format!("repository {}", zone.0)
}

pub fn duration_us(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => duration_ms(us / 1_000),
    }
}

pub fn duration_ms(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1e3),
        60_000..3_600_000 => format!("{}m {:02}s", ms / 60_000, ms / 1_000 % 60),
        3_600_000..86_400_000 => format!("{}h {:02}m", ms / 3_600_000, ms / 60_000 % 60),
        _ => format!("{}d {:02}h", ms / 86_400_000, ms / 3_600_000 % 24),
    }
}

/// How long before `now_ms` something was.
pub fn ago(at_ms: i64, now_ms: i64) -> String {
    match u64::try_from(now_ms.saturating_sub(at_ms)).unwrap_or(0) {
        0..1_000 => "just now".into(),
        ms @ 1_000..60_000 => format!("{}s ago", ms / 1_000),
        ms @ 60_000..3_600_000 => format!("{}m ago", ms / 60_000),
        ms @ 3_600_000..86_400_000 => format!("{}h ago", ms / 3_600_000),
        ms => format!("{}d ago", ms / 86_400_000),
    }
}

pub fn bytes(n: u64) -> String {
    match n {
        0..1_000 => format!("{n} B"),
        1_000..1_000_000 => format!("{:.1} kB", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        _ => format!("{:.1} GB", n as f64 / 1e9),
    }
}

/// `4,521`
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Millionths of a dollar; cents, and finer where there are any.
pub fn dollars(micros: u64) -> String {
    let text = format!("{}.{:06}", count(micros / 1_000_000), micros % 1_000_000);
    let cents = text.len() - 4;
    format!("${}", &text[..text.trim_end_matches('0').len().max(cents)])
}

/// `1 task`, `2 tasks`
pub fn plural(n: u64, noun: &str) -> String {
    let plural = match (n, noun.strip_suffix("ss")) {
        (1, _) => noun.to_owned(),
        (_, Some(_)) => format!("{noun}es"),
        (_, None) => format!("{noun}s"),
    };
    format!("{} {plural}", count(n))
}

pub fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// `14:03:07.120` today, with the date in front on other days.
pub fn clock(at_ms: i64, now_ms: i64, zone: &TimeZone) -> String {
    let (Ok(at), Ok(now)) = (Timestamp::from_millisecond(at_ms), Timestamp::from_millisecond(now_ms)) else {
        return at_ms.to_string();
    };
    let at = at.to_zoned(zone.clone());
    match at.date() == now.to_zoned(zone.clone()).date() {
        true => at.strftime("%H:%M:%S%.3f").to_string(),
        false => at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
    }
}

/// `14:03:07` today, with the date in front on other days.
pub fn clock_seconds(at_ms: i64, now_ms: i64, zone: &TimeZone) -> String {
    let text = clock(at_ms, now_ms, zone);
    text.split_once('.').map_or(text.clone(), |(seconds, _)| seconds.to_owned())
}

/// `14:03` today, with the date in front on other days.
pub fn clock_minutes(at_ms: i64, now_ms: i64, zone: &TimeZone) -> String {
    let text = clock(at_ms, now_ms, zone);
    text.rsplit_once(':').map_or(text.clone(), |(minutes, _)| minutes.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        assert_eq!([0, 999, 1_234, 12_345, 1_234_567].map(duration_us), ["0 µs", "999 µs", "1.2 ms", "12 ms", "1.2 s"]);
        assert_eq!([61_000, 3_661_000, 90_061_000].map(duration_ms), ["1m 01s", "1h 01m", "1d 01h"]);
        assert_eq!([12, 1_500, 13_400_000].map(bytes), ["12 B", "1.5 kB", "13.4 MB"]);
        assert_eq!([0, 999, 4_521, 1_000_000].map(count), ["0", "999", "4,521", "1,000,000"]);
        assert_eq!([0, 500_000, 1_000_001, 20_000_000_000].map(dollars), ["$0.00", "$0.50", "$1.000001", "$20,000.00"]);
        assert_eq!([plural(1, "task"), plural(2, "task"), plural(2, "process")], ["1 task", "2 tasks", "2 processes"]);
        assert_eq!([ago(0, 500), ago(0, 5_000), ago(0, 7_200_000), ago(9, 0)], ["just now", "5s ago", "2h ago", "just now"]);
    }

    #[test]
    fn times_are_local_and_short_today() {
        let now = 1_794_000_000_000;
        assert_eq!(clock(now + 7, now, &TimeZone::UTC), "21:20:00.007");
        assert_eq!(clock(now - 86_400_000, now, &TimeZone::UTC), "2026-11-05 21:20:00");
    }
}
