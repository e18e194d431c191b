//! Lessons that are made, found and given up.

use super::*;
use crate::relevance::{COMMON, split};
use proptest::prelude::*;
use world::StepFinding;

const DAY: i64 = 86_400_000;

fn step(tool: &str, status: StepStatus, summary: &str) -> StepFinding {
    StepFinding { step: "s".into(), title: String::new(), tool: tool.into(), status, summary: summary.into() }
}

fn iteration(findings: Vec<StepFinding>) -> IterationRecord {
    let count = |status| findings.iter().filter(|finding| finding.status == status).count() as u32;
    IterationRecord { succeeded: count(StepStatus::Succeeded), failed: count(StepStatus::Failed), findings, ..IterationRecord::default() }
}

fn lesson(summary: &str, recalled: u64, learned_ms: i64) -> Lesson {
    Lesson { summary: summary.into(), ok: true, text: String::new(), tools: vec![], task: None, learned_ms, recalled, recalled_ms: None }
}

fn lessons(all: impl IntoIterator<Item = Lesson>) -> BTreeMap<LessonId, Lesson> {
    (1..).map(LessonId).zip(all).collect()
}

#[test]
fn a_lesson_says_what_was_done_and_what_failed() {
    use StepStatus::*;
    let good = iteration(vec![step("fs.read", Succeeded, "x"), step("fs.write", Succeeded, "y")]);
    let draft = extract_lesson("read\n a   file", true, "counted", std::slice::from_ref(&good)).unwrap();
    assert_eq!(draft.summary, "read a file");
    assert_eq!(draft.text, "Completed using fs.read, fs.write: 2 steps succeeded, 0 failed. counted");
    let bad = iteration(vec![step("shell.run", Failed, "exit 2\nno make"), step("fs.read", Skipped, "")]);
    let draft = extract_lesson("build", false, "the plan failed", &[good, bad]).unwrap();
    assert!(!draft.ok);
    assert_eq!(
        draft.text,
        "Failed using fs.read, fs.write, shell.run: 2 steps succeeded, 1 failed, in 2 iterations. the plan failed What failed: shell.run: exit 2 no make"
    );
    assert_eq!(extract_lesson("x", false, "no planner", &[]), None, "nothing was done, so nothing is learned");
}

#[test]
fn a_summary_has_two_hundred_characters_and_a_text_its_bound() {
    let record = iteration(vec![step("t", StepStatus::Failed, &"long error ".repeat(500))]);
    let draft = extract_lesson(&"ä".repeat(5000), false, &"e".repeat(5000), &[record]).unwrap();
    assert_eq!(draft.summary.chars().count(), 200);
    assert!(draft.text.len() <= TEXT_BYTES_MAX);
}

#[track_caller]
fn check_rank(task: &str, all: &[&str], expected: &[u64]) {
    let ranked = rank_lessons(task, &lessons(all.iter().map(|summary| lesson(summary, 0, 0))));
    assert_eq!(ranked.iter().map(|ranked| ranked.id.0).collect::<Vec<_>>(), expected);
}

#[test]
fn what_fits_best_comes_first() {
    let all = [
        "write the release notes",
        "run the tests of the parser",
        "mend the parser",
        "a very long lesson about the parser and many other things that have nothing to do with it at all",
    ];
    check_rank("mend the parser", &all, &[3, 2, 4]);
    check_rank("Tests?", &all, &[2]);
    check_rank("the of and to", &all, &[]);
    check_rank("kubernetes", &all, &[]);
    check_rank("", &all, &[]);
    check_rank("anything", &[], &[]);
    check_rank("same same", &["same", "same"], &[2, 1]);
}

#[test]
fn a_lesson_says_by_which_words_it_was_found() {
    let all = lessons(["mend the parser of dates", "mend the build", "parse dates"].map(|summary| lesson(summary, 0, 0)));
    let ranked = rank_lessons("mend dates in the parser", &all);
    let words: Vec<&str> = ranked[0].words.iter().map(|(word, _)| word.as_str()).collect();
    assert_eq!((ranked[0].id, words), (LessonId(1), vec!["parser", "date", "mend"]), "{ranked:?}");
    let sum: f64 = ranked[0].words.iter().map(|(_, score)| score).sum();
    assert!((sum - ranked[0].score).abs() < 1e-9);
}

#[test]
fn the_words_that_do_not_count_are_in_order() {
    assert!(COMMON.is_sorted(), "they are searched by halves");
}

#[test]
fn a_lesson_is_kept_thirty_days_or_as_long_as_it_is_recalled() {
    let old = Lesson { recalled_ms: Some(5 * DAY), ..lesson("recalled on day 5", 1, 0) };
    let all = lessons([lesson("never recalled", 0, 0), old, lesson("new", 0, 20 * DAY)]);
    assert_eq!(expired_lessons(&all, 30 * DAY), []);
    assert_eq!(expired_lessons(&all, 30 * DAY + 1), [LessonId(1)]);
    assert_eq!(expired_lessons(&all, 36 * DAY), [LessonId(1), LessonId(2)]);
}

#[test]
fn the_least_recalled_goes_first_then_the_oldest() {
    let full = || (0..100).map(|n| lesson("x", u64::from(n != 40 && n != 30), n));
    assert_eq!(evicted_lessons(&lessons(full().take(99)), &[]), []);
    assert_eq!(evicted_lessons(&lessons(full()), &[]), [LessonId(31)]);
    assert_eq!(evicted_lessons(&lessons(full()), &[LessonId(5)]), [], "one that is gone already makes the room");
}

proptest! {
    #[test]
    fn there_is_always_room_for_one_more(recalled in prop::collection::vec(0_u64..4, 0..130)) {
        let all = lessons(recalled.iter().map(|recalled| lesson("x", *recalled, 0)));
        let gone = evicted_lessons(&all, &[]);
        prop_assert!(all.len() - gone.len() < limits::LESSONS_MAX);
        let least_kept = all.iter().filter(|(id, _)| !gone.contains(id)).map(|(_, lesson)| lesson.recalled).min();
        let most_gone = gone.iter().map(|id| all[id].recalled).max();
        prop_assert!(most_gone.is_none() || most_gone <= least_kept);
    }

    #[test]
    fn every_score_is_a_number_above_zero_and_each_lesson_comes_once(task in ".{0,60}", texts in prop::collection::vec(".{0,40}", 0..20)) {
        let all = lessons(texts.iter().map(|text| lesson(text, 0, 0)));
        let ranked = rank_lessons(&task, &all);
        prop_assert!(ranked.iter().all(|ranked| ranked.score.is_finite() && ranked.score > 0.0));
        let ids: BTreeSet<LessonId> = ranked.iter().map(|ranked| ranked.id).collect();
        prop_assert_eq!(ids.len(), ranked.len());
        prop_assert!(ranked.windows(2).all(|pair| pair[0].score >= pair[1].score));
    }

    #[test]
    fn a_task_finds_the_lesson_of_the_same_task(words in prop::collection::vec("[a-z]{5,9}[^s]", 1..8)) {
        let task = words.join(" ");
        prop_assume!(split(&task).next().is_some());
        let all = lessons(["write the release notes", task.as_str(), "run all benchmarks"].map(|summary| lesson(summary, 0, 0)));
        prop_assert_eq!(rank_lessons(&task, &all)[0].id, LessonId(2));
    }
}
