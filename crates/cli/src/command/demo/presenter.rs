//! How the demo speaks: numbered headings, and everything else set in below them.

use crate::console::Console;
use crate::show::progress::Footer;
use crate::show::{Line, Page};
use crate::terminal::key::KeyPress;
use crate::terminal::one_key;
use std::io::IsTerminal;
use wire::code::EXIT_INTERRUPTED;

/// Columns of a heading's rule.
const RULE_COLUMNS: usize = 72;

/// The person does not want to see the rest; with the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersonLeft(pub u8);

pub struct Presenter<'a> {
    console: &'a Console,
    act: u32,
    /// A person reads along: each part waits for a key.
    is_paced: bool,
}

impl<'a> Presenter<'a> {
    pub fn new(console: &'a Console, is_fast: bool) -> Presenter<'a> {
        let is_paced = !is_fast && !console.json && console.out.is_lively() && std::io::stdin().is_terminal();
        Presenter { console, act: 0, is_paced }
    }

    /// Waits for the person who reads along.
    async fn pause(&self) -> Result<(), PersonLeft> {
        let mut footer = Footer::new(self.console.out);
        self.print(&Page(vec![Line::new()]));
        footer.draw(&[Line::new().plain("  ").faint("any key goes on, q leaves")]);
        let key = one_key().await;
        footer.clear();
        match key {
            Ok(Some(KeyPress::Char('q'))) => Err(PersonLeft(0)),
            Ok(Some(KeyPress::Interrupt)) => Err(PersonLeft(EXIT_INTERRUPTED)),
            // A terminal that gives no keys is not waited for.
            _ => Ok(()),
        }
    }

    fn print(&self, page: &Page) {
        if !self.console.json {
            self.console.out.wrapped(page);
        }
    }

    pub fn title(&self, title: &str, about: &str) {
        self.print(&Page(vec![Line::new(), Line::new().plain("  ").strong(title), Line::new().plain("  ").faint(about)]));
    }

    /// The next part begins, when the person is ready for it.
    pub async fn act(&mut self, title: &str, about: &str) -> Result<(), PersonLeft> {
        if self.is_paced && self.act > 0 {
            self.pause().await?;
        }
        self.act += 1;
        let head = Line::new().name(format!("━ {}  ", self.act)).strong(title).plain(" ");
        let rest = RULE_COLUMNS.saturating_sub(head.width());
        let mut lines = vec![Line::new(), head.faint("─".repeat(rest))];
        if !about.is_empty() {
            lines.push(Line::new().plain("  ").faint(about));
        }
        lines.push(Line::new());
        self.print(&Page(lines));
        Ok(())
    }

    /// A command that a person would type here.
    pub fn command(&self, command: &str) {
        self.print(&Page(vec![Line::new().plain("  ").faint("$ ").name(command)]));
    }

    /// Text that a person reads to its end, however long its lines.
    pub fn page(&self, page: Page) {
        if !self.console.json {
            self.console.out.wrapped(&set_in(page));
        }
    }

    /// Columns that must stay columns.
    pub fn table(&self, page: Page) {
        self.print(&set_in(page));
    }

    pub fn blank(&self) {
        self.print(&Page(vec![Line::new()]));
    }

    pub fn good(&self, text: &str, aside: &str) {
        self.page(Page(vec![Line::new().good("✓ ").plain(text).faint(format!("  {aside}"))]));
    }
}

fn set_in(page: Page) -> Page {
    page.0.into_iter().map(|line| if line.is_empty() { line } else { Line::new().plain("  ").join(line) }).collect()
}
