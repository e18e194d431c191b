//! The trailers by which a commit of a merge names its record in the journal. Pure.
//!
//! **Invariant.** A message that somebody wrote has none of them: the kernel alone adds them, each once.

use std::fmt;
use std::str::FromStr;

const SESSION: &str = "Skep-Session";
const JOURNAL: &str = "Skep-Journal";
const TESTS: &str = "Skep-Tests";
/// Without any test run that the kernel saw.
const NO_TESTS: &str = "none";

/// What a commit of a merge says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitTrailers {
    /// The task or session that was merged.
    pub session: String,
    /// The record that began the merge. The chain before it holds all that led to it.
    pub journal: RecordRef,
    pub tests: TestRuns,
}

/// A record, by its place and the SHA-256 of its line: `812:9674…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRef {
    pub seq: u64,
    pub hash: String,
}

/// Test runs that the kernel saw, each with the record of it: `red@12 green@15`, or `none`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestRuns(pub Vec<(String, u64)>);

impl fmt::Display for RecordRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

impl FromStr for RecordRef {
    type Err = String;

    fn from_str(text: &str) -> Result<RecordRef, String> {
        let (seq, hash) = text.split_once(':').unwrap_or((text, ""));
        let is_hash = hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match seq.parse() {
            Ok(seq) if is_hash => Ok(RecordRef { seq, hash: hash.to_owned() }),
            _ => Err(format!("`{JOURNAL}: {text}` is not the number of a record and its hash")),
        }
    }
}

impl fmt::Display for TestRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(NO_TESTS);
        }
        let runs: Vec<String> = self.0.iter().map(|(outcome, seq)| format!("{outcome}@{seq}")).collect();
        f.write_str(&runs.join(" "))
    }
}

impl FromStr for TestRuns {
    type Err = String;

    fn from_str(text: &str) -> Result<TestRuns, String> {
        if text == NO_TESTS {
            return Ok(TestRuns::default());
        }
        let run = |word: &str| {
            let (outcome, seq) = word.split_once('@')?;
            (!outcome.is_empty()).then_some((outcome.to_owned(), seq.parse().ok()?))
        };
        let runs: Option<Vec<_>> = text.split_whitespace().map(run).collect();
        match runs {
            Some(runs) if !runs.is_empty() => Ok(TestRuns(runs)),
            _ => Err(format!("`{TESTS}: {text}` names no records of test runs")),
        }
    }
}

impl CommitTrailers {
    /// The message with these below it: in its own block of trailers where it ends in one.
    pub fn below(&self, message: &str) -> String {
        let message = message.trim_end();
        let apart = if ends_in_trailers(message) { "\n" } else { "\n\n" };
        format!("{message}{apart}{SESSION}: {}\n{JOURNAL}: {}\n{TESTS}: {}", self.session, self.journal, self.tests)
    }

    /// The trailers of a commit's message; why there are none, or none that can be believed.
    pub fn parse(message: &str) -> Result<CommitTrailers, String> {
        let found = [SESSION, JOURNAL, TESTS].map(|name| values(message, name));
        if found.iter().all(Vec::is_empty) {
            return Err("it has no trailers of skep: it was not made of a merge, or they were taken out".to_owned());
        }
        for (name, values) in [SESSION, JOURNAL, TESTS].iter().zip(&found) {
            match values.len() {
                0 => return Err(format!("`{name}` is missing")),
                1 => {}
                many => return Err(format!("`{name}` stands there {many} times")),
            }
        }
        let [session, journal, tests] = found.map(|values| values.concat());
        Ok(CommitTrailers { session, journal: journal.parse()?, tests: tests.parse()? })
    }

    /// The first line of a message that only the kernel may write.
    pub fn forged_in(message: &str) -> Option<&str> {
        message.lines().find(|line| [SESSION, JOURNAL, TESTS].iter().any(|name| value(line, name).is_some()))
    }
}

/// Git reads names of trailers in letters of either size.
fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (found, value) = line.split_once(':')?;
    found.trim_end().eq_ignore_ascii_case(name).then(|| value.trim())
}

fn values<'a>(message: &'a str, name: &str) -> Vec<&'a str> {
    message.lines().filter_map(|line| value(line, name)).collect()
}

/// Is the last paragraph one of trailers? A title alone is none, whatever it looks like.
fn ends_in_trailers(message: &str) -> bool {
    let lines: Vec<&str> = message.lines().collect();
    let Some(blank) = lines.iter().rposition(|line| line.trim().is_empty()) else { return false };
    let is_trailer = |line: &&str| {
        line.split_once(": ").is_some_and(|(name, value)| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') && !value.trim().is_empty()
        })
    };
    lines[blank + 1..].iter().all(is_trailer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trailers() -> CommitTrailers {
        let journal = RecordRef { seq: 812, hash: "ab".repeat(32) };
        CommitTrailers { session: "task-3".into(), journal, tests: TestRuns(vec![("red".into(), 12), ("green".into(), 15)]) }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let own = trailers();
        for message in ["fix it", "fix: it", "fix it\n\nbody\n", "fix it\n\nbody: of\nmany lines", "fix it\n\nSigned-off-by: Ann <a@b.c>"] {
            let whole = own.below(message);
            assert!(whole.starts_with(message.trim_end()), "{whole}");
            assert_eq!(CommitTrailers::parse(&whole).unwrap(), own, "{whole}");
            assert_eq!(CommitTrailers::forged_in(message), None);
        }
        let none = CommitTrailers { tests: TestRuns::default(), ..own.clone() };
        assert!(none.below("x").ends_with("Skep-Tests: none"));
        assert_eq!(CommitTrailers::parse(&none.below("x")).unwrap(), none);
    }

    #[test]
    fn they_join_a_block_of_trailers_and_no_other_paragraph() {
        let below = |message: &str| trailers().below(message);
        assert!(below("t\n\nSigned-off-by: A\nReviewed-by: B").contains("Reviewed-by: B\nSkep-Session"));
        assert!(below("t\n\nnote: this\nis text").contains("is text\n\nSkep-Session"));
        assert!(below("fix: it").contains("fix: it\n\nSkep-Session"));
    }

    #[test]
    fn what_is_missing_doubled_or_no_record_is_told() {
        let parse = |text: String| CommitTrailers::parse(&text).unwrap_err();
        let whole = trailers().below("t");
        assert!(parse("t".into()).contains("no trailers of skep"));
        assert_eq!(parse(whole.replace("Skep-Tests", "Tests")), "`Skep-Tests` is missing");
        assert_eq!(parse(format!("{whole}\nskep-journal: 1:2")), "`Skep-Journal` stands there 2 times");
        assert!(parse(whole.replace("812:", "x:")).contains("not the number of a record"));
        assert!(parse(whole.replace(&"ab".repeat(32), "ab")).contains("not the number of a record"));
        assert!(parse(whole.replace("red@12", "red")).contains("names no records"));
        assert_eq!(CommitTrailers::forged_in("t\n\nSKEP-JOURNAL : 1:2"), Some("SKEP-JOURNAL : 1:2"));
    }
}
