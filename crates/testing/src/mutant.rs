//! Small faults put into changed lines, one at a time, to see whether a test notices.
//!
//! **Invariant.** A mutant differs from the text in one place, on a changed line, in code: comments, texts and types stay. The list is the same for
//! the same input and never longer than asked. *Does not know* whether a mutant compiles: one that does not proves nothing and is passed over by
//! whoever runs the tests.

use crate::lex::{Lexeme, SourceLanguage, TokenKind, closing, lex};
use std::ops::RangeInclusive;

/// One changed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// From 1.
    pub line: u32,
    /// What was done, for people: "`<` became `>=`".
    pub description: String,
    pub text: String,
}

/// A replacement in a text.
struct Edit {
    line: u32,
    start: usize,
    end: usize,
    with: String,
    description: String,
}

/// At most `max` mutants of the lines in `changed`, spread over them. None where the language is not known or the file cannot be read to its end.
pub fn mutants(path: &str, text: &str, changed: &[RangeInclusive<u32>], max: usize) -> Vec<Mutant> {
    let Some(language) = SourceLanguage::of(path) else {
        return Vec::new();
    };
    let lexed = lex(language, text);
    if !lexed.is_whole {
        return Vec::new();
    }
    let code = lexed.code();
    let is_changed = |line: u32| changed.iter().any(|range| range.contains(&line));
    let mut edits = Vec::new();
    for at in 0..code.len() {
        if is_changed(code[at].line) {
            edits.extend(edit(language, &code, at));
        }
    }
    spread(edits, max)
        .into_iter()
        .map(|edit| Mutant {
            line: edit.line,
            text: format!("{}{}{}", &text[..edit.start], edit.with, &text[edit.end..]),
            description: edit.description,
        })
        .collect()
}

/// Keeps so many, evenly from the first to the last.
fn spread(edits: Vec<Edit>, max: usize) -> Vec<Edit> {
    let count = edits.len();
    if count <= max {
        return edits;
    }
    let is_kept = |at: usize| (at * max) / count != ((at + 1) * max) / count;
    edits.into_iter().enumerate().filter(|(at, _)| is_kept(*at)).map(|(_, edit)| edit).collect()
}

fn edit(language: SourceLanguage, code: &[Lexeme<'_>], at: usize) -> Option<Edit> {
    let token = &code[at];
    match token.kind {
        TokenKind::Mark => mark(language, code, at),
        TokenKind::Number => number(token),
        TokenKind::Word => word(language, code, at),
        TokenKind::Text | TokenKind::Comment => None,
    }
}

fn replace(token: &Lexeme<'_>, with: &str) -> Edit {
    let description = format!("`{}` became `{}`", token.text, with.trim());
    Edit { line: token.line, start: token.start, end: token.end(), with: with.to_owned(), description }
}

fn is_value(token: Option<&Lexeme<'_>>) -> bool {
    token.is_some_and(|token| match token.kind {
        TokenKind::Number | TokenKind::Text => true,
        TokenKind::Word => !matches!(
            token.text,
            "return"
                | "in"
                | "of"
                | "if"
                | "while"
                | "and"
                | "or"
                | "not"
                | "case"
                | "else"
                | "match"
                | "typeof"
                | "await"
                | "yield"
                | "mut"
        ),
        TokenKind::Mark => matches!(token.text, ")" | "]"),
        TokenKind::Comment => false,
    })
}

fn mark(language: SourceLanguage, code: &[Lexeme<'_>], at: usize) -> Option<Edit> {
    let token = &code[at];
    let before = at.checked_sub(1).map(|before| &code[before]);
    let is_between =
        is_value(before) && (is_value(code.get(at + 1)) || code.get(at + 1).is_some_and(|next| matches!(next.text, "(" | "!" | "-")));
    // `<` and `>` are spaced where they compare; generics are not.
    let is_spaced =
        before.is_some_and(|before| before.end() < token.start) && code.get(at + 1).is_some_and(|next| token.end() < next.start);
    let with = match token.text {
        "==" => "!=",
        "!=" => "==",
        "===" => "!==",
        "!==" => "===",
        "<=" => ">",
        ">=" => "<",
        "<" if is_between && is_spaced => ">=",
        ">" if is_between && is_spaced && !before.is_some_and(|before| before.is("=")) => "<=",
        "&&" if is_between => "||",
        "||" if is_between => "&&",
        "+" if is_between => "-",
        "-" if is_between => "+",
        "*" if is_between && is_spaced => "/",
        "/" if is_between && is_spaced => "*",
        "+=" => "-=",
        "-=" => "+=",
        "!" if language != SourceLanguage::Python && !is_value(before) && is_value_start(code.get(at + 1)) => {
            let mut edit = replace(token, "");
            "`!` was dropped".clone_into(&mut edit.description);
            return Some(edit);
        }
        _ => return None,
    };
    Some(replace(token, with))
}

/// `!x` and `!(…)`, and not `!=` or `name!(…)`.
fn is_value_start(token: Option<&Lexeme<'_>>) -> bool {
    token.is_some_and(|token| token.kind == TokenKind::Word || token.is("("))
}

fn number(token: &Lexeme<'_>) -> Option<Edit> {
    let value: u64 = token.text.parse().ok()?;
    Some(replace(token, &(if value == 0 { 1 } else { value - 1 }).to_string()))
}

fn word(language: SourceLanguage, code: &[Lexeme<'_>], at: usize) -> Option<Edit> {
    let token = &code[at];
    let with = match (language, token.text) {
        (SourceLanguage::Python, "True") => "False",
        (SourceLanguage::Python, "False") => "True",
        (SourceLanguage::Python, "and") => "or",
        (SourceLanguage::Python, "or") => "and",
        (SourceLanguage::Python, "not")
            if !at.checked_sub(1).is_some_and(|before| code[before].is("is")) && !code.get(at + 1).is_some_and(|next| next.is("in")) =>
        {
            let mut edit = replace(token, "");
            "`not` was dropped".clone_into(&mut edit.description);
            return Some(edit);
        }
        (_, "return" | "fn") => return body(language, code, at),
        (_, "true") if language != SourceLanguage::Python => "false",
        (_, "false") if language != SourceLanguage::Python => "true",
        _ => return None,
    };
    Some(replace(token, with))
}

/// A function that returns at once, with nothing: only where that can compile.
fn body(language: SourceLanguage, code: &[Lexeme<'_>], at: usize) -> Option<Edit> {
    let token = &code[at];
    match (language, token.text) {
        (SourceLanguage::Python, "return") => {
            let next = code.get(at + 1).filter(|next| !next.is_first && next.line == token.line && !next.is("None"))?;
            let description = "the function returns `None`".to_owned();
            Some(Edit { line: token.line, start: token.start, end: next.start, with: "return None and ".to_owned(), description })
        }
        (SourceLanguage::TypeScript | SourceLanguage::JavaScript, "return") => {
            let next = code.get(at + 1).filter(|next| next.line == token.line && !next.is(";") && !next.is("}"))?;
            let description = "the function returns `undefined`".to_owned();
            Some(Edit { line: token.line, start: token.start, end: next.start, with: "return undefined && ".to_owned(), description })
        }
        (SourceLanguage::Rust, "fn") => {
            let name = code.get(at + 1).filter(|name| name.is_word())?;
            let open = (at + 2..code.len()).find(|open| code[*open].is("{") || code[*open].is(";"))?;
            let returns = code[at..open].iter().any(|token| token.is("->"));
            if !code[open].is("{") || closing(code, open) == open + 1 {
                return None;
            }
            // With a default the types decide whether it compiles.
            let with = if returns { " return Default::default();" } else { " return;" };
            let end = code[open].end();
            let description = format!("`{}` returns at once", name.text);
            Some(Edit { line: token.line, start: end, end, with: format!(" if true {{{with} }}"), description })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mutants of the whole text, as descriptions.
    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let found = mutants(path, text, &[1..=1_000], 100);
        let told: Vec<&str> = found.iter().map(|mutant| mutant.description.as_str()).collect();
        assert_eq!(told, expected, "{text}");
        for mutant in &found {
            assert_ne!(mutant.text, text);
        }
    }

    #[test]
    fn each_language_has_its_mutants() {
        check(
            "a.rs",
            "fn f(a: u32, b: &[Vec<u8>]) -> bool {\n    // a == b\n    a == 1 && !g(\"a == b\") || a + 2 < 3\n}\n",
            &[
                "`f` returns at once",
                "`==` became `!=`",
                "`1` became `0`",
                "`&&` became `||`",
                "`!` was dropped",
                "`||` became `&&`",
                "`+` became `-`",
                "`2` became `1`",
                "`<` became `>=`",
                "`3` became `2`",
            ],
        );
        check("a.rs", "fn f() {}\nlet x = -1;\nassert!(a);\n", &["`1` became `0`"]);
        check(
            "a.py",
            "def f(a):\n    if not a and True:\n        return a + 0\n    return\n",
            &[
                "`not` was dropped",
                "`and` became `or`",
                "`True` became `False`",
                "the function returns `None`",
                "`+` became `-`",
                "`0` became `1`",
            ],
        );
        check("a.py", "x = a is not b\ny = a not in b\n", &[]);
        check(
            "a.ts",
            "const f = (a: Array<number>) => a !== 1 ? !a : /a==b/;",
            &["`!==` became `===`", "`1` became `0`", "`!` was dropped"],
        );
        check("a.ts", "function f() { return a; }", &["the function returns `undefined`"]);
        check(
            "a.go",
            "func f() bool { return a >= 1 && !b }",
            &["`>=` became `<`", "`1` became `0`", "`&&` became `||`", "`!` was dropped"],
        );
        check("a.txt", "a == b", &[]);
        check("a.rs", "a == \"b", &[]);
    }

    #[test]
    fn only_changed_lines_have_mutants_and_they_are_spread() {
        let text = "a == b\n".repeat(100);
        let lines = |changed: &[RangeInclusive<u32>], max| {
            mutants("a.rs", &text, changed, max).iter().map(|mutant| mutant.line).collect::<Vec<_>>()
        };
        assert_eq!(lines(&[3..=3, 7..=8], 100), [3, 7, 8]);
        assert_eq!(lines(&[1..=100], 4), [25, 50, 75, 100]);
        assert_eq!(lines(&[], 4), Vec::<u32>::new());
        assert_eq!(lines(&[1..=100], 0), Vec::<u32>::new());
    }

    #[test]
    fn a_mutant_differs_in_one_place() {
        let found = mutants("a.py", "def f(a):\n    return a == 1\n", &[2..=2], 9);
        let texts: Vec<&str> = found.iter().map(|mutant| mutant.text.as_str()).collect();
        assert_eq!(texts, ["def f(a):\n    return None and a == 1\n", "def f(a):\n    return a != 1\n", "def f(a):\n    return a == 0\n"]);
        let found = mutants("a.rs", "fn f() -> u32 { 7 }", &[1..=1], 9);
        assert_eq!(found[0].text, "fn f() -> u32 { if true { return Default::default(); } 7 }");
    }
}
