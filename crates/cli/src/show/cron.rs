//! What happens at set times.

use super::measure::{ago, clock_seconds};
use super::{Line, Page, table};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use wire::{CronEntry, CronRun};

pub fn list(entries: &[CronEntry], now_ms: i64, zone: &TimeZone) -> Page {
    if entries.is_empty() {
        return Page(vec![Line::new().faint("nothing is planned")]);
    }
    let row = |entry: &CronEntry| {
        let last = match &entry.last {
            None => Line::new().faint("has not run"),
            Some(CronRun { ended_ms: None, started_ms, .. }) => Line::new().name(format!("runs since {}", ago(*started_ms, now_ms))),
            Some(CronRun { exit_code: None | Some(0), started_ms, .. }) => Line::new().good("✓ ").faint(ago(*started_ms, now_ms)),
            Some(CronRun { exit_code: Some(code), started_ms, .. }) => {
                Line::new().bad(format!("✗ {code} ")).faint(ago(*started_ms, now_ms))
            }
        };
        let next = match entry.next_ms.filter(|_| entry.spec.enabled) {
            Some(next) => Line::new().plain(clock_seconds(next, now_ms, zone)),
            None => Line::new().faint("never"),
        };
        vec![
            Line::new().name(entry.id.to_string()),
            Line::new().strong(&entry.spec.name),
            Line::new().plain(&entry.spec.expression),
            Line::new().plain(format!("{} {}", entry.spec.action.as_str(), entry.spec.target)),
            last,
            next,
        ]
    };
    let head = ["ID", "NAME", "WHEN", "WHAT", "LAST", "NEXT"].map(|name| Line::new().faint(name)).to_vec();
    table(std::iter::once(head).chain(entries.iter().map(row)).collect())
}

/// When an expression is due, one time a line.
pub fn times(at_ms: &[i64], zone: &TimeZone) -> Page {
    let shown = |at: &i64| match Timestamp::from_millisecond(*at) {
        Ok(time) => time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
        Err(_) => at.to_string(),
    };
    if at_ms.is_empty() {
        return Page(vec![Line::new().faint("never")]);
    }
    at_ms.iter().map(|at| Line::new().plain(shown(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{CronAction, CronId, CronSpec, MissedRule, OverlapRule, Pid};

    #[test]
    fn an_entry_tells_when_it_ran_and_when_it_is_due() {
        let now = 1_794_000_000_000;
        let entry = CronEntry {
            id: CronId(1),
            owner: Pid(2),
            spec: CronSpec {
                name: "nightly".into(),
                expression: "0 3 * * *".into(),
                timezone: String::new(),
                action: CronAction::Execute,
                target: Pid(7),
                description: "report".into(),
                params: Default::default(),
                program: None,
                enabled: true,
                overlap: OverlapRule::Skip,
                missed: MissedRule::Skip,
                jitter_ms: 0,
            },
            added_ms: 0,
            next_ms: Some(now + 60_000),
            last: Some(CronRun { started_ms: now - 5_000, ended_ms: Some(now), exit_code: Some(7), ..CronRun::default() }),
            running: 0,
        };
        let expected = "\
ID      NAME     WHEN       WHAT       LAST        NEXT
cron-1  nightly  0 3 * * *  execute 7  ✗ 7 5s ago  21:21:00
";
        assert_eq!(list(&[entry], now, &TimeZone::UTC).render(false, None), expected);
        assert_eq!(times(&[now], &TimeZone::UTC).render(false, None), "2026-11-06 21:20:00 UTC\n");
        assert_eq!(list(&[], now, &TimeZone::UTC).render(false, None), "nothing is planned\n");
    }
}
