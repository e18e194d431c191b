//! How many tests a run counted, from what the common runners print.
//!
//! Pure. No count is no count: a run that says nothing of tests proves nothing.

/// Tests that a run counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TestCount {
    pub passed: u64,
    pub failed: u64,
}

/// The sum over all summaries in the output; `None` when there is none.
pub fn count_tests(output: &str) -> Option<TestCount> {
    let mut sum: Option<TestCount> = None;
    for line in output.lines() {
        if let Some(found) = summary(plain(line).trim()) {
            let sum = sum.get_or_insert_default();
            sum.passed = sum.passed.saturating_add(found.passed);
            sum.failed = sum.failed.saturating_add(found.failed);
            if line.starts_with("FAILED (") {
                sum.passed = sum.passed.saturating_sub(found.failed);
            }
        }
    }
    sum.or_else(|| tap(output))
}

/// Without colours.
fn plain(line: &str) -> std::borrow::Cow<'_, str> {
    if !line.contains('\u{1b}') {
        return line.into();
    }
    let mut parts = line.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|letter: char| !letter.is_ascii_digit() && letter != ';').unwrap_or(part.len());
        plain.push_str(part[end..].strip_prefix('m').unwrap_or(part));
    }
    plain.into()
}

fn summary(line: &str) -> Option<TestCount> {
    // cargo: `test result: ok. 3 passed; 0 failed; 1 ignored; …`
    if let Some(rest) = line.strip_prefix("test result:") {
        return Some(TestCount { passed: before(rest, "passed")?, failed: before(rest, "failed")? });
    }
    // nextest: `Summary [   0.1s] 3 tests run: 3 passed, 1 skipped`
    if line.starts_with("Summary [") && line.contains("run:") {
        return Some(TestCount { passed: before(line, "passed").unwrap_or(0), failed: before(line, "failed").unwrap_or(0) });
    }
    // jest and vitest: `Tests:  1 failed, 3 passed, 4 total`; ` Tests  3 passed (3)`
    if let Some(rest) = line.strip_prefix("Tests:").or_else(|| line.strip_prefix("Tests  ")) {
        let (passed, failed) = (before(rest, "passed"), before(rest, "failed"));
        return (passed.is_some() || failed.is_some()).then(|| TestCount { passed: passed.unwrap_or(0), failed: failed.unwrap_or(0) });
    }
    // node --test: `# pass 3` or `ℹ pass 3`
    for mark in ["# ", "ℹ "] {
        if let Some(rest) = line.strip_prefix(mark) {
            let number = |word: &str| rest.strip_prefix(word)?.trim().parse().ok();
            if let Some(passed) = number("pass ") {
                return Some(TestCount { passed, failed: 0 });
            }
            return number("fail ").map(|failed| TestCount { passed: 0, failed });
        }
    }
    // pytest: `=== 1 failed, 3 passed in 0.12s ===`
    if line.starts_with("==") && line.ends_with("==") && line.contains(" in ") {
        let (passed, failed, errors) = (before(line, "passed"), before(line, "failed"), before(line, "error"));
        return (passed.is_some() || failed.is_some() || errors.is_some())
            .then(|| TestCount { passed: passed.unwrap_or(0), failed: failed.unwrap_or(0) + errors.unwrap_or(0) });
    }
    // `pytest -q`: `3 passed in 0.12s`
    if line.ends_with('s') && line.contains(" in ") && line.starts_with(|c: char| c.is_ascii_digit()) && line.contains("passed") {
        return Some(TestCount { passed: before(line, "passed")?, failed: before(line, "failed").unwrap_or(0) });
    }
    // unittest: `Ran 3 tests in 0.000s`, and below it `FAILED (failures=1, errors=1)`
    if let Some(counts) = line.strip_prefix("FAILED (").and_then(|rest| rest.strip_suffix(')')) {
        let number = |part: &str| part.strip_prefix("failures=").or_else(|| part.strip_prefix("errors="))?.parse::<u64>().ok();
        return Some(TestCount { passed: 0, failed: counts.split(", ").filter_map(number).sum() });
    }
    let ran = line.strip_prefix("Ran ")?;
    let (number, rest) = ran.split_once(' ')?;
    rest.starts_with("test").then_some(())?;
    Some(TestCount { passed: number.parse().ok()?, failed: 0 })
}

/// The number in front of a word: `3 passed` gives 3.
fn before(line: &str, word: &str) -> Option<u64> {
    let words: Vec<&str> = line.split(|c: char| c.is_whitespace() || ",;.=()".contains(c)).filter(|word| !word.is_empty()).collect();
    words.windows(2).find(|pair| pair[1].trim_end_matches('s') == word.trim_end_matches('s')).and_then(|pair| pair[0].parse().ok())
}

/// Test Anything Protocol: `ok 1 - name` and `not ok 2`, with a plan `1..n`.
fn tap(output: &str) -> Option<TestCount> {
    let planned = output.lines().any(|line| line.strip_prefix("1..").is_some_and(|n| n.trim().parse::<u64>().is_ok()));
    let skipped = |line: &&str| !line.to_ascii_lowercase().contains("# skip") && !line.to_ascii_lowercase().contains("# todo");
    let begins = |line: &str, word: &str| {
        line.strip_prefix(word).is_some_and(|rest| rest.starts_with(' ') && rest.trim_start().starts_with(|c: char| c.is_ascii_digit()))
    };
    let passed = output.lines().filter(|line| begins(line, "ok")).filter(skipped).count() as u64;
    let failed = output.lines().filter(|line| begins(line, "not ok")).filter(skipped).count() as u64;
    (planned && passed + failed > 0).then_some(TestCount { passed, failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: &str, expected: Option<(u64, u64)>) {
        assert_eq!(count_tests(output).map(|count| (count.passed, count.failed)), expected, "{output}");
    }

    #[test]
    fn each_runner_is_read() {
        check(
            "running 2 tests\ntest a ... ok\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
            Some((3, 0)),
        );
        check("test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out", Some((2, 1)));
        check("     Summary [   0.010s] 3 tests run: 2 passed (1 slow), 1 failed, 4 skipped", Some((2, 1)));
        check("Tests:       1 failed, 1 skipped, 3 passed, 5 total", Some((3, 1)));
        check("\x1b[2m      Tests \x1b[22m \x1b[1m\x1b[32m3 passed\x1b[39m\x1b[22m\x1b[90m (3)\x1b[39m", Some((3, 0)));
        check("TAP version 13\n# tests 4\n# suites 0\n# pass 3\n# fail 1\n# cancelled 0\n", Some((3, 1)));
        check("ℹ tests 3\nℹ pass 3\nℹ fail 0\n", Some((3, 0)));
        check("========================= 1 failed, 3 passed in 0.12s =========================", Some((3, 1)));
        check("3 passed in 0.01s", Some((3, 0)));
        check("..\n----\nRan 2 tests in 0.000s\n\nOK\n", Some((2, 0)));
        check("Ran 3 tests in 0.000s\n\nFAILED (failures=1, errors=1, skipped=1)\n", Some((1, 2)));
        check("1..3\nok 1 - a\nok 2 - b # SKIP no net\nnot ok 3 - c\n", Some((1, 1)));
    }

    #[test]
    fn silence_and_talk_are_no_count() {
        check("", None);
        check("all good\nok\n", None);
        check("ok 1\nok 2\n", None);
        check("============ no tests ran in 0.01s ============", None);
        check("test result: ok. 0 passed; 0 failed; 0 ignored", Some((0, 0)));
        check("Ran 0 tests in 0.000s", Some((0, 0)));
    }
}
