//! What is under way: the last lines of a running command, and how far long work is.

use super::Line;
use super::measure::{count, plural};
use super::progress::frame;
use wire::method::work::{LongWorkKind, LongWorkView, RunningCallView};

/// Lines of a running command's output that are shown below it.
const OUTPUT_LINES: usize = 5;

/// What a work is, for whoever waits for it.
pub fn what(kind: LongWorkKind) -> &'static str {
    match kind {
        LongWorkKind::RecordingBase => "recording where the project stands",
        LongWorkKind::Freezing => "collecting the changes",
        LongWorkKind::Merging => "merging",
        LongWorkKind::Undoing => "undoing",
        LongWorkKind::Verifying => "verifying the journal",
    }
}

/// How far it is: `1,204 of 5,000 files`; empty while there is nothing to count.
pub fn how_far(work: &LongWorkView) -> String {
    let noun = if work.what == LongWorkKind::Verifying { "record" } else { "file" };
    match work.total {
        Some(total) => format!("{} of {}", count(work.done.min(total)), plural(total, noun)),
        None if work.done > 0 => plural(work.done, noun),
        None => String::new(),
    }
}

/// A running call with the last lines of its output, for the foot of a story. The time comes first: an edge cuts the end.
pub fn call(doing: &str, running: Option<&RunningCallView>, ms: u64) -> Vec<Line> {
    let mut lines = vec![clock(ms).plain(doing)];
    let said = running.map_or(&[][..], |call| &call.lines[call.lines.len().saturating_sub(OUTPUT_LINES)..]);
    lines.extend(said.iter().map(|line| Line::new().faint("    │ ").faint(line)));
    lines
}

/// Long work, for the foot of a story.
pub fn long(work: &LongWorkView) -> Line {
    clock(work.ms).plain(what(work.what)).faint("  ").faint(how_far(work))
}

fn clock(ms: u64) -> Line {
    Line::new().plain("  ").name(frame(ms)).faint(format!(" {}  ", elapsed(ms)))
}

/// `7s`, `1m 04s`, `2h 03m`.
pub fn elapsed(ms: u64) -> String {
    match ms / 1_000 {
        s @ 0..60 => format!("{s}s"),
        s @ 60..3_600 => format!("{}m {:02}s", s / 60, s % 60),
        s => format!("{}h {:02}m", s / 3_600, s / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::Page;
    use wire::{CallId, TaskId};

    fn text(lines: Vec<Line>, columns: usize) -> String {
        Page(lines).render(false, Some(columns))
    }

    #[test]
    fn a_running_command_shows_its_last_lines() {
        let lines =
            (1..=9).map(|n| format!("test number {n} of a suite whose names are long, and go on and on and on … ok\x1b[2J")).collect();
        let running = RunningCallView { task: Some(TaskId(1)), call: CallId(4), ms: 0, lines };
        let narrow = "  ⠋ 1m 04s  Running cargo test
    │ test number 5 of a suite whose names are long, and go on and on and on … …
";
        assert!(text(call("Running cargo test", Some(&running), 64_000), 80).starts_with(narrow));
        let wide = text(call("Running cargo test", Some(&running), 64_000), 120);
        assert!(wide.ends_with("    │ test number 9 of a suite whose names are long, and go on and on and on … ok\\x1b[2J\n"), "{wide}");
        assert_eq!(wide.lines().count(), 1 + OUTPUT_LINES);
        assert_eq!(text(call("Reading a", None, 3_000), 80), "  ⠧ 3s  Reading a\n");
    }

    #[test]
    fn long_work_says_how_far_it_is() {
        let mut work = LongWorkView { what: LongWorkKind::Freezing, task: None, done: 1_204, total: Some(5_000), ms: 2_000 };
        assert_eq!(text(vec![long(&work)], 80), "  ⠴ 2s  collecting the changes  1,204 of 5,000 files\n");
        (work.total, work.done) = (None, 0);
        assert_eq!(how_far(&work), "");
        work.done = 1;
        assert_eq!(how_far(&work), "1 file");
        (work.what, work.total) = (LongWorkKind::Verifying, Some(1));
        assert_eq!(how_far(&work), "1 of 1 record");
    }
}
