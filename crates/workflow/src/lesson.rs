//! Lessons: what a session taught, which of them fit a task, and which are given up.
//!
//! Pure. Relevance is BM25 over the few lessons that the world holds (decision 0080). Whoever calls takes the secrets out before and after.

use crate::relevance::{RankedText, count_words, rank};
use crate::untrusted::clip;
use std::collections::{BTreeMap, BTreeSet};
use world::{IterationRecord, Lesson, LessonId, StepStatus, limits};

/// Lessons that a planner is told at once.
pub const RECALLED_MAX: usize = 5;
/// How long a lesson is kept that nobody recalls: seed 002 asks for 30 days.
pub const LESSON_MS_MAX: i64 = 30 * 86_400_000;
/// Bytes of what a lesson says beside its summary.
const TEXT_BYTES_MAX: usize = 1_000;
/// Tools and errors that a lesson names.
const NAMED_MAX: usize = 16;
const ERRORS_MAX: usize = 3;
/// A lesson before it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LessonDraft {
    /// The beginning of the task.
    pub summary: String,
    pub ok: bool,
    pub text: String,
    pub tools: Vec<String>,
}

/// What a session taught. `end` is what it came to, or why it failed. Nothing where it did not get to a step.
pub fn extract_lesson(task: &str, ok: bool, end: &str, iterations: &[IterationRecord]) -> Option<LessonDraft> {
    let steps: Vec<_> = iterations.iter().flat_map(|record| &record.findings).collect();
    let counted = |count: fn(&IterationRecord) -> u32| iterations.iter().map(|record| u64::from(count(record))).sum::<u64>();
    let (succeeded, failed) = (counted(|record| record.succeeded), counted(|record| record.failed));
    if succeeded + failed == 0 {
        return None;
    }
    let tools: BTreeSet<&str> =
        steps.iter().filter(|step| step.status != StepStatus::Skipped && !step.tool.is_empty()).map(|step| step.tool.as_str()).collect();
    let tools: Vec<String> = tools.into_iter().take(NAMED_MAX).map(str::to_owned).collect();
    let mut text =
        format!("{} using {}: {succeeded} steps succeeded, {failed} failed", if ok { "Completed" } else { "Failed" }, tools.join(", "));
    if iterations.len() > 1 {
        text.push_str(&format!(", in {} iterations", iterations.len()));
    }
    text.push('.');
    let end = one_line(end);
    if !end.is_empty() {
        text.push_str(&format!(" {end}"));
    }
    let mut errors: Vec<String> = Vec::new();
    for step in steps.iter().rev().filter(|step| step.status == StepStatus::Failed) {
        let error = format!("{}: {}", step.tool, clip(&one_line(&step.summary), 160));
        if !errors.contains(&error) && errors.len() < ERRORS_MAX {
            errors.push(error);
        }
    }
    if !errors.is_empty() {
        text.push_str(&format!(" What failed: {}", errors.join("; ")));
    }
    let summary = one_line(task).chars().take(limits::LESSON_SUMMARY_MAX).collect();
    Some(LessonDraft { summary, ok, text: clip(&text, TEXT_BYTES_MAX), tools })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A lesson that fits, and by which words.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedLesson {
    pub id: LessonId,
    pub score: f64,
    /// The words of the task that it has, with what each counts, the most first.
    pub words: Vec<(String, f64)>,
}

/// The lessons that fit a task, the best first, of equal ones the newer: what it saw is nearer to what is. One that shares no word with it is not among them.
pub fn rank_lessons(task: &str, lessons: &BTreeMap<LessonId, Lesson>) -> Vec<RankedLesson> {
    let words =
        |lesson: &Lesson| count_words([lesson.summary.as_str(), &lesson.text].into_iter().chain(lesson.tools.iter().map(String::as_str)));
    let (ids, texts): (Vec<LessonId>, Vec<_>) = lessons.iter().map(|(id, lesson)| (*id, words(lesson))).unzip();
    rank(task, &texts).into_iter().map(|RankedText { index, score, words }| RankedLesson { id: ids[index], score, words }).collect()
}

/// Lessons that nobody needed for too long: learned and last recalled before the limit.
pub fn expired_lessons(lessons: &BTreeMap<LessonId, Lesson>, now_ms: i64) -> Vec<LessonId> {
    let is_old =
        |lesson: &Lesson| now_ms.saturating_sub(lesson.recalled_ms.unwrap_or(lesson.learned_ms).max(lesson.learned_ms)) > LESSON_MS_MAX;
    lessons.iter().filter(|(_, lesson)| is_old(lesson)).map(|(id, _)| *id).collect()
}

/// The lessons that must go, so that one more has room: those recalled least, of these the oldest.
pub fn evicted_lessons(lessons: &BTreeMap<LessonId, Lesson>, gone: &[LessonId]) -> Vec<LessonId> {
    let mut left: Vec<(&LessonId, &Lesson)> = lessons.iter().filter(|(id, _)| !gone.contains(id)).collect();
    left.sort_by_key(|(id, lesson)| (lesson.recalled, lesson.learned_ms, **id));
    let excess = (left.len() + 1).saturating_sub(limits::LESSONS_MAX);
    left.into_iter().take(excess).map(|(id, _)| *id).collect()
}

#[cfg(test)]
mod tests;
