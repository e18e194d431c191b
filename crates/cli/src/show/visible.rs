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
