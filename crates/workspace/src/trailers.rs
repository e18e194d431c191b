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

/// Test runs that the kernel saw, in the order in which they are told: `red@9674… green@03af…`, or `none`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestRuns(pub Vec<(String, SeenTests)>);

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenTests {
    /// By the hash of the files that it ran on.
    Tree(String),
    /// By its record: a run that is bound to a merge's digest, and every run in commits from before there were hashes.
    Record(u64),
}

impl fmt::Display for RecordRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

impl FromStr for RecordRef {
    type Err = String;

    fn from_str(text: &str) -> Result<RecordRef, String> {
        let (seq, hash) = text.split_once(':').unwrap_or((text, ""));
        match seq.parse() {
            Ok(seq) if is_hash(hash) => Ok(RecordRef { seq, hash: hash.to_owned() }),
            _ => Err(format!("`{JOURNAL}: {text}` is not the number of a record and its hash")),
        }
    }
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl fmt::Display for TestRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(NO_TESTS);
        }
        let run = |(outcome, seen): &(String, SeenTests)| match seen {
            SeenTests::Tree(tree) => format!("{outcome}@{tree}"),
            SeenTests::Record(seq) => format!("{outcome}@{seq}"),
        };
        let runs: Vec<String> = self.0.iter().map(run).collect();
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
            let (outcome, seen) = word.split_once('@').filter(|(outcome, _)| !outcome.is_empty())?;
            let seen = if is_hash(seen) { SeenTests::Tree(seen.to_owned()) } else { SeenTests::Record(seen.parse().ok()?) };
            Some((outcome.to_owned(), seen))
        };
        let runs: Option<Vec<_>> = text.split_whitespace().map(run).collect();
        match runs {
            Some(runs) if !runs.is_empty() => Ok(TestRuns(runs)),
            _ => Err(format!("`{TESTS}: {text}` names no test runs")),
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
        let runs =
            [("red", SeenTests::Tree("cd".repeat(32))), ("green", SeenTests::Tree("ef".repeat(32))), ("green", SeenTests::Record(15))];
        let tests = TestRuns(runs.map(|(outcome, seen)| (outcome.to_owned(), seen)).to_vec());
        CommitTrailers { session: "task-3".into(), journal, tests }
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
        assert!(whole.ends_with(&format!("Skep-Tests: red@{} green@{} green@15", "cd".repeat(32), "ef".repeat(32))), "{whole}");
        assert!(parse(whole.replace("red@", "red")).contains("names no test runs"));
        assert!(parse(whole.replace("red@cd", "red@")).contains("names no test runs"), "half a hash is none");
        assert_eq!(CommitTrailers::forged_in("t\n\nSKEP-JOURNAL : 1:2"), Some("SKEP-JOURNAL : 1:2"));
    }
}
