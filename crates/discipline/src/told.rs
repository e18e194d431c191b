//! What was found, in so few sentences that a person reads them all.
//!
//! **Invariant.** No kind of finding is left out for the number of another: of each kind some are told, and how many more there are. So nobody
//! hides one that matters behind a hundred that do not.

use std::collections::BTreeMap;
use testing::{FindingKind, TestFinding};

/// Findings of one kind that are told.
const SAME_MAX: usize = 3;

/// Findings in the order of their weight, each kind bounded.
pub(crate) fn summed(findings: Vec<TestFinding>) -> Vec<String> {
    let mut kinds: BTreeMap<FindingKind, Vec<String>> = BTreeMap::new();
    for TestFinding { kind, path, sentence, .. } in findings {
        let told = if path.is_empty() || sentence.contains(&path) { sentence } else { format!("{path}: {sentence}") };
        kinds.entry(kind).or_default().push(told);
    }
    kinds.into_values().flat_map(some_of).collect()
}

/// The first of these sentences, and how many more there are.
pub(crate) fn some_of(mut sentences: Vec<String>) -> Vec<String> {
    sentences.dedup();
    let more = sentences.len().saturating_sub(SAME_MAX);
    sentences.truncate(SAME_MAX);
    if let (Some(last), true) = (sentences.last_mut(), more > 0) {
        last.push_str(&format!(" (and {more} more like this)"));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::inspect_tests;

    #[test]
    fn a_finding_is_not_hidden_behind_many_of_another_kind() {
        let noise: String = (0..80).map(|at| format!("def test_{at}():\n    assert time.time() > {at} and f()\n\n")).collect();
        let mut findings = inspect_tests("tests/test_noise.py", &noise);
        let noisy = findings.len();
        findings.extend(inspect_tests("tests/test_z.py", "def test_z():\n    pass\n"));
        assert!(noisy >= 80, "{noisy}");
        let told = summed(findings);
        assert!(told.len() <= 2 * SAME_MAX, "{told:?}");
        assert!(told.iter().any(|told| told.contains("test_z")), "{told:?}");
        assert!(told.iter().any(|told| told.ends_with("more like this)")), "{told:?}");
    }
}
