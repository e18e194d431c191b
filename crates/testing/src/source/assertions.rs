//! What a test asserts, how much of that always holds, and what else it does.

use super::TestHabit;
use crate::lex::{Lexeme, SourceLanguage, TokenKind, arguments, closing};
use std::collections::BTreeSet;
use std::ops::Range;

pub(crate) struct Assertions {
    pub total: usize,
    pub constant: usize,
    pub returns_early: bool,
}

/// The functions of a file.
#[derive(Default)]
pub(super) struct Helpers {
    /// Those that assert something themselves, or call one that does.
    asserting: BTreeSet<String>,
    /// All of them: what is defined here is known by its code and not by its name.
    defined: BTreeSet<String>,
}

pub(super) fn helpers(language: SourceLanguage, code: &[Lexeme<'_>], functions: &[(String, Range<usize>)]) -> Helpers {
    let defined = functions.iter().map(|(name, _)| name.clone()).collect();
    let mut helpers = Helpers { asserting: BTreeSet::new(), defined };
    // Helpers of helpers; more than four steps are not followed.
    for _ in 0..4 {
        let known = helpers.asserting.len();
        for (name, body) in functions {
            if !helpers.asserting.contains(name) && count(language, &code[body.clone()], &helpers).total > 0 {
                helpers.asserting.insert(name.clone());
            }
        }
        if helpers.asserting.len() == known {
            break;
        }
    }
    helpers
}

/// The assertions of a body.
pub(super) fn count(language: SourceLanguage, body: &[Lexeme<'_>], helpers: &Helpers) -> Assertions {
    let (mut total, mut constant, mut last) = (0, 0, 0);
    for at in 0..body.len() {
        let found = match language {
            SourceLanguage::Rust => rust(body, at),
            SourceLanguage::Python => python(body, at),
            SourceLanguage::Go => go(body, at),
            SourceLanguage::TypeScript | SourceLanguage::JavaScript => script(body, at),
        };
        let found = found.or_else(|| is_helper(body, at, helpers).then_some(false));
        if let Some(is_constant) = found {
            total += 1;
            constant += usize::from(is_constant);
            last = at;
        }
    }
    Assertions { total, constant, returns_early: returns_early(language, body, last) }
}

/// A call of a function that asserts, or whose name says so.
fn is_helper(body: &[Lexeme<'_>], at: usize, helpers: &Helpers) -> bool {
    let (token, next) = (&body[at], body.get(at + 1));
    let is_defined = at > 0 && matches!(body[at - 1].text, "fn" | "def" | "func" | "function");
    if !token.is_word() || is_defined || !next.is_some_and(|next| next.is("(")) {
        return false;
    }
    if helpers.defined.contains(token.text) {
        return helpers.asserting.contains(token.text);
    }
    let lower = token.text.to_ascii_lowercase();
    let starts = ["assert", "check", "verify", "expect", "ensure", "must", "should"];
    starts.iter().any(|start| {
        let rest = lower.strip_prefix(start);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with('_') || token.text[start.len()..].starts_with(|letter: char| letter.is_ascii_uppercase())
        })
    })
}

/// Only literals and operators, or nothing.
fn is_constant(tokens: &[Lexeme<'_>]) -> bool {
    let is_plain = |token: &Lexeme<'_>| match token.kind {
        TokenKind::Number => true,
        // What a template or a formatted text says is not known.
        TokenKind::Text => !token.text.contains("${") && !token.text.starts_with(['f', 'F', '/']),
        TokenKind::Mark => token.text != ".",
        TokenKind::Word => {
            matches!(token.text, "true" | "false" | "True" | "False" | "None" | "null" | "undefined" | "nil" | "not" | "and" | "or" | "is")
        }
        TokenKind::Comment => true,
    };
    !tokens.is_empty() && tokens.iter().all(is_plain)
}

fn same(one: &[Lexeme<'_>], other: &[Lexeme<'_>]) -> bool {
    // A call may give another answer the second time.
    let is_value = |token: &Lexeme<'_>| !token.is("(");
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.text == other.text) && one.iter().all(is_value)
}

/// Both sides of a comparison hold nothing that could differ.
fn is_constant_pair(parts: &[&[Lexeme<'_>]]) -> bool {
    match parts {
        [one, other, ..] => is_constant(one) && is_constant(other) || same(one, other),
        _ => false,
    }
}

fn is_constant_claim(tokens: &[Lexeme<'_>]) -> bool {
    if is_constant(tokens) {
        return true;
    }
    // `x or True`
    let is_true = |part: &[Lexeme<'_>]| matches!(part, [one] if matches!(one.text, "True" | "true" | "1"));
    let (mut depth, mut from) = (0_usize, 0);
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "or" | "||" if depth == 0 => {
                if is_true(&tokens[from..at]) {
                    return true;
                }
                from = at + 1;
            }
            _ => {}
        }
    }
    if from > 0 && is_true(&tokens[from..]) {
        return true;
    }
    let compares = |token: &Lexeme<'_>| matches!(token.text, "==" | "===" | "<=" | ">=" | "is");
    let at = tokens.iter().position(compares);
    at.is_some_and(|at| same(&tokens[..at], &tokens[at + 1..]))
}

fn inside<'t, 'a>(body: &'t [Lexeme<'a>], open: usize) -> &'t [Lexeme<'a>] {
    let end = closing(body, open).min(body.len());
    &body[(open + 1).min(end)..end]
}

/// Whether a token begins an assertion, and whether that always holds.
fn rust(body: &[Lexeme<'_>], at: usize) -> Option<bool> {
    let (token, next) = (&body[at], body.get(at + 1)?);
    if !token.is_word() {
        return (token.is("?") && !next.is("Sized")).then_some(false);
    }
    if next.is("!") && body.get(at + 2).is_some_and(|open| matches!(open.text, "(" | "[" | "{")) {
        let name = token.text.trim_start_matches("debug_").trim_start_matches("prop_");
        if name.starts_with("assert") {
            let parts = arguments(inside(body, at + 2));
            return Some(match name {
                "assert_eq" | "assert_ne" => is_constant_pair(&parts),
                _ => parts.first().is_some_and(|first| is_constant_claim(first)),
            });
        }
        return matches!(token.text, "panic" | "unreachable" | "expect" | "expect_file" | "matches_assert").then_some(false);
    }
    let is_method = at > 0 && body[at - 1].is(".");
    let may_fail = matches!(token.text, "unwrap" | "unwrap_err" | "expect" | "expect_err" | "unwrap_none");
    (is_method && may_fail && next.is("(")).then_some(false)
}

fn python(body: &[Lexeme<'_>], at: usize) -> Option<bool> {
    let token = &body[at];
    if !token.is_word() {
        return None;
    }
    if token.text == "assert" {
        let end = statement_end(body, at + 1);
        let parts = arguments(&body[at + 1..end]);
        let claim = parts.first().copied().unwrap_or_default();
        // `assert (a, "text")` asserts a tuple, which always holds.
        let is_tuple =
            claim.first().is_some_and(|open| open.is("(")) && arguments(inside(claim, 0)).len() > 1 && closing(claim, 0) + 1 == claim.len();
        return Some(is_constant_claim(claim) || is_tuple);
    }
    let is_call = body.get(at + 1).is_some_and(|next| next.is("("));
    let is_method = at > 0 && body[at - 1].is(".");
    if is_call && token.text.starts_with("assert") {
        let parts = arguments(inside(body, at + 1));
        return Some(match token.text {
            "assertTrue" | "assertFalse" | "assertIsNone" | "assertIsNotNone" => {
                parts.first().is_some_and(|first| is_constant_claim(first))
            }
            "assertEqual" | "assertEquals" | "assertIs" | "assertNotEqual" => is_constant_pair(&parts),
            _ => false,
        });
    }
    (is_call && is_method && matches!(token.text, "raises" | "warns" | "fail" | "deprecated_call" | "assertRaises")).then_some(false)
}

/// The end of the statement that begins at `from`: the next line, over brackets.
fn statement_end(body: &[Lexeme<'_>], from: usize) -> usize {
    let mut at = from;
    while let Some(token) = body.get(at) {
        if token.is_first && at > from || token.is(";") {
            return at;
        }
        at = if matches!(token.text, "(" | "[" | "{") && token.kind == TokenKind::Mark { closing(body, at) + 1 } else { at + 1 };
    }
    body.len()
}

fn go(body: &[Lexeme<'_>], at: usize) -> Option<bool> {
    let token = &body[at];
    let next = body.get(at + 1)?;
    if !token.is_word() || !next.is("(") || at < 2 || !body[at - 1].is(".") {
        return None;
    }
    let receiver = &body[at - 2];
    let is_test = matches!(receiver.text, "t" | "tb" | "b" | "f" | "c" | "s" | "suite") || receiver.is(")");
    if is_test && matches!(token.text, "Error" | "Errorf" | "Fatal" | "Fatalf" | "Fail" | "FailNow") {
        return Some(is_behind_false(body, at));
    }
    let is_library = matches!(receiver.text, "assert" | "require" | "is" | "qt" | "gomega" | "must");
    if !is_library {
        return None;
    }
    let parts = arguments(inside(body, at + 1));
    let claims: Vec<&[Lexeme<'_>]> =
        parts.into_iter().filter(|part| !matches!(part, [one] if matches!(one.text, "t" | "tb" | "c"))).collect();
    Some(match token.text {
        "True" | "False" | "Nil" | "NotNil" | "NoError" => claims.first().is_some_and(|first| is_constant_claim(first)),
        "Equal" | "NotEqual" | "Same" | "EqualValues" => is_constant_pair(&claims),
        _ => false,
    })
}

/// `if false { t.Fatal() }`
fn is_behind_false(body: &[Lexeme<'_>], at: usize) -> bool {
    let mut depth = 0_usize;
    for before in (0..at).rev().take(200) {
        match body[before].text {
            "}" => depth += 1,
            "{" if depth > 0 => depth -= 1,
            "{" => {
                let start = (0..before).rev().take(50).find(|start| body[*start].is("if"));
                return start.is_some_and(|start| is_constant(&body[start + 1..before]));
            }
            _ => {}
        }
    }
    false
}

fn script(body: &[Lexeme<'_>], at: usize) -> Option<bool> {
    const CLAIMS: [&str; 22] = [
        "is",
        "not",
        "deepEqual",
        "equal",
        "ok",
        "true",
        "false",
        "throws",
        "same",
        "strictEqual",
        "truthy",
        "falsy",
        "pass",
        "fail",
        "like",
        "regex",
        "snapshot",
        "notThrows",
        "match",
        "rejects",
        "deepStrictEqual",
        "notEqual",
    ];
    let (token, next) = (&body[at], body.get(at + 1)?);
    if !token.is_word() {
        return None;
    }
    let is_method = at > 0 && (body[at - 1].is(".") || body[at - 1].is("?."));
    match token.text {
        "expect" if !is_method && next.is("(") => {
            let end = closing(body, at + 1);
            let claim = inside(body, at + 1);
            // Without a matcher nothing is asserted.
            let Some(matcher) = matcher(body, end + 1) else {
                return Some(true);
            };
            let wanted = inside(body, matcher + 1);
            Some(is_constant(claim) && (wanted.is_empty() || is_constant(wanted)) || !claim.is_empty() && same(claim, wanted))
        }
        "assert" if !is_method && next.is("(") => {
            Some(arguments(inside(body, at + 1)).first().is_some_and(|first| is_constant_claim(first)))
        }
        "assert" if !is_method && next.is(".") => {
            let open = at + 3;
            if !body.get(open).is_some_and(|open| open.is("(")) {
                return None;
            }
            let parts = arguments(inside(body, open));
            Some(match body.get(at + 2).map_or("", |name| name.text) {
                "ok" => parts.first().is_some_and(|first| is_constant_claim(first)),
                "equal" | "strictEqual" | "deepEqual" | "deepStrictEqual" | "notEqual" | "is" => is_constant_pair(&parts),
                _ => false,
            })
        }
        "should" if is_method => Some(false),
        "t" if !is_method && next.is(".") => {
            let name = body.get(at + 2)?;
            let open = body.get(at + 3)?;
            (CLAIMS.contains(&name.text) && open.is("(")).then(|| is_constant_pair(&arguments(inside(body, at + 3))))
        }
        _ => None,
    }
}

/// The matcher behind `expect(…)`: the last name of `.not.resolves.toBe(`.
fn matcher(body: &[Lexeme<'_>], mut at: usize) -> Option<usize> {
    for _ in 0..6 {
        if !body.get(at)?.is(".") {
            return None;
        }
        if body.get(at + 2)?.is("(") {
            return Some(at + 1);
        }
        at += 2;
    }
    None
}

/// A `return` among the test's own statements with an assertion behind it.
fn returns_early(language: SourceLanguage, body: &[Lexeme<'_>], last: usize) -> bool {
    if language == SourceLanguage::Python {
        let Some(column) = body.iter().find(|token| token.is_first).map(|token| token.column) else {
            return false;
        };
        return body.iter().take(last).any(|token| token.is("return") && token.is_first && token.column == column);
    }
    let mut depth = 0_usize;
    for token in body.iter().take(last) {
        match token.text {
            "(" | "[" | "{" if token.kind == TokenKind::Mark => depth += 1,
            ")" | "]" | "}" if token.kind == TokenKind::Mark => depth = depth.saturating_sub(1),
            "return" if token.is_word() && depth == 0 => return true,
            _ => {}
        }
    }
    false
}

/// Habits that a person should know of, each once.
pub(super) fn habits(body: &[Lexeme<'_>]) -> Vec<TestHabit> {
    let mut habits = BTreeSet::new();
    for (at, token) in body.iter().enumerate().filter(|(_, token)| token.is_word()) {
        let before = at.checked_sub(2).map_or("", |two| body[two].text);
        let before = if at > 0 && matches!(body[at - 1].text, "." | "::" | "?.") { before } else { "" };
        let is_called = body.get(at + 1).is_some_and(|next| next.is("("));
        let habit = match (before, token.text) {
            (
                "SystemTime" | "Instant" | "Utc" | "Local" | "Date" | "datetime" | "date" | "performance" | "Zoned" | "Timestamp",
                "now" | "today" | "utcnow",
            )
            | ("time", "time" | "Now" | "time_ns" | "monotonic") => Some(TestHabit::ReadsClock),
            (_, "Date") if at > 0 && body[at - 1].is("new") && body.get(at + 2).is_some_and(|close| close.is(")")) => {
                Some(TestHabit::ReadsClock)
            }
            ("os", "environ" | "getenv" | "Getenv" | "LookupEnv" | "Environ") | ("env", "var" | "vars" | "var_os") | ("process", "env") => {
                Some(TestHabit::ReadsEnvironment)
            }
            (
                "fs",
                "write" | "remove_file" | "remove_dir_all" | "rename" | "copy" | "writeFile" | "writeFileSync" | "appendFileSync"
                | "unlinkSync" | "rmSync" | "renameSync" | "symlinkSync" | "cpSync",
            )
            | (
                "os",
                "WriteFile" | "Remove" | "RemoveAll" | "Rename" | "Create" | "Symlink" | "remove" | "unlink" | "rename" | "replace"
                | "symlink",
            )
            | ("File", "create" | "create_new")
            | ("shutil", _)
            | ("ioutil", "WriteFile")
            | (_, "write_text" | "write_bytes") => Some(TestHabit::WritesFiles),
            ("", "open") if is_called && opens_for_writing(body, at + 1) => Some(TestHabit::WritesFiles),
            ("Command", "new") | ("subprocess", _) | ("os", "system" | "popen") | ("exec", "Command" | "CommandContext") => {
                Some(TestHabit::StartsProcesses)
            }
            ("child_process", _) | (_, "execSync" | "spawnSync" | "execFileSync") => Some(TestHabit::StartsProcesses),
            ("process", "exit" | "abort" | "kill") | ("os", "_exit" | "Exit" | "abort" | "kill") | ("sys", "exit") => {
                Some(TestHabit::EndsProcess)
            }
            (_, "catch_unwind") => Some(TestHabit::CatchesEverything),
            (_, "except") if body.get(at + 1).is_some_and(|next| next.is(":")) || swallows(body, at) => Some(TestHabit::CatchesEverything),
            (_, "catch") if is_empty_catch(body, at) => Some(TestHabit::CatchesEverything),
            ("", "recover") if is_called => Some(TestHabit::CatchesEverything),
            _ => None,
        };
        habits.extend(habit);
    }
    habits.into_iter().collect()
}

/// `open(path, "w")`
fn opens_for_writing(body: &[Lexeme<'_>], open: usize) -> bool {
    let parts = arguments(inside(body, open));
    let is_mode = |part: &&[Lexeme<'_>]| {
        part.last().is_some_and(|mode| mode.kind == TokenKind::Text && mode.text.len() < 8 && mode.text.contains(['w', 'a', 'x', '+']))
    };
    parts.iter().skip(1).any(is_mode)
}

/// `except Exception: pass`, `except AssertionError: …`
fn swallows(body: &[Lexeme<'_>], at: usize) -> bool {
    let line = body[at].line;
    body[at..]
        .iter()
        .take(40)
        .take_while(|token| token.line == line)
        .any(|token| matches!(token.text, "Exception" | "BaseException" | "AssertionError"))
}

/// `catch {}` and `catch (error) {}`
fn is_empty_catch(body: &[Lexeme<'_>], at: usize) -> bool {
    let mut open = at + 1;
    if body.get(open).is_some_and(|token| token.is("(")) {
        open = closing(body, open) + 1;
    }
    body.get(open).is_some_and(|token| token.is("{")) && body.get(open + 1).is_some_and(|token| token.is("}"))
}
