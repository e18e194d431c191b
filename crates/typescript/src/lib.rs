//! TypeScript to JavaScript: types become blanks, so that every line and column stays where it was.
//!
//! **Invariant.** What comes out has as many bytes and the same line ends as what went in, is JavaScript, and has the same tree as
//! the TypeScript without its types: the tree is compared, because a blank can make two statements one. What needs more than
//! blanks (enums, namespaces with values, parameter properties) is an error with its place.
//!
//! It does not know types: nothing is checked against them. Whether two texts are the same program but for their types is [`same_program`].
#![forbid(unsafe_code)]

use oxc_allocator::Allocator;
use oxc_parser::config::TokensParserConfig;
use oxc_parser::{Parser, ParserReturn};
use oxc_span::SourceType;

mod erase;
mod nesting;
mod same;
mod shape;

use erase::Erased;

pub use same::{ScriptKind, same_program};

/// Stack of the thread that parses a file.
pub const STACK_BYTES: usize = 32 << 20;
/// Brackets within brackets in a file; people write ten. A parser needs about a kilobyte of stack for each.
pub const NESTING_MAX: usize = 1_000;

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxFlaw {
    /// Line and column, both from 1; `None` when the whole text is meant.
    pub at: Option<(u32, u32)>,
    pub what: String,
}

/// What is wrong at a byte of the text.
struct Wrong {
    at: usize,
    what: String,
}

/// The text as JavaScript, or its first error. Texts of more than `bytes_max` are refused.
pub fn strip(text: &str, bytes_max: usize) -> Result<String, SyntaxFlaw> {
    checked(text, bytes_max)?;
    on_own_stack(|| blank(text).map(|(code, _)| code))?.map_err(|wrong| SyntaxFlaw { at: Some(place(text, wrong.at)), what: wrong.what })
}

/// Where the comments of a text begin, in bytes. The text is read as `kind`, with JSX if it has some.
pub fn comment_starts(kind: ScriptKind, text: &str, bytes_max: usize) -> Result<Vec<usize>, SyntaxFlaw> {
    checked(text, bytes_max)?;
    let kinds = match kind {
        ScriptKind::TypeScript => [SourceType::ts().with_module(true), SourceType::tsx()],
        ScriptKind::JavaScript => [SourceType::mjs(), SourceType::jsx()],
    };
    let read = |kind: SourceType| {
        let allocator = Allocator::default();
        let parsed = parse(&allocator, text, kind);
        match first_error(&parsed) {
            Some(wrong) => Err(wrong),
            None => Ok(parsed.program.comments.iter().map(|comment| comment.span.start as usize).collect()),
        }
    };
    on_own_stack(|| read(kinds[0]).or_else(|_| read(kinds[1])))?
        .map_err(|wrong| SyntaxFlaw { at: Some(place(text, wrong.at)), what: wrong.what })
}

/// Refuses what a parser should not even see.
fn checked(text: &str, bytes_max: usize) -> Result<(), SyntaxFlaw> {
    if text.len() > bytes_max {
        return Err(SyntaxFlaw { at: None, what: format!("the file has {} bytes, and {bytes_max} is the most", text.len()) });
    }
    match nesting::too_deep(text, NESTING_MAX) {
        Some(at) => Err(SyntaxFlaw { at: Some(place(text, at)), what: format!("brackets are nested more than {NESTING_MAX} deep here") }),
        None => Ok(()),
    }
}

/// A parser recurses, and how much stack the caller has left is not known here.
fn on_own_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, SyntaxFlaw> {
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        thread.map(|thread| thread.join())
    });
    match done {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(_)) => Err(SyntaxFlaw { at: None, what: "the parser gave up on this file".to_owned() }),
        Err(error) => Err(SyntaxFlaw { at: None, what: format!("no thread could be started to read it: {error}") }),
    }
}

/// The text with its types blanked, and what was done to it.
fn blank(text: &str) -> Result<(String, Erased), Wrong> {
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
    Ok((code, erased))
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
