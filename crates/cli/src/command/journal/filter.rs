//! Which records: the filters of `skep journal`.

use crate::command_error::CommandError;
use clap::builder::PossibleValuesParser;
use jiff::civil::{DateTime, Time};
use jiff::{Span, Timestamp, Zoned};
use wire::method::journal::RecordFilter;
use wire::{ErrorCode, Event, Pid, TaskId};

#[derive(Debug, Default, clap::Args)]
pub struct FilterArgs {
    /// Only of this process
    #[arg(long)]
    pid: Option<Pid>,
    /// Only of this task
    #[arg(long)]
    task: Option<TaskId>,
    /// Only of these kinds; a noun such as `call` means all of its kinds
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',', hide_possible_values = true, value_parser = PossibleValuesParser::new(names()))]
    kinds: Vec<String>,
    /// Not before this time: 10m, 2h, 1d (ago), 14:30, 2026-11-15, or a full timestamp
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// At most so many
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u64>,
}

impl FilterArgs {
    pub fn filter(&self) -> Result<RecordFilter, CommandError> {
        let now = Zoned::now();
        let time = |text: &Option<String>| text.as_deref().map(|text| moment(text, &now)).transpose();
        Ok(RecordFilter {
            pid: self.pid,
            task: self.task,
            kinds: Event::KINDS.iter().filter(|kind| self.wants(kind)).map(|kind| (*kind).to_owned()).collect(),
            since_ms: time(&self.since)?,
            until_ms: time(&self.until)?,
            limit: self.limit,
            ..RecordFilter::default()
        })
    }

    fn wants(&self, kind: &str) -> bool {
        self.kinds.iter().any(|wanted| kind == wanted || noun(kind) == wanted)
    }
}

fn noun(kind: &str) -> &str {
    kind.split('.').next().unwrap_or(kind)
}

/// Every kind, and every noun before its dot.
fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = Event::KINDS.iter().flat_map(|kind| [noun(kind), kind]).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A time as people write it, in milliseconds since 1970.
fn moment(text: &str, now: &Zoned) -> Result<i64, CommandError> {
    let zone = now.time_zone();
    let local = |at: DateTime| at.to_zoned(zone.clone()).ok().map(|at| at.timestamp());
    let found = text
        .parse::<Timestamp>()
        .ok()
        .or_else(|| text.parse::<DateTime>().ok().and_then(local))
        .or_else(|| text.parse::<Time>().ok().and_then(|time| local(now.date().to_datetime(time))))
        .or_else(|| text.parse::<Span>().ok().and_then(|span| now.checked_sub(span.abs()).ok()).map(|at| at.timestamp()));
    found.map(Timestamp::as_millisecond).ok_or_else(|| {
        CommandError::new(ErrorCode::BadInput, format!("`{text}` is not a time"))
            .fix("write 10m, 2h or 1d for a while ago, 14:30 for today, or 2026-11-15")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    #[test]
    fn times_are_read_as_people_write_them() {
        let now = "2026-11-15T12:00:00Z".parse::<Timestamp>().unwrap().to_zoned(TimeZone::UTC);
        let read = |text: &str| moment(text, &now).map(|ms| Timestamp::from_millisecond(ms).unwrap().to_string());
        assert_eq!(read("10m").unwrap(), "2026-11-15T11:50:00Z");
        assert_eq!(read("2h ago").unwrap(), "2026-11-15T10:00:00Z");
        assert_eq!(read("1d").unwrap(), "2026-11-14T12:00:00Z");
        assert_eq!(read("09:30").unwrap(), "2026-11-15T09:30:00Z");
        assert_eq!(read("2026-11-01").unwrap(), "2026-11-01T00:00:00Z");
        assert_eq!(read("2026-11-01T08:00").unwrap(), "2026-11-01T08:00:00Z");
        assert_eq!(read("2026-11-01T08:00:00+02:00").unwrap(), "2026-11-01T06:00:00Z");
        assert_eq!(read("soon").unwrap_err().code, ErrorCode::BadInput);
    }

    #[test]
    fn a_noun_means_all_its_kinds() {
        let filter = FilterArgs { kinds: vec!["review".into(), "brain.said".into()], ..FilterArgs::default() }.filter().unwrap();
        assert_eq!(filter.kinds, ["review.asked", "review.answered", "brain.said"]);
        assert!(FilterArgs::default().filter().unwrap().kinds.is_empty());
    }
}
