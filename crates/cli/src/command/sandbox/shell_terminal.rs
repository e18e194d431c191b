//! A person's terminal while a shell in a room has it, and what of the shell's output reaches it.
//!
//! **Invariant.** The terminal is given back as it was found, also after a panic. What a command says without a terminal of its own
//! passes the one printer. A shell draws by itself, but reads no clipboard and sends no device strings.

use crate::show::visible;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use wire::method::sandbox::TerminalSize;

/// RawMode mode, until it is dropped.
pub struct RawMode {
    found: Termios,
}

impl RawMode {
    pub fn enter() -> io::Result<RawMode> {
        let found = tcgetattr(io::stdin())?;
        let before = std::panic::take_hook();
        let again = found.clone();
        std::panic::set_hook(Box::new(move |info| {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &again);
            before(info);
        }));
        let mut raw = found.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Drain, &raw)?;
        Ok(RawMode { found })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // Nobody is left to be told if this fails.
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.found);
    }
}

pub fn size() -> TerminalSize {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => TerminalSize { rows: size.ws_row, columns: size.ws_col },
        _ => TerminalSize { rows: 24, columns: 80 },
    }
}

/// The size, each time it changes.
pub fn watch_size() -> mpsc::Receiver<TerminalSize> {
    let (sender, receiver) = mpsc::channel(1);
    if let Ok(mut changed) = signal(SignalKind::window_change()) {
        tokio::spawn(async move { while changed.recv().await.is_some() && sender.send(size()).await.is_ok() {} });
    }
    receiver
}

/// Output for a person, made visible line by line; for a program, as it is.
pub struct VisibleOutput {
    person: bool,
    /// The beginning of a character whose end has not come yet.
    rest: Vec<u8>,
}

impl VisibleOutput {
    pub fn new(person: bool) -> VisibleOutput {
        VisibleOutput { person, rest: Vec::new() }
    }

    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        if !self.person {
            return bytes.to_vec();
        }
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        let text: Vec<u8> = self.rest.drain(..whole).collect();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<String> = text.split('\n').map(|line| visible(line.strip_suffix('\r').unwrap_or(line)).into_owned()).collect();
        lines.join("\n").into_bytes()
    }
}

/// Takes out of a terminal's stream what reaches beyond the screen: the clipboard (OSC 52) and strings for the device (DCS, APC, PM, SOS).
#[derive(Default)]
pub struct EscapeFilter {
    state: State,
    held: Vec<u8>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Escape,
    /// A command of the operating system, kept until its end shows which.
    Command,
    CommandEscape,
    /// A string for the device, dropped.
    Device,
    DeviceEscape,
}

/// Titles and links are shorter; what is longer is dropped.
const COMMAND_BYTES_MAX: usize = 8 * 1024;

impl EscapeFilter {
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for byte in bytes {
            self.step(*byte, &mut out);
        }
        out
    }

    fn step(&mut self, byte: u8, out: &mut Vec<u8>) {
        match (self.state, byte) {
            (State::Text, 0x1b) => self.state = State::Escape,
            (State::Text, _) => out.push(byte),
            (State::Escape, b']') => {
                self.state = State::Command;
                self.held.clear();
            }
            (State::Escape, b'P' | b'_' | b'^' | b'X') => self.state = State::Device,
            (State::Escape, 0x1b) => out.push(0x1b),
            (State::Escape, _) => {
                out.extend([0x1b, byte]);
                self.state = State::Text;
            }
            (State::Command, 0x07) => self.end_command(out, &[0x07]),
            (State::Command, 0x1b) => self.state = State::CommandEscape,
            (State::Command, _) => {
                if self.held.len() <= COMMAND_BYTES_MAX {
                    self.held.push(byte);
                }
            }
            (State::CommandEscape, b'\\') => self.end_command(out, b"\x1b\\"),
            (State::CommandEscape | State::DeviceEscape, _) if byte != b'\\' => {
                // Cut short by another sequence, which begins here.
                self.state = State::Escape;
                self.step(byte, out);
            }
            (State::Device, 0x1b) => self.state = State::DeviceEscape,
            (State::Device, _) => {}
            (State::CommandEscape | State::DeviceEscape, _) => self.state = State::Text,
        }
    }

    fn end_command(&mut self, out: &mut Vec<u8>, end: &[u8]) {
        self.state = State::Text;
        let number = self.held.split(|byte| *byte == b';').next().unwrap_or_default();
        if number != b"52" && self.held.len() <= COMMAND_BYTES_MAX {
            out.extend(b"\x1b]");
            out.append(&mut self.held);
            out.extend(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clipboard_and_devices_are_out_of_reach_however_they_are_cut() {
        let stream = b"a\x1b[31mred\x1b]0;title\x07b\x1b]52;c;c2VjcmV0\x07c\x1b]52;c;x\x1b\\d\x1bPq#0\x1b\\e\x1b_x\x1b\\\x1b]8;;u\x1b\\f";
        let wanted = b"a\x1b[31mred\x1b]0;title\x07bcde\x1b]8;;u\x1b\\f";
        for size in 1..stream.len() {
            let mut sieve = EscapeFilter::default();
            let out: Vec<u8> = stream.chunks(size).flat_map(|piece| sieve.pass(piece)).collect();
            assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(wanted), "{size}");
        }
    }

    #[test]
    fn a_person_sees_what_a_terminal_would_obey() {
        let stream = "é\x1b[2J\nok\r\n€".as_bytes();
        for size in 1..stream.len() {
            let mut shown = VisibleOutput::new(true);
            let out: Vec<u8> = stream.chunks(size).flat_map(|piece| shown.pass(piece)).collect();
            let text = String::from_utf8(out).unwrap();
            assert!(text.starts_with("é\\x1b[2J\nok") && text.ends_with('€'), "{size}: {text:?}");
        }
        assert_eq!(VisibleOutput::new(false).pass(b"\x1b\xff\0"), b"\x1b\xff\0");
    }
}
