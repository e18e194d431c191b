//! A whole terminal for one command: keys as they are pressed, and a picture that is drawn over and over.
//!
//! **Invariant.** The terminal is given back as it was found, on every way out, a panic included. What is drawn is a [`Page`], so
//! nothing foreign reaches the terminal but through the one printer.

pub mod canvas;
pub mod key;

use crate::show::{Page, Screen};
use key::{Decoder, KeyPress};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, Write};
use std::time::Duration;
use tokio::sync::mpsc;

/// Other screen, hidden cursor, and pasted text marked as such, so that it is never taken for keys.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[2J";
const LEAVE: &str = "\x1b[?2004l\x1b[?25h\x1b[?1049l";
/// An escape that nothing follows for so long was the key itself.
const ESCAPE_MS: u64 = 40;
/// How long the reader may notice late that nobody listens any more.
const READ_MS: i64 = 100;
/// Where a terminal does not tell its size.
const SIZE: (usize, usize) = (80, 24);

pub struct Terminal {
    input: mpsc::UnboundedReceiver<Vec<u8>>,
    decoder: Decoder,
    screen: Screen,
    found: Termios,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Terminal {
    pub fn open(screen: Screen) -> io::Result<Terminal> {
        let found = tcgetattr(io::stdin())?;
        restore_on_panic(found.clone());
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw(&found))?;
        screen.write(ENTER.as_bytes());
        let (sender, input) = mpsc::unbounded_channel();
        let reader = Some(std::thread::spawn(move || read_input(&sender)));
        Ok(Terminal { input, decoder: Decoder::default(), screen, found, reader })
    }

    /// Gives it back to whoever reads the next key: nothing of this reads any more when it returns.
    pub fn give_back(mut self) {
        self.input.close();
        if let Some(reader) = self.reader.take() {
            // One that panicked reads no more either.
            drop(reader.join());
        }
    }

    /// Keys that were pressed; `None` when the terminal has gone. It may be given up and asked again.
    pub async fn keys(&mut self) -> Option<Vec<KeyPress>> {
        let bytes = match self.decoder.waits() {
            false => self.input.recv().await,
            true => match tokio::time::timeout(Duration::from_millis(ESCAPE_MS), self.input.recv()).await {
                Ok(bytes) => bytes,
                Err(_) => return Some(self.decoder.give_up()),
            },
        };
        bytes.map(|bytes| self.decoder.feed(&bytes))
    }

    /// Columns and rows.
    pub fn size(&self) -> (usize, usize) {
        window()
    }

    /// Shows `page` from the upper left corner on, instead of what was there.
    pub fn draw(&self, page: &Page) {
        let (columns, _) = self.size();
        let text = page.render(self.screen.colour, Some(columns));
        let lines = text.trim_end_matches('\n').replace('\n', "\x1b[K\n");
        self.screen.write(format!("\x1b[H{lines}\x1b[K\x1b[J").as_bytes());
    }
}

/// Columns and rows of the terminal that stdout is.
pub fn window() -> (usize, usize) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => SIZE,
    }
}

/// One key, as soon as it is pressed, on the screen as it is; `None` when the terminal has gone. What was typed before is forgotten.
pub async fn one_key() -> io::Result<Option<KeyPress>> {
    let as_found = GivenBack(tcgetattr(io::stdin())?);
    tcsetattr(io::stdin(), OptionalActions::Flush, &raw(&as_found.0))?;
    let (sender, mut input) = mpsc::unbounded_channel();
    let reader = std::thread::spawn(move || read_input(&sender));
    let mut decoder = Decoder::default();
    let key = loop {
        let waiting = if decoder.waits() { Duration::from_millis(ESCAPE_MS) } else { Duration::MAX };
        match tokio::time::timeout(waiting, input.recv()).await {
            Err(_) => break decoder.give_up().into_iter().next(),
            Ok(None) => break None,
            Ok(Some(bytes)) => {
                if let Some(key) = decoder.feed(&bytes).into_iter().next() {
                    break Some(key);
                }
            }
        }
    };
    drop(input);
    // It looks up within a moment; whoever reads stdin next must not share it.
    drop(reader.join());
    drop(as_found);
    Ok(key)
}

/// A terminal's modes, set again when this is dropped: also where nobody waits for the key any more.
struct GivenBack(Termios);

impl Drop for GivenBack {
    fn drop(&mut self) {
        // A terminal that has gone wants nothing back.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// The same terminal, with keys as they are pressed.
fn raw(found: &Termios) -> Termios {
    let mut raw = found.clone();
    // Output is left as it is: a line break stays one. Interrupts become keys, so that they pass the same way out.
    raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
    raw.special_codes[SpecialCodeIndex::VMIN] = 0;
    raw.special_codes[SpecialCodeIndex::VTIME] = 0;
    raw
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore(&self.found);
    }
}

/// Reads what is typed. A thread of its own, because a terminal shares its blocking mode with the shell it came from.
fn read_input(sender: &mpsc::UnboundedSender<Vec<u8>>) {
    let limit = Timespec { tv_sec: 0, tv_nsec: READ_MS * 1_000_000 };
    let mut bytes = [0; 1024];
    while !sender.is_closed() {
        let stdin = io::stdin();
        let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut wanted, Some(&limit)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return,
        }
        let hung_up = wanted[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        match rustix::io::read(&stdin, &mut bytes) {
            Ok(0) if hung_up => return,
            Ok(read) => {
                if sender.send(bytes[..read].to_vec()).is_err() {
                    return;
                }
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(_) => return,
        }
    }
}

/// Nobody is left to be told if this fails.
fn restore(found: &Termios) {
    let _ = io::stdout().write_all(LEAVE.as_bytes()).and_then(|()| io::stdout().flush());
    let _ = tcsetattr(io::stdin(), OptionalActions::Flush, found);
}

/// A panic speaks before it unwinds; it is heard only on the terminal as it was.
fn restore_on_panic(found: Termios) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        restore(&found);
        before(info);
    }));
}
