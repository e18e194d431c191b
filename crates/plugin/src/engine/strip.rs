//! TypeScript to JavaScript: types become blanks, so that every line and column stays where it was.
//!
//! **Invariant.** What comes out has as many bytes and the same line ends as what went in, is JavaScript, and has the same tree as
//! the TypeScript without its types: the tree is compared, because a blank can make two statements one. What needs more than
//! blanks (enums, namespaces with values, parameter properties) is an error with its place.
//!
//! It does not know types: nothing is checked against them.

use oxc_allocator::Allocator;
use oxc_parser::config::TokensParserConfig;
use oxc_parser::{Parser, ParserReturn};
use oxc_span::SourceType;

use crate::fault::RuleFlaw;
use crate::limits::{FRAME_BYTES, NESTING, STRIP_STACK_BYTES};

mod erase;
mod nesting;
mod shape;
#[cfg(test)]
mod tests;

use erase::Erased;

/// What is wrong at a byte of the text.
struct Wrong {
    at: usize,
    what: String,
}

/// The file as JavaScript, or its first error.
pub(super) fn strip(file: &str, text: &str) -> Result<String, RuleFlaw> {
    if text.len() > FRAME_BYTES {
        return Err(RuleFlaw::new(file, None, format!("the file has {} bytes, and {FRAME_BYTES} is the most", text.len())));
    }
    let wrong = |wrong: Wrong| RuleFlaw::new(file, Some(place(text, wrong.at)), wrong.what);
    if let Some(at) = nesting::too_deep(text, NESTING) {
        return Err(wrong(Wrong { at, what: format!("brackets are nested more than {NESTING} deep here") }));
    }
    // A parser recurses, and how much stack the caller has left is not known here.
    let stripped = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STRIP_STACK_BYTES).spawn_scoped(scope, || blank(text));
        thread.map(|thread| thread.join())
    });
    match stripped {
        Ok(Ok(stripped)) => stripped.map_err(wrong),
        Ok(Err(_)) => Err(RuleFlaw::new(file, None, "the parser gave up on this file")),
        Err(error) => Err(RuleFlaw::new(file, None, format!("no thread could be started to read it: {error}"))),
    }
}

fn blank(text: &str) -> Result<String, Wrong> {
    let allocator = Allocator::default();
    let parsed = parse(&allocator, text, SourceType::ts().with_module(true));
    if let Some(wrong) = first_error(&parsed) {
        return Err(wrong);
    }
    let erased = erase::erase(text, &parsed.program, &parsed.tokens)?;
    let wanted = shape::of(&parsed.program, &erased.gone);
    let code = erased.apply(text);
    drop(parsed);
    same_tree(&code, &wanted, &erased)?;
    Ok(code)
}

/// Parses what is left and compares its tree with the one that was meant.
fn same_tree(code: &str, wanted: &[shape::SyntaxNode], erased: &Erased) -> Result<(), Wrong> {
    let allocator = Allocator::default();
    let parsed = parse(&allocator, code, SourceType::mjs());
    let hint = |at: usize| Wrong {
        at,
        what: "the types here cannot be removed without changing what the code means; use parentheses or a semicolon".to_owned(),
    };
    if let Some(wrong) = first_error(&parsed) {
        return Err(hint(wrong.at));
    }
    let left = shape::of(&parsed.program, &[]);
    let starts: Vec<u32> = parsed.tokens.iter().map(|token| token.start()).filter(|start| !erased.added(*start)).collect();
    shape::first_difference(wanted, &left, &starts).map_or(Ok(()), |at| Err(hint(at)))
}

fn parse<'a>(allocator: &'a Allocator, text: &'a str, kind: SourceType) -> ParserReturn<'a> {
    Parser::new(allocator, text, kind).with_config(TokensParserConfig).parse()
}

fn first_error(parsed: &ParserReturn<'_>) -> Option<Wrong> {
    let error = parsed.diagnostics.errors().next();
    if error.is_none() && !parsed.panicked {
        return None;
    }
    let at = error.and_then(|error| error.labels.iter().map(|label| label.offset() as usize).next()).unwrap_or_default();
    let what = error.map_or_else(|| "this is no TypeScript".to_owned(), |error| error.message.to_string());
    Some(Wrong { at, what })
}

/// Line and column of a byte, both from 1; columns are characters.
fn place(text: &str, at: usize) -> (u32, u32) {
    let before = &text[..text.floor_char_boundary(at)];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    (number(line), number(column))
}
