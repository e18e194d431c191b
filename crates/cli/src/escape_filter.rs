//! What of a program's output may reach a person's terminal.
//!
//! **Invariant.** Only text and whole sequences come out, however the input is cut: so what is left out never changes what stands around it.
//! Commands of the operating system pass if they are on a short list, which the clipboard (OSC 52) is not on; strings for the device (DCS,
//! APC, PM, SOS) and the printer never do. Knows terminals that take UTF-8, and no others.

use crate::terminal_modes::TerminalModes;

/// Titles, links, colours, progress, and marks of prompts.
const COMMANDS: &[u32] = &[0, 1, 2, 4, 8, 9, 10, 11, 12, 104, 110, 111, 112, 133];
/// Titles and links are shorter; what is longer is left out.
const COMMAND_BYTES_MAX: usize = 8 * 1024;
/// The same for any other sequence.
const SEQUENCE_BYTES_MAX: usize = 256;
const ESC: u8 = 0x1b;
/// What ends a sequence in the middle.
const CANCELS: [u8; 2] = [0x18, 0x1a];
/// In the place of bytes that are no text.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

#[derive(Debug, Default)]
pub struct EscapeFilter {
    state: State,
    /// What belongs together and is not whole yet.
    held: Vec<u8>,
    modes: TerminalModes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After an ESC, with what stands between it and its last byte.
    Escape,
    Control,
    Command,
    CommandEscape,
    /// Left out to its end.
    Device,
    DeviceEscape,
}

impl EscapeFilter {
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for byte in bytes {
            self.step(*byte, &mut out);
        }
        out
    }

    /// What a program that is gone has left switched on.
    pub fn modes(&self) -> &TerminalModes {
        &self.modes
    }

    fn step(&mut self, byte: u8, out: &mut Vec<u8>) {
        match self.state {
            State::Text => self.text(byte, out),
            State::Escape => self.escape(byte, out),
            State::Control => self.control(byte, out),
            State::Command | State::Device if CANCELS.contains(&byte) => self.enter(State::Text),
            State::Command => self.command(byte, out),
            State::Device if byte == ESC => self.state = State::DeviceEscape,
            State::Device => {
                // The end of a string as one character: only its last two bytes matter.
                if self.held.last() == Some(&0xc2) && byte == 0x9c {
                    return self.enter(State::Text);
                }
                self.held.clear();
                self.held.push(byte);
            }
            State::CommandEscape if byte == b'\\' => self.end_command(out),
            State::DeviceEscape if byte == b'\\' => self.enter(State::Text),
            // Cut short by another sequence, which begins here.
            State::CommandEscape | State::DeviceEscape => {
                self.enter(State::Escape);
                self.escape(byte, out);
            }
        }
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.held.clear();
    }

    fn text(&mut self, byte: u8, out: &mut Vec<u8>) {
        if byte < 0x80 {
            if !self.held.is_empty() {
                out.extend_from_slice(REPLACEMENT);
                self.held.clear();
            }
            return if byte == ESC { self.enter(State::Escape) } else { out.push(byte) };
        }
        self.held.push(byte);
        match std::str::from_utf8(&self.held) {
            Ok(text) => match text.chars().next() {
                Some(control @ '\u{80}'..='\u{9f}') => self.one_character_control(control),
                _ => {
                    out.append(&mut self.held);
                }
            },
            Err(error) if error.error_len().is_none() => {}
            Err(_) => {
                let broken_by = (self.held.len() > 1).then_some(byte);
                self.held.clear();
                out.extend_from_slice(REPLACEMENT);
                broken_by.into_iter().for_each(|byte| self.text(byte, out));
            }
        }
    }

    /// A control that is one character, and means the same as an ESC and a letter.
    fn one_character_control(&mut self, control: char) {
        self.enter(match control {
            '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => State::Device,
            '\u{9d}' => State::Command,
            '\u{9b}' => State::Control,
            _ => State::Text,
        });
    }

    fn escape(&mut self, byte: u8, out: &mut Vec<u8>) {
        match (byte, self.held.is_empty()) {
            (ESC, _) => self.enter(State::Escape),
            (b'[', true) => self.enter(State::Control),
            (b']', true) => self.enter(State::Command),
            (b'P' | b'X' | b'^' | b'_', true) => self.enter(State::Device),
            (0x20..=0x2f, _) if self.held.len() < SEQUENCE_BYTES_MAX => self.held.push(byte),
            (0x30..=0x7e, _) => {
                out.push(ESC);
                out.append(&mut self.held);
                out.push(byte);
                self.modes.escape(byte);
                self.enter(State::Text);
            }
            // Done at once, and the sequence goes on after it.
            (0x00..=0x1f, _) if !CANCELS.contains(&byte) => out.push(byte),
            (0x7f, _) => {}
            (0x80.., _) => {
                self.enter(State::Text);
                self.text(byte, out);
            }
            _ => self.enter(State::Text),
        }
    }

    fn control(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            ESC => self.enter(State::Escape),
            _ if CANCELS.contains(&byte) => self.enter(State::Text),
            0x00..=0x1f => out.push(byte),
            0x20..=0x3f => {
                if self.held.len() <= SEQUENCE_BYTES_MAX {
                    self.held.push(byte);
                }
            }
            0x40..=0x7e => {
                // `i` is the printer.
                if byte != b'i' && self.held.len() <= SEQUENCE_BYTES_MAX {
                    self.modes.control(&self.held, byte);
                    out.extend([ESC, b'[']);
                    out.append(&mut self.held);
                    out.push(byte);
                }
                self.enter(State::Text);
            }
            0x7f => {}
            0x80.. => {
                self.enter(State::Text);
                self.text(byte, out);
            }
        }
    }

    fn command(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            0x07 => self.end_command(out),
            ESC => self.state = State::CommandEscape,
            0x9c if self.held.last() == Some(&0xc2) => {
                self.held.pop();
                self.end_command(out);
            }
            // One too many shows that it was too long.
            _ if self.held.len() <= COMMAND_BYTES_MAX => self.held.push(byte),
            _ => {}
        }
    }

    fn end_command(&mut self, out: &mut Vec<u8>) {
        let text = std::str::from_utf8(&self.held).ok().filter(|text| !text.contains(char::is_control));
        let number = text.and_then(|text| text.split(';').next()?.parse().ok());
        if self.held.len() <= COMMAND_BYTES_MAX && number.is_some_and(|number| COMMANDS.contains(&number)) {
            out.extend([ESC, b']']);
            out.append(&mut self.held);
            out.extend([ESC, b'\\']);
        }
        self.enter(State::Text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filtered(stream: &[u8], size: usize) -> Vec<u8> {
        let mut filter = EscapeFilter::default();
        stream.chunks(size).flat_map(|piece| filter.pass(piece)).collect()
    }

    #[track_caller]
    fn check(stream: &[u8], wanted: &[u8]) {
        for size in 1..=stream.len() {
            let out = filtered(stream, size);
            assert_eq!(out.escape_ascii().to_string(), wanted.escape_ascii().to_string(), "in pieces of {size}");
        }
    }

    #[test]
    fn screens_pass_as_they_are() {
        let drawn = "a\r\n\x1b[31mred\x1b[0m \x1b[2;3Hü€😀\x1b[?1049h\x1b[?2004h\x1b(B\x1b=\x1b7\x1b8\x1b[1 q\x1b[>1u\x07".as_bytes();
        check(drawn, drawn);
        check(b"\x1b]0;title\x07a\x1b]8;;https://example.com\x1b\\b", b"\x1b]0;title\x1b\\a\x1b]8;;https://example.com\x1b\\b");
        check("\u{9b}31mred\u{9d}2;t\u{9c}".as_bytes(), b"\x1b[31mred\x1b]2;t\x1b\\");
    }

    #[test]
    fn the_clipboard_and_devices_are_out_of_reach_however_they_are_cut() {
        check(b"a\x1b]52;c;c2VjcmV0\x07b\x1b]52;c;x\x1b\\c\x1bPq#0\x1b\\d\x1b_x\x1b\\e\x1b^x\x1b\\f\x1bXx\x1b\\g\x1b[5ih", b"abcdefgh");
        check("a\u{9d}52;c;x\u{9c}b\u{90}q\u{9c}c\u{9f}x\x1b\\d".as_bytes(), b"abcd");
        for hidden in [&b"\x1b]052;c;x\x07"[..], b"\x1b]5\x002;c;x\x07", b"\x1b]1337;Copy=x\x07", b"\x1b]52\x07", b"\x1b];52;\x07"] {
            check(hidden, b"");
        }
    }

    /// What terminals read over, or do at once in the middle of a sequence, does not hide one.
    #[test]
    fn a_sequence_is_not_hidden_in_another() {
        check(b"\x1b\x00]52;c;x\x07", b"\x00");
        check(b"\x1b\x7f]52;c;x\x07", b"");
        check(b"\x1b\x1b]52;c;x\x07P1\x1b\\", b"P1\x1b\\");
        check(b"\x1b\x1bPq\x1b\\]52;c;x\x07", b"]52;c;x\x07");
        check(b"\x1b[\x1b]52;c;x\x07Pq", b"Pq");
        check(b"\x1b[[\x1b[31m\x1b[[\x1b]52;c;x\x07", b"\x1b[[\x1b[31m\x1b[[");
        check(b"\x1b]0;a\x18\x1b]52;c;x\x07b", b"b");
        check(b"\x1bPa\x18b", b"b");
        check(b"\x1b[3\x9d52;c;x\x07", "\u{fffd}52;c;x\x07".as_bytes());
        check(b"\xc2\x1b]52;c;x\x07", "\u{fffd}".as_bytes());
    }

    /// A reader of terminals' streams that knows nothing of the filter: says what a stream has beside text.
    fn forbidden(out: &[u8]) -> Option<String> {
        let text = match std::str::from_utf8(out) {
            Ok(text) => text,
            Err(error) => return Some(format!("no text: {error}")),
        };
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c == '\x1b' || ('\u{80}'..='\u{9f}').contains(&c)) {
            let sequence = &rest[at..];
            let Some(after) = sequence.strip_prefix('\x1b') else { return Some("a control of one character".to_owned()) };
            let body = match after.as_bytes().first() {
                // The first letter behind the bracket ends it, and that letter may be a bracket too.
                Some(b'[') => after[1..].find(|c: char| ('\x40'..='\x7e').contains(&c)).map(|at| at + 1),
                Some(b']') => {
                    let end = after.find("\x1b\\")?;
                    let number = after[1..end].split(';').next().unwrap_or_default();
                    if number.trim_start_matches('0').starts_with("52") || after[..end].contains('\x07') {
                        return Some(format!("a command: {:?}", &after[..end]));
                    }
                    Some(end + 1)
                }
                Some(b'P' | b'X' | b'^' | b'_') => return Some("a string for the device".to_owned()),
                Some(0x20..=0x2f) => after.find(|c: char| ('\x30'..='\x7e').contains(&c)),
                Some(0x30..=0x7e) => Some(0),
                _ => None,
            };
            let Some(body) = body else { return Some(format!("half a sequence: {sequence:?}")) };
            if after[..body].contains('\x1b') && !after.starts_with(']') {
                return Some(format!("a sequence in a sequence: {sequence:?}"));
            }
            rest = &after[body + 1..];
        }
        None
    }

    /// Streams of what matters to terminals, and of anything.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let parts: Vec<&'static [u8]> = vec![
            b"\x1b",
            b"\x1b",
            b"]",
            b"52;c;x",
            b"P",
            b"q",
            b"[",
            b"?25h",
            b"31m",
            b"\\",
            b"\x07",
            b"\x18",
            b"\x00",
            b"\x7f",
            b"\x9c",
            b"\xc2",
            b"\x9d",
            b"\x90",
            b"0;t",
            b"_",
            b"X",
            b"a",
            b"5i",
            " ü€".as_bytes(),
            b"\xe2\x82",
            b"(B",
            b"\xff",
        ];
        let known = proptest::sample::select(parts).prop_map(<[u8]>::to_vec);
        let part = prop_oneof![8 => known, 1 => any::<u8>().prop_map(|byte| vec![byte])];
        proptest::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn nothing_forbidden_comes_out_and_cuts_change_nothing(stream in stream(), size in 1_usize..9) {
            let whole = filtered(&stream, stream.len().max(1));
            prop_assert_eq!(forbidden(&whole), None, "{}", whole.escape_ascii());
            prop_assert_eq!(filtered(&stream, size), whole.clone());
            prop_assert_eq!(filtered(&whole, 1 + size), whole, "what has passed passes again");
        }
    }
}
