//! Makes what a terminal would obey, or a reader would not see, visible.

use std::borrow::Cow;
use std::fmt::Write;

/// One line of foreign text, safe to print. Line breaks become `⏎`; whatever a terminal obeys or hides becomes its escape.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => shown.push('⏎'),
            '\t' => shown.push_str("    "),
            c if hidden(c) && c.is_control() => {
                // Writing into a string cannot fail.
                let _ = write!(shown, "\\x{:02x}", u32::from(c));
            }
            c if hidden(c) => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// A name, or a line of a text, with the blanks at its ends in sight.
pub fn with_ends(text: &str) -> Cow<'_, str> {
    let (start, end) = (text.trim_start_matches(' '), text.trim_end_matches(BLANKS));
    if start.len() == text.len() && end.len() == text.len() {
        return Cow::Borrowed(text);
    }
    let before = text.len() - start.len();
    let inner = start.trim_end_matches(BLANKS);
    Cow::Owned(format!("{}{inner}{}", "·".repeat(before), shown_blanks(&start[inner.len()..])))
}

/// The same of its end alone: a line may well be indented.
pub fn with_end(line: &str) -> Cow<'_, str> {
    let text = line.trim_end_matches(BLANKS);
    if text.len() == line.len() { Cow::Borrowed(line) } else { Cow::Owned(format!("{text}{}", shown_blanks(&line[text.len()..]))) }
}

const BLANKS: [char; 2] = [' ', '\t'];

fn shown_blanks(blanks: &str) -> String {
    blanks.replace(' ', "·").replace('\t', "\\t")
}

/// The same JSON with those characters as `\u` escapes, which change nothing for whoever parses it.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(|c| c != '\n' && hidden(c)) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if c != '\n' && hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// What a terminal obeys, or a reader would not see or take for a plain space.
fn hidden(c: char) -> bool {
    server::is_unseen(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_at_the_ends_are_seen() {
        for (text, name, line) in [("a b", "a b", "a b"), ("a  ", "a··", "a··"), (" a\t ", "·a\\t·", " a\\t·"), ("  ", "··", "··")]
        {
            assert_eq!((with_ends(text).as_ref(), with_end(text).as_ref()), (name, line), "{text:?}");
        }
    }

    #[test]
    fn what_a_terminal_obeys_is_shown_and_not_obeyed() {
        assert_eq!(visible("src/a.rs ä 漢 👩🚀"), "src/a.rs ä 漢 👩🚀");
        assert_eq!(visible("👩\u{200d}🚀 ❤\u{fe0f}"), "👩\\u{200d}🚀 ❤\\u{fe0f}");
        assert_eq!(visible("a\u{3164}b\u{2800}c\u{a0}d\u{34f}"), "a\\u{3164}b\\u{2800}c\\u{a0}d\\u{34f}");
        assert_eq!(visible("\x1b[2J"), "\\x1b[2J");
        assert_eq!(visible("\x1b]52;c;ZXZpbA==\x07"), "\\x1b]52;c;ZXZpbA==\\x07");
        assert_eq!(visible("\u{9b}31m"), "\\x9b31m");
        assert_eq!(visible("a\u{202e}gpj.exe"), "a\\u{202e}gpj.exe");
        assert_eq!(visible("a\nb\r\tc"), "a⏎b\\x0d    c");
        assert_eq!(visible("tag\u{e0041}"), "tag\\u{e0041}");
        assert_eq!(visible("zero\u{200b}width\u{feff}"), "zero\\u{200b}width\\u{feff}");
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({"a": "x\u{202e}y\u{7f}\u{9b}\u{e0041}\u{1b}"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = visible_json(&text);
        assert!(shown.chars().all(|c| c == '\n' || !hidden(c)));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
