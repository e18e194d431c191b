//! How a source learns that it is being tested, changes what tests compare with, or keeps out of what is measured.
//!
//! By words alone: each has honest uses, so they are shown. *Does not know* what a program puts together while it runs.

use crate::lex::{Lexeme, TokenKind};
use std::collections::BTreeSet;

/// Variables and words that runners set.
const NAMES: [&str; 8] = [
    "PYTEST_CURRENT_TEST",
    "VITEST",
    "VITEST_WORKER_ID",
    "JEST_WORKER_ID",
    "NEXTEST",
    "NEXTEST_RUN_ID",
    "RUST_TEST_THREADS",
    "NODE_TEST_CONTEXT",
];
/// Words by which a source looks at its callers, or is built otherwise for tests.
const WORDS: [&str; 9] = [
    "debug_assertions",
    "_getframe",
    "currentframe",
    "extract_stack",
    "get_referrers",
    "settrace",
    "captureStackTrace",
    "prepareStackTrace",
    "load_tests",
];
/// Words that mean this only behind another: `inspect.stack`, `runtime.Caller`.
const PAIRS: [(&str, &str); 6] = [
    ("inspect", "stack"),
    ("runtime", "Caller"),
    ("runtime", "Callers"),
    ("runtime", "CallersFrames"),
    ("debug", "Stack"),
    ("sys", "modules"),
];
/// Objects by which tests compare. Who assigns to one of their functions changes what tests say.
const COMPARES: [&str; 5] = ["assert", "expect", "chai", "unittest", "pytest"];
/// Marks that keep lines out of reports of coverage.
const UNMEASURED: [&str; 11] = [
    "pragma: no cover",
    "pragma: no branch",
    "istanbul ignore",
    "c8 ignore",
    "v8 ignore",
    "node:coverage",
    "coverage(off)",
    "no_coverage",
    "tarpaulin_include",
    "LCOV_EXCL",
    "GRCOV_EXCL",
];
/// How far a value stands behind its name.
const NEAR: usize = 24;

/// The questions of a source, as they are written.
pub(super) fn questions(code: &[Lexeme<'_>], text: &str) -> Vec<String> {
    let mut found = BTreeSet::new();
    for (at, token) in code.iter().enumerate() {
        let before = |back: usize| at.checked_sub(back).map_or("", |place| code[place].text);
        if asks(code, at) {
            let from = at.saturating_sub(3);
            let written: Vec<&str> = code[from..=at].iter().filter(|near| near.line == token.line).map(|near| near.text).collect();
            found.insert(written.join(" "));
        }
        // What equals everything passes every comparison.
        let ahead = &code[at..(at + NEAR).min(code.len())];
        let says = |one: &str, other: &str| ahead.windows(2).any(|pair| pair[0].is(one) && pair[1].is(other));
        let is_python = token.is("__eq__") && (before(1) == "def" && says("return", "True") || says("=", "lambda") && says(":", "True"));
        if is_python || token.is("eq") && before(1) == "fn" && says("{", "true") || token.is("asymmetricMatch") {
            found.insert(format!("{} {} … true", before(1), token.text));
        }
    }
    let unmeasured = text.lines().filter(|line| UNMEASURED.iter().any(|mark| line.contains(mark)));
    found.extend(unmeasured.map(|line| format!("{} … unmeasured", line.trim())));
    found.into_iter().collect()
}

fn asks(code: &[Lexeme<'_>], at: usize) -> bool {
    let token = &code[at];
    let before = |back: usize| at.checked_sub(back).map_or("", |place| code[place].text);
    let after = |ahead: usize| code.get(at + ahead).map_or("", |token| token.text);
    let plain = token.text.trim_matches(['"', '\'', '`']);
    let is_named = NAMES.contains(&plain)
        || token.kind == TokenKind::Text
            && matches!(plain, "pytest" | "test.v" | ".test" | "unittest" | "jest" | "vitest" | "node:test" | "@jest/globals" | "testing");
    let is_rust = token.is("test") && before(1) == "(" && (before(2) == "!" && before(3) == "cfg" || before(2) == "not");
    let is_go = token.is("Testing") && before(1) == "." && before(2) == "testing";
    let is_import = matches!(token.text, "pytest" | "_pytest" | "unittest") && token.is_word() && matches!(before(1), "import" | "from");
    let is_word = token.is_word() && WORDS.contains(&token.text);
    let is_pair = before(1) == "." && PAIRS.iter().any(|(of, word)| token.is(word) && before(2) == *of);
    // A test's thread has the test's name.
    let is_thread = token.is("name") && before(1) == "." && before(4) == "current";
    let is_trace = token.is("stack") && before(1) == "." && before(2) == ")" && before(4) == "Error";
    let is_macro = token.text.starts_with("assert") && before(1) == "!" && before(2) == "macro_rules";
    let is_replaced = COMPARES.contains(&token.text) && token.is_word() && before(1) != "." && after(1) == "." && after(3) == "=";
    is_named || is_rust || is_go || is_import || is_word || is_pair || is_thread || is_trace || is_macro || is_replaced
}
