//! The journal as a table, and the verdict on its chain.

use super::measure::{clock, count, duration_ms, plural};
use super::record_line::record_line;
use super::{Line, Page, Tone, table_wrapped};
use crate::record::ParsedRecord;
use jiff::tz::TimeZone;
use wire::method::journal::{JournalDoubtsResult, JournalVerifyResult, VerificationStatus};

/// The newest records. What a record says goes on below itself where `columns` are too few: nothing is cut at an edge.
pub fn log(records: &[ParsedRecord], now_ms: i64, zone: &TimeZone, columns: Option<usize>) -> Page {
    let head = ["seq", "kind", "time", "pid", "what"].map(|name| Line::new().faint(name)).to_vec();
    let rows = records.iter().map(|record| {
        let pid = record.pid().map(|pid| pid.to_string()).unwrap_or_default();
        vec![
            Line::new().faint(record.seq.to_string()),
            Line::new().add(tone(&record.kind), &record.kind),
            Line::new().plain(clock(record.at_ms, now_ms, zone)),
            Line::new().plain(pid),
            record_line(record),
        ]
    });
    if records.is_empty() {
        return Page(vec![Line::new().faint("no records")]);
    }
    table_wrapped(std::iter::once(head).chain(rows).collect(), columns)
}

/// One record of a log that is never finished, so with columns of fixed width.
pub fn row(record: &ParsedRecord, now_ms: i64, zone: &TimeZone, columns: Option<usize>) -> Page {
    let pid = record.pid().map(|pid| pid.to_string()).unwrap_or_default();
    let cells = vec![
        Line::new().faint(record.seq.to_string()).pad(6),
        Line::new().add(tone(&record.kind), &record.kind).pad(16),
        Line::new().plain(clock(record.at_ms, now_ms, zone)),
        Line::new().plain(pid).pad(3),
        record_line(record),
    ];
    table_wrapped(vec![cells], columns)
}

fn tone(kind: &str) -> Tone {
    match kind {
        "call.refused" | "call.lost" | "task.failed" | "journal.doubted" | "ban.given" => Tone::Bad,
        "review.asked" | "task.parked" | "merge.proposed" => Tone::Wait,
        "grant.given" | "task.finished" | "merge.finished" => Tone::Good,
        _ => Tone::Plain,
    }
}

/// What verification found, and how far the one of this start is.
pub fn doubts(result: &JournalDoubtsResult, now_ms: i64, zone: &TimeZone) -> Page {
    let mut page = Page::new();
    for doubt in &result.doubts {
        let mark = if doubt.seen_by.is_some() { Line::new().faint("○ ") } else { Line::new().bad("✗ ") };
        let line = mark.plain(format!("{}  ", doubt.number)).plain(&doubt.what);
        page.push(line.faint(format!("  {}", clock(doubt.at_ms, now_ms, zone))));
        page.because("why", &doubt.why);
        if let Some(by) = &doubt.seen_by {
            page.because("seen", &format!("by {by}"));
        }
    }
    if result.doubts.iter().any(|doubt| doubt.seen_by.is_none()) {
        page.because("next", "skep journal verify; then `skep journal doubts --seen`");
    }
    page.push(match result.verification {
        VerificationStatus::Running => Line::new().wait("◍ ").plain("the chain is being verified"),
        VerificationStatus::Whole => Line::new().good("✓ ").plain("the chain was verified after the kernel's start, and is whole"),
        VerificationStatus::Doubted => Line::new().bad("✗ ").plain("the chain was verified after the kernel's start, and is not whole"),
        VerificationStatus::Failed => Line::new().bad("✗ ").plain("the chain could not be verified to its end"),
    });
    page
}

/// The verdict, and how long it took to reach it.
pub fn verdict(result: &JournalVerifyResult, ms: u64) -> Page {
    let mut page = Page::new();
    let records = plural(result.records, "record");
    if result.findings.is_empty() {
        page.push(Line::new().good("✓ ").plain(format!("the chain of {records} is whole")).faint(format!("  {}", duration_ms(ms))));
    } else {
        let findings = plural(result.findings.len() as u64, "finding");
        page.push(Line::new().bad("✗ ").plain(format!("the chain of {records} is broken: {findings}")));
    }
    let hash = result.head_hash.get(..16).unwrap_or(&result.head_hash);
    page.because("head", &format!("record {}  {hash}…", count(result.head_seq)));
    let seal = match (result.sealed, result.unsealed) {
        (true, 0) => "signed, and covers the head".to_owned(),
        (true, n) => format!("signed; {} after it not sealed yet", plural(n, "record")),
        (false, _) => "there is no good seal".to_owned(),
    };
    page.because("seal", &seal);
    for finding in &result.findings {
        let place = finding.seq.map(|seq| format!("record {}  ", count(seq))).unwrap_or_default();
        page.push(Line::new().bad("  ✗ ").faint(place).plain(&finding.what));
        page.because("why", &finding.why);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::line;
    use wire::event::{BrainSaid, TaskFailed, TaskQueued};
    use wire::method::journal::FindingView;
    use wire::{Mode, Pid, TaskId, ZoneId};

    #[test]
    fn a_log_is_a_table() {
        let queued = TaskQueued {
            pid: Pid(3),
            task: Some(TaskId(1)),
            zone: ZoneId(1),
            mode: Mode::Act,
            prompt: "do\x1b it".into(),
            brain: String::new(),
            priority: 0,
            calls_max: None,
            original: None,
            discard: false,
            order: None,
        };
        let said = BrainSaid { pid: Pid(3), task: None, text: "hello".into() };
        let records: Vec<_> = [line(9, queued), line(10, said)].iter().filter_map(|line| ParsedRecord::parse(line)).collect();
        let text = log(&records, 10_000, &TimeZone::UTC, None).render(false, None);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "seq  kind         time          pid  what");
        assert_eq!(lines[1], "9    task.queued  00:00:09.000  3    task-1  act  \"do\\x1b it\"");
        assert_eq!(lines[2], "10   brain.said   00:00:10.000  3    › hello");
        assert_eq!(log(&[], 0, &TimeZone::UTC, None).render(false, None), "no records\n");
    }

    #[test]
    fn what_a_record_says_is_whole_on_a_narrow_terminal() {
        let reason = "the model cannot be reached, and the network of this machine is down since this morning";
        let failed = TaskFailed { pid: Pid(3), task: Some(TaskId(1)), reason: reason.into(), result: None };
        let record = ParsedRecord::parse(&line(9, failed)).unwrap();
        let page = log(std::slice::from_ref(&record), 10_000, &TimeZone::UTC, Some(80));
        let expected = "\
seq  kind         time          pid  what
9    task.failed  00:00:09.000  3    task-1  the model cannot be reached, and
                                     the network of this machine is down since
                                     this morning
";
        assert_eq!(page.render(false, None), expected);
        let row = row(&record, 10_000, &TimeZone::UTC, Some(80)).render(false, None);
        assert!(row.lines().all(|line| line.chars().count() <= 80) && row.contains("this morning"), "{row}");
    }

    #[test]
    fn the_verdict_is_green_or_says_what_is_wrong() {
        let mut result = JournalVerifyResult {
            records: 4_521,
            head_seq: 4_520,
            head_hash: "0123456789abcdef0123".into(),
            unsealed: 0,
            sealed: true,
            findings: Vec::new(),
        };
        let expected = "\
✓ the chain of 4,521 records is whole  12 ms
  ↳ head record 4,520  0123456789abcdef…
  ↳ seal signed, and covers the head
";
        assert_eq!(verdict(&result, 12).render(false, None), expected);
        result.findings.push(FindingView { seq: Some(7), what: "edited".into(), why: "hash differs".into() });
        let text = verdict(&result, 12).render(false, None);
        assert!(text.starts_with("✗ the chain of 4,521 records is broken: 1 finding\n"));
        assert!(text.ends_with("  ✗ record 7  edited\n  ↳ why  hash differs\n"), "{text}");
    }
}
