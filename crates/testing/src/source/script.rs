//! Tests of JavaScript and TypeScript: calls of `test` and `it`, in groups of `describe`.

use super::{Found, FoundTests};
use crate::lex::{Lexeme, TokenKind, arguments, closing};

const TESTS: [&str; 8] = ["test", "it", "specify", "fit", "xit", "xtest", "ftest", "bench"];
const GROUPS: [&str; 6] = ["describe", "suite", "context", "fdescribe", "xdescribe", "xcontext"];

/// A call of a test or group: `it.skip.each(table)('name', body)`.
struct Call {
    name: String,
    marks: Vec<String>,
    is_focused: bool,
    /// The brackets of its arguments.
    open: usize,
    end: usize,
    is_group: bool,
}

struct Group {
    end: usize,
    name: String,
    marks: Vec<String>,
    is_focused: bool,
}

pub(super) fn find(code: &[Lexeme<'_>]) -> FoundTests {
    let mut found = FoundTests::default();
    let mut groups: Vec<Group> = Vec::new();
    let mut at = 0;
    while at < code.len() {
        groups.retain(|group| group.end > at);
        function(code, at, &mut found);
        let Some(call) = call(code, at) else {
            at += 1;
            continue;
        };
        if call.is_group {
            let end = call.end;
            let open = call.open;
            groups.push(Group { end, name: call.name, marks: call.marks, is_focused: call.is_focused });
            at = open + 1;
            continue;
        }
        let mut path: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        path.push(&call.name);
        let name = path.join(" > ");
        let mut marks = call.marks;
        marks.extend(groups.iter().flat_map(|group| group.marks.iter().cloned()));
        let body = body(code, call.open + 1, call.end);
        marks.extend(body_marks(&code[body.clone()]));
        let behind = call.end + 1;
        let end = (behind + usize::from(code.get(behind).is_some_and(|token| token.is(";")))).min(code.len());
        let is_focused = call.is_focused || groups.iter().any(|group| group.is_focused);
        found.tests.push(Found { name, whole: at..end, body, marks, is_focused });
        at = call.end.max(at + 1);
    }
    found
}

/// Notes a function's name and body: `function name(…) {…}` and `const name = (…) => {…}`.
fn function(code: &[Lexeme<'_>], at: usize, found: &mut FoundTests) {
    let token = &code[at];
    let name = match token.text {
        "function" if token.is_word() => code.get(at + 1),
        "=" if at > 0 && code[at - 1].is_word() => {
            let ahead = code[at + 1..].iter().take(12);
            let is_function = ahead.take_while(|token| !token.is(";")).any(|token| token.is("=>") || token.is("function"));
            is_function.then(|| &code[at - 1])
        }
        _ => None,
    };
    let Some(name) = name.filter(|name| name.is_word()) else {
        return;
    };
    let mut open = at + 1;
    let mut steps = 0;
    while let Some(token) = code.get(open).filter(|_| steps < 60) {
        if token.is("{") {
            let end = closing(code, open);
            found.functions.push((name.text.to_owned(), open + 1..end.min(code.len()).max(open + 1)));
            return;
        }
        if token.is(";") {
            return;
        }
        open = if token.is("(") { closing(code, open) + 1 } else { open + 1 };
        steps += 1;
    }
}

fn call(code: &[Lexeme<'_>], at: usize) -> Option<Call> {
    let word = code[at];
    let is_group = GROUPS.contains(&word.text);
    if !word.is_word() || !(is_group || TESTS.contains(&word.text)) {
        return None;
    }
    // `t.test(…)` is a subtest; any other `.test(…)` is not ours.
    if at > 0 && (code[at - 1].is("function") || code[at - 1].is(".") && !(at > 1 && matches!(code[at - 2].text, "t" | "ctx" | "context")))
    {
        return None;
    }
    let (mut marks, mut is_focused) = (Vec::new(), false);
    match word.text.as_bytes()[0] {
        b'x' => marks.push(word.text.to_owned()),
        b'f' => is_focused = true,
        _ => {}
    }
    let mut next = at + 1;
    while code.get(next).is_some_and(|token| token.is(".")) {
        let modifier = code.get(next + 1)?;
        match modifier.text {
            "only" => is_focused = true,
            "skip" | "todo" | "failing" | "fails" | "skipIf" | "runIf" => marks.push(format!(".{}", modifier.text)),
            "each" | "for" | "concurrent" | "sequential" | "serial" | "extend" | "shuffle" => {}
            _ => return None,
        }
        next += 2;
        let has_table = matches!(modifier.text, "each" | "for" | "skipIf" | "runIf");
        match code.get(next) {
            Some(token) if has_table && token.is("(") => next = closing(code, next) + 1,
            Some(token) if has_table && token.kind == TokenKind::Text => next += 1,
            _ => {}
        }
    }
    let open = code.get(next).filter(|token| token.is("(")).map(|_| next)?;
    let end = closing(code, open);
    let inside = &code[open + 1..end.min(code.len())];
    let parts = arguments(inside);
    let first = parts.first()?;
    let name = match first {
        [text] if text.kind == TokenKind::Text => text.text.trim_matches(['"', '\'', '`']).to_owned(),
        // A call without a name is a test only if it has a function.
        _ if inside.iter().any(|token| token.is("=>") || token.is("function")) => first.iter().take(8).map(|token| token.text).collect(),
        _ => return None,
    };
    // `{ skip: true }` of node:test and vitest.
    for options in parts.iter().skip(1).filter(|part| part.first().is_some_and(|token| token.is("{"))) {
        for three in options.windows(3).filter(|three| three[1].is(":") && !three[2].is("false")) {
            match three[0].text {
                "skip" | "todo" | "fails" => marks.push(format!("{{{}}}", three[0].text)),
                "only" => is_focused = true,
                _ => {}
            }
        }
    }
    Some(Call { name, marks, is_focused, open, end, is_group })
}

/// The statements of the function among the arguments.
fn body(code: &[Lexeme<'_>], from: usize, end: usize) -> std::ops::Range<usize> {
    let end = end.min(code.len());
    let arrow = (from..end).find(|at| code[*at].is("=>") || code[*at].is("function"));
    let Some(arrow) = arrow else { return end..end };
    let mut open = arrow + 1;
    if code[arrow].is("function") {
        while open < end && !code[open].is("(") {
            open += 1;
        }
        open = closing(code, open) + 1;
    }
    if code.get(open).is_some_and(|token| token.is("{")) {
        return (open + 1).min(end)..closing(code, open).clamp((open + 1).min(end), end);
    }
    open.min(end)..end
}

/// `this.skip()`, `t.skip()`, `ctx.skip()`, `t.todo()`
fn body_marks(body: &[Lexeme<'_>]) -> Vec<String> {
    let is_skip = |four: &[Lexeme<'_>]| {
        matches!(four[0].text, "this" | "t" | "ctx" | "context")
            && four[1].is(".")
            && matches!(four[2].text, "skip" | "todo")
            && four[3].is("(")
    };
    body.windows(4).filter(|four| is_skip(four)).map(|four| format!("{}.{}()", four[0].text, four[2].text)).collect()
}
