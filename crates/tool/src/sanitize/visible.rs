//! Control sequences are removed, other control and direction characters made visible.

/// Does a text hold anything that must not pass as it is?
pub(super) fn needed(text: &str) -> bool {
    text.chars().any(|c| c != '\n' && c != '\t' && (c.is_control() || hidden(c)))
}

/// Rewrites a text in place and counts what was not passed on.
pub(super) fn show(text: &mut String) -> usize {
    if !needed(text) {
        return 0;
    }
    let mut shown = String::with_capacity(text.len());
    let mut count = 0;
    let mut rest = text.as_str();
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '\n' | '\t' => {
                shown.push(c);
                after
            }
            // A line's end, as files from Windows have it.
            '\r' if after.starts_with('\n') => {
                shown.push(c);
                after
            }
            '\u{1b}' => {
                count += 1;
                past_escape(after)
            }
            '\u{9b}' => {
                count += 1;
                past_parameters(after)
            }
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => {
                count += 1;
                past_string(after)
            }
            _ if c.is_control() || hidden(c) => {
                count += 1;
                shown.push_str(&picture(c));
                after
            }
            _ => {
                shown.push(c);
                after
            }
        };
    }
    *text = shown;
    count
}

/// Characters that are not seen but change what is seen, or carry text that only a machine reads.
fn hidden(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn picture(c: char) -> String {
    match u32::from(c) {
        code @ 0..0x20 => char::from_u32(0x2400 + code).unwrap_or(' ').to_string(),
        0x7f => '\u{2421}'.to_string(),
        code => format!("[U+{code:04X}]"),
    }
}

/// Behind ESC. A sequence that does not end stops at the line's end, so that it cannot swallow what follows.
fn past_escape(rest: &str) -> &str {
    let Some(kind) = rest.chars().next() else { return rest };
    let after = &rest[kind.len_utf8()..];
    match kind {
        '[' => past_parameters(after),
        ']' | 'P' | 'X' | '^' | '_' => past_string(after),
        // Intermediates and one final character, as in `ESC ( B`.
        ' '..='/' => {
            let end = after.trim_start_matches(|c| (' '..='/').contains(&c));
            match end.chars().next() {
                Some('0'..='~') => &end[1..],
                _ => end,
            }
        }
        '0'..='~' => after,
        _ => rest,
    }
}

fn past_parameters(rest: &str) -> &str {
    let end = rest.trim_start_matches(|c| (' '..='?').contains(&c));
    match end.chars().next() {
        Some('@'..='~') => &end[1..],
        _ => end,
    }
}

/// Up to BEL or the string terminator.
fn past_string(rest: &str) -> &str {
    for (at, c) in rest.char_indices() {
        match c {
            '\u{7}' | '\u{9c}' => return &rest[at + c.len_utf8()..],
            '\u{1b}' => return rest[at + 1..].strip_prefix('\\').unwrap_or(&rest[at..]),
            '\n' => return &rest[at..],
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(from: &str, to: &str) {
        let mut text = from.to_owned();
        show(&mut text);
        assert_eq!(text, to);
        assert!(!needed(&text) || text.contains("\r\n"), "{text:?}");
        let mut again = text.clone();
        assert_eq!((show(&mut again), again), (0, text), "a second time changes nothing");
    }

    #[test]
    fn nothing_acts_on_a_terminal() {
        check("plain ünïcode 👩‍👩‍👧 \t\n", "plain ünïcode 👩‍👩‍👧 \t\n");
        check("\u{1b}[1;31mred\u{1b}[0m", "red");
        check("\u{9b}2Jcleared", "cleared");
        check("a\u{1b}]0;title\u{7}b", "ab");
        check("a\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\b", "alinkb");
        check("a\u{1b}]52;c;aGk=\u{7}b", "ab");
        check("a\u{1b}P+q\u{1b}\\b", "ab");
        check("a\u{1b}(Bb\u{1b}7c", "abc");
        check("a\u{1b}]never ends\nb", "a\nb");
        check("a\u{1b}", "a");
        check("a\u{1b}[\u{1b}[31mb", "ab");
        check("10%\r20%\u{8}\u{0}\u{7f}", "10%␍20%␈␀␡");
        check("a\r\nb", "a\r\nb");
    }

    #[test]
    fn nothing_deceives_a_reader() {
        check("a\u{202e}cba\u{2066}x", "a[U+202E]cba[U+2066]x");
        check("zero\u{200b}width\u{feff}", "zero[U+200B]width[U+FEFF]");
        check("tag\u{e0041}\u{e007f}", "tag[U+E0041][U+E007F]");
        check("\u{85}", "[U+0085]");
    }
}
