//! Cron expressions: five or six fields, in a time zone.
//!
//! `croner` reads them and finds dates and hours on a calendar without time zones; where a zone's clock jumps is decided here, over `jiff`. A time that
//! a clock leaves out in spring runs when the clock has jumped; one that comes twice in autumn runs once. An entry that runs at intervals (`*` in its
//! minute or hour) runs each hour that passes and makes up for nothing.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use world::{Code, CronSpec, Refusal};

/// Bytes of an expression: more fields than there are values.
const EXPRESSION_MAX: usize = 1024;
/// Times that one question gets.
const TIMES_MAX: usize = 1000;

/// Jumps of a clock that are looked across for the next time: some hundred years of them.
const JUMPS_MAX: usize = 400;

/// When something is due.
pub(crate) struct CronTimes {
    cron: Cron,
    zone: TimeZone,
    /// It runs every so often, and not at certain times of day.
    is_interval: bool,
}

impl CronTimes {
    pub fn of(spec: &CronSpec) -> Result<CronTimes, Refusal> {
        CronTimes::parse(&spec.expression, &spec.timezone)
    }

    pub fn parse(expression: &str, zone: &str) -> Result<CronTimes, Refusal> {
        let fields = expression.split_whitespace().count();
        let hint = "write minute, hour, day, month and weekday, with seconds before them if you need them: `*/15 9-17 * * MON-FRI`";
        if expression.len() > EXPRESSION_MAX || !(expression.trim_start().starts_with('@') || (5..=6).contains(&fields)) {
            return Err(Refusal::new(Code::BadInput, format!("a cron expression has five or six fields, this one has {fields}")).hint(hint));
        }
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let bad = |error| Refusal::new(Code::BadInput, format!("`{expression}` is no cron expression: {error}")).hint(hint);
        let cron = parser.parse(expression).map_err(bad)?;
        let zone = match zone {
            "" => TimeZone::system(),
            name => TimeZone::get(name).map_err(|_| {
                Refusal::new(Code::BadInput, format!("there is no time zone `{name}`"))
                    .hint("name one as in `Europe/Zurich`, or none for the machine's own")
            })?,
        };
        let times = CronTimes { cron, zone, is_interval: is_interval(expression) };
        // What is never due is a mistake.
        match times.next_after(Timestamp::now().as_millisecond()) {
            Some(_) => Ok(times),
            None => Err(Refusal::new(Code::BadInput, format!("`{expression}` is never due")).hint("there is no such day")),
        }
    }

    /// The first time after this one.
    pub fn next_after(&self, after_ms: i64) -> Option<i64> {
        let after = Timestamp::from_millisecond(after_ms).ok()?;
        let mut offset = i64::from(self.zone.to_offset(after).seconds());
        let mut jumps = self.zone.following(after);
        // Seconds that the clock on the wall shows, and whether that very second counts.
        let (mut shown, mut counts) = (after.as_millisecond().div_euclid(1000) + offset, false);
        for _ in 0..JUMPS_MAX {
            let jump = jumps.next();
            let next = self.next_shown(shown, counts)?;
            let due = next - offset;
            let Some(jump) = jump else { return due.checked_mul(1000) };
            let (at, offset_then) = (jump.timestamp().as_second(), i64::from(jump.offset().seconds()));
            if due < at {
                return due.checked_mul(1000);
            }
            // The clock jumps first. What it leaves out is due at the jump; what it shows again was made before, but for intervals.
            let (last, first) = (at + offset, at + offset_then);
            if !self.is_interval && next < first {
                return at.checked_mul(1000);
            }
            (shown, counts, offset) = (if self.is_interval { first } else { first.max(last) }, true, offset_then);
        }
        None
    }

    /// The first match from so many seconds on, on a calendar without jumps.
    fn next_shown(&self, shown: i64, counts: bool) -> Option<i64> {
        let from = Timestamp::from_second(shown).ok()?.to_zoned(TimeZone::UTC);
        Some(self.cron.find_next_occurrence(&from, counts).ok()?.timestamp().as_second())
    }

    /// The first times after this one.
    pub fn after(&self, after_ms: i64, count: usize) -> Vec<i64> {
        std::iter::successors(self.next_after(after_ms), |last| self.next_after(*last)).take(count.min(TIMES_MAX)).collect()
    }
}

/// Whether the minute or the hour of an expression is `*` or a part of it.
fn is_interval(expression: &str) -> bool {
    let fields: Vec<&str> = expression.split_whitespace().collect();
    match fields[..] {
        [name] => name.eq_ignore_ascii_case("@hourly"),
        [minute, hour, _, _, _] | [_, minute, hour, _, _, _] => minute.starts_with('*') || hour.starts_with('*'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    fn times(expression: &str, zone: &str, from: jiff::civil::DateTime, count: usize) -> Vec<String> {
        let zone_of = TimeZone::get(zone).unwrap();
        let from_ms = from.to_zoned(zone_of.clone()).unwrap().timestamp().as_millisecond();
        let times = CronTimes::parse(expression, zone).unwrap_or_else(|refusal| panic!("{}", refusal.reason)).after(from_ms, count);
        let shown =
            |ms: &i64| Timestamp::from_millisecond(*ms).unwrap().to_zoned(zone_of.clone()).strftime("%m-%d %H:%M:%S %:z").to_string();
        times.iter().map(shown).collect()
    }

    #[test]
    fn fields_have_ranges_names_steps_and_lists() {
        let from = date(2026, 1, 1).at(0, 0, 0, 0);
        assert_eq!(times("*/20 * * * *", "UTC", from, 2), ["01-01 00:20:00 +00:00", "01-01 00:40:00 +00:00"]);
        assert_eq!(times("0 9-11 * * *", "UTC", from, 3), ["01-01 09:00:00 +00:00", "01-01 10:00:00 +00:00", "01-01 11:00:00 +00:00"]);
        assert_eq!(times("*/30 * * * * *", "UTC", from, 2), ["01-01 00:00:30 +00:00", "01-01 00:01:00 +00:00"]);
        assert_eq!(times("0 0 * * MON-TUE", "UTC", from, 2), ["01-05 00:00:00 +00:00", "01-06 00:00:00 +00:00"]);
        assert_eq!(times("0 0 1 feb,apr *", "UTC", from, 2), ["02-01 00:00:00 +00:00", "04-01 00:00:00 +00:00"]);
        assert_eq!(times("0 0 29 2 *", "UTC", from, 1), ["02-29 00:00:00 +00:00"], "beyond a day, and a year");
        assert_eq!(times("0 12 * * *", "Asia/Tokyo", from, 1), ["01-01 12:00:00 +09:00"]);
    }

    #[test]
    fn a_time_that_is_left_out_in_spring_runs_after_the_jump() {
        let from = date(2026, 3, 28).at(12, 0, 0, 0);
        let daily = times("30 2 * * *", "Europe/Zurich", from, 2);
        assert_eq!(daily, ["03-29 03:00:00 +02:00", "03-30 02:30:00 +02:00"]);
        let hourly = times("0 * * * *", "Europe/Zurich", date(2026, 3, 29).at(0, 30, 0, 0), 3);
        assert_eq!(hourly, ["03-29 01:00:00 +01:00", "03-29 03:00:00 +02:00", "03-29 04:00:00 +02:00"]);
        let before = times("30 1 * * *", "Europe/Zurich", from, 1);
        assert_eq!(before, ["03-29 01:30:00 +01:00"], "control: what is not left out");
    }

    #[test]
    fn a_jump_neither_doubles_nor_loses_a_run() {
        let berlin = date(2027, 3, 27).at(12, 0, 0, 0);
        let both = ["03-28 01:30:00 +01:00", "03-28 03:00:00 +02:00", "03-29 01:30:00 +02:00", "03-29 02:30:00 +02:00"];
        assert_eq!(times("30 1,2 * * *", "Europe/Berlin", berlin, 4), both);
        assert_eq!(times("45 1 * 3 *", "Europe/Berlin", berlin, 2), ["03-28 01:45:00 +01:00", "03-29 01:45:00 +02:00"]);
        assert_eq!(
            times("0,30 2,3 * * *", "Europe/Berlin", berlin, 3),
            ["03-28 03:00:00 +02:00", "03-28 03:30:00 +02:00", "03-29 02:00:00 +02:00"]
        );
        let york = date(2027, 3, 13).at(12, 0, 0, 0);
        assert_eq!(
            times("30 1 14 3 *", "America/New_York", york, 2),
            ["03-14 01:30:00 -05:00", "03-14 01:30:00 -04:00"],
            "the next is a year later"
        );
        assert_eq!(times("0 1 * * *", "America/New_York", york, 2), ["03-14 01:00:00 -05:00", "03-15 01:00:00 -04:00"]);
        let quarters = times("*/15 * * * *", "America/New_York", date(2027, 3, 14).at(1, 40, 0, 0), 2);
        assert_eq!(quarters, ["03-14 01:45:00 -05:00", "03-14 03:00:00 -04:00"]);
        assert_eq!(
            times("30 2 * * *", "Australia/Lord_Howe", date(2026, 10, 3).at(12, 0, 0, 0), 2),
            ["10-04 02:30:00 +11:00", "10-05 02:30:00 +11:00"]
        );
        assert_eq!(
            times("15 2 * * *", "Australia/Lord_Howe", date(2026, 10, 3).at(12, 0, 0, 0), 2),
            ["10-04 02:30:00 +11:00", "10-05 02:15:00 +11:00"],
            "half an hour"
        );
    }

    /// Hour by hour over two years of a zone, what is due at fixed times is due once each day.
    #[test]
    fn a_daily_run_is_due_once_on_every_day() {
        for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo"] {
            for hour in 0..24 {
                let from = date(2026, 1, 1).at(0, 0, 0, 0);
                let due = times(&format!("30 {hour} * * *"), zone, from, 730);
                let days: std::collections::BTreeSet<(usize, &str)> =
                    due.iter().enumerate().map(|(at, due)| (at / 365, &due[..5])).collect();
                assert_eq!(days.len(), 730, "{zone}, at {hour}:30");
            }
        }
    }

    #[test]
    fn a_time_that_comes_twice_in_autumn_runs_once() {
        let from = date(2026, 10, 24).at(12, 0, 0, 0);
        let daily = times("30 2 * * *", "Europe/Zurich", from, 2);
        assert_eq!(daily, ["10-25 02:30:00 +02:00", "10-26 02:30:00 +01:00"]);
        let hourly = times("0 * * * *", "Europe/Zurich", date(2026, 10, 25).at(1, 30, 0, 0), 3);
        assert_eq!(hourly, ["10-25 02:00:00 +02:00", "10-25 02:00:00 +01:00", "10-25 03:00:00 +01:00"], "each hour that passes");
    }

    #[test]
    fn what_is_no_expression_is_refused_with_its_reason() {
        for (expression, zone, part) in [
            ("99 * * * *", "UTC", "`99 * * * *` is no cron expression"),
            ("* * * *", "UTC", "five or six fields, this one has 4"),
            ("* * * * * * *", "UTC", "five or six fields, this one has 7"),
            ("", "UTC", "five or six fields, this one has 0"),
            ("* * * * nobody", "UTC", "is no cron expression"),
            ("0 0 30 2 *", "UTC", "is never due"),
            ("0 0 * * *", "Mars/Olympus", "there is no time zone `Mars/Olympus`"),
        ] {
            let refusal = CronTimes::parse(expression, zone).err().unwrap_or_else(|| panic!("`{expression}` was taken"));
            assert!(refusal.reason.contains(part), "{expression}: {}", refusal.reason);
            assert_eq!(refusal.code, Code::BadInput);
        }
    }
}
