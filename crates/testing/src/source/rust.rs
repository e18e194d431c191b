//! Tests of Rust: functions with an attribute whose path ends in `test`, in modules or macros.

use super::{Found, FoundTests};
use crate::lex::{Lexeme, closing};
use std::ops::Range;

/// Attributes that make a function a test, by the last part of their path.
const TEST_ATTRIBUTES: [&str; 8] = ["test", "rstest", "test_case", "proptest", "quickcheck", "wasm_bindgen_test", "case", "bench"];

pub(super) fn find(code: &[Lexeme<'_>]) -> FoundTests {
    let mut found = FoundTests::default();
    // Modules that are open: where they end, and their names.
    let mut modules: Vec<(usize, String)> = Vec::new();
    let mut attributes: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while at < code.len() {
        modules.retain(|(end, _)| *end > at);
        let token = &code[at];
        if token.is("#") {
            let is_inner = code.get(at + 1).is_some_and(|next| next.is("!"));
            let open = at + 1 + usize::from(is_inner);
            if code.get(open).is_some_and(|next| next.is("[")) {
                let end = closing(code, open);
                let inside = open + 1..end.min(code.len());
                if is_inner {
                    file_attribute(&code[inside], &mut found);
                } else {
                    attributes.push(at..end);
                }
                at = end + 1;
                continue;
            }
        }
        match token.text {
            "mod" if token.is_word() => {
                let (name, open) = (code.get(at + 1), code.get(at + 2));
                if let (Some(name), true) = (name, open.is_some_and(|open| open.is("{"))) {
                    let end = closing(code, at + 2);
                    if attributes.iter().any(|range| is_cfg_test(&code[range.clone()])) {
                        found.areas.push(attributes.first().map_or(at, |first| first.start)..(end + 1).min(code.len()));
                    }
                    modules.push((end, name.text.to_owned()));
                } else {
                    test_item(code, at, &attributes, &mut found);
                }
                attributes.clear();
            }
            "fn" if token.is_word() => {
                let start = attributes.first().map_or(at, |first| first.start);
                if let Some(name) = code.get(at + 1) {
                    let end = function(code, at, start, name.text, &modules, &attributes, &mut found);
                    // A test's inside has no tests of its own; other functions may hold macros that do.
                    if end > at {
                        at = end;
                    }
                }
                attributes.clear();
            }
            "pub" | "async" | "const" | "unsafe" | "extern" | "crate" | "(" | ")" | "in" | "super" => {}
            _ => {
                test_item(code, at, &attributes, &mut found);
                attributes.clear();
            }
        }
        at += 1;
    }
    found
}

/// An item that is there for tests only: `#[cfg(test)] mod tests;`, `#[cfg(test)] use …;`
fn test_item(code: &[Lexeme<'_>], at: usize, attributes: &[Range<usize>], found: &mut FoundTests) {
    let Some(first) = attributes.first() else {
        return;
    };
    if !attributes.iter().any(|range| is_cfg_test(&code[range.clone()])) {
        return;
    }
    let end = (at..code.len()).find(|end| code[*end].is(";") || code[*end].is("{")).unwrap_or(code.len());
    let end = if code.get(end).is_some_and(|token| token.is("{")) { closing(code, end) } else { end };
    found.areas.push(first.start..(end + 1).min(code.len()));
}

/// Takes one function in, and returns where it ends if it is a test.
fn function(
    code: &[Lexeme<'_>],
    at: usize,
    start: usize,
    name: &str,
    modules: &[(usize, String)],
    attributes: &[Range<usize>],
    found: &mut FoundTests,
) -> usize {
    let mut open = at + 2;
    while let Some(token) = code.get(open) {
        if token.is("(") || token.is("[") {
            open = closing(code, open);
        } else if token.is("{") {
            break;
        } else if token.is(";") {
            return 0;
        }
        open += 1;
    }
    let end = closing(code, open);
    if open >= code.len() {
        return 0;
    }
    let body = open + 1..end.min(code.len());
    found.functions.push((name.to_owned(), body.clone()));
    let is_test = attributes.iter().any(|range| is_test_attribute(&code[range.clone()]));
    if !is_test {
        test_item(code, at, attributes, found);
        return 0;
    }
    let marks = attributes.iter().filter_map(|range| mark(&code[range.clone()])).collect();
    let mut path: Vec<&str> = modules.iter().map(|(_, name)| name.as_str()).collect();
    path.push(name);
    found.tests.push(Found { name: path.join("::"), whole: start..(end + 1).min(code.len()), body, marks, is_focused: false });
    end
}

/// The words of `#[path::to(args)]`: the last of its path.
fn is_test_attribute(attribute: &[Lexeme<'_>]) -> bool {
    let path = attribute.iter().skip(2).take_while(|token| token.is_word() || token.is("::"));
    path.filter(|token| token.is_word()).last().is_some_and(|last| TEST_ATTRIBUTES.contains(&last.text))
}

fn is_cfg_test(attribute: &[Lexeme<'_>]) -> bool {
    attribute.get(2).is_some_and(|token| token.is("cfg")) && attribute.iter().any(|token| token.is("test"))
}

fn mark(attribute: &[Lexeme<'_>]) -> Option<String> {
    let first = attribute.get(2)?;
    match first.text {
        "ignore" => Some("#[ignore]".to_owned()),
        "should_panic" => Some("#[should_panic]".to_owned()),
        "cfg_attr" if attribute.iter().any(|token| token.is("ignore")) => Some("#[cfg_attr(…, ignore)]".to_owned()),
        "cfg" => Some("#[cfg]".to_owned()),
        _ => None,
    }
}

fn file_attribute(inside: &[Lexeme<'_>], found: &mut FoundTests) {
    if inside.first().is_some_and(|token| token.is("cfg")) {
        found.marks.push("#![cfg]".to_owned());
    }
}
