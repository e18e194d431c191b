//! What a program has switched on in a terminal, so that it can be switched off when the program is gone without doing so.
//!
//! **Invariant.** Nothing is said to a terminal about what was never switched.

use std::collections::BTreeSet;

/// Switched on in every terminal: the cursor, and lines that wrap.
const USUALLY_ON: [u16; 2] = [7, 25];
/// Another screen in the place of the first; left last, because what was switched there belongs to it.
const OTHER_SCREENS: [u16; 3] = [47, 1047, 1049];
/// Modes that are remembered: more than any program has.
const NUMBERS_MAX: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalModes {
    /// Private modes that are not as usual.
    switched: BTreeSet<u16>,
    /// How often the protocol of keys was changed.
    keys: u16,
    /// Other codes for keys with control and alt.
    other_keys: bool,
    /// Something of colour, cursor, margins or the keypad was set.
    styled: bool,
    margins: bool,
    cursor: bool,
    keypad: bool,
    charset: bool,
}

impl TerminalModes {
    /// A sequence that begins with `CSI`: what stands before its last byte, and that byte.
    pub fn control(&mut self, body: &[u8], last: u8) {
        let body = std::str::from_utf8(body).unwrap_or_default();
        match (last, body.as_bytes().first()) {
            (b'h' | b'l', Some(b'?')) => {
                for mode in body[1..].split(';').filter_map(|number| number.parse().ok()) {
                    let is_as_usual = USUALLY_ON.contains(&mode) == (last == b'h');
                    if is_as_usual {
                        self.switched.remove(&mode);
                    } else if self.switched.len() < NUMBERS_MAX {
                        self.switched.insert(mode);
                    }
                }
            }
            (b'u', Some(b'>')) => self.keys = self.keys.saturating_add(1),
            (b'u', Some(b'<')) => self.keys = self.keys.saturating_sub(body[1..].parse().unwrap_or(1)),
            (b'm', Some(b'>')) => self.other_keys = body.contains(';'),
            (b'm', _) => self.styled = !matches!(body, "" | "0"),
            (b'q', _) if body.ends_with(' ') => self.cursor = true,
            (b'r', Some(b'0'..=b'9' | b';')) => self.margins = true,
            (b'r', None) => self.margins = false,
            _ => {}
        }
    }

    /// A sequence of an ESC that ends with this byte.
    pub fn escape(&mut self, last: u8) {
        match last {
            b'=' => self.keypad = true,
            b'>' => self.keypad = false,
            b'0' => self.charset = true,
            b'B' => self.charset = false,
            b'c' => *self = TerminalModes::default(),
            _ => {}
        }
    }

    /// Is another screen shown in the place of the first?
    pub fn is_on_other_screen(&self) -> bool {
        self.switched.iter().any(|mode| OTHER_SCREENS.contains(mode))
    }

    /// What makes the terminal as it was.
    pub fn restore(&self) -> Vec<u8> {
        let mut codes = String::new();
        if self.keys > 0 {
            codes.push_str(&format!("\x1b[<{}u", self.keys));
        }
        let parts = [
            (self.other_keys, "\x1b[>4m"),
            (self.styled, "\x1b[0m"),
            (self.margins, "\x1b7\x1b[r\x1b8"),
            (self.cursor, "\x1b[0 q"),
            (self.keypad, "\x1b>"),
            (self.charset, "\x1b(B\x0f"),
        ];
        parts.iter().filter(|(is_on, _)| *is_on).for_each(|(_, code)| codes.push_str(code));
        let (screens, others): (Vec<&u16>, Vec<&u16>) = self.switched.iter().partition(|mode| OTHER_SCREENS.contains(mode));
        for mode in others.into_iter().chain(screens) {
            let end = if USUALLY_ON.contains(mode) { 'h' } else { 'l' };
            codes.push_str(&format!("\x1b[?{mode}{end}"));
        }
        codes.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use crate::escape_filter::EscapeFilter;

    #[track_caller]
    fn check(drawn: &[u8], wanted: &[u8]) {
        let mut filter = EscapeFilter::default();
        drawn.chunks(3).for_each(|piece| drop(filter.pass(piece)));
        assert_eq!(filter.modes().restore().escape_ascii().to_string(), wanted.escape_ascii().to_string());
    }

    #[test]
    fn what_is_left_on_is_switched_off_and_nothing_else() {
        check(b"plain \x1b[31mred\x1b[0m", b"");
        check(b"\x1b[?1049h\x1b[?25l\x1b[?2004;1006h\x1b[1m", b"\x1b[0m\x1b[?25h\x1b[?1006l\x1b[?2004l\x1b[?1049l");
        check(b"\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l", b"");
        check(b"\x1b[>1u\x1b[>5u\x1b[<u\x1b[>4;2m\x1b=\x1b[2;9r", b"\x1b[<1u\x1b[>4m\x1b7\x1b[r\x1b8\x1b>");
        check(b"\x1b[?1049h\x1bc", b"");
    }
}
