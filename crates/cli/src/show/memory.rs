//! What sessions taught.

use super::measure::{ago, plural};
use super::{Line, Node, Page, table_wrapped, tree};
use wire::method::memory::{LessonMatch, LessonView, MemoryWhyResult};

/// Columns before a fact of one lesson.
const FACT_COLUMNS: usize = 13;

fn sign(lesson: &LessonView) -> Line {
    if lesson.ok { Line::new().good("✓ ") } else { Line::new().bad("✗ ") }
}

fn told(lesson: &LessonView) -> String {
    match lesson.recalled {
        0 => "never told".to_owned(),
        1 => "told once".to_owned(),
        2 => "told twice".to_owned(),
        n => format!("told {n} times"),
    }
}

/// One line a lesson.
pub fn rows(lessons: &[LessonView], now_ms: i64, columns: Option<usize>) -> Page {
    let row = |lesson: &LessonView| {
        vec![
            sign(lesson).name(lesson.lesson.to_string()),
            Line::new().faint(ago(lesson.learned_ms, now_ms)),
            Line::new().faint(told(lesson)),
            Line::new().plain(&lesson.summary),
        ]
    };
    table_wrapped(lessons.iter().map(row).collect(), columns)
}

pub fn list(lessons: &[LessonView], now_ms: i64, columns: Option<usize>) -> Page {
    if lessons.is_empty() {
        let mut page = Page(vec![Line::new().faint("nothing was learned yet")]);
        page.because("how", "a session that made steps leaves a lesson at its end: skep run \"…\"");
        return page;
    }
    rows(lessons, now_ms, columns)
}

pub fn detail(lesson: &LessonView, now_ms: i64, columns: Option<usize>) -> Page {
    let columns = columns.unwrap_or(usize::MAX).max(FACT_COLUMNS + 20) - FACT_COLUMNS;
    let fact = |name: &str, value: Line| Node::new(Line::new().faint(name)).block(value.wrap(columns));
    let of = match (lesson.task, lesson.ok) {
        (Some(task), true) => Line::new().name(task.to_string()).plain(", which succeeded"),
        (Some(task), false) => Line::new().name(task.to_string()).plain(", which failed"),
        (None, true) => Line::new().plain("a session that succeeded"),
        (None, false) => Line::new().plain("a session that failed"),
    };
    let recalled = match lesson.recalled_ms {
        Some(at_ms) => format!("{}, last {}", plural(lesson.recalled, "time"), ago(at_ms, now_ms)),
        None => "never".to_owned(),
    };
    let mut root = Node::new(sign(lesson).plain("lesson ").name(lesson.lesson.to_string()))
        .under(fact("task", Line::new().plain(&lesson.summary)))
        .under(fact("lesson", Line::new().plain(&lesson.text)))
        .under(fact("of", of))
        .under(fact("learned", Line::new().plain(ago(lesson.learned_ms, now_ms))));
    if !lesson.tools.is_empty() {
        root = root.under(fact("tools", Line::new().plain(lesson.tools.join(", "))));
    }
    root = root.under(fact("told", Line::new().plain(recalled)));
    if !lesson.told_to.is_empty() {
        let tasks: Vec<String> = lesson.told_to.iter().map(ToString::to_string).collect();
        root = root.under(fact("to", Line::new().name(tasks.join(", "))));
    }
    tree(&root)
}

/// Which lessons a planner would be told, and by which words.
pub fn why(result: &MemoryWhyResult, columns: Option<usize>) -> Page {
    if result.matches.is_empty() {
        let of = plural(result.of, "lesson");
        return Page(vec![Line::new().faint(format!("none of {of} shares a word with it, so a planner is told none"))]);
    }
    let row = |found: &LessonMatch| {
        vec![
            sign(&found.lesson).name(found.lesson.lesson.to_string()),
            Line::new().plain(format!("{:.2}", found.score)),
            Line::new().faint(found.words.join(" ")),
            Line::new().plain(&found.lesson.summary),
        ]
    };
    let head = ["LESSON", "FITS", "BY", "TASK"].map(|name| Line::new().faint(name)).to_vec();
    table_wrapped(std::iter::once(head).chain(result.matches.iter().map(row)).collect(), columns)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use wire::{LessonId, TaskId};

    pub(crate) fn lesson(id: u64) -> LessonView {
        LessonView {
            lesson: LessonId(id),
            summary: "find prices".into(),
            ok: true,
            text: "Completed using fs.read: 2 steps succeeded, 0 failed.".into(),
            tools: vec!["fs.read".into()],
            task: Some(TaskId(2)),
            learned_ms: 0,
            recalled: 2,
            recalled_ms: Some(4_000),
            told_to: vec![TaskId(4)],
        }
    }

    #[test]
    fn a_lesson_is_told_with_whom_it_was_told_to() {
        let expected = "\
✓ lesson l-3
├─ task     find prices
├─ lesson   Completed using fs.read: 2 steps succeeded, 0 failed.
├─ of       task-2, which succeeded
├─ learned  5s ago
├─ tools    fs.read
├─ told     2 times, last 1s ago
└─ to       task-4
";
        assert_eq!(detail(&lesson(3), 5_000, Some(80)).render(false, Some(80)), expected);
    }

    #[test]
    fn what_fits_is_told_with_its_words() {
        let matches = vec![LessonMatch { lesson: lesson(3), score: 1.5, words: vec!["prices".into()] }];
        let expected = "LESSON  FITS  BY      TASK\n✓ l-3   1.50  prices  find prices\n";
        assert_eq!(why(&MemoryWhyResult { matches, of: 4 }, Some(80)).render(false, None), expected);
        let none = why(&MemoryWhyResult { matches: Vec::new(), of: 4 }, Some(80)).render(false, None);
        assert_eq!(none, "none of 4 lessons shares a word with it, so a planner is told none\n");
        assert!(list(&[], 0, None).render(false, None).starts_with("nothing was learned yet\n"));
    }
}
