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

/// The terminal's raw mode, until this is dropped.
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

#[cfg(test)]
mod tests {
    use super::*;

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
