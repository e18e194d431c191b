//! How the demo speaks: numbered headings, and everything else set in below them.

use crate::console::Console;
use crate::show::{Line, Page};

/// Columns of a heading's rule.
const RULE_COLUMNS: usize = 72;

pub struct Presenter<'a> {
    console: &'a Console,
    act: u32,
}

impl<'a> Presenter<'a> {
    pub fn new(console: &'a Console) -> Presenter<'a> {
        Presenter { console, act: 0 }
    }

    fn print(&self, page: &Page) {
        if !self.console.json {
            self.console.out.wrapped(page);
        }
    }

    pub fn title(&self, title: &str, about: &str) {
        self.print(&Page(vec![Line::new(), Line::new().plain("  ").strong(title), Line::new().plain("  ").faint(about)]));
    }

    /// The next part begins.
    pub fn act(&mut self, title: &str, about: &str) {
        self.act += 1;
        let head = Line::new().name(format!("━ {}  ", self.act)).strong(title).plain(" ");
        let rest = RULE_COLUMNS.saturating_sub(head.width());
        let mut lines = vec![Line::new(), head.faint("─".repeat(rest))];
        if !about.is_empty() {
            lines.push(Line::new().plain("  ").faint(about));
        }
        lines.push(Line::new());
        self.print(&Page(lines));
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
