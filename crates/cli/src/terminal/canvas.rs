//! Where ratatui draws: the terminal that the command has already, by way of the one printer's stream.
//!
//! Knows only what the pictures here use: five colours, bold, faint and reversed. What stands in the cells was cleaned by the
//! [`Line`](crate::show::Line) that it came from.

use crate::show::Screen;
use crate::show::measure::width;
use crate::terminal::window;
use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};
use std::fmt::Write;
use std::io;

pub struct Canvas {
    screen: Screen,
}

impl Canvas {
    pub fn new(screen: Screen) -> Canvas {
        Canvas { screen }
    }
}

/// The codes of a cell's style, from nothing.
fn style(cell: &Cell) -> String {
    let mut codes = String::from("\x1b[0");
    for (modifier, code) in [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2"), (Modifier::REVERSED, ";7")] {
        if cell.modifier.contains(modifier) {
            codes.push_str(code);
        }
    }
    codes.push_str(match cell.fg {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        Color::Cyan => ";36",
        _ => "",
    });
    codes.push('m');
    codes
}

/// Cells as what a terminal is told.
fn codes<'a>(cells: impl Iterator<Item = (u16, u16, &'a Cell)>) -> String {
    let mut text = String::new();
    let (mut next, mut last) = (None, String::new());
    for (x, y, cell) in cells {
        if next != Some((x, y)) {
            // Writing into a string cannot fail.
            let _ = write!(text, "\x1b[{};{}H", y + 1, x + 1);
        }
        let now = style(cell);
        if now != last {
            text.push_str(&now);
            last = now;
        }
        text.push_str(cell.symbol());
        // Terminals differ about how wide some letters are, so after one of those the place is said again.
        next = (cell.symbol().is_ascii() && width(cell.symbol()) == 1).then_some((x + 1, y));
    }
    if !text.is_empty() {
        text.push_str("\x1b[0m");
    }
    text
}

impl Backend for Canvas {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        self.screen.write(codes(content).as_bytes());
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.screen.write(b"\x1b[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.screen.write(b"\x1b[?25h");
        Ok(())
    }

    /// Nobody reads it: the pictures have no cursor.
    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        self.screen.write(format!("\x1b[{};{}H", y + 1, x + 1).as_bytes());
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.screen.write(b"\x1b[0m\x1b[2J");
        Ok(())
    }

    fn clear_region(&mut self, _: ClearType) -> io::Result<()> {
        self.clear()
    }

    fn size(&self) -> io::Result<Size> {
        let (columns, rows) = window();
        let cells = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        Ok(Size::new(cells(columns), cells(rows)))
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    /// What is written is written at once.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::Style;

    #[test]
    fn neighbours_need_no_place_and_a_style_is_said_once() {
        let plain = |symbol: &'static str| Cell::new(symbol);
        let mut red = Cell::new("x");
        red.set_style(Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
        let cells = [(0, 0, plain("a")), (1, 0, plain("b")), (2, 0, red), (0, 2, plain("漢")), (2, 2, plain("c"))];
        let text = codes(cells.iter().map(|(x, y, cell)| (*x, *y, cell)));
        assert_eq!(text, "\x1b[1;1H\x1b[0mab\x1b[0;1;31mx\x1b[3;1H\x1b[0m漢\x1b[3;3Hc\x1b[0m");
        assert_eq!(codes(std::iter::empty()), "");
    }
}
