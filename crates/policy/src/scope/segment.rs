//! One segment of a glob: the part between two slashes.

use super::{BadGlob, Key};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Segment {
    /// `**`: any number of segments, also none.
    Deep,
    /// `*`: one segment, whatever its name.
    Any,
    Literal(Box<str>),
    /// `name*`
    Prefix(Box<str>),
    /// `*.rs`
    Suffix(Box<str>),
    /// `*test*`
    Contains(Box<str>),
    Pattern(Box<[GlobToken]>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GlobToken {
    Char(char),
    /// `?`
    One,
    /// `*`
    Many,
    /// `[a-z]`, `[!a-z]`
    Class {
        negated: bool,
        ranges: Box<[(char, char)]>,
    },
}

pub(super) fn parse(text: &str) -> Result<Segment, BadGlob> {
    if text == "**" {
        return Ok(Segment::Deep);
    }
    let mut tokens = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let token = match c {
            '*' => GlobToken::Many,
            '?' => GlobToken::One,
            '[' => class(text, &mut chars)?,
            '\\' => match chars.next() {
                // Nobody means a letter by it, and who writes `src\lib` means a folder.
                Some(letter) if letter.is_alphanumeric() => {
                    let what = format!("the glob `{text}` has a `\\` before `{letter}`");
                    return Err(BadGlob::new(what, "write `/` between names, and `\\\\` for a backslash"));
                }
                Some(escaped) => GlobToken::Char(escaped),
                None => return Err(BadGlob::new(format!("the glob `{text}` ends in a lone `\\`"), "write `\\\\` for a backslash")),
            },
            c => GlobToken::Char(c),
        };
        if token != GlobToken::Many || tokens.last() != Some(&GlobToken::Many) {
            tokens.push(token);
        }
    }
    Ok(simplify(tokens))
}

/// Most segments are a name, `*`, `name*` or `*.ext`, and those compare as strings.
fn simplify(tokens: Vec<GlobToken>) -> Segment {
    let literal = |tokens: &[GlobToken]| -> Option<Box<str>> {
        let chars = tokens.iter().map(|token| if let GlobToken::Char(c) = token { Some(*c) } else { None });
        chars.collect::<Option<String>>().map(String::into_boxed_str)
    };
    if let Some(name) = literal(&tokens) {
        return Segment::Literal(name);
    }
    match tokens.as_slice() {
        [GlobToken::Many] => return Segment::Any,
        [GlobToken::Many, middle @ .., GlobToken::Many] => {
            if let Some(part) = literal(middle) {
                return Segment::Contains(part);
            }
        }
        [GlobToken::Many, rest @ ..] => {
            if let Some(suffix) = literal(rest) {
                return Segment::Suffix(suffix);
            }
        }
        [rest @ .., GlobToken::Many] => {
            if let Some(prefix) = literal(rest) {
                return Segment::Prefix(prefix);
            }
        }
        _ => {}
    }
    Segment::Pattern(tokens.into())
}

fn class(text: &str, chars: &mut std::str::Chars<'_>) -> Result<GlobToken, BadGlob> {
    let bad = |why: &str| BadGlob::new(format!("the glob `{text}` {why}"), "write a set as `[abc]` or `[a-z]`, and a bracket as `\\[`");
    let mut rest = chars.clone();
    let negated = matches!(rest.clone().next(), Some('!' | '^'));
    if negated {
        rest.next();
    }
    let mut members = Vec::new();
    loop {
        match rest.next() {
            None => return Err(bad("has a `[` without its `]`")),
            Some(']') if !members.is_empty() => break,
            Some('\\') => return Err(bad("has a `\\` inside a set")),
            Some(c) => members.push(c),
        }
    }
    *chars = rest;

    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(&low) = members.get(at) {
        match (members.get(at + 1), members.get(at + 2)) {
            (Some('-'), Some(&high)) if low <= high => {
                ranges.push((low, high));
                at += 3;
            }
            (Some('-'), Some(_)) => return Err(bad("has a range that runs backwards")),
            _ => {
                ranges.push((low, low));
                at += 1;
            }
        }
    }
    Ok(GlobToken::Class { negated, ranges: ranges.into() })
}

impl Segment {
    pub(super) fn matches(&self, name: &str) -> bool {
        match self {
            Segment::Deep | Segment::Any => true,
            Segment::Literal(literal) => **literal == *name,
            Segment::Prefix(prefix) => name.starts_with(&**prefix),
            Segment::Suffix(suffix) => name.ends_with(&**suffix),
            Segment::Contains(part) => name.contains(&**part),
            Segment::Pattern(tokens) => run(tokens, name),
        }
    }

    pub(super) fn key(&self) -> Option<Key<'_>> {
        match self {
            Segment::Literal(name) => Some(Key::Name(name)),
            Segment::Suffix(suffix) => match suffix.rsplit_once('.') {
                Some((_, extension)) => Some(Key::Extension(extension)),
                None => Some(Key::Part(suffix)),
            },
            Segment::Prefix(part) | Segment::Contains(part) => Some(Key::Part(part)),
            Segment::Deep | Segment::Any | Segment::Pattern(_) => None,
        }
    }
}

impl GlobToken {
    fn takes(&self, c: char) -> bool {
        match self {
            GlobToken::Char(own) => *own == c,
            GlobToken::One | GlobToken::Many => true,
            GlobToken::Class { negated, ranges } => ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated,
        }
    }
}

/// Backtracks only to the last `*`, so the cost is at most tokens × characters.
fn run(tokens: &[GlobToken], name: &str) -> bool {
    let mut at = 0;
    let mut rest = name.chars();
    let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
    loop {
        if let Some(GlobToken::Many) = tokens.get(at) {
            at += 1;
            retry = Some((at, rest.clone()));
            continue;
        }
        let mut ahead = rest.clone();
        match (tokens.get(at), ahead.next()) {
            (None, None) => return true,
            (Some(token), Some(c)) if token.takes(c) => {
                at += 1;
                rest = ahead;
                continue;
            }
            _ => {}
        }
        let Some((behind, mut from)) = retry else { return false };
        if from.next().is_none() {
            return false;
        }
        at = behind;
        rest = from.clone();
        retry = Some((behind, from));
    }
}
