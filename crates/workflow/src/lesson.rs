//! Lessons: what a session taught, which of them fit a task, and which are given up.
//!
//! Pure. Relevance is BM25 over the few lessons that the world holds (decision 0080). Whoever calls takes the secrets out before and after.

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
/// How fast more of the same word stops to count, and how much a long text is worth less: the usual figures of BM25.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;

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

/// The lessons that fit a task, the best first. One that shares no word with it is not among them.
pub fn rank_lessons(task: &str, lessons: &BTreeMap<LessonId, Lesson>) -> Vec<RankedLesson> {
    let texts: Vec<(LessonId, BTreeMap<String, usize>)> = lessons.iter().map(|(id, lesson)| (*id, words_of(lesson))).collect();
    let average = texts.iter().map(|(_, words)| words.values().sum::<usize>()).sum::<usize>() as f64 / texts.len().max(1) as f64;
    let wanted: BTreeSet<String> = split(task).collect();
    let mut ranked: Vec<RankedLesson> = texts
        .iter()
        .filter_map(|(id, words)| {
            let length = words.values().sum::<usize>() as f64;
            let mut scored: Vec<(String, f64)> = wanted
                .iter()
                .filter_map(|word| {
                    let count = *words.get(word)? as f64;
                    let holders = texts.iter().filter(|(_, words)| words.contains_key(word)).count() as f64;
                    // The form that is never negative: a word that all lessons have still counts a little.
                    let rarity = (1.0 + (texts.len() as f64 - holders + 0.5) / (holders + 0.5)).ln();
                    let weight = SATURATION * (1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length / average.max(1.0));
                    Some((word.clone(), rarity * count * (SATURATION + 1.0) / (count + weight)))
                })
                .collect();
            scored.sort_by(|a, b| b.1.total_cmp(&a.1));
            let score = scored.iter().map(|(_, score)| score).sum();
            (!scored.is_empty()).then_some(RankedLesson { id: *id, score, words: scored })
        })
        .collect();
    // Of equal ones the newer is the better: what it saw is nearer to what is.
    ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.id.cmp(&a.id)));
    ranked
}

fn words_of(lesson: &Lesson) -> BTreeMap<String, usize> {
    let mut words = BTreeMap::new();
    for word in split(&lesson.summary).chain(split(&lesson.text)).chain(lesson.tools.iter().flat_map(|tool| split(tool))) {
        *words.entry(word).or_default() += 1;
    }
    words
}

/// Words that say nothing about a task, and those that every lesson has.
const COMMON: &[&str] = &[
    "a",
    "an",
    "and",
    "are",
    "as",
    "at",
    "be",
    "by",
    "completed",
    "do",
    "failed",
    "for",
    "from",
    "in",
    "is",
    "it",
    "its",
    "of",
    "on",
    "or",
    "steps",
    "succeeded",
    "that",
    "the",
    "then",
    "this",
    "to",
    "using",
    "what",
    "with",
];

fn split(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase);
    words.map(|word| stem(&word).to_owned()).filter(|word| word.chars().count() > 1 && COMMON.binary_search(&word.as_str()).is_err())
}

/// A word without the ending of its plural, so that `test` finds `tests`.
fn stem(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with(['s', 'u', 'i']) && !COMMON.contains(&word) => stem,
        _ => word,
    }
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
