//! Words, numbers, texts and marks of a source file, for the four languages whose tests are looked at.
//!
//! No grammar: comments and texts are told from code, and that is enough to count assertions or to swap an operator.
//! **Invariant.** Tokens are in order, do not overlap and cut between characters. A comment or text that does not end makes the file not whole, and
//! whoever needs proof then has none.

mod brackets;
mod template;

use crate::limits::SOURCE_BYTES_MAX;
use serde::{Deserialize, Serialize};

pub(crate) use brackets::{arguments, closing};

/// A language whose sources are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceLanguage {
    Rust,
    Python,
    TypeScript,
    JavaScript,
    Go,
}

impl SourceLanguage {
    /// By the end of a file's name.
    pub fn of(path: &str) -> Option<SourceLanguage> {
        let name = path.rsplit('/').next()?;
        match name.rsplit_once('.')?.1 {
            "rs" => Some(SourceLanguage::Rust),
            "py" | "pyi" => Some(SourceLanguage::Python),
            "ts" | "tsx" | "mts" | "cts" => Some(SourceLanguage::TypeScript),
            "js" | "jsx" | "mjs" | "cjs" => Some(SourceLanguage::JavaScript),
            "go" => Some(SourceLanguage::Go),
            _ => None,
        }
    }

    pub(crate) fn is_script(self) -> bool {
        matches!(self, SourceLanguage::TypeScript | SourceLanguage::JavaScript)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Word,
    Number,
    /// A text, a character, a template or a regular expression, with its quotes.
    Text,
    Mark,
    Comment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lexeme<'a> {
    pub kind: TokenKind,
    pub text: &'a str,
    pub start: usize,
    /// From 1.
    pub line: u32,
    /// Bytes before it in its line.
    pub column: usize,
    /// Whether nothing but blanks stands before it in its line.
    pub is_first: bool,
    /// How many tokens of code behind it the bracket stands that closes it; of others 0.
    closes_after: u32,
}

impl Lexeme<'_> {
    pub fn is(&self, text: &str) -> bool {
        self.text == text && matches!(self.kind, TokenKind::Word | TokenKind::Mark)
    }

    pub fn is_word(&self) -> bool {
        self.kind == TokenKind::Word
    }

    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// The tokens of a file.
pub(crate) struct Lexed<'a> {
    pub tokens: Vec<Lexeme<'a>>,
    /// Every comment and text has its end, and the file is not too large.
    pub is_whole: bool,
    /// What was taken for a comment may be code: only a parser can tell.
    pub has_doubtful_comment: bool,
}

impl<'a> Lexed<'a> {
    /// Without comments. Where brackets are nested too deep there is none: whoever hides code so has no proof of anything.
    pub fn code(&self) -> Vec<Lexeme<'a>> {
        let mut code: Vec<Lexeme<'a>> = self.tokens.iter().filter(|token| token.kind != TokenKind::Comment).copied().collect();
        let mut open: Vec<usize> = Vec::new();
        for at in 0..code.len() {
            if code[at].kind != TokenKind::Mark {
                continue;
            }
            match code[at].text {
                "(" | "[" | "{" => open.push(at),
                ")" | "]" | "}" => {
                    if let Some(from) = open.pop() {
                        code[from].closes_after = u32::try_from(at - from).unwrap_or(u32::MAX);
                    }
                }
                _ => {}
            }
        }
        for from in open {
            code[from].closes_after = u32::MAX;
        }
        code
    }
}

pub(crate) fn lex(language: SourceLanguage, text: &str) -> Lexed<'_> {
    if text.len() > SOURCE_BYTES_MAX {
        return Lexed { tokens: Vec::new(), is_whole: false, has_doubtful_comment: false };
    }
    let mut lexer = Lexer {
        language,
        text,
        at: 0,
        line: 1,
        line_start: 0,
        has_token: false,
        no_regex_before: 0,
        doubtful_line: 0,
        has_doubtful_comment: false,
        tokens: Vec::new(),
        is_whole: true,
    };
    lexer.run();
    if brackets::is_too_deep(&lexer.tokens) {
        return Lexed { tokens: Vec::new(), is_whole: false, has_doubtful_comment: false };
    }
    Lexed { tokens: lexer.tokens, is_whole: lexer.is_whole, has_doubtful_comment: lexer.has_doubtful_comment }
}

struct Lexer<'a> {
    language: SourceLanguage,
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
    /// Something stands in this line already.
    has_token: bool,
    /// Up to here there is no end of a regular expression: it was looked for.
    no_regex_before: usize,
    /// The last line where something could hide a comment's begin: a `/` that may begin a regular expression, or a formatted text that may go on.
    doubtful_line: u32,
    has_doubtful_comment: bool,
    tokens: Vec<Lexeme<'a>>,
    is_whole: bool,
}

/// Marks of more than one character, the longest first.
const MARKS: [&str; 29] = [
    "===", "!==", "...", "**=", "//=", ">>>", "&&=", "||=", "??=", "==", "!=", "<=", ">=", "&&", "||", "=>", "->", "::", "+=", "-=", "*=",
    "/=", "%=", ":=", "**", "++", "--", "?.", "??",
];

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn run(&mut self) {
        while let Some(letter) = self.rest().chars().next() {
            let start = self.at;
            if letter == '\n' {
                self.at += 1;
                self.line += 1;
                self.line_start = self.at;
                self.has_token = false;
                continue;
            }
            if letter.is_whitespace() {
                self.at += letter.len_utf8();
                continue;
            }
            let kind = self.token(letter);
            self.note_doubt(kind, start);
            debug_assert!(self.at > start);
            let text = &self.text[start..self.at];
            let (is_first, column) = (!self.has_token, start - self.line_start);
            self.has_token = true;
            self.tokens.push(Lexeme { kind, text, start, line: self.line, column, is_first, closes_after: 0 });
            self.line = self.line.saturating_add(u32::try_from(text.matches('\n').count()).unwrap_or(u32::MAX));
            if let Some(last) = text.rfind('\n') {
                self.line_start = start + last + 1;
            }
        }
    }

    /// `{} /a//2; f()` has no comment, and in newer Pythons `f"{d["#"]}"` has none.
    fn note_doubt(&mut self, kind: TokenKind, start: usize) {
        let text = &self.text[start..self.at];
        match kind {
            TokenKind::Comment => self.has_doubtful_comment |= self.doubtful_line == self.line,
            TokenKind::Mark if text == "/" && self.language.is_script() => {
                let last = self.tokens.last().map_or("", |token| token.text);
                if matches!(last, ")" | "}" | "++" | "--") || start < self.no_regex_before {
                    self.doubtful_line = self.line;
                }
            }
            TokenKind::Text if self.language == SourceLanguage::Python => {
                let is_formatted = text.starts_with(|letter: char| letter.is_ascii_alphabetic()) && text.contains('{');
                if is_formatted && text.matches('{').count() > text.matches('}').count() {
                    let lines = u32::try_from(text.matches('\n').count()).unwrap_or(u32::MAX);
                    self.doubtful_line = self.line.saturating_add(lines);
                }
            }
            _ => {}
        }
    }

    /// Moves past one token.
    fn token(&mut self, letter: char) -> TokenKind {
        let rest = self.rest();
        let is_python = self.language == SourceLanguage::Python;
        if is_python && letter == '#' || !is_python && rest.starts_with("//") || self.is_hash_bang(rest) {
            self.at += rest.find('\n').unwrap_or(rest.len());
            return TokenKind::Comment;
        }
        if !is_python && rest.starts_with("/*") {
            self.block_comment();
            return TokenKind::Comment;
        }
        if letter.is_alphabetic() || letter == '_' || letter == '$' {
            return self.word();
        }
        if letter.is_ascii_digit() || letter == '.' && rest[1..].starts_with(|next: char| next.is_ascii_digit()) && !self.is_after_word() {
            return self.number();
        }
        match letter {
            '"' | '\'' | '`' => self.quoted(letter),
            '/' if self.language.is_script() && self.may_be_regex() => self.regex(),
            _ => self.mark(letter),
        }
    }

    fn is_hash_bang(&self, rest: &str) -> bool {
        self.at == 0 && self.language.is_script() && rest.starts_with("#!")
    }

    fn is_after_word(&self) -> bool {
        let touches =
            |token: &Lexeme<'_>| token.end() == self.at && (token.kind != TokenKind::Mark || matches!(token.text, ")" | "]" | "."));
        self.tokens.last().is_some_and(touches)
    }

    fn mark(&mut self, letter: char) -> TokenKind {
        let rest = self.rest();
        let long = MARKS.into_iter().find(|mark| rest.starts_with(mark));
        // Nested generics of Rust end in `>>` and `>=`; `//=` is Python's, and elsewhere a comment that was seen before.
        self.at += long.map_or(letter.len_utf8(), str::len);
        TokenKind::Mark
    }

    fn block_comment(&mut self) {
        let is_nested = self.language == SourceLanguage::Rust;
        let (bytes, mut depth, mut at) = (self.text.as_bytes(), 1_usize, self.at + 2);
        while depth > 0 {
            match bytes.get(at..at + 2) {
                None => {
                    self.is_whole = false;
                    self.at = self.text.len();
                    return;
                }
                Some(b"*/") => (depth, at) = (depth - 1, at + 2),
                Some(b"/*") if is_nested => (depth, at) = (depth + 1, at + 2),
                Some(_) => at += 1,
            }
        }
        self.at = at;
    }

    fn word(&mut self) -> TokenKind {
        let rest = self.rest();
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
        let end = rest.find(|letter: char| !is_part(letter)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        self.at += end;
        match self.language {
            SourceLanguage::Rust => {
                let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
                let is_raw = matches!(word, "r" | "br" | "cr") && after[hashes..].starts_with('"');
                if is_raw {
                    self.raw_text(hashes);
                    return TokenKind::Text;
                }
                if matches!(word, "b" | "c") && after.starts_with('"') || word == "b" && after.starts_with('\'') {
                    let quote = after.chars().next().unwrap_or('"');
                    return self.quoted(quote);
                }
                if word == "r" && hashes == 1 {
                    self.at += 1;
                    let rest = self.rest();
                    self.at += rest.find(|letter: char| !is_part(letter)).unwrap_or(rest.len());
                }
                TokenKind::Word
            }
            SourceLanguage::Python if word.len() <= 2 && after.starts_with(['"', '\'']) => {
                let is_prefix = word.bytes().all(|byte| b"rRbBuUfFtT".contains(&byte));
                if is_prefix { self.quoted(after.chars().next().unwrap_or('"')) } else { TokenKind::Word }
            }
            _ => TokenKind::Word,
        }
    }

    fn number(&mut self) -> TokenKind {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        while let Some(byte) = bytes.get(at) {
            let is_exponent = matches!(byte, b'+' | b'-')
                && matches!(bytes.get(at - 1), Some(b'e' | b'E'))
                && at > self.at
                && !bytes[self.at..at].starts_with(b"0x");
            // `1..2` is a range, `1.max(2)` a call.
            let is_point = *byte == b'.' && bytes.get(at + 1).is_some_and(u8::is_ascii_digit) && !bytes[self.at..at].contains(&b'.');
            if !byte.is_ascii_alphanumeric() && *byte != b'_' && !is_exponent && !is_point {
                break;
            }
            at += 1;
        }
        // `1.` at the end of an expression, and `.5`.
        self.at = at.max(self.at + 1);
        while !self.text.is_char_boundary(self.at) {
            self.at += 1;
        }
        TokenKind::Number
    }

    fn raw_text(&mut self, hashes: usize) {
        let end = format!("\"{}", "#".repeat(hashes));
        let from = self.at + hashes + 1;
        match self.text[from..].find(&end) {
            Some(found) => self.at = from + found + end.len(),
            None => {
                self.is_whole = false;
                self.at = self.text.len();
            }
        }
    }

    /// A text between quotes; `self.at` is at the opening one.
    fn quoted(&mut self, quote: char) -> TokenKind {
        let rest = self.rest();
        match (self.language, quote) {
            (SourceLanguage::Rust, '\'') if !is_character(rest) => {
                // A lifetime.
                let end = rest[1..].find(|letter: char| !letter.is_alphanumeric() && letter != '_').map_or(rest.len(), |end| end + 1);
                self.at += end.max(1);
                return TokenKind::Word;
            }
            (SourceLanguage::Python, _) => {
                let triple: String = [quote; 3].iter().collect();
                if rest.starts_with(&triple) {
                    self.until(&triple, 3);
                    return TokenKind::Text;
                }
            }
            (SourceLanguage::Go, '`') => {
                let end = rest[1..].find('`');
                self.is_whole &= end.is_some();
                self.at += end.map_or(rest.len(), |end| end + 2);
                return TokenKind::Text;
            }
            (language, '`') if language.is_script() => {
                let (end, is_whole) = template::end(self.text, self.at, 0);
                (self.at, self.is_whole) = (end, self.is_whole && is_whole);
                return TokenKind::Text;
            }
            (_, '`') => {
                self.at += 1;
                return TokenKind::Mark;
            }
            _ => {}
        }
        self.until(&quote.to_string(), 1);
        TokenKind::Text
    }

    /// Moves behind the next `end` that is not escaped. A text of one line ends with it where it has no end.
    fn until(&mut self, end: &str, skip: usize) {
        let is_one_line = skip == 1 && self.language != SourceLanguage::Rust;
        let mut letters = self.text[self.at + skip..].char_indices();
        let from = self.at + skip;
        while let Some((at, letter)) = letters.next() {
            if letter == '\\' {
                letters.next();
            } else if self.text[from + at..].starts_with(end) {
                self.at = from + at + end.len();
                return;
            } else if letter == '\n' && is_one_line {
                self.is_whole = false;
                self.at = from + at;
                return;
            }
        }
        self.is_whole = false;
        self.at = self.text.len();
    }

    /// After a value a `/` divides.
    fn may_be_regex(&self) -> bool {
        if self.at < self.no_regex_before {
            return false;
        }
        const BEFORE: [&str; 16] = [
            "return",
            "typeof",
            "case",
            "in",
            "of",
            "delete",
            "void",
            "instanceof",
            "do",
            "else",
            "throw",
            "new",
            "await",
            "yield",
            "default",
            "extends",
        ];
        let last = self.tokens.iter().rev().find(|token| token.kind != TokenKind::Comment);
        last.is_none_or(|token| match token.kind {
            TokenKind::Word => BEFORE.contains(&token.text),
            TokenKind::Mark => !matches!(token.text, ")" | "]" | "}" | "++" | "--"),
            _ => false,
        })
    }

    fn regex(&mut self) -> TokenKind {
        let mut is_class = false;
        let mut letters = self.text[self.at + 1..].char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => drop(letters.next()),
                '\n' => {
                    self.no_regex_before = self.at + at;
                    return self.mark('/');
                }
                '[' => is_class = true,
                ']' => is_class = false,
                '/' if !is_class => {
                    self.at += at + 2;
                    let rest = self.rest();
                    self.at += rest.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(rest.len());
                    return TokenKind::Text;
                }
                _ => {}
            }
        }
        self.no_regex_before = self.text.len();
        self.mark('/')
    }
}

/// `'x'` and `'\n'` are characters, `'a` is a lifetime.
fn is_character(rest: &str) -> bool {
    let mut letters = rest.chars().skip(1);
    match letters.next() {
        Some('\\') => true,
        Some(_) => letters.next() == Some('\''),
        None => false,
    }
}

#[cfg(test)]
mod tests;
