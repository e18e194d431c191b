//! Finds secrets in plain text by their shape or by the name before them.

use aho_corasick::Match;
use std::borrow::Cow;
use std::ops::Range;

use super::REDACTED;
use super::key;
use super::trigger::{Hit, TRIGGERS};
use super::{address, encoded, flag, prefix};

/// How the keys begin that Skep gives to processes. Hexadecimal digits follow.
pub const OWN_KEY: &str = "sk-skep-";
/// The same in base64, with nothing, one byte or two before it.
pub(super) const OWN_KEY_BASE64: [&str; 3] = ["c2stc2tlcC", "NrLXNrZXAt", "zay1za2VwL"];
/// Half of a key still says too much.
const OWN_KEY_DIGITS_MIN: usize = 32;
pub(super) const PEM: [&str; 2] = ["-----BEGIN ", "---- BEGIN "];
/// Names are looked at no further than this around the word that made them interesting.
pub(super) const NAME_BYTES_MAX: usize = 64;

/// Whether there is any place worth a look in JSON.
pub(super) fn suspects(json: &str) -> bool {
    // Options stand in lists of words, each in quotes of its own.
    json.contains("\"-") || has_trigger_in_json(json) || encoded::suspects(json)
}

/// As [`has_trigger`], but the name of a member that has no value is none: every admission says `"token":null`.
fn has_trigger_in_json(json: &str) -> bool {
    let has_value = |(found, hit): (Match, Hit)| !matches!(hit, Hit::Name) || !json[found.end()..].starts_with("\":null");
    TRIGGERS.as_ref().is_none_or(|triggers| triggers.all(json).any(has_value))
}

pub(super) fn has_trigger(text: &str) -> bool {
    TRIGGERS.as_ref().is_none_or(|triggers| triggers.all(text).next().is_some())
}

/// So often a redaction is looked at again: what is left of one secret can be the beginning of another's name.
const PASSES_MAX: usize = 8;

pub(super) fn redact(text: &str) -> Cow<'_, str> {
    let mut best = once(text);
    for _ in 1..PASSES_MAX {
        let Cow::Owned(last) = &best else { break };
        let Cow::Owned(next) = once(last) else { break };
        best = Cow::Owned(next);
    }
    best
}

fn once(text: &str) -> Cow<'_, str> {
    if TRIGGERS.is_none() {
        // Without the automaton nothing could be found, and doubt counts as a secret.
        return Cow::Borrowed(REDACTED);
    }
    let found = found(text);
    let Some(last) = found.last().map(|range| range.end) else { return encoded::once(text) };
    let (mut out, mut done) = (String::new(), 0);
    for range in found {
        out.push_str(&text[done..range.start]);
        out.push_str(REDACTED);
        done = range.end;
    }
    out.push_str(&text[last..]);
    Cow::Owned(out)
}

/// Where the secrets of a text are, in order and apart from each other.
pub(super) fn found(text: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let Some(triggers) = &*TRIGGERS else { return ranges };
    for (found, hit) in triggers.all(text) {
        let done = ranges.last().map_or(0, |range| range.end);
        if found.start() < done {
            continue;
        }
        let secret = match hit {
            Hit::OwnKey => own_key(text, found.start()).or_else(|| prefix::key(text, found.start(), 0)),
            Hit::OwnKeyBase64(index) => own_key_base64(text, found.start(), index),
            Hit::Prefix(index) => prefix::key(text, found.start(), index),
            Hit::Pem => pem_body(text, found.start()),
            Hit::Url => address::userinfo(text, found.end()),
            Hit::WebToken => prefix::web_token(text, found.start()),
            Hit::Basic => basic(text, found.range()),
            Hit::Cookie => cookies(text, found.range()),
            Hit::Signature => address::signature(text, found.range()),
            Hit::GoDatabase => address::before_host(text, found.start()),
            Hit::Program => flag::in_text(text, found.start()),
            Hit::Webhook => Some(bare(text, found.end())).filter(|rest| rest.len() >= 20),
            Hit::BotToken => prefix::bot_token(text, found.start()),
            Hit::SqlLogin => in_quotes(text, found.end()),
            Hit::OracleLogin => address::after_slash(text, found.end()),
            Hit::Name => after_name(text, found.range()),
        };
        let is_new = |secret: &Range<usize>| secret.start >= done && !secret.is_empty() && &text[secret.clone()] != REDACTED;
        ranges.extend(secret.filter(is_new));
    }
    ranges
}

/// Whatever stands before it: it has no like among words.
fn own_key(text: &str, start: usize) -> Option<Range<usize>> {
    let from = start + OWN_KEY.len();
    let digits = text[from..].bytes().take_while(u8::is_ascii_hexdigit).count();
    (digits >= OWN_KEY_DIGITS_MIN).then_some(start..from + digits)
}

fn own_key_base64(text: &str, start: usize, index: usize) -> Option<Range<usize>> {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
    let digits = text[start..].bytes().take_while(is_digit).count();
    let is_long = digits >= OWN_KEY_BASE64[index].len() + OWN_KEY_DIGITS_MIN * 4 / 3;
    (is_long && text[start..].starts_with(OWN_KEY_BASE64[index])).then_some(start..start + digits)
}

/// Whether a private key begins in this line and does not end in it.
pub(super) fn opens_private_key(line: &str) -> bool {
    let begins = PEM.into_iter().find_map(|pem| line.find(pem));
    begins.and_then(|start| pem_body(line, start)).is_some_and(|body| body.end == line.len())
}

pub(super) fn closes_private_key(line: &str) -> bool {
    line.contains("-----END") || line.contains("---- END")
}

fn pem_body(text: &str, start: usize) -> Option<Range<usize>> {
    let dashes = text[start..].bytes().take_while(|byte| *byte == b'-').count();
    let label_from = start + text[start..].find("BEGIN ")? + "BEGIN ".len();
    let label = |byte: &u8| byte.is_ascii_uppercase() || *byte == b' ' || byte.is_ascii_digit();
    let label_to = label_from + text[label_from..].bytes().take(NAME_BYTES_MAX).take_while(label).count();
    if !text[label_from..label_to].contains("PRIVATE KEY") || !text[label_to..].starts_with(&"-----"[..dashes.min(5)]) {
        return None;
    }
    let body = label_to + dashes;
    let end = text[body..].find("-----END").or_else(|| text[body..].find("---- END")).map_or(text.len(), |at| body + at);
    Some(body..end)
}

/// `Basic` and base64 of `name:secret`.
fn basic(text: &str, word: Range<usize>) -> Option<Range<usize>> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if word.start > 0 && is_word(text.as_bytes()[word.start - 1]) {
        return None;
    }
    let from = word.end + spaces(text.as_bytes(), word.end);
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
    let digits = text[from..].bytes().take_while(is_digit).count();
    let padding = text[from + digits..].bytes().take(2).take_while(|byte| *byte == b'=').count();
    let plain = from_base64(&text.as_bytes()[from..from + digits]);
    let is_login = digits >= 8 && plain.contains(&b':') && plain.iter().all(|byte| (0x20..0x7f).contains(byte));
    is_login.then_some(from..from + digits + padding)
}

fn from_base64(digits: &[u8]) -> Vec<u8> {
    let (mut bits, mut held, mut plain) = (0_u32, 0, Vec::new());
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            _ => 63,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            plain.extend(u8::try_from(bits >> held & 0xff));
        }
    }
    plain
}

/// What a header of cookies holds, to the end of its line.
fn cookies(text: &str, word: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let from = separator(bytes, word.end - 1)?;
    let from = from + bytes[from..].iter().take_while(|byte| matches!(byte, b'\\' | b'"')).count();
    let ends = |byte: &u8| matches!(byte, b'\n' | b'\r' | b'"' | b'\'' | b'\\');
    let end = from + bytes[from..].iter().take_while(|byte| !ends(byte)).count();
    let line = &text[from..end];
    let (name, value) = line.split_once('=')?;
    let is_name = !name.is_empty() && !name.contains(|c: char| c.is_whitespace());
    (is_name && value.split(';').next().is_some_and(|value| value.trim().len() >= 4)).then_some(from..end)
}

/// The value after a name that holds a secret: `name=value`, `name: value`, `"name": "value"`, `--name value`, and
/// `Bearer value`.
fn after_name(text: &str, word: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let start = word.start - bytes[..word.start].iter().rev().take(NAME_BYTES_MAX).take_while(is_name).count();
    let end = word.end + bytes[word.end..].iter().take(NAME_BYTES_MAX).take_while(is_name).count();
    let name = &text[start..end];
    let value = match separator(bytes, end).or_else(|| pair(text, start, end)) {
        Some(from) => {
            let value = match odbc_value(text, start, from) {
                Some(value) => value,
                None if is_block(text, from) => block(text, start, from)?,
                None => value_at(text, from)?,
            };
            let in_prose = value.start == from && bytes[end..from].contains(&b':');
            let is_type = bytes.get(value.end) == Some(&b'<') && text[value.clone()].starts_with(|c: char| c.is_ascii_uppercase());
            if in_prose && (is_type || key::is_about(&text[value.clone()])) || key::is_code(&text[value.clone()]) {
                return None;
            }
            value
        }
        None => return after_is(text, start, end).or_else(|| after_space(text, start, end)),
    };
    if name.to_ascii_lowercase().ends_with("authorization") {
        return Some(credentials(text, value)).filter(|value| !key::stands_for_one(&text[value.clone()]));
    }
    key::is_secret(name, &text[value.clone()]).then_some(value)
}

/// What follows a name by white space alone: an option's value, `Bearer value`, and a password in SQL or in a `.netrc`.
fn after_space(text: &str, start: usize, end: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let name = &text[start..end];
    let from = end + spaces(bytes, end);
    if from == end || text[from..].starts_with('-') {
        return None;
    }
    let value = value_at(text, from)?;
    let plain = &text[value.clone()];
    if name.eq_ignore_ascii_case("bearer") {
        return (key::is_mixed(plain) || value.len() >= 20 && !plain.contains(char::is_whitespace)).then_some(value);
    }
    if name.starts_with('-') && name.len() > 4 {
        return key::is_secret(name, plain).then_some(value);
    }
    if !name.eq_ignore_ascii_case("password") {
        return None;
    }
    let begins = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[begins..start];
    // A `.netrc` has its words in one line, or each pair in one of its own.
    let above = text[..begins].trim_end().rsplit('\n').next().unwrap_or_default();
    let is_own_line = before.trim().is_empty() && matches!(above.split_whitespace().collect::<Vec<_>>()[..], ["login" | "account", _]);
    let is_login = before.split_whitespace().rev().nth(1) == Some("login") || is_own_line;
    in_quotes(text, from).or_else(|| (is_login && !plain.is_empty()).then_some(value))
}

/// `the password is koala9`: what has letters and digits is no word that goes on about it.
fn after_is(text: &str, start: usize, end: usize) -> Option<Range<usize>> {
    const NAMES: [&str; 3] = ["password", "passwd", "passphrase"];
    let name = &text[start..end];
    let rest = [" is ", " was "].into_iter().find_map(|verb| text[end..].strip_prefix(verb))?;
    let value = value_at(text, text.len() - rest.len())?;
    let plain = text[value.clone()].trim_end_matches(['.', '!', '?']);
    let is_secret = NAMES.iter().any(|known| name.eq_ignore_ascii_case(known)) && key::is_mixed(plain) && !key::is_method(plain);
    is_secret.then(|| value.start..value.start + plain.len())
}

/// `PWD={…}` among the settings of a connection: braces hold what would end a setting.
fn odbc_value(text: &str, start: usize, from: usize) -> Option<Range<usize>> {
    let inner = text[from..].strip_prefix('{').filter(|_| text[..start].ends_with(';'))?;
    let length = inner.find('}').filter(|length| !inner[..*length].contains('\n'))?;
    (length > 0).then_some(from + 1..from + 1 + length)
}

/// `password: |`, as YAML says that the value is in the lines below.
fn is_block(text: &str, from: usize) -> bool {
    let line = text[from..].lines().next().unwrap_or_default();
    ["|", ">", "|-", ">-", "|+", ">+"].contains(&line.trim_end())
}

/// Those lines, as far as they are indented further.
fn block(text: &str, start: usize, from: usize) -> Option<Range<usize>> {
    let line_end = from + text[from..].find('\n')?;
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let own = indent(&text[text[..start].rfind('\n').map_or(0, |at| at + 1)..]);
    let mut end = line_end;
    for line in text[line_end + 1..].split_inclusive('\n') {
        if !line.trim().is_empty() && indent(line) <= own {
            break;
        }
        end += line.len();
    }
    let body = &text[line_end + 1..(end + 1).min(text.len())];
    let first = line_end + 1 + (body.len() - body.trim_start().len());
    let last = line_end + 1 + body.trim_end().len();
    (first < last).then_some(first..last)
}

/// One word in quotes.
fn in_quotes(text: &str, from: usize) -> Option<Range<usize>> {
    let quote = *text.as_bytes().get(from).filter(|byte| matches!(byte, b'"' | b'\''))?;
    let value = quoted(text.as_bytes(), from + 1, quote, 0);
    let is_word = !text[value.clone()].contains(char::is_whitespace) && !key::stands_for_one(&text[value.clone()]);
    (is_word && value.end < text.len()).then_some(value)
}

/// Where the value begins of a name that stands as a value itself, or as an element: `name: X, value: …`, `<password>…`.
fn pair(text: &str, start: usize, end: usize) -> Option<usize> {
    if text[..start].ends_with('<') && text[end..].starts_with('>') {
        return text[bare(text, end + 1).end..].starts_with("</").then_some(end + 1);
    }
    let rest = &text[end..];
    let gap = |c: char| c.is_ascii_whitespace() || matches!(c, '"' | '\'' | '\\' | ',');
    let next = rest.trim_start_matches(gap);
    let skipped = rest.len() - next.len();
    let is_value = next.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("value")) && (1..NAME_BYTES_MAX).contains(&skipped);
    is_value.then(|| separator(text.as_bytes(), end + skipped + 5))?
}

/// Behind a name: an optional quote (perhaps escaped), `:` or `=`, and spaces; returns where the value begins.
fn separator(bytes: &[u8], mut at: usize) -> Option<usize> {
    at += bytes[at..].iter().take_while(|byte| **byte == b'\\').count();
    if matches!(bytes.get(at), Some(b'"' | b'\'')) {
        at += 1;
    }
    at += spaces(bytes, at);
    if !matches!(bytes.get(at), Some(b':' | b'=')) {
        return None;
    }
    at += 1;
    // `:=` and `=>` are followed by a value where that is a text; else they bind patterns and code.
    if matches!(bytes[at - 1..], [b':', b'=', ..] | [b'=', b'>', ..]) {
        let from = at + 1 + spaces(bytes, at + 1);
        let escapes = bytes[from..].iter().take_while(|byte| **byte == b'\\').count();
        return matches!(bytes.get(from + escapes), Some(b'"' | b'\'')).then_some(from);
    }
    // `==`, `::` and `://` compare or qualify; no value follows.
    if matches!(bytes.get(at), Some(b'=' | b'>' | b':')) || bytes[at - 1..].starts_with(b"://") {
        return None;
    }
    Some(at + spaces(bytes, at))
}

fn value_at(text: &str, from: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let escapes = bytes[from..].iter().take_while(|byte| **byte == b'\\').count();
    match bytes.get(from + escapes)? {
        quote @ (b'"' | b'\'') => Some(quoted(bytes, from + escapes + 1, *quote, escapes)),
        b'{' | b'(' => None,
        b'[' if !text[from..].starts_with(REDACTED) => None,
        _ => Some(bare(text, from)),
    }
}

/// Up to the quote that is escaped as often as the one that opened; without one, to the end of the text.
fn quoted(bytes: &[u8], from: usize, quote: u8, escapes: usize) -> Range<usize> {
    let mut run = 0;
    for (at, byte) in bytes.iter().enumerate().skip(from) {
        match *byte {
            b'\\' => run += 1,
            byte if byte == quote && run <= escapes => return from..at - run,
            _ => run = 0,
        }
    }
    from..bytes.len()
}

/// A value without quotes ends at white space or punctuation that separates; closing brackets at its end are not its own.
pub(super) fn bare(text: &str, from: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let ends = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b';' | b'&' | b'"' | b'\'' | b'<' | b'>' | b'`');
    let mut to = from + bytes[from..].iter().take_while(|byte| !ends(**byte)).count();
    while &text[from..to] != REDACTED
        && !key::stands_for_one(&text[from..to])
        && to > from
        && matches!(bytes[to - 1], b')' | b'}' | b']' | b'\\')
    {
        to -= 1;
    }
    from..to
}

/// An Authorization value runs to the end of its line or quotes; its scheme stays.
fn credentials(text: &str, value: Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes();
    let is_quoted = value.start > 0 && matches!(bytes[value.start - 1], b'"' | b'\'');
    let end = match is_quoted {
        true => value.end,
        false => value.start + bytes[value.start..].iter().take_while(|byte| !matches!(byte, b'\n' | b'\r' | b'"' | b'\'')).count(),
    };
    let whole = &text[value.start..end];
    let schemes = ["bearer", "basic", "digest", "token", "negotiate"];
    let scheme = whole.split_once(' ').filter(|(scheme, _)| schemes.contains(&scheme.to_ascii_lowercase().as_str()));
    match scheme {
        Some((scheme, rest)) => {
            let from = value.start + scheme.len() + 1 + (rest.len() - rest.trim_start().len());
            from..end
        }
        None => value.start..end,
    }
}

fn spaces(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}
