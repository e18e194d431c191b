//! Is a change of a file one of types and comments alone? Then no test can tell the difference.
//!
//! **Invariant.** Yes is a proof: the program that runs is token for token the same. What is not understood is no.
//! TypeScript and JavaScript are parsed. Python is compared by its tokens without annotations of parameters, returns and variables, where these
//! cannot run anything. In Rust and Go types decide what the program does, so only comments and blanks may differ there.

use crate::lex::{Lexeme, SourceLanguage, TokenKind, closing, lex};
use crate::limits::SOURCE_BYTES_MAX;
use typescript::{ScriptKind, same_program};

/// Whether a change is one of types alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeOnly {
    /// The program that runs is the same.
    Proven,
    /// It is not, or there is no proof; the reason is for people.
    Refused(String),
}

/// Compares two states of a file.
pub fn type_only_change(path: &str, before: &str, after: &str) -> TypeOnly {
    if before == after {
        return TypeOnly::Proven;
    }
    if before.len().max(after.len()) > SOURCE_BYTES_MAX {
        return refused("the file is too large to be compared");
    }
    match SourceLanguage::of(path) {
        Some(SourceLanguage::TypeScript) if path.ends_with(".tsx") => refused("files with JSX are not compared"),
        Some(SourceLanguage::TypeScript) => script(ScriptKind::TypeScript, before, after),
        Some(SourceLanguage::JavaScript) if path.ends_with(".jsx") => refused("files with JSX are not compared"),
        Some(SourceLanguage::JavaScript) => script(ScriptKind::JavaScript, before, after),
        Some(SourceLanguage::Python) => python(before, after),
        Some(language @ (SourceLanguage::Rust | SourceLanguage::Go)) => plain(language, before, after),
        None => refused("the language of this file is not known"),
    }
}

fn refused(why: &str) -> TypeOnly {
    TypeOnly::Refused(why.to_owned())
}

fn script(kind: ScriptKind, before: &str, after: &str) -> TypeOnly {
    match same_program(kind, before, after, SOURCE_BYTES_MAX) {
        Ok(true) => TypeOnly::Proven,
        Ok(false) => refused("more than types and comments changed"),
        Err(flaw) => match flaw.at {
            Some((line, column)) => TypeOnly::Refused(format!("line {line}, column {column}: {}", flaw.what)),
            None => TypeOnly::Refused(flaw.what),
        },
    }
}

/// Comments and blanks alone. Comments that a compiler reads count as code.
fn plain(language: SourceLanguage, before: &str, after: &str) -> TypeOnly {
    let read = |text: &str| -> Option<Vec<(String, bool)>> {
        let lexed = lex(language, text);
        let is_read = |token: &&Lexeme<'_>| {
            let is_directive = ["//go:", "// +build", "//export", "//line", "/*line"].iter().any(|start| token.text.starts_with(start));
            // A doc comment is an attribute, and its examples are tests.
            let is_doc = language == SourceLanguage::Rust && ["///", "//!", "/**", "/*!"].iter().any(|start| token.text.starts_with(start));
            token.kind != TokenKind::Comment || is_directive || is_doc
        };
        // Go ends statements at line ends, and cgo reads comments.
        let is_go = language == SourceLanguage::Go;
        let tokens = || lexed.tokens.iter().filter(is_read).map(|token| (token.text.to_owned(), is_go && token.is_first));
        (lexed.is_whole && !(is_go && text.contains("import \"C\""))).then(|| tokens().collect())
    };
    // Macros of Rust can ask for lines and columns.
    let asks = |text: &str| {
        language == SourceLanguage::Rust && ["line!", "column!", "include_str!", "stringify!"].iter().any(|word| text.contains(word))
    };
    match (read(before), read(after)) {
        (Some(one), Some(other)) if one == other && !asks(before) => TypeOnly::Proven,
        (Some(one), Some(other)) if one == other => refused("the code asks for its own lines"),
        (Some(_), Some(_)) => refused("in this language only a change of comments and blanks can be proven"),
        _ => refused("the file cannot be read to its end"),
    }
}

/// A token of Python and, where it begins a line, its column.
type PythonToken = (String, Option<usize>);

fn python(before: &str, after: &str) -> TypeOnly {
    match (python_tokens(before), python_tokens(after)) {
        (Ok(one), Ok(other)) if one == other => TypeOnly::Proven,
        (Ok(_), Ok(_)) => refused("more than annotations and comments changed"),
        (Err(why), _) | (_, Err(why)) => refused(why),
    }
}

/// Words of code that can see annotations when it runs: dataclasses, models that read them, and their like.
const READERS: [&str; 14] = [
    "dataclass",
    "dataclasses",
    "get_type_hints",
    "__annotations__",
    "pydantic",
    "BaseModel",
    "NamedTuple",
    "TypedDict",
    "attrs",
    "attr",
    "fastapi",
    "typer",
    "singledispatch",
    "inspect",
];

/// The tokens without annotations. Where an annotation could run something, or something could read it, there is no answer.
fn python_tokens(text: &str) -> Result<Vec<PythonToken>, &'static str> {
    let lexed = lex(SourceLanguage::Python, text);
    if !lexed.is_whole {
        return Err("the file cannot be read to its end");
    }
    if text.contains('\\') && text.lines().any(|line| line.ends_with('\\')) {
        return Err("the file joins lines with a backslash");
    }
    let code = lexed.code();
    if code.iter().any(|token| READERS.contains(&token.text)) {
        return Err("the file has code that may read annotations when it runs");
    }
    // In a text that is formatted, an expression may hide behind a quote.
    let is_formatted =
        |token: &Lexeme<'_>| token.kind == TokenKind::Text && token.text.starts_with(['f', 'F', 't', 'T']) && token.text.contains('{');
    let follows = |pair: &[Lexeme<'_>]| is_formatted(&pair[0]) && pair[1].start == pair[0].end() && pair[1].kind != TokenKind::Mark;
    if code.windows(2).any(follows) {
        return Err("the file has a formatted text that is not understood");
    }
    let mut kept = Vec::new();
    let mut at = 0;
    let mut depth = 0_usize;
    while at < code.len() {
        let token = &code[at];
        if token.is("def") {
            at = definition(&code, at, &mut kept)?;
            continue;
        }
        match token.text {
            "(" | "[" | "{" if token.kind == TokenKind::Mark => depth += 1,
            ")" | "]" | "}" if token.kind == TokenKind::Mark => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_statement = token.is_first && depth == 0 && token.is_word();
        match is_statement.then(|| variable(&code, at)).flatten() {
            Some((colon, end)) => {
                check_annotation(&code[colon + 1..end])?;
                // A name that is only declared is local to its function: that can change what runs.
                if !code.get(end).is_some_and(|token| token.is("=")) {
                    return Err("the file declares a variable without a value");
                }
                keep(&code[at..colon], &mut kept);
                at = end;
            }
            None => {
                keep(std::slice::from_ref(token), &mut kept);
                at += 1;
            }
        }
    }
    Ok(kept)
}

fn keep(tokens: &[Lexeme<'_>], kept: &mut Vec<PythonToken>) {
    kept.extend(tokens.iter().map(|token| (token.text.to_owned(), token.is_first.then_some(token.column))));
}

/// `name: annotation = value`: the places of the colon and of the end of the annotation.
fn variable(code: &[Lexeme<'_>], at: usize) -> Option<(usize, usize)> {
    const KEYWORDS: [&str; 12] = ["if", "elif", "else", "for", "while", "try", "except", "finally", "with", "class", "lambda", "match"];
    if KEYWORDS.contains(&code[at].text) || matches!(code[at].text, "async" | "case" | "return" | "assert" | "del" | "yield" | "raise") {
        return None;
    }
    let mut colon = at + 1;
    while code.get(colon).is_some_and(|token| token.is(".")) && code.get(colon + 1).is_some_and(|token| token.is_word()) {
        colon += 2;
    }
    if !code.get(colon)?.is(":") {
        return None;
    }
    Some((colon, annotation_end(code, colon + 1)))
}

/// Where an annotation ends: at `=`, at a comma or bracket outside of its own, or with its line.
fn annotation_end(code: &[Lexeme<'_>], from: usize) -> usize {
    let mut at = from;
    while let Some(token) = code.get(at) {
        if token.is_first && at > from || matches!(token.text, "=" | "," | ")" | ":" | ";") && token.kind == TokenKind::Mark {
            return at;
        }
        at = if matches!(token.text, "(" | "[" | "{") && token.kind == TokenKind::Mark { closing(code, at) + 1 } else { at + 1 };
    }
    code.len()
}

/// Only names, points, brackets for generics, `|`, commas, texts and `None`: nothing is called.
fn check_annotation(tokens: &[Lexeme<'_>]) -> Result<(), &'static str> {
    let is_plain = |token: &Lexeme<'_>| match token.kind {
        TokenKind::Word => !matches!(token.text, "lambda" | "await" | "yield" | "if" | "else" | "for" | "not" | "and" | "or"),
        TokenKind::Mark => matches!(token.text, "." | "[" | "]" | "," | "|" | "..."),
        TokenKind::Number | TokenKind::Text => !token.text.starts_with(['f', 'F']),
        TokenKind::Comment => true,
    };
    if !tokens.is_empty() && tokens.iter().all(is_plain) { Ok(()) } else { Err("an annotation is more than names") }
}

/// `def name(a: int = 1, *b: str) -> int:` without its annotations. Returns the place behind the colon.
fn definition(code: &[Lexeme<'_>], at: usize, kept: &mut Vec<PythonToken>) -> Result<usize, &'static str> {
    const ODD: &str = "a function's head is not understood";
    let open = at + 2;
    if !code.get(open).is_some_and(|token| token.is("(")) {
        return Err(ODD);
    }
    keep(&code[at..=open], kept);
    let close = closing(code, open);
    if close >= code.len() {
        return Err(ODD);
    }
    let mut next = open + 1;
    while next < close {
        let token = &code[next];
        let is_name = token.is_word() && code.get(next + 1).is_some_and(|colon| colon.is(":"));
        if is_name {
            let end = annotation_end(code, next + 2).min(close);
            check_annotation(&code[next + 2..end])?;
            kept.push((token.text.to_owned(), None));
            next = end;
            continue;
        }
        // A default: up to the next comma of the head itself.
        if token.is("=") {
            let mut end = next + 1;
            while end < close && !code[end].is(",") {
                if code[end].is("lambda") {
                    return Err(ODD);
                }
                end = if matches!(code[end].text, "(" | "[" | "{") && code[end].kind == TokenKind::Mark {
                    closing(code, end) + 1
                } else {
                    end + 1
                };
            }
            let end = end.min(close);
            kept.extend(code[next..end].iter().map(|token| (token.text.to_owned(), None)));
            next = end;
            continue;
        }
        kept.push((token.text.to_owned(), None));
        next += 1;
    }
    kept.push((")".to_owned(), None));
    let mut colon = close + 1;
    if code.get(colon).is_some_and(|token| token.is("->")) {
        let end = (colon + 1..code.len()).find(|end| code[*end].is(":") || code[*end].is_first).ok_or(ODD)?;
        check_annotation(&code[colon + 1..end])?;
        colon = end;
    }
    if !code.get(colon).is_some_and(|token| token.is(":")) {
        return Err(ODD);
    }
    kept.push((":".to_owned(), None));
    Ok(colon + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, before: &str, after: &str, expected: bool) {
        for (one, other) in [(before, after), (after, before)] {
            let found = type_only_change(path, one, other);
            assert_eq!(found == TypeOnly::Proven, expected, "{found:?}\n{one}\n{other}");
        }
    }

    #[test]
    fn scripts_are_parsed() {
        check("a.ts", "export const a = 1;", "export const a: number = 1;", true);
        check("a.d.ts", "export declare const a: number;", "export declare const a: string;", true);
        check("a.ts", "export const a = 1;", "export const a = 2;", false);
        check("a.js", "f(a<b, c>(d))", "f(a<x, c>(d))", false);
        check("a.js", "f() // a", "f() // b", true);
        check("a.tsx", "let a = <b>c</b>", "let a = <b> c</b>", false);
        check("a.ts", "let a = (", "let a = ((", false);
    }

    #[test]
    fn annotations_of_python_are_left_out() {
        let plain = "def f(a, b=1, *c, d=g(1, 2)):\n    x = a\n    return x\n";
        check(
            "a.py",
            plain,
            "def f(a: int, b: list[int] = 1, *c: str, d: 'A' = g(1, 2)) -> dict[str, int]:  # typed\n    x: int = a\n    return x\n",
            true,
        );
        check("a.py", plain, &plain.replace("b=1", "b=2"), false);
        check("a.py", plain, &plain.replace("d=g(1, 2)", "d=g(1, 3)"), false);
        check("a.py", plain, &plain.replace("return x", "return a"), false);
        check("a.py", plain, &plain.replace("    return x", "return x"), false);
        check("a.py", plain, &plain.replace("f(a, ", "f(\n    a,\n    "), true);
        check("a.py", "self.a = 1\n", "self.a: int = 1\n", true);
        check("a.py", "class A:\n    async def f(self): pass\n", "class A:\n    async def f(self) -> None: pass\n", true);
    }

    #[test]
    fn annotations_that_run_or_are_read_are_no_proof() {
        check("a.py", "def f(a): pass\n", "def f(a: g()): pass\n", false);
        check("a.py", "def f(): pass\n", "def f() -> g(): pass\n", false);
        check("a.py", "def f(a): pass\n", "def f(a: (x := 1)): pass\n", false);
        check("a.py", "@dataclass\nclass A:\n    a = 1\n", "@dataclass\nclass A:\n    a: int = 1\n", false);
        check("a.py", "x = 1\n", "x: int\nx = 1\n", false);
        check("a.py", "if a: b = 1\n", "if a: c = 1\n", false);
        check("a.py", "d = {a: 1}\n", "d = {a: 2}\n", false);
        check("a.py", "d = x[a:b]\n", "d = x[a:c]\n", false);
        check("a.py", "f = lambda a: b\n", "f = lambda a: c\n", false);
        check("a.py", "match a:\n    case 1: b\n", "match a:\n    case 1: c\n", false);
        check("a.py", "f(f\"{x}\")\n", "f(f\"{y}\")\n", false);
        check("a.py", "x = 'a\n", "x = 'b\n", false);
        check("a.py", "for a in b: c\n", "for a in b: d\n", false);
        check("a.py", "type: X = 1\n", "type: Y = 2\n", false);
    }

    #[test]
    fn rust_and_go_prove_comments_alone() {
        check("a.rs", "fn f() -> u8 { 1 } // a", "fn f() -> u8 {\n    1\n}", true);
        check("a.rs", "fn f() -> u8 { 1 }", "fn f() -> u16 { 1 }", false);
        check("a.rs", "/// a\nfn f() {}", "/// b\nfn f() {}", false);
        check("a.rs", "fn f() { line!(); }", "\nfn f() { line!(); }", false);
        check("a.go", "x := 1 // a\n", "x := 1 /* b */\n", true);
        check("a.go", "return\nx\n", "return x\n", false);
        check("a.go", "//go:build a\npackage a\n", "//go:build b\npackage a\n", false);
        check("a.txt", "a", "b", false);
    }
}
