//! Compares files in two states.

use super::examples::lost_examples;
use super::hidden::hidden_text;
use super::{ChangedFile, FindingKind, TestFinding};
use crate::paths::{FileRole, file_role, is_build_file, settings_change};
use crate::source::{FileTests, SourceTest, read_file, test_questions};
use std::collections::{BTreeMap, BTreeSet};

/// Tests with the files that they are in.
type Tests = Vec<(String, SourceTest)>;

/// Findings about what changed between RED and GREEN. Hand in every file that differs; sources are looked at for the tests inside them.
pub fn compare_tests(changes: &[ChangedFile<'_>]) -> Vec<TestFinding> {
    let mut findings = Vec::new();
    let (mut gone, mut come) = (Tests::new(), Tests::new());
    for change in changes {
        if change.before == change.after {
            continue;
        }
        match file_role(change.path) {
            FileRole::Snapshot => snapshot(change, &mut findings),
            FileRole::Fixture => fixture(change, &mut findings),
            FileRole::RunnerConfig => config(change, &mut findings),
            FileRole::Source => {
                detects_tests(change, &mut findings);
                source(change, &mut findings);
            }
            FileRole::Test => {}
        }
        code(change, &mut findings, &mut gone, &mut come);
    }
    // A test that went from one file and came into another as it was has moved.
    let mut by_code: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, test) in &come {
        by_code.entry(&test.code).or_default().push(path);
    }
    for (path, test) in gone {
        match by_code.get_mut(test.code.as_str()).and_then(Vec::pop) {
            Some(to) => {
                let sentence = format!("the test `{}` moved to {to} and is the same", test.name);
                findings.push(TestFinding::new(FindingKind::TestMoved, &path, &test.name, sentence));
            }
            None => {
                let sentence = format!("the test `{}` is gone", test.name);
                findings.push(TestFinding::new(FindingKind::TestDeleted, &path, &test.name, sentence));
            }
        }
    }
    findings
}

/// A source that asks whether it is being tested can do one thing for tests and another for people.
fn detects_tests(change: &ChangedFile<'_>, findings: &mut Vec<TestFinding>) {
    let asks = |bytes: Option<&[u8]>| text(bytes).map(|text| test_questions(change.path, text)).unwrap_or_default();
    let before = asks(change.before);
    for question in asks(change.after).into_iter().filter(|question| !before.contains(question)) {
        let sentence = match question.rsplit_once(" … ") {
            Some((_, "true")) => format!("the source has a value that equals everything: `{question}`"),
            Some((line, "unmeasured")) => format!("the source keeps lines out of what is measured: `{line}`"),
            _ => format!("the source asks whether it is being tested, or changes what tests do: `{question}`"),
        };
        findings.push(TestFinding::new(FindingKind::SourceKnowsTests, change.path, "", sentence));
    }
}

/// What else of a source concerns the tests: examples that are run, how it is built, and whether people read what runs.
fn source(change: &ChangedFile<'_>, findings: &mut Vec<TestFinding>) {
    let mut push = |kind, sentence: String| findings.push(TestFinding::new(kind, change.path, "", sentence));
    if is_build_file(change.path) {
        push(FindingKind::BuildChanged, "it tells how the project is built or tested, and changed".to_owned());
    }
    let (before, after) = (text(change.before).unwrap_or_default(), text(change.after).unwrap_or_default());
    if let Some(why) = hidden_text(change.path, after).filter(|_| hidden_text(change.path, before).is_none()) {
        push(FindingKind::HiddenText, why);
    }
    let lost = lost_examples(change.path, before, after);
    if lost > 0 {
        push(FindingKind::ExampleChanged, format!("{lost} lines of examples that runners take for tests are not what they were"));
    }
}

fn text(bytes: Option<&[u8]>) -> Option<&str> {
    std::str::from_utf8(bytes?).ok()
}

fn snapshot(change: &ChangedFile<'_>, findings: &mut Vec<TestFinding>) {
    let what = match (change.before, change.after) {
        (None, _) => return,
        (Some(_), None) => "the recorded snapshot is gone, and the next run accepts whatever it sees",
        (Some(_), Some(_)) => "the recorded snapshot was changed to what the code does now",
    };
    findings.push(TestFinding::new(FindingKind::SnapshotAccepted, change.path, "", what.to_owned()));
}

fn fixture(change: &ChangedFile<'_>, findings: &mut Vec<TestFinding>) {
    if change.before.is_some() {
        let what = if change.after.is_some() { "changed" } else { "is gone" };
        findings.push(TestFinding::new(FindingKind::FixtureChanged, change.path, "", format!("data that tests compare with {what}")));
    }
}

fn config(change: &ChangedFile<'_>, findings: &mut Vec<TestFinding>) {
    let differs = match (text(change.before), text(change.after)) {
        (Some(before), Some(after)) => settings_change(change.path, before, after).unwrap_or(true),
        _ => true,
    };
    if differs {
        let what = match (change.before, change.after) {
            (None, _) => "settings of a test runner came",
            (_, None) => "settings of a test runner are gone",
            _ => "settings that decide which tests run, or how, changed",
        };
        findings.push(TestFinding::new(FindingKind::ConfigChanged, change.path, "", what.to_owned()));
    }
}

fn code(change: &ChangedFile<'_>, findings: &mut Vec<TestFinding>, gone: &mut Tests, come: &mut Tests) {
    let role = file_role(change.path);
    let is_test = role == FileRole::Test;
    let is_text = |bytes: Option<&[u8]>| bytes.is_none() || text(bytes).is_some();
    if !is_text(change.before) || !is_text(change.after) {
        if is_test {
            let sentence = "a file of tests changed, and it is no text".to_owned();
            findings.push(TestFinding::new(FindingKind::FileChanged, change.path, "", sentence));
        }
        return;
    }
    let read = |bytes: Option<&[u8]>| text(bytes).map(|text| read_file(change.path, text));
    let (before, after) = (read(change.before), read(change.after));
    match (before, after) {
        (Some(before), None) => {
            if is_test {
                let sentence = match before.tests.len() {
                    0 => "a file of the tests is gone".to_owned(),
                    1 => "a file with 1 test is gone".to_owned(),
                    tests => format!("a file with {tests} tests is gone"),
                };
                findings.push(TestFinding::new(FindingKind::FileDeleted, change.path, "", sentence));
            }
            gone.extend(before.tests.into_iter().map(|test| (change.path.to_owned(), test)));
        }
        (None, Some(after)) => {
            if is_test && after.tests.is_empty() {
                let sentence = "a file without tests came beside the tests".to_owned();
                findings.push(TestFinding::new(FindingKind::SupportChanged, change.path, "", sentence));
            }
            come.extend(after.tests.into_iter().map(|test| (change.path.to_owned(), test)));
        }
        (Some(before), Some(after)) => both(change.path, is_test, before, after, findings, gone, come),
        (None, None) => {}
    }
}

fn both(
    path: &str,
    is_test: bool,
    before: FileTests,
    after: FileTests,
    findings: &mut Vec<TestFinding>,
    gone: &mut Tests,
    come: &mut Tests,
) {
    let mut push = |kind, test: &str, sentence: String| findings.push(TestFinding::new(kind, path, test, sentence));
    if is_test && (!before.is_whole || !after.is_whole || crate::lex::SourceLanguage::of(path).is_none()) {
        push(FindingKind::FileChanged, "", "a file of tests changed, and its tests cannot be told".to_owned());
    }
    for mark in added(&before.marks, &after.marks) {
        push(FindingKind::TestSkipped, "", format!("the whole file is now marked with `{mark}`"));
    }
    if before.support.concat() != after.support.concat() {
        let had: BTreeSet<&String> = before.support.iter().collect();
        let has: BTreeSet<&String> = after.support.iter().collect();
        // Lines that only came and are imports or new helpers still can change what tests mean; lines that went do so surely.
        let lost = had.difference(&has).count();
        let sentence = match lost {
            0 => "code beside the tests was added to".to_owned(),
            _ => format!("code beside the tests changed: {lost} lines of helpers, tables or imports are not what they were"),
        };
        push(FindingKind::SupportChanged, "", sentence);
    }
    let mut olds: BTreeMap<String, Vec<SourceTest>> = BTreeMap::new();
    for test in before.tests {
        olds.entry(test.name.clone()).or_default().push(test);
    }
    let names: BTreeSet<String> = olds.keys().cloned().collect();
    let is_focused_before = olds.values().flatten().any(|old| old.is_focused);
    let mut narrowed = None;
    for new in after.tests {
        if new.is_focused && !is_focused_before {
            narrowed.get_or_insert(new.name.clone());
        }
        let same_name = olds.get_mut(&new.name).filter(|olds| !olds.is_empty());
        match same_name {
            Some(olds) => {
                let at = olds.iter().position(|old| old.code == new.code).unwrap_or(0);
                changed(path, &olds.remove(at), &new, findings);
            }
            None if is_shadowing(path, &names, &new.name) => {
                let sentence = format!("`{}` is defined twice, and only the last one runs", new.name);
                findings.push(TestFinding::new(FindingKind::TestShadowed, path, &new.name, sentence));
            }
            None => come.push((path.to_owned(), new)),
        }
    }
    if let Some(name) = narrowed {
        let sentence = format!("only the test `{name}` and its like run now");
        findings.push(TestFinding::new(FindingKind::TestsNarrowed, path, &name, sentence));
    }
    gone.extend(olds.into_values().flatten().map(|test| (path.to_owned(), test)));
}

/// In Python a second definition of one name replaces the first.
fn is_shadowing(path: &str, names: &BTreeSet<String>, name: &str) -> bool {
    crate::lex::SourceLanguage::of(path) == Some(crate::lex::SourceLanguage::Python) && names.contains(name)
}

/// Marks that are there more often than before.
fn added(before: &[String], after: &[String]) -> Vec<String> {
    let mut left: Vec<&String> = before.iter().collect();
    let mut added = Vec::new();
    for mark in after {
        match left.iter().position(|known| *known == mark) {
            Some(at) => drop(left.remove(at)),
            None => added.push(mark.clone()),
        }
    }
    added
}

fn changed(path: &str, old: &SourceTest, new: &SourceTest, findings: &mut Vec<TestFinding>) {
    // Marks may come from the group or class around it, and assertions from a function that it calls.
    if old.code == new.code && old.marks == new.marks && old.assertions == new.assertions {
        return;
    }
    let before = findings.len();
    let name = &new.name;
    let mut push = |kind, sentence: String| findings.push(TestFinding::new(kind, path, name, sentence));
    for mark in added(&old.marks, &new.marks) {
        let expects = ["xfail", "expectedFailure", "fails", "failing", "should_panic"].iter().any(|word| mark.contains(word));
        match expects {
            true => {
                push(FindingKind::FailureExpected, format!("the test `{name}` is now marked with `{mark}`: its failure counts as success"))
            }
            false => push(FindingKind::TestSkipped, format!("the test `{name}` is now marked with `{mark}`")),
        }
    }
    if new.is_empty && !old.is_empty {
        push(FindingKind::EmptyTest, format!("the test `{name}` has no statements any more"));
    }
    if new.assertions < old.assertions {
        push(FindingKind::FewerAssertions, format!("the test `{name}` makes {} assertions and made {}", new.assertions, old.assertions));
    }
    if new.constant_assertions > old.constant_assertions {
        push(FindingKind::ConstantAssertion, format!("the test `{name}` asserts something that always holds"));
    }
    if new.returns_early && !old.returns_early {
        push(FindingKind::EarlyReturn, format!("the test `{name}` now returns before its last assertion"));
    }
    for habit in new.habits.iter().filter(|habit| !old.habits.contains(habit)) {
        push(FindingKind::Habit, format!("the test `{name}` has a new habit: {habit:?}"));
    }
    let is_named = findings[before..].iter().any(|finding| finding.blocks);
    if !is_named && old.code != new.code {
        findings.push(TestFinding::new(FindingKind::TestChanged, path, name, format!("the code of the test `{name}` changed")));
    }
}
