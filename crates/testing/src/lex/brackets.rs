//! Brackets among the tokens of a file.

use super::{Lexeme, TokenKind};
use crate::limits::NESTING_MAX;

/// Whether brackets are nested deeper than anybody writes by hand.
pub(super) fn is_too_deep(tokens: &[Lexeme<'_>]) -> bool {
    let mut depth = 0_usize;
    for token in tokens.iter().filter(|token| token.kind == TokenKind::Mark) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > NESTING_MAX {
            return true;
        }
    }
    false
}

/// The place of the bracket that closes the one at `open`, or the end of these tokens.
pub(crate) fn closing(tokens: &[Lexeme<'_>], open: usize) -> usize {
    let after = tokens.get(open).map_or(0, |token| token.closes_after);
    open.saturating_add(after as usize).min(tokens.len())
}

/// Parts of a list between brackets, split at its own commas.
pub(crate) fn arguments<'t, 'a>(tokens: &'t [Lexeme<'a>]) -> Vec<&'t [Lexeme<'a>]> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_usize, 0);
    for (at, token) in tokens.iter().enumerate() {
        if token.kind != TokenKind::Mark {
            continue;
        }
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "," if depth == 0 => {
                parts.push(&tokens[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if from < tokens.len() {
        parts.push(&tokens[from..]);
    }
    parts
}
