//! One output stream, and what it can show.

use super::{Page, pager, visible::visible_json};
use crate::command_error::CommandError;
use rustix::termios::{Winsize, tcgetwinsize};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use wire::ErrorCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Out,
    Err,
}

/// Rows of a terminal that does not tell.
const ROWS: usize = 24;

type Act = Box<dyn FnOnce() + Send>;

static BEFORE_END: Mutex<Option<Act>> = Mutex::new(None);

/// What is still to be done when stdout goes away in the middle of a command.
pub fn before_end(act: impl FnOnce() + Send + 'static) {
    if let Ok(mut held) = BEFORE_END.lock() {
        *held = Some(Box::new(act));
    }
}

/// Stdout is gone, and with it the command's purpose.
fn end(error: &io::Error, as_json: bool) -> ! {
    let last = BEFORE_END.lock().ok().and_then(|mut held| held.take());
    if let Some(act) = last {
        act();
    }
    // The reader has seen enough: `skep log | head`.
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    let told = CommandError::new(ErrorCode::DiskFull, "the output is not complete")
        .why(error)
        .fix("free some space where stdout goes, then run the command again");
    if as_json {
        Screen::stderr().json(&told.json())
    } else {
        Screen::stderr().uncut(&told.page())
    }
    std::process::exit(i32::from(told.code.exit()))
}

/// When colours are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColourChoice {
    /// On a terminal, unless $NO_COLOR is set
    #[default]
    Auto,
    /// In pipes too
    Always,
    Never,
}

#[derive(Clone, Copy, Debug)]
pub struct Screen {
    stream: Stream,
    pub tty: bool,
    pub colour: bool,
    /// It understands where to put things; a dumb terminal and a pipe do not.
    moves: bool,
    /// `None` when nothing needs to be cut.
    columns: Option<usize>,
    /// What is longer goes through a pager; `None` where there is none.
    rows: Option<usize>,
}

impl Screen {
    pub fn stdout() -> Screen {
        Screen::new(Stream::Out, io::stdout().is_terminal(), tcgetwinsize(io::stdout()).ok())
    }

    pub fn stderr() -> Screen {
        Screen::new(Stream::Err, io::stderr().is_terminal(), tcgetwinsize(io::stderr()).ok())
    }

    fn new(stream: Stream, tty: bool, size: Option<Winsize>) -> Screen {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colour = !set("NO_COLOR") && (tty && !dumb || set("CLICOLOR_FORCE"));
        let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| tty && *columns >= 20);
        let rows = size.map(|size| usize::from(size.ws_row)).filter(|rows| tty && !dumb && *rows >= 5);
        Screen { stream, tty, colour, moves: tty && !dumb, columns, rows }
    }

    /// The same with what `--color` says.
    #[must_use]
    pub fn with_colour(self, choice: ColourChoice) -> Screen {
        let colour = match choice {
            ColourChoice::Auto => self.colour,
            ColourChoice::Always => true,
            ColourChoice::Never => false,
        };
        Screen { colour, ..self }
    }

    /// The same without a pager, for `--no-pager` and for commands that go on after they printed.
    #[must_use]
    pub fn without_pager(self) -> Screen {
        Screen { rows: None, ..self }
    }

    /// The same with the size that the terminal has now.
    #[must_use]
    pub fn measured(self) -> Screen {
        let now = match self.stream {
            Stream::Out => Screen::stdout(),
            Stream::Err => Screen::stderr(),
        };
        Screen { columns: now.columns, rows: self.rows.and(now.rows), ..self }
    }

    /// May something move on it?
    pub fn is_lively(&self) -> bool {
        self.moves
    }

    /// How wide the terminal is; `None` where nothing needs to fit.
    pub fn columns(&self) -> Option<usize> {
        self.columns
    }

    /// How high the terminal is, where something may move on it; what most are where it does not tell.
    pub fn height(&self) -> usize {
        let size = match self.stream {
            Stream::Out => tcgetwinsize(io::stdout()),
            Stream::Err => tcgetwinsize(io::stderr()),
        };
        size.ok().map(|size| usize::from(size.ws_row)).filter(|rows| *rows >= 5).unwrap_or(ROWS)
    }

    /// Prints what fits; longer lines are cut at the edge of a terminal, never in a pipe.
    pub fn page(&self, page: &Page) {
        self.write(self.render_cut(page).as_bytes());
    }

    /// Prints every column, for text that a person wants whole: answers, diffs, output.
    pub fn uncut(&self, page: &Page) {
        self.write(self.render_uncut(page).as_bytes());
    }

    /// Prints every column, and breaks between words what is wider than the terminal.
    pub fn wrapped(&self, page: &Page) {
        self.write(self.render_wrapped(page).as_bytes());
    }

    pub fn render_cut(&self, page: &Page) -> String {
        page.render(self.colour, self.columns)
    }

    pub fn render_uncut(&self, page: &Page) -> String {
        page.render(self.colour, None)
    }

    pub fn render_wrapped(&self, page: &Page) -> String {
        match self.columns {
            Some(columns) => page.0.iter().flat_map(|line| line.clone().wrap(columns)).collect::<Page>().render(self.colour, None),
            None => self.render_uncut(page),
        }
    }

    /// Prints text that may be long: through a pager where it is longer than the screen.
    pub fn long(&self, text: &str) {
        let is_long = self.rows.is_some_and(|rows| text.lines().count() >= rows);
        if !is_long || !pager::show(text) {
            self.write(text.as_bytes());
        }
    }

    pub fn json(&self, value: &impl Serialize) {
        let text = if self.tty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
        // Wire results have string keys and no infinite numbers, so they can always be written.
        self.write_as(format!("{}\n", visible_json(&text.unwrap_or_default())).as_bytes(), true);
    }

    /// Bytes as they are. Only for text made here or meant for a program.
    pub fn write(&self, bytes: &[u8]) {
        self.write_as(bytes, false);
    }

    fn write_as(&self, bytes: &[u8], as_json: bool) {
        let result = match self.stream {
            Stream::Out => io::stdout().write_all(bytes).and_then(|()| io::stdout().flush()),
            Stream::Err => io::stderr().write_all(bytes),
        };
        match result {
            Err(error) if self.stream == Stream::Out => end(&error, as_json),
            // Without stderr nobody is left to be told.
            _ => {}
        }
    }
}
