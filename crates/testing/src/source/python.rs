//! Tests of Python: functions and methods whose names begin with `test`, with their decorators.

use super::{Found, FoundTests};
use crate::lex::{Lexeme, closing};

pub(super) fn find(code: &[Lexeme<'_>]) -> FoundTests {
    let mut found = FoundTests::default();
    // Classes that are open: their columns, names and marks.
    let mut classes: Vec<(usize, String, Vec<String>)> = Vec::new();
    let mut decorators: Option<usize> = None;
    let mut at = 0;
    while at < code.len() {
        let token = &code[at];
        if token.is_first && !token.is(")") && !token.is("]") && !token.is("}") {
            classes.retain(|(column, ..)| *column < token.column);
        }
        if token.is_first && token.is("@") {
            decorators.get_or_insert(at);
            at = line_end(code, at);
            continue;
        }
        let is_async = token.is("async") && code.get(at + 1).is_some_and(|next| next.is("def"));
        if token.is_first && token.is("class") {
            let name = code.get(at + 1).map_or("", |name| name.text);
            let marks = decorators.map(|from| marks(&code[from..at])).unwrap_or_default();
            classes.push((token.column, name.to_owned(), marks));
            at = header_end(code, at);
        } else if token.is_first && (token.is("def") || is_async) {
            at = function(code, at, is_async, decorators, &classes, &mut found);
        } else {
            module_mark(code, at, &mut found);
            at += 1;
        }
        decorators = None;
    }
    found
}

/// The first token of the next line of code, over brackets.
fn line_end(code: &[Lexeme<'_>], from: usize) -> usize {
    let mut at = from + 1;
    while let Some(token) = code.get(at) {
        if token.is_first {
            return at;
        }
        at = if matches!(token.text, "(" | "[" | "{") { closing(code, at) + 1 } else { at + 1 };
    }
    code.len()
}

/// Behind the `:` that ends a `def` or `class`.
fn header_end(code: &[Lexeme<'_>], from: usize) -> usize {
    let mut at = from;
    while let Some(token) = code.get(at) {
        if token.is(":") {
            return at + 1;
        }
        at = if matches!(token.text, "(" | "[" | "{") { closing(code, at) + 1 } else { at + 1 };
    }
    code.len()
}

fn function(
    code: &[Lexeme<'_>],
    at: usize,
    is_async: bool,
    decorators: Option<usize>,
    classes: &[(usize, String, Vec<String>)],
    found: &mut FoundTests,
) -> usize {
    let column = code[at].column;
    let name = code.get(at + 1 + usize::from(is_async)).map_or("", |name| name.text);
    let open = header_end(code, at);
    let mut end = open;
    let mut depth = 0_usize;
    while let Some(token) = code.get(end) {
        if depth == 0 && token.is_first && token.column <= column {
            break;
        }
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        end += 1;
    }
    found.functions.push((name.to_owned(), open.min(end)..end));
    // Functions within functions are no tests; functions of no class of tests neither.
    if name.starts_with("test") {
        let start = decorators.unwrap_or(at);
        let mut marks = marks(&code[start..at]);
        marks.extend(classes.iter().flat_map(|(_, _, marks)| marks.iter().cloned()));
        marks.extend(body_marks(&code[open.min(end)..end]));
        let mut path: Vec<&str> = classes.iter().map(|(_, name, _)| name.as_str()).collect();
        path.push(name);
        found.tests.push(Found { name: path.join("::"), whole: start..end, body: open.min(end)..end, marks, is_focused: false });
        return end.max(at + 1);
    }
    open.max(at + 1)
}

/// `@pytest.mark.skip`, `@unittest.skipIf(…)`, `@pytest.mark.xfail`, `@expectedFailure`
fn marks(decorators: &[Lexeme<'_>]) -> Vec<String> {
    let mut marks: Vec<String> = Vec::new();
    for token in decorators.iter().filter(|token| token.is_word()) {
        let mark = match token.text {
            "skip" | "skipif" | "skipIf" | "skipUnless" | "xfail" | "expectedFailure" => {
                format!("@{}", token.text)
            }
            _ => continue,
        };
        marks.push(mark);
    }
    marks
}

/// `pytest.skip(…)`, `self.skipTest(…)`, `pytest.xfail(…)`, `raise SkipTest`
fn body_marks(body: &[Lexeme<'_>]) -> Vec<String> {
    let calls = |pair: &[Lexeme<'_>]| {
        let is_call = pair[1].is("(") && matches!(pair[0].text, "skip" | "skipTest" | "xfail" | "importorskip" | "SkipTest");
        (is_call && pair[0].is_word()).then(|| format!("{}()", pair[0].text))
    };
    body.windows(2).filter_map(calls).collect()
}

/// Marks of the whole module, or of a class: `pytestmark = …skip`, `__test__ = False`, `collect_ignore`.
fn module_mark(code: &[Lexeme<'_>], at: usize, found: &mut FoundTests) {
    let token = &code[at];
    if token.is_first && matches!(token.text, "pytestmark" | "__test__" | "collect_ignore" | "collect_ignore_glob") {
        found.marks.push(token.text.to_owned());
    }
    let is_skip = matches!(token.text, "skip" | "importorskip") && token.is_word();
    let is_of_pytest = at >= 2 && code[at - 1].is(".") && code[at - 2].is("pytest");
    if is_skip && is_of_pytest && code.get(at + 1).is_some_and(|next| next.is("(")) {
        found.marks.push("pytest.skip()".to_owned());
    }
}
