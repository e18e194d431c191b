//! What a planner answered: found to be one document, or refused with the reason.

use world::PlanFinding;

/// Bytes of a planner's answer: seed 002 asks for 500 KB. Whoever reads from a model stops behind it.
pub const RESPONSE_BYTES_MAX: usize = 500_000;

/// Who has something against an answer that is no document.
const CRITIC: &str = "response";

/// The one document of an answer: all of it, or what stands between its only fences. What is more than one, or too long, is no plan.
pub fn read_response(text: &str) -> Result<&str, Vec<PlanFinding>> {
    if text.len() > RESPONSE_BYTES_MAX {
        let message = format!("the answer has {} bytes or more; {RESPONSE_BYTES_MAX} are read at most", text.len());
        return Err(vec![finding(message)]);
    }
    let document = match fenced(text)? {
        Some(document) => document,
        None => text,
    };
    let document = document.trim().trim_start_matches('\u{feff}');
    if document.is_empty() {
        return Err(vec![finding("the answer is empty; one plan is wanted, as JSON or YAML".to_owned())]);
    }
    let count = documents(document);
    if count > 1 {
        return Err(vec![finding(format!("the answer has {count} documents; exactly one is wanted"))]);
    }
    Ok(document)
}

fn finding(message: String) -> PlanFinding {
    PlanFinding { critic: CRITIC.to_owned(), at: String::new(), message, blocks: true }
}

/// What stands between fences, where there are any. Words around them are not read.
fn fenced(text: &str) -> Result<Option<&str>, Vec<PlanFinding>> {
    let (mut found, mut open): (Vec<&str>, Option<(usize, usize)>) = (Vec::new(), None);
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let (begin, ticks) = (at, fence(line));
        at += line.len();
        open = match (open, ticks) {
            (None, Some((ticks, _))) => Some((at, ticks)),
            (Some((from, wanted)), Some((ticks, true))) if ticks >= wanted => {
                found.push(&text[from..begin]);
                None
            }
            (open, _) => open,
        };
    }
    // An answer that forgot its last fence is read to its end.
    found.extend(open.map(|(from, _)| &text[from..]));
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        more => Err(vec![finding(format!("the answer has {} fenced blocks; exactly one document is wanted", more.len()))]),
    }
}

/// How many backticks a line of a fence begins with, and whether it can close one. Deeply indented lines are content.
fn fence(line: &str) -> Option<(usize, bool)> {
    let rest = line.trim_start_matches(' ');
    if line.len() - rest.len() > 3 {
        return None;
    }
    let ticks = rest.len() - rest.trim_start_matches('`').len();
    let word = rest[ticks..].trim();
    let is_fence = ticks >= 3 && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+'));
    is_fence.then_some((ticks, word.is_empty()))
}

/// How many documents there are, as far as that is seen without knowing what a plan is: JSON values behind each other, or parts behind lines of `---`.
fn documents(text: &str) -> usize {
    if text.starts_with(['{', '[']) {
        let values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
        return values.take_while(Result::is_ok).count().max(1);
    }
    let parts = text.split('\n').fold(vec![false], |mut parts, line| {
        match line.trim_end() {
            "---" => parts.push(false),
            line if !line.is_empty() && !line.starts_with('#') => parts.iter_mut().last().into_iter().for_each(|has| *has = true),
            _ => {}
        }
        parts
    });
    parts.into_iter().filter(|has_content| *has_content).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(answer: &str, expected: Result<&str, &str>) {
        let read = read_response(answer).map_err(|findings| findings[0].message.clone());
        assert_eq!(read.as_ref().map(|text| *text).map_err(String::as_str), expected);
    }

    #[test]
    fn one_document_is_found() {
        check(r#"{"steps": []}"#, Ok(r#"{"steps": []}"#));
        check("  goal: x\nsteps: []\n", Ok("goal: x\nsteps: []"));
        check("```json\n{\"a\": 1}\n```", Ok("{\"a\": 1}"));
        check("Here is the plan:\n\n```yaml\ngoal: x\n```\nGood luck!", Ok("goal: x"));
        check("```\ngoal: x\n", Ok("goal: x"));
        check("---\ngoal: x\n", Ok("---\ngoal: x"));
        check("\u{feff}{}", Ok("{}"));
        check("````yaml\ntext: |\n  ```\n  code\n  ```\n````\n", Ok("text: |\n  ```\n  code\n  ```"));
        check("{\"text\": \"```\"}", Ok("{\"text\": \"```\"}"));
    }

    #[test]
    fn what_is_not_one_document_is_refused() {
        check("", Err("the answer is empty; one plan is wanted, as JSON or YAML"));
        check("```json\n```", Err("the answer is empty; one plan is wanted, as JSON or YAML"));
        check("{} {}", Err("the answer has 2 documents; exactly one is wanted"));
        check("a: 1\n---\nb: 2\n", Err("the answer has 2 documents; exactly one is wanted"));
        check("```\na: 1\n```\nor\n```\nb: 2\n```\n", Err("the answer has 2 fenced blocks; exactly one document is wanted"));
    }

    #[test]
    fn five_megabytes_are_not_read() {
        let long = format!("{{\"steps\": [{}]}}", "0,".repeat(2_500_000));
        let findings = read_response(&long).unwrap_err();
        assert!(findings[0].message.contains("500000 are read at most") && findings[0].blocks, "{findings:?}");
        let fits = format!("{{\"a\": \"{}\"}}", "x".repeat(RESPONSE_BYTES_MAX - 9));
        assert_eq!(fits.len(), RESPONSE_BYTES_MAX);
        assert_eq!(read_response(&fits), Ok(fits.as_str()));
    }

    proptest! {
        #[test]
        fn any_answer_is_a_part_of_itself_or_refused(answer in "(`{1,4}|\n|---|\\{|\\}|a: 1| |json|\"){0,40}") {
            match read_response(&answer) {
                Ok(document) => prop_assert!(answer.contains(document) && !document.is_empty()),
                Err(findings) => prop_assert!(findings.iter().all(|finding| finding.blocks)),
            }
        }
    }
}
