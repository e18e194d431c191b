//! Tests of Go: functions `TestX(t *testing.T)` and methods of suites.

use super::{Found, FoundTests};
use crate::lex::{Lexeme, TokenKind, closing};

pub(super) fn find(code: &[Lexeme<'_>], all: &[Lexeme<'_>]) -> FoundTests {
    let mut found = FoundTests::default();
    // Constraints stand above the package's name.
    let above = all.iter().take_while(|token| !token.is("package"));
    let is_constraint = |token: &&Lexeme<'_>| {
        token.kind == TokenKind::Comment && (token.text.starts_with("//go:build") || token.text.starts_with("// +build"))
    };
    found.marks.extend(above.filter(is_constraint).map(|token| token.text.trim().to_owned()));
    let mut at = 0;
    while at < code.len() {
        if !(code[at].is("func") && code[at].is_first) {
            at += 1;
            continue;
        }
        let start = at;
        let mut name_at = at + 1;
        let is_method = code.get(name_at).is_some_and(|token| token.is("("));
        if is_method {
            name_at = closing(code, name_at) + 1;
        }
        let Some(name) = code.get(name_at).filter(|token| token.is_word()) else {
            at += 1;
            continue;
        };
        let mut open = name_at + 1;
        while let Some(token) = code.get(open) {
            if token.is("{") && !code[open - 1].is("interface") && !code[open - 1].is("struct") {
                break;
            }
            open = if matches!(token.text, "(" | "[" | "{") { closing(code, open) + 1 } else { open + 1 };
        }
        if open >= code.len() {
            break;
        }
        let end = closing(code, open);
        let body = open + 1..end.min(code.len());
        found.functions.push((name.text.to_owned(), body.clone()));
        let is_test = ["Test", "Fuzz", "Example"]
            .iter()
            .any(|start| name.text.strip_prefix(start).is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_lowercase())));
        if is_test && name.text != "TestMain" {
            let marks = marks(&code[body.clone()]);
            found.tests.push(Found { name: name.text.to_owned(), whole: start..(end + 1).min(code.len()), body, marks, is_focused: false });
        }
        at = end.max(at + 1);
    }
    found
}

/// `t.Skip(…)`, `t.Skipf(…)`, `t.SkipNow()`
fn marks(body: &[Lexeme<'_>]) -> Vec<String> {
    let is_skip = |three: &[Lexeme<'_>]| three[0].is(".") && matches!(three[1].text, "Skip" | "Skipf" | "SkipNow") && three[2].is("(");
    body.windows(3).filter(|three| is_skip(three)).map(|three| format!("t.{}", three[1].text)).collect()
}
