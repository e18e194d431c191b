//! What must hold of an output: `exit_code == 0`, `content contains "done"`, `exists`, `count(matches) >= 1`, `not truncated`.
//!
//! **Invariant.** A criterion about a field that is not there, or of another type, does not hold, and neither does its opposite: only `… exists` asks whether something is
//! there. What is said of a criterion that does not hold never quotes the output.

use crate::failure::{StepFailure, step_error};
use crate::field::FieldPath;
use crate::findings::shown;
use serde_json::Value;
use world::StepError;

/// One expression over an output, or over the outputs of all steps by their ids.
#[derive(Clone, Debug, PartialEq)]
pub struct Criterion {
    text: String,
    is_negated: bool,
    subject: Subject,
    test: Test,
}

#[derive(Clone, Debug, PartialEq)]
enum Subject {
    Field(FieldPath),
    /// Items of a list, fields of a map, characters of a text.
    Count(FieldPath),
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    IsTrue,
    Exists,
    Compare(Comparison, Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
    Contains,
    StartsWith,
    EndsWith,
}

const COMPARISONS: &[(&str, Comparison)] = &[
    ("==", Comparison::Equal),
    ("!=", Comparison::Unequal),
    ("<=", Comparison::AtMost),
    ("<", Comparison::Less),
    (">=", Comparison::AtLeast),
    (">", Comparison::More),
    ("contains", Comparison::Contains),
    ("starts_with", Comparison::StartsWith),
    ("ends_with", Comparison::EndsWith),
];

const TEXT_MAX: usize = 500;
const FORM: &str = "it is no expression over the output, such as `exit_code == 0`, `content contains \"done\"`, `exists`, `count(items) >= 1` or `not truncated`";

impl Criterion {
    pub fn parse(text: &str) -> Result<Criterion, String> {
        if text.len() > TEXT_MAX {
            return Err(format!("it may have {TEXT_MAX} characters at most"));
        }
        let trimmed = text.trim_matches(' ');
        let (is_negated, rest) = match trimmed.strip_prefix("not ") {
            Some(rest) => (true, rest.trim_start_matches(' ')),
            None => (false, trimmed),
        };
        // `not` alone denies nothing.
        if rest == "not" {
            return Err(FORM.to_owned());
        }
        let (subject, rest) = split_subject(rest).ok_or_else(|| FORM.to_owned())?;
        let test = test(rest.trim_matches(' ')).ok_or_else(|| FORM.to_owned())?;
        // A count is a number: it is neither true nor absent.
        if matches!((&subject, &test), (Subject::Count(_), Test::IsTrue | Test::Exists)) {
            return Err(FORM.to_owned());
        }
        Ok(Criterion { text: text.to_owned(), is_negated, subject, test })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The first name of what it asks for: among the outputs of all steps, the step.
    pub fn first_name(&self) -> &str {
        match &self.subject {
            Subject::Field(path) | Subject::Count(path) => path.first(),
        }
    }

    /// Does it hold? `None` where the output has nothing that it could be asked of.
    fn holds(&self, output: &Value) -> Option<bool> {
        let counted;
        let value = match &self.subject {
            Subject::Field(path) => match (path.find(output), &self.test) {
                (found, Test::Exists) => return Some(found.is_some_and(|value| !value.is_null()) != self.is_negated),
                (found, _) => found?,
            },
            Subject::Count(path) => {
                counted = Value::from(match path.find(output)? {
                    Value::Array(items) => items.len(),
                    Value::Object(fields) => fields.len(),
                    Value::String(text) => text.chars().count(),
                    _ => return None,
                });
                &counted
            }
        };
        let holds = match &self.test {
            Test::IsTrue => value.as_bool()?,
            Test::Exists => true,
            Test::Compare(comparison, wanted) => comparison.holds(value, wanted)?,
        };
        Some(holds != self.is_negated)
    }
}

impl Comparison {
    fn holds(self, value: &Value, wanted: &Value) -> Option<bool> {
        match self {
            Comparison::Equal => Some(equal(value, wanted)),
            Comparison::Unequal => Some(!equal(value, wanted)),
            Comparison::Less => Some(value.as_f64()? < wanted.as_f64()?),
            Comparison::AtMost => Some(value.as_f64()? <= wanted.as_f64()?),
            Comparison::More => Some(value.as_f64()? > wanted.as_f64()?),
            Comparison::AtLeast => Some(value.as_f64()? >= wanted.as_f64()?),
            Comparison::Contains => match value {
                Value::String(text) => Some(text.contains(wanted.as_str()?)),
                Value::Array(items) => Some(items.iter().any(|item| equal(item, wanted))),
                Value::Object(fields) => Some(fields.contains_key(wanted.as_str()?)),
                _ => None,
            },
            Comparison::StartsWith => Some(value.as_str()?.starts_with(wanted.as_str()?)),
            Comparison::EndsWith => Some(value.as_str()?.ends_with(wanted.as_str()?)),
        }
    }

    /// Can this be compared at all?
    fn takes(self, wanted: &Value) -> bool {
        match self {
            Comparison::Equal | Comparison::Unequal | Comparison::Contains => !wanted.is_array() && !wanted.is_object(),
            Comparison::Less | Comparison::AtMost | Comparison::More | Comparison::AtLeast => wanted.is_number(),
            Comparison::StartsWith | Comparison::EndsWith => wanted.is_string(),
        }
    }
}

/// 1 and 1.0 are the same number. Whole ones are compared as such: beyond 2^53 a float could not tell them apart.
fn equal(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => a.as_f64() == b.as_f64(),
        _ => value == wanted,
    }
}

fn split_subject(text: &str) -> Option<(Subject, &str)> {
    if let Some(inner) = text.strip_prefix("count(") {
        let (path, rest) = inner.split_once(')')?;
        return Some((Subject::Count(FieldPath::parse(path.trim_matches(' ')).ok()?), rest));
    }
    let end =
        text.find(|letter: char| !(letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.' | '[' | ']'))).unwrap_or(text.len());
    let (path, rest) = text.split_at(end);
    Some((Subject::Field(FieldPath::parse(path).ok()?), rest))
}

fn test(rest: &str) -> Option<Test> {
    match rest {
        "" => return Some(Test::IsTrue),
        "exists" => return Some(Test::Exists),
        _ => {}
    }
    let (comparison, wanted) = COMPARISONS.iter().find_map(|(sign, comparison)| Some((*comparison, rest.strip_prefix(sign)?)))?;
    // A word needs a blank after it, a sign does not.
    let is_apart = wanted.starts_with([' ', '"', '\'']) || !rest.starts_with(|letter: char| letter.is_ascii_alphabetic());
    let wanted = literal(wanted.trim_matches(' '))?;
    (is_apart && comparison.takes(&wanted)).then_some(Test::Compare(comparison, wanted))
}

/// A JSON word, or a text in single quotes, which YAML and shells make handy.
fn literal(text: &str) -> Option<Value> {
    match text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        Some(inner) if !inner.contains('\'') => Some(Value::String(inner.to_owned())),
        Some(_) => None,
        None => serde_json::from_str(text).ok(),
    }
}

/// Does an output meet all criteria?
pub fn check_success(criteria: &[Criterion], output: &Value) -> Result<(), StepError> {
    for criterion in criteria {
        let why = match criterion.holds(output) {
            Some(true) => continue,
            Some(false) => "does not hold",
            None => "cannot be asked of the output",
        };
        return Err(step_error(StepFailure::CriteriaUnmet, format!("the criterion `{}` {why}", shown_criterion(&criterion.text))));
    }
    Ok(())
}

fn shown_criterion(text: &str) -> String {
    if text.chars().count() <= 64 { shown(text) } else { format!("{}…", shown(&text.chars().take(60).collect::<String>())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(text: &str, expected: Option<bool>) {
        let output = json!({
            "exit": 0, "ratio": 0.5, "big": 9_007_199_254_740_993_u64, "content": "all done\n", "exists": true, "truncated": false, "nothing": null,
            "items": [1, "two", { "deep": [7] }], "fields": { "a": 1 }, "count": 3
        });
        let criterion = Criterion::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        assert_eq!(criterion.holds(&output), expected, "{text}");
        assert_eq!(check_success(&[criterion], &output).is_ok(), expected == Some(true));
    }

    #[test]
    fn expressions_mean_what_the_guide_says() {
        for (text, holds) in [
            ("exit == 0", true),
            ("exit == 0.0", true),
            ("exit==0", true),
            ("exit != 1", true),
            ("exit > 0", false),
            ("ratio >= 0.5", true),
            ("ratio < 0.5", false),
            ("big == 9007199254740993", true),
            ("big == 9007199254740992", false),
            ("content contains \"done\"", true),
            ("content contains 'done'", true),
            ("content contains \"missing\"", false),
            ("content starts_with \"all\"", true),
            ("content ends_with \"done\\n\"", true),
            ("content == \"all done\\n\"", true),
            ("exists", true),
            ("truncated", false),
            ("not truncated", true),
            ("not exists", false),
            ("content exists", true),
            ("nothing exists", false),
            ("absent exists", false),
            ("not absent exists", true),
            ("count >= 1", true),
            ("count(items) == 3", true),
            ("count(content) > 100", false),
            ("count( fields ) == 1", true),
            ("items contains 1", true),
            ("items contains \"two\"", true),
            ("items[2].deep[0] == 7", true),
            ("items.2.deep.0 == 7", true),
            ("fields contains \"a\"", true),
            ("nothing == null", true),
            ("not content contains \"missing\"", true),
        ] {
            check(text, Some(holds));
        }
    }

    /// Neither a criterion nor its opposite holds of what is not there: fail closed.
    #[test]
    fn what_cannot_be_asked_does_not_hold_either_way() {
        for text in [
            "absent == 1",
            "absent != 1",
            "absent",
            "content > 3",
            "exit contains 1",
            "content",
            "items[9] == 1",
            "count(exit) == 1",
            "count(absent) == 0",
            "exit.deep == 1",
            "exit starts_with \"0\"",
        ] {
            check(text, None);
            check(&format!("not {text}"), None);
        }
    }

    #[test]
    fn prose_is_refused() {
        let long = format!("content contains \"{}\"", "x".repeat(500));
        for text in [
            "",
            " ",
            "the file was written",
            "exit = 0",
            "exit === 0",
            "exit == ",
            "exit == zero",
            "== 0",
            "content contains done",
            "content containsx \"a\"",
            "count(items)",
            "count(items",
            "count(items) exists",
            "exit < \"1\"",
            "exit == [0]",
            "exit == 0 and exists",
            "a..b == 1",
            "a[x] == 1",
            "not",
            "name starts_with 7",
            "content contains 'it's'",
            "exit == 0; rm",
            "\u{202e}exit == 0",
            &long,
        ] {
            assert!(Criterion::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_failure_names_the_criterion_and_not_the_output() {
        let criteria = [Criterion::parse("exit == 0").unwrap(), Criterion::parse("content contains \"fine\"").unwrap()];
        assert_eq!(check_success(&criteria, &json!({ "exit": 0, "content": "fine" })), Ok(()));
        let error = check_success(&criteria, &json!({ "exit": 0, "content": "hunter2" })).unwrap_err();
        assert_eq!((error.code.as_str(), error.karnevil9.as_str()), ("criteria_unmet", "INVALID_OUTPUT"));
        assert_eq!(error.message, "the criterion `content contains \"fine\"` does not hold");
        let error = check_success(&criteria, &json!("hunter2")).unwrap_err();
        assert_eq!(error.message, "the criterion `exit == 0` cannot be asked of the output");
        assert_eq!(check_success(&[], &json!(null)), Ok(()));
    }
}
