//! The tests that a source file has, what they assert, and how they are marked.
//!
//! **Invariant.** What looks like a test is listed; a test whose marks or assertions cannot be read is listed with none, so that it is named and
//! not passed over. *Does not know* which tests a runner would find: a run says that.

mod assertions;
mod go;
mod python;
mod questions;
mod rust;
mod script;

use crate::lex::{Lexeme, SourceLanguage, lex};
use crate::limits::{FILE_TESTS_MAX, MARKS_MAX};
use crate::paths::{FileRole, file_role};
use std::ops::Range;

use assertions::{Assertions, Helpers};

/// A test in a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceTest {
    /// With the modules, classes or groups around it.
    pub name: String,
    /// From 1.
    pub line: u32,
    /// Words that keep it from running or from failing: `#[ignore]`, `skip`, `xfail`.
    pub marks: Vec<String>,
    /// It is marked so that only it and its like run.
    pub is_focused: bool,
    /// It has no statement at all.
    pub is_empty: bool,
    /// How many assertions it makes, with calls of functions that assert.
    pub assertions: usize,
    /// Those of them that always hold: `assert True`.
    pub constant_assertions: usize,
    /// It returns before its last assertion.
    pub returns_early: bool,
    /// What it does beside testing: reads a clock, writes files.
    pub habits: Vec<TestHabit>,
    /// Its code without comments and blanks.
    pub(crate) code: String,
}

/// What a test does that a person should know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TestHabit {
    ReadsClock,
    ReadsEnvironment,
    WritesFiles,
    StartsProcesses,
    EndsProcess,
    CatchesEverything,
}

/// The tests of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileTests {
    pub tests: Vec<SourceTest>,
    /// Code that belongs to tests and is in none of them, one line each.
    pub support: Vec<String>,
    /// Marks of the file as a whole.
    pub marks: Vec<String>,
    /// Comments and texts end where they should.
    pub is_whole: bool,
}

/// The tests in a file; none where the language is not known.
pub fn find_tests(path: &str, text: &str) -> Vec<SourceTest> {
    read_file(path, text).tests
}

/// Where a source asks whether it is being tested.
pub(crate) fn test_questions(path: &str, text: &str) -> Vec<String> {
    SourceLanguage::of(path).map(|language| questions::questions(&lex(language, text).code(), text)).unwrap_or_default()
}

/// A test as the languages' readers find it: places in the tokens without comments.
struct Found {
    name: String,
    /// All of it, with its marks.
    whole: Range<usize>,
    /// Its statements.
    body: Range<usize>,
    marks: Vec<String>,
    is_focused: bool,
}

/// What the reader of a language returns.
#[derive(Default)]
struct FoundTests {
    tests: Vec<Found>,
    /// Where code stands that belongs to tests; the whole file if it is a file of tests.
    areas: Vec<Range<usize>>,
    marks: Vec<String>,
    /// Names of functions and where their bodies are.
    functions: Vec<(String, Range<usize>)>,
}

pub(crate) fn read_file(path: &str, text: &str) -> FileTests {
    let Some(language) = SourceLanguage::of(path) else {
        return FileTests { is_whole: true, ..FileTests::default() };
    };
    let lexed = lex(language, text);
    let code = lexed.code();
    let mut found = match language {
        SourceLanguage::Rust => rust::find(&code),
        SourceLanguage::Python => python::find(&code),
        SourceLanguage::Go => go::find(&code, &lexed.tokens),
        SourceLanguage::TypeScript | SourceLanguage::JavaScript => script::find(&code),
    };
    if file_role(path) != FileRole::Source {
        found.areas = std::iter::once(0..code.len()).collect();
    }
    let is_sure = !lexed.has_doubtful_comment || are_comments(language, text, &lexed.tokens);
    let is_whole = lexed.is_whole && is_sure && found.tests.len() <= FILE_TESTS_MAX;
    found.tests.truncate(FILE_TESTS_MAX);
    found.marks.truncate(MARKS_MAX);
    let helpers = assertions::helpers(language, &code, &found.functions);
    let tests = found.tests.iter().map(|test| one(language, &code, test, &helpers)).collect();
    let mut is_test = vec![false; code.len()];
    for test in &found.tests {
        is_test[test.whole.clone()].fill(true);
    }
    let mut support: Vec<String> = Vec::new();
    let mut line = 0;
    for area in &found.areas {
        for at in area.clone().filter(|at| !is_test.get(*at).copied().unwrap_or(true)) {
            let Some(token) = code.get(at) else { break };
            if token.line != line || support.is_empty() {
                // Where a line begins means something in Python.
                support.push(if language == SourceLanguage::Python && token.is_first {
                    format!("{}:", token.column)
                } else {
                    String::new()
                });
                line = token.line;
            }
            if let Some(last) = support.last_mut() {
                last.push_str(token.text);
                last.push(' ');
            }
        }
    }
    FileTests { tests, support, marks: found.marks, is_whole }
}

fn one(language: SourceLanguage, code: &[Lexeme<'_>], test: &Found, helpers: &Helpers) -> SourceTest {
    let body = &code[test.body.clone()];
    let Assertions { total, constant, returns_early } = assertions::count(language, body, helpers);
    let is_empty = match language {
        SourceLanguage::Python => {
            body.iter().all(|token| matches!(token.text, "pass" | "." | "..." | "return" | "None" | ":") || is_docstring(token))
        }
        _ => body.is_empty(),
    };
    SourceTest {
        name: test.name.clone(),
        line: code.get(test.whole.start).map_or(0, |token| token.line),
        marks: test.marks.iter().take(MARKS_MAX).cloned().collect(),
        is_focused: test.is_focused,
        is_empty,
        assertions: total,
        constant_assertions: constant,
        returns_early,
        habits: assertions::habits(body),
        code: written(language, &code[test.whole.clone()]),
    }
}

/// Whether a parser finds the same comments.
fn are_comments(language: SourceLanguage, text: &str, tokens: &[Lexeme<'_>]) -> bool {
    let kind = match language {
        SourceLanguage::TypeScript => typescript::ScriptKind::TypeScript,
        SourceLanguage::JavaScript => typescript::ScriptKind::JavaScript,
        _ => return false,
    };
    let Ok(starts) = typescript::comment_starts(kind, text, crate::limits::SOURCE_BYTES_MAX) else { return false };
    let found = tokens.iter().filter(|token| token.kind == crate::lex::TokenKind::Comment && !token.text.starts_with("#!"));
    found.map(|token| token.start).eq(starts)
}

/// Code without comments and blanks, but with the blanks that mean something: Python's indentation, and a line end that ends a statement.
fn written(language: SourceLanguage, tokens: &[Lexeme<'_>]) -> String {
    let (mut text, mut depth) = (String::new(), 0_usize);
    let first = tokens.first().map_or(0, |token| token.column);
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |before| tokens[before].text);
        let ends_statement = matches!(before, "return" | "throw" | "break" | "continue" | "yield" | "++" | "--");
        match language {
            SourceLanguage::Python if token.is_first && depth == 0 => text.push_str(&format!("\n{}:", token.column as i64 - first as i64)),
            SourceLanguage::Go | SourceLanguage::TypeScript | SourceLanguage::JavaScript if token.is_first && ends_statement => {
                text.push('\n')
            }
            _ => text.push(' '),
        }
        if token.kind == crate::lex::TokenKind::Mark {
            match token.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        text.push_str(token.text);
    }
    text
}

fn is_docstring(token: &Lexeme<'_>) -> bool {
    token.kind == crate::lex::TokenKind::Text && token.is_first
}

#[cfg(test)]
mod tests;
