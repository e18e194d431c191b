//! Are two texts one program? Compared are their tokens and their trees, without types, comments and blanks.
//!
//! **Invariant.** Yes is a proof: the same tokens in a tree of the same shape are run alike. Everything else, also what cannot be parsed, is no proof.

use super::{Erased, SyntaxFlaw, blank, checked, first_error, on_own_stack, parse, place, shape};
use oxc_allocator::Allocator;
use oxc_span::SourceType;

/// How a text is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptKind {
    TypeScript,
    /// Modules, and scripts that could be modules.
    JavaScript,
}

/// Tokens, and each node with its kind, its depth and the token that it begins with.
type ProgramText = (Vec<String>, Vec<(u8, u32, usize)>);

/// Whether two texts are the same program, whatever their types and comments say; or why one of them cannot be read.
pub fn same_program(kind: ScriptKind, before: &str, after: &str, bytes_max: usize) -> Result<bool, SyntaxFlaw> {
    Ok(program(kind, before, bytes_max)? == program(kind, after, bytes_max)?)
}

fn program(kind: ScriptKind, text: &str, bytes_max: usize) -> Result<ProgramText, SyntaxFlaw> {
    checked(text, bytes_max)?;
    let wrong = |wrong: super::Wrong| SyntaxFlaw { at: Some(place(text, wrong.at)), what: wrong.what };
    on_own_stack(|| match kind {
        ScriptKind::TypeScript => {
            let (code, erased) = blank(text)?;
            read(&code, Some(&erased))
        }
        ScriptKind::JavaScript => read(text, None),
    })?
    .map_err(wrong)
}

fn read(code: &str, erased: Option<&Erased>) -> Result<ProgramText, super::Wrong> {
    let allocator = Allocator::default();
    let parsed = parse(&allocator, code, SourceType::mjs());
    if let Some(wrong) = first_error(&parsed) {
        return Err(wrong);
    }
    // Semicolons that only took the place of a type are no part of the program.
    let kept: Vec<(u32, u32)> = parsed
        .tokens
        .iter()
        .map(|token| (token.start(), token.end()))
        .filter(|(start, end)| end > start && !erased.is_some_and(|erased| erased.added(*start)))
        .collect();
    let tokens = kept.iter().map(|(start, end)| code[*start as usize..*end as usize].to_owned()).collect();
    let nodes = shape::of(&parsed.program, &[]);
    let nodes = nodes.iter().map(|node| node.at_token(|start| kept.partition_point(|(token, _)| *token < start))).collect();
    Ok((tokens, nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: ScriptKind, before: &str, after: &str, expected: Option<bool>) {
        assert_eq!(same_program(kind, before, after, 1 << 20).ok(), expected, "{before}\n{after}");
    }

    #[test]
    fn types_and_comments_make_no_difference_and_code_does() {
        use ScriptKind::*;
        check(TypeScript, "let a: number = 1", "let a: string | number = 1", Some(true));
        check(TypeScript, "let a = 1", "// now typed\nlet a: number = 1 as number;", Some(false));
        check(TypeScript, "let a = 1;", "// now typed\nlet a: number = 1 as number;", Some(true));
        check(TypeScript, "let a\nlet b", "let a: number\nlet b: A<string>", Some(true));
        check(TypeScript, "interface A { b: 1 }\nexport const a = 1", "type A = { b: 2 }\nexport const a = 1", Some(true));
        check(TypeScript, "function f(a: number) { return a }", "function f<T>(a: T): T { return a }", Some(true));
        check(TypeScript, "let a: number = 1", "let a: number = 2", Some(false));
        check(TypeScript, "return_(a)", "return_\n(a)", Some(true));
        check(TypeScript, "function f() { return a }", "function f() { return\na }", Some(false));
        // Both are calls of `a` with types, as TypeScript reads them.
        check(TypeScript, "f(a < b, c > (d))", "f(a<b, c>(d))", Some(true));
        check(TypeScript, "f(a < b, c > d)", "f(a<b, c>(d))", Some(false));
        check(TypeScript, "import { A } from './a'", "import type { A } from './a'", Some(false));
        check(TypeScript, "let a = 'x'", "let a = \"x\"", Some(false));
        check(TypeScript, "let a = `x ${1}`", "let a = `x  ${1}`", Some(false));
        check(TypeScript, "let a = 1", "let a = ", None);
        check(TypeScript, "enum A { B }", "enum A { B }", None);
        check(JavaScript, "f(a<b, c>(d))", "f(a < b, c > (d))", Some(true));
        check(JavaScript, "f(a<b, c>(d))", "f(a<x, c>(d))", Some(false));
        check(JavaScript, "let a = 1 // x", "let a = 1 /* y */", Some(true));
    }
}
