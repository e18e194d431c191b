//! `skep log`: which transcripts there are, what a search found, and what work cost.

use super::measure::{ago, bytes, clock_seconds, count, dollars, plural};
use super::task::quoted;
use super::{Line, Page, table};
use jiff::tz::TimeZone;
use wire::UsageTotals;
use wire::method::task::TaskView;
use wire::method::transcript::{TranscriptLineView, TranscriptView};

/// Text that is shown of any transcript; the file that `--export` writes has all of it.
pub const SHOWN_BYTES_MAX: usize = 1 << 20;
/// Columns of a line that a search found.
const FOUND_COLUMNS: usize = 400;

/// The end of a story, as much of it as is shown; what came before is counted.
pub fn newest(page: Page, bytes_max: usize) -> Page {
    let mut left = bytes_max;
    let fits = |line: &&Line| {
        let fits = line.bytes() < left;
        left = left.saturating_sub(line.bytes() + 1);
        fits
    };
    let shown = page.0.iter().rev().take_while(fits).count();
    let dropped = page.0.len() - shown;
    if dropped == 0 {
        return page;
    }
    let mut cut =
        Page(vec![Line::new().faint(format!("… {} before this; `--export FILE` writes all of them", plural(dropped as u64, "line")))]);
    cut.0.extend(page.0.into_iter().skip(dropped));
    cut
}

pub fn list(transcripts: &[TranscriptView], now_ms: i64) -> Page {
    let row = |one: &TranscriptView| {
        let client = match (one.lines, one.talks) {
            (0, 0) => Line::new().faint("—"),
            (lines, 0) => Line::new().plain(format!("{}, {}", plural(lines, "line"), bytes(one.bytes))),
            (_, talks) => Line::new().plain(format!("{}, {}", plural(talks, "talk"), bytes(one.bytes))),
        };
        let client = if one.whole { client } else { client.faint(", kept no longer") };
        vec![
            Line::new().name(one.task.to_string()),
            Line::new().strong(&one.worker),
            Line::new().plain(one.state.as_str()),
            Line::new().faint(ago(one.ended_ms.unwrap_or(one.queued_ms), now_ms)),
            Line::new().name(format!("@{}", one.branch)),
            client,
            quoted(&one.prompt),
        ]
    };
    if transcripts.is_empty() {
        return Page(vec![Line::new().faint("no transcripts yet")]);
    }
    table(transcripts.iter().map(row).collect())
}

pub fn found(lines: &[TranscriptLineView], text: &str, now_ms: i64, zone: &TimeZone) -> Page {
    let row = |line: &TranscriptLineView| {
        Line::new()
            .faint(clock_seconds(line.at_ms, now_ms, zone))
            .plain("  ")
            .name(line.task.to_string())
            .plain("  ")
            .strong(&line.worker)
            .plain("  ")
            .faint(format!("{:<8}", line.speaker))
            .join(around(&line.text, text))
    };
    match lines.is_empty() {
        true => Page(vec![Line::new().faint(format!("`{text}` is in no transcript here"))]),
        false => lines.iter().map(row).collect(),
    }
}

/// A long line from a little before what was looked for.
fn around(line: &str, text: &str) -> Line {
    let chars: Vec<char> = line.chars().collect();
    if chars.len() <= FOUND_COLUMNS {
        return Line::new().plain(line);
    }
    let wanted = text.to_lowercase();
    let at = line.to_lowercase().find(&wanted).map_or(0, |at| line.to_lowercase()[..at].chars().count());
    let from = at.saturating_sub(FOUND_COLUMNS / 4).min(chars.len());
    let shown: String = chars[from..].iter().take(FOUND_COLUMNS).collect();
    let (before, after) = (from > 0, from + FOUND_COLUMNS < chars.len());
    Line::new().faint(if before { "… " } else { "" }).plain(shown).faint(if after { " …" } else { "" })
}

/// What tasks used of models, and all of them together.
pub fn cost(tasks: &[&TaskView]) -> Page {
    let mut sum = UsageTotals::default();
    let head = ["task", "worker", "requests", "input", "output", "cache", "cost", ""].map(|word| Line::new().faint(word)).to_vec();
    let mut rows = vec![head];
    for task in tasks {
        let Some(usage) = &task.usage else { continue };
        sum.add(&usage.figures);
        let mut row = vec![Line::new().name(task.task.to_string()), Line::new().strong(&task.process)];
        row.extend(figures(&usage.figures));
        row.push(quoted(&task.prompt));
        rows.push(row);
    }
    if rows.len() == 1 {
        return Page(vec![Line::new().faint("no model was asked for this")]);
    }
    if rows.len() > 2 {
        let mut row = vec![Line::new().strong("all"), Line::new()];
        row.extend(figures(&sum));
        rows.push(row);
    }
    table(rows)
}

fn figures(used: &UsageTotals) -> Vec<Line> {
    let money = match (used.unpriced, used.micros) {
        (0, micros) => dollars(micros),
        (_, 0) => "unknown".to_owned(),
        (_, micros) => format!("{} + unknown", dollars(micros)),
    };
    let cache = used.cache_read.saturating_add(used.cache_write);
    let counts = [used.requests, used.input, used.output, cache].map(|n| Line::new().plain(count(n)));
    counts.into_iter().chain([Line::new().plain(money)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::task::tests::task;
    use wire::Spend;
    use wire::method::task::{TaskStatus, TaskUsageView};
    use wire::{Pid, TaskId, ZoneId};

    #[test]
    fn a_long_story_shows_its_end_and_counts_the_rest() {
        let story = || (1..=10).map(|n| Line::new().plain(format!("line {n:02}"))).collect::<Page>();
        assert_eq!(newest(story(), 1_000).0.len(), 10);
        let cut = newest(story(), 25).render(false, None);
        assert_eq!(cut, "… 7 lines before this; `--export FILE` writes all of them\nline 08\nline 09\nline 10\n");
        assert_eq!(newest(Page::new(), 5), Page::new());
    }

    #[test]
    fn transcripts_are_listed_with_what_is_kept() {
        let one = TranscriptView {
            task: TaskId(3),
            worker: "worker.1".into(),
            zone: ZoneId(1),
            branch: "main".into(),
            brain: "claude".into(),
            prompt: "add a flag".into(),
            state: TaskStatus::Done,
            queued_ms: 0,
            ended_ms: Some(5_000),
            lines: 1_200,
            bytes: 400_000,
            talks: 0,
            whole: true,
        };
        let gone = TranscriptView { task: TaskId(2), whole: false, ..one.clone() };
        let native = TranscriptView { task: TaskId(1), lines: 0, bytes: 0, ..one.clone() };
        let expected = "\
task-3  worker.1  done  5s ago  @main  1,200 lines, 400.0 kB                  \"add a flag\"
task-2  worker.1  done  5s ago  @main  1,200 lines, 400.0 kB, kept no longer  \"add a flag\"
task-1  worker.1  done  5s ago  @main  —                                      \"add a flag\"
";
        assert_eq!(list(&[one, gone, native], 10_000).render(false, None), expected);
    }

    #[test]
    fn a_search_shows_what_it_found_in_its_place() {
        let line = |text: &str| TranscriptLineView {
            seq: 1,
            at_ms: 1_000,
            task: TaskId(3),
            pid: Pid(3),
            worker: "worker.1".into(),
            speaker: "brain".into(),
            text: text.into(),
        };
        let long = format!("{}NEEDLE{}", "a".repeat(2_000), "b".repeat(2_000));
        let text = found(&[line("a needle"), line(&long)], "needle", 2_000, &TimeZone::UTC).render(false, None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "00:00:01  task-3  worker.1  brain   a needle");
        assert!(lines[1].contains("NEEDLE") && lines[1].contains("… a") && lines[1].ends_with("b …") && lines[1].len() < 500, "{text}");
        assert_eq!(found(&[], "x", 0, &TimeZone::UTC).render(false, None), "`x` is in no transcript here\n");
    }

    #[test]
    fn cost_is_told_for_each_and_for_all() {
        let used = |id: u64, micros: u64, unpriced: u64| {
            let mut used = task(id, TaskStatus::Done);
            let figures = UsageTotals { requests: 2, input: 1_000, output: 50, cache_read: 7, micros, unpriced, ..UsageTotals::default() };
            used.usage = Some(TaskUsageView { figures, guessed: Spend::default(), held: Spend::default() });
            used
        };
        let tasks = [used(1, 40_000, 0), used(2, 0, 2), task(3, TaskStatus::Done)];
        let text = cost(&tasks.iter().collect::<Vec<_>>()).render(false, None);
        let expected = "\
task    worker    requests  input  output  cache  cost
task-1  worker.1  2         1,000  50      7      $0.04            \"implement auth\"
task-2  worker.1  2         1,000  50      7      unknown          \"implement auth\"
all               4         2,000  100     14     $0.04 + unknown
";
        assert_eq!(text, expected);
        assert_eq!(cost(&[&tasks[2]]).render(false, None), "no model was asked for this\n");
    }
}
