//! Is going on of any use? Looks for iterations that bring nothing: the same errors, nothing new, the same plans in turn, cost without result.
//!
//! Pure over the records of iterations. **Invariant.** An iteration that made progress ends every pattern but the one in which the same plans come again with the same results.

use std::collections::BTreeSet;
use world::{IterationRecord, StepStatus};

/// When a pattern counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FutilityThresholds {
    /// Iterations in a row that fail with the same errors.
    pub identical_errors: usize,
    /// Iterations in a row without progress.
    pub stagnation: usize,
    /// How often the same plans come in turn.
    pub oscillation: usize,
    /// Tokens and micro-dollars that iterations without progress may use, from the second of them on.
    pub tokens_without_progress: u64,
    pub micros_without_progress: u64,
}

impl Default for FutilityThresholds {
    fn default() -> FutilityThresholds {
        FutilityThresholds {
            identical_errors: 3,
            stagnation: 4,
            oscillation: 2,
            tokens_without_progress: 100_000,
            micros_without_progress: 1_000_000,
        }
    }
}

/// How a session goes in circles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutilityPattern {
    IdenticalErrors,
    Oscillation,
    CostWithoutProgress,
    Stagnation,
}

impl FutilityPattern {
    pub fn as_str(self) -> &'static str {
        match self {
            FutilityPattern::IdenticalErrors => "identical_errors",
            FutilityPattern::Oscillation => "oscillation",
            FutilityPattern::CostWithoutProgress => "cost_without_progress",
            FutilityPattern::Stagnation => "stagnation",
        }
    }
}

/// Why going on is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Futility {
    pub pattern: FutilityPattern,
    pub reason: String,
}

/// Plans in turn that count as going in circles: A B A B, and A B C A B C.
const PERIODS: [usize; 2] = [2, 3];

/// Looks at iterations, the latest last. Those at which a person said that it shall go on are left out by the caller.
pub fn detect_futility(iterations: &[IterationRecord], thresholds: &FutilityThresholds) -> Option<Futility> {
    let found = |pattern, reason: String| Some(Futility { pattern, reason });
    if let Some((count, error)) = identical_errors(iterations).filter(|(count, _)| *count >= thresholds.identical_errors.max(2)) {
        return found(FutilityPattern::IdenticalErrors, format!("{count} iterations in a row failed alike: {error}"));
    }
    if let Some(period) = PERIODS.into_iter().find(|period| oscillates(iterations, *period, thresholds.oscillation.max(2))) {
        let reason = format!("the same {period} plans came {} times in turn with the same results", thresholds.oscillation.max(2));
        return found(FutilityPattern::Oscillation, reason);
    }
    let idle = without_progress(iterations);
    let (tokens, micros) = idle
        .iter()
        .fold((0_u64, 0_u64), |(tokens, micros), record| (tokens.saturating_add(record.tokens), micros.saturating_add(record.micros)));
    if idle.len() >= 2 && (tokens >= thresholds.tokens_without_progress || micros >= thresholds.micros_without_progress) {
        let dollars = micros as f64 / 1e6;
        let reason = format!("{} iterations without progress used {tokens} tokens and ${dollars:.2}", idle.len());
        return found(FutilityPattern::CostWithoutProgress, reason);
    }
    if idle.len() >= thresholds.stagnation.max(2) {
        return found(FutilityPattern::Stagnation, format!("{} iterations in a row brought nothing new", idle.len()));
    }
    None
}

/// How many iterations at the end failed with the same errors, and one of those.
fn identical_errors(iterations: &[IterationRecord]) -> Option<(usize, String)> {
    let errors = errors_of(iterations.last()?);
    let first = errors.iter().next()?.1.clone();
    let count = iterations.iter().rev().take_while(|record| errors_of(record) == errors).count();
    Some((count, first))
}

fn errors_of(record: &IterationRecord) -> BTreeSet<(&str, String)> {
    let failed = record.findings.iter().filter(|finding| finding.status == StepStatus::Failed);
    failed.map(|finding| (finding.tool.as_str(), alike(&finding.summary))).collect()
}

/// Do the latest iterations repeat so many plans in turn, and with the same results?
fn oscillates(iterations: &[IterationRecord], period: usize, times: usize) -> bool {
    let Some(start) = iterations.len().checked_sub(period * times) else { return false };
    let last = &iterations[start..];
    let repeats =
        last.iter().zip(&last[period..]).all(|(before, after)| before.shape == after.shape && results_of(before) == results_of(after));
    // Equal plans in a row are no circle: they stagnate, or wait for something.
    repeats && last[..period].windows(2).any(|pair| pair[0].shape != pair[1].shape)
}

fn results_of(record: &IterationRecord) -> Vec<(StepStatus, String)> {
    record.findings.iter().map(|finding| (finding.status, alike(&finding.summary))).collect()
}

/// The iterations at the end that made no progress.
fn without_progress(iterations: &[IterationRecord]) -> &[IterationRecord] {
    let (mut shapes, mut outputs): (BTreeSet<&str>, BTreeSet<(&str, &str)>) = Default::default();
    let mut idle_from = 0;
    for (n, record) in iterations.iter().enumerate() {
        let is_new_shape = shapes.insert(&record.shape);
        let succeeded = record.findings.iter().filter(|finding| finding.status == StepStatus::Succeeded);
        let mut is_new_output = false;
        for finding in succeeded {
            is_new_output |= outputs.insert((&finding.tool, &finding.summary));
        }
        if record.succeeded > 0 && (is_new_shape || is_new_output) {
            idle_from = n + 1;
        }
    }
    &iterations[idle_from..]
}

/// A text without what differs each time that the same goes wrong: numbers, hexadecimal ids, space.
fn alike(text: &str) -> String {
    let mut words = Vec::new();
    for word in text.split_whitespace() {
        let has_digit = word.chars().any(|c| c.is_ascii_digit());
        let is_id = has_digit && word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        words.push(if is_id { "#".to_owned() } else { without_numbers(word) });
    }
    words.join(" ")
}

fn without_numbers(word: &str) -> String {
    let mut plain = String::with_capacity(word.len());
    for c in word.chars() {
        match c {
            c if c.is_ascii_digit() && plain.ends_with('#') => {}
            c if c.is_ascii_digit() => plain.push('#'),
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use world::StepFinding;

    /// An iteration as `shape:status:summary`, such as `a:ok:written` or `a:failed:no such file`.
    fn record(told: &str) -> IterationRecord {
        let mut parts = told.splitn(3, ':');
        let (shape, status, summary) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        let ok = status == "ok";
        let status = if ok { StepStatus::Succeeded } else { StepStatus::Failed };
        let finding = StepFinding { step: "s".into(), title: String::new(), tool: "t".into(), status, summary: summary.into() };
        let (succeeded, failed) = (u32::from(ok), u32::from(!ok));
        IterationRecord { succeeded, failed, findings: vec![finding], shape: shape.into(), tokens: 1000, ..IterationRecord::default() }
    }

    #[track_caller]
    fn check(iterations: &[&str], expected: Option<(FutilityPattern, &str)>) {
        let records: Vec<IterationRecord> = iterations.iter().map(|told| record(told)).collect();
        let found = detect_futility(&records, &FutilityThresholds::default());
        assert_eq!(found, expected.map(|(pattern, reason)| Futility { pattern, reason: reason.to_owned() }));
    }

    #[test]
    fn each_pattern_is_found_and_its_neighbour_is_not() {
        use FutilityPattern::*;
        check(&[], None);
        let alike = "3 iterations in a row failed alike: port # is taken";
        check(&["a:failed:port 80 is taken", "b:failed:port 81 is taken", "c:failed:port 8080 is taken"], Some((IdenticalErrors, alike)));
        check(&["a:failed:port 80 is taken", "b:failed:port 81 is taken", "c:failed:no such host"], None);
        check(&["a:failed:x", "b:failed:x", "c:ok:done"], None);

        let circle = "the same 2 plans came 2 times in turn with the same results";
        check(&["a:ok:1", "b:failed:no", "a:ok:1", "b:failed:no"], Some((Oscillation, circle)));
        check(&["a:ok:one", "b:failed:no", "a:ok:two", "b:failed:no"], None);
        check(&["a:ok:1", "b:ok:2", "a:ok:1", "c:ok:2"], None);
        let three = "the same 3 plans came 2 times in turn with the same results";
        check(&["a:ok:1", "b:ok:2", "c:ok:3", "a:ok:1", "b:ok:2", "c:ok:3"], Some((Oscillation, three)));

        let stagnant = "4 iterations in a row brought nothing new";
        check(&["a:ok:same", "a:ok:same", "a:ok:same", "a:ok:same"], None);
        check(&["a:ok:same", "a:ok:same", "a:ok:same", "a:ok:same", "a:ok:same"], Some((Stagnation, stagnant)));
        check(&["a:failed:one", "b:failed:two", "c:failed:three", "d:failed:four"], Some((Stagnation, stagnant)));
        check(&["a:failed:one", "b:failed:two", "c:ok:three", "d:failed:four"], None);
    }

    #[test]
    fn cost_counts_from_the_second_iteration_without_progress() {
        let costly = |told, tokens, micros| IterationRecord { tokens, micros, ..record(told) };
        let judge = |records: &[IterationRecord]| detect_futility(records, &FutilityThresholds::default()).map(|found| found.reason);
        assert_eq!(judge(&[costly("a:failed:x", 500_000, 0)]), None, "one may cost what it costs");
        assert_eq!(
            judge(&[costly("a:failed:x", 60_000, 0), costly("b:failed:y", 60_000, 250_000)]).as_deref(),
            Some("2 iterations without progress used 120000 tokens and $0.25")
        );
        assert_eq!(
            judge(&[costly("a:failed:x", 1, 600_000), costly("b:failed:y", 1, 600_000)]).as_deref(),
            Some("2 iterations without progress used 2 tokens and $1.20")
        );
        assert_eq!(judge(&[costly("a:failed:x", 60_000, 0), costly("b:ok:y", 60_000, 0)]), None);
        let capped = FutilityThresholds { tokens_without_progress: u64::MAX, micros_without_progress: u64::MAX, ..Default::default() };
        assert_eq!(detect_futility(&[costly("a:failed:x", 60_000, 0), costly("b:failed:y", 60_000, 0)], &capped), None);
    }

    proptest! {
        #[test]
        fn work_that_always_brings_something_new_is_never_futile(count in 1_usize..40, tokens in 0_u64..10_000_000) {
            let records: Vec<IterationRecord> =
                (0..count).map(|n| IterationRecord { tokens, ..record(&format!("shape{n}:ok:output {}", "x".repeat(n))) }).collect();
            prop_assert_eq!(detect_futility(&records, &FutilityThresholds::default()), None);
        }

        #[test]
        fn work_that_never_succeeds_is_futile_in_the_end(summaries in prop::collection::vec("[a-z]{1,8}", 4..20)) {
            let records: Vec<IterationRecord> = summaries.iter().map(|summary| record(&format!("{summary}:failed:{summary}"))).collect();
            prop_assert!(detect_futility(&records, &FutilityThresholds::default()).is_some());
        }

        #[test]
        fn any_history_has_a_judgement(tokens in any::<u64>(), told in prop::collection::vec("[ab]:(ok|failed):[a-c]", 0..12)) {
            let records: Vec<IterationRecord> = told.iter().map(|told| IterationRecord { tokens, micros: tokens, ..record(told) }).collect();
            let first = detect_futility(&records, &FutilityThresholds::default());
            prop_assert_eq!(first, detect_futility(&records, &FutilityThresholds::default()));
        }
    }
}
