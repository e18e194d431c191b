//! Test Anything Protocol, versions 12 to 14, with subtests and the diagnostics that Node writes.
//!
//! A test with subtests counts through them. Node lists a file that has no tests as a test of its own name: it is none.

use super::{ParsedReport, reason_of};
use crate::limits::NESTING_MAX;
use crate::run::{FailureReason, TestCaseOutcome, TestResult, head};

/// Lines of comments that are kept until the next test, which they may be about.
const COMMENTS_MAX: usize = 60;

#[derive(Default)]
struct Level {
    points: usize,
    plan: Option<usize>,
    tests: Vec<TestResult>,
}

/// `ok 3 - name # SKIP why`
struct Point {
    is_ok: bool,
    name: String,
    is_skipped: bool,
    is_numbered: bool,
}

#[derive(Default)]
struct TapReader {
    levels: Vec<Level>,
    /// The level and the place of the test that a diagnostic is about.
    last: Option<(usize, usize)>,
    comments: Vec<String>,
    told_failed: Option<u64>,
    /// A point has a number: talk that begins with `ok` has none.
    is_numbered: bool,
}

pub(super) fn parse(text: &str) -> Result<ParsedReport, String> {
    let (mut reader, mut parsed) = (TapReader::default(), ParsedReport::default());
    reader.levels.push(Level::default());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let body = line.trim_start_matches(' ');
        let indent = line.len() - body.len();
        let depth = indent / 4;
        if depth > NESTING_MAX {
            return Err(format!("subtests are nested more than {NESTING_MAX} deep"));
        }
        if body.starts_with("Bail out!") {
            parsed.crashed.push(format!("the tests gave up: {body}"));
        } else if body == "---" {
            let block = lines.by_ref().take_while(|line| line.trim_start_matches(' ') != "..." || line.len() != indent + 3);
            let fields: Vec<(String, String)> = fields(block);
            diagnostic(&mut reader, &fields, &mut parsed);
        } else if let Some(plan) = plan(body) {
            level(&mut reader.levels, depth).plan = Some(plan);
        } else if let Some(point) = point(body) {
            reader.is_numbered |= point.is_numbered;
            reader.last = take(&mut reader.levels, depth, point, &mut parsed);
        } else if let Some(comment) = body.strip_prefix('#') {
            let comment = comment.trim_start();
            if depth == 0
                && let Some(number) = comment.strip_prefix("fail ").and_then(|number| number.trim().parse().ok())
            {
                reader.told_failed = Some(number);
            }
            if reader.comments.len() < COMMENTS_MAX {
                reader.comments.push(comment.to_owned());
            }
        }
    }
    finish(reader, parsed)
}

fn level(levels: &mut Vec<Level>, depth: usize) -> &mut Level {
    while levels.len() <= depth {
        levels.push(Level::default());
    }
    &mut levels[depth]
}

fn plan(body: &str) -> Option<usize> {
    let rest = body.strip_prefix("1..")?;
    rest.split([' ', '#']).next()?.parse().ok()
}

fn point(body: &str) -> Option<Point> {
    let (is_ok, rest) = match body.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, body.strip_prefix("ok")?),
    };
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    let rest = rest.trim_start();
    let is_numbered = rest.starts_with(|letter: char| letter.is_ascii_digit());
    let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).trim_start();
    let rest = rest.strip_prefix("- ").unwrap_or(rest);
    let (name, directive) = split_directive(rest);
    let directive = directive.to_ascii_lowercase();
    let is_skipped = directive.starts_with("skip") || directive.starts_with("todo");
    Some(Point { is_ok, name: name.trim().replace("\\#", "#").replace("\\\\", "\\"), is_skipped, is_numbered })
}

/// The name, and what stands behind the first `#` that is not escaped.
fn split_directive(text: &str) -> (&str, &str) {
    let is_plain = |at: &usize| text[..*at].chars().rev().take_while(|letter| *letter == '\\').count() % 2 == 0;
    match text.match_indices(" #").map(|(at, _)| at + 1).find(is_plain) {
        Some(at) => (&text[..at], text[at + 1..].trim()),
        None => (text, ""),
    }
}

/// Takes one point in, with the subtests below it. Returns where the test stands, if it is one of its own.
fn take(levels: &mut Vec<Level>, depth: usize, point: Point, parsed: &mut ParsedReport) -> Option<(usize, usize)> {
    level(levels, depth);
    let deeper: Vec<Level> = levels.drain(depth + 1..).collect();
    let mut below: Vec<TestResult> = Vec::new();
    for (at, children) in deeper.into_iter().enumerate() {
        check_plan(&children, &mut parsed.doubts);
        if at > 0 && children.points > 0 {
            parsed.doubts.push("subtests stand below no test".to_owned());
        }
        below.extend(children.tests);
    }
    let level = &mut levels[depth];
    level.points += 1;
    let is_parent = !below.is_empty();
    let has_bad = below.iter().any(TestResult::is_bad);
    for mut test in below {
        test.name = format!("{} > {}", point.name, test.name);
        test.name.truncate(head(&test.name, crate::limits::NAME_BYTES_MAX).len());
        level.tests.push(test);
    }
    if is_parent && (point.is_ok || has_bad || point.is_skipped) {
        if point.is_ok && has_bad && !point.is_skipped {
            parsed.doubts.push(format!("`{}` passed and a test below it did not", point.name));
        }
        return None;
    }
    let outcome = match (point.is_skipped, point.is_ok) {
        (true, _) => TestCaseOutcome::Skipped,
        (false, true) => TestCaseOutcome::Passed,
        (false, false) => TestCaseOutcome::Failed,
    };
    let mut test = TestResult::new("", &point.name, outcome);
    if outcome == TestCaseOutcome::Failed {
        test.reason = Some(FailureReason::Unknown);
    }
    level.tests.push(test);
    Some((depth, level.tests.len() - 1))
}

fn check_plan(level: &Level, doubts: &mut Vec<String>) {
    if let Some(plan) = level.plan.filter(|plan| *plan != level.points) {
        doubts.push(format!("the report announces {plan} tests and lists {}", level.points));
    }
}

/// `key: value` of a diagnostic; a text of several lines gives its first ones.
fn fields<'a>(block: impl Iterator<Item = &'a str>) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in block {
        let body = line.trim();
        let is_new = body.split_once(':').filter(|(key, _)| key.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_'));
        match is_new {
            Some((key, value)) if fields.len() < 100 => {
                let value = value.trim();
                let value = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')).unwrap_or(value);
                fields.push((key.to_owned(), if value.starts_with('|') { String::new() } else { value.to_owned() }));
            }
            _ => {
                if let Some((_, value)) = fields.last_mut()
                    && value.len() < 2_000
                {
                    value.push_str(body);
                    value.push('\n');
                }
            }
        }
    }
    fields
}

fn diagnostic(reader: &mut TapReader, fields: &[(String, String)], parsed: &mut ParsedReport) {
    let comments = std::mem::take(&mut reader.comments);
    let Some((depth, at)) = reader.last.take() else { return };
    let Some(test) = reader.levels.get_mut(depth).and_then(|level| level.tests.get_mut(at)) else { return };
    let field = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    // `/path/a.test.mjs:3:1`
    if let Some(file) = field("location").and_then(|place| place.rsplitn(3, ':').nth(2)) {
        test.file = Some(head(file, crate::limits::NAME_BYTES_MAX).to_owned());
    }
    if test.outcome != TestCaseOutcome::Failed {
        return;
    }
    let (error, code) = (field("error").unwrap_or_default(), field("code").unwrap_or_default());
    let is_assertion = code == "ERR_ASSERTION" || field("name") == Some("AssertionError");
    let reason = match field("name") {
        _ if is_assertion => FailureReason::Assertion,
        Some(name) if name.ends_with("Error") => FailureReason::Exception,
        _ => reason_of(error),
    };
    *test = test.clone().because(reason, error);
    let signal = field("signal").filter(|signal| *signal != "~");
    let code = field("exitCode").filter(|code| *code != "~");
    if signal.is_none() && code.is_none() {
        return;
    }
    test.outcome = TestCaseOutcome::Errored;
    test.reason = Some(FailureReason::Exception);
    let marks = ["SyntaxError", "MODULE_NOT_FOUND", "Cannot find module", "does not provide an export", "ERR_UNKNOWN_FILE_EXTENSION"];
    let why = comments.iter().find(|line| marks.iter().any(|mark| line.contains(mark)));
    match (signal, why) {
        (Some(signal), _) => parsed.crashed.push(format!("{} was ended by {signal}", test.name)),
        (None, Some(why)) => parsed.broken.push(format!("{} cannot be loaded: {why}", test.name)),
        (None, None) => parsed.crashed.push(format!("{} ended with exit code {}", test.name, code.unwrap_or_default())),
    }
}

fn finish(mut reader: TapReader, mut parsed: ParsedReport) -> Result<ParsedReport, String> {
    let mut levels = std::mem::take(&mut reader.levels).into_iter();
    let top = levels.next().unwrap_or_default();
    if top.plan.is_none() && !reader.is_numbered {
        return Err("the report is no TAP".to_owned());
    }
    match top.plan {
        None => parsed.crashed.push("the report has no plan: the tests ended before they were done".to_owned()),
        Some(_) => check_plan(&top, &mut parsed.doubts),
    }
    if levels.any(|level| level.points > 0) {
        parsed.doubts.push("the last subtests stand below no test".to_owned());
    }
    parsed.tests = top.tests;
    parsed.tests.retain(|test| !(test.outcome == TestCaseOutcome::Passed && is_file(&test.name)));
    let bad = parsed.tests.iter().any(TestResult::is_bad);
    if let Some(told) = reader.told_failed.filter(|told| (*told > 0) != bad) {
        parsed.doubts.push(format!("the report counts {told} tests that failed, and lists {}", if bad { "some" } else { "none" }));
    }
    Ok(parsed)
}

fn is_file(name: &str) -> bool {
    let ends = [".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx"];
    name.contains('/') && !name.contains(' ') && ends.iter().any(|end| name.ends_with(end))
}
